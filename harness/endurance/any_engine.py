"""Endurance of any engine by its contract: kills at random instants, and the judge's comparison.

The schedule of a pass follows from the seed, the pass and the cluster's shape. What each process
does at that instant does not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from harness.cluster.base import Action, Cluster, Node
from harness.engines.base import Engine, EngineKind, Guarantee, Setup
from harness.errors import UsageError
from harness.failures.schedule import FailureEvent, Schedule
from harness.judging.runner import Runner
from harness.seeds import derive_seed, generator
from workloads.base import Workload

if TYPE_CHECKING:
    from harness.measurement import Context

FIRST_S, CALM_S = 5.0, 5.0
"""Time without kills at the beginning and at the end of a pass."""
MEAN_GAP_S = 8.0
"""Mean time from a restart to the next kill."""
AWAY_S = (0.3, 3.0)
"""Shortest and longest absence of a killed node."""
RACK_SHARE = 0.2
"""Share of kills that take a whole rack."""
INTERVAL_S = 0.5


@dataclass(slots=True, kw_only=True)
class Counts:
    """All passes so far."""

    kills: int = 0
    passes: int = 0
    results: int = 0
    """Due results."""
    lost: int = 0
    contradictions: int = 0
    """Results that are not due, or have another value."""
    repeated: int = 0
    """Results that were delivered again."""
    guarantee: Guarantee = Guarantee.AT_LEAST_ONCE
    stalled: int = 0
    """Passes that did not finish."""
    died: int = 0
    """Passes in which the engine died."""
    leftover_processes: int = 0

    @property
    def failures(self) -> int:
        """Number of errors that the engine's guarantee does not allow."""
        found = self.lost + self.contradictions + self.stalled + self.died + self.leftover_processes
        return found + (self.repeated if self.guarantee is Guarantee.EXACTLY_ONCE else 0)


def kills(seed: int, number: int, nodes: Sequence[Node], seconds: float) -> Schedule:
    """Draw the kills of a pass; one target is away at a time."""
    draws = generator(derive_seed(seed, "endure", number), "any engine")
    racks = sorted({node.rack for node in nodes})
    events: list[FailureEvent] = []
    at_s = FIRST_S + float(draws.exponential(MEAN_GAP_S))
    while at_s < seconds - CALM_S:
        whole = len(racks) > 1 and draws.random() < RACK_SHARE
        among = racks if whole else [node.name for node in nodes]
        target = among[int(draws.integers(len(among)))]
        back_s = at_s + float(draws.uniform(*AWAY_S))
        events.append(FailureEvent(at_s=at_s, action=Action.KILL, target=target))
        events.append(FailureEvent(at_s=back_s, action=Action.RESTART, target=target))
        at_s = back_s + float(draws.exponential(MEAN_GAP_S))
    return Schedule(events=events, origin="random kills", seed=seed)


class Alone:
    """The context of a pass that belongs to no run."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def measures(self, setting: object) -> None:
        """Keep no record."""

    def surroundings(self, name: str, conditions: object, **_: object) -> bool:
        """Keep nothing: no time is compared."""
        return False

    def progress(self, stage: str, **_: object) -> None:
        """Show nothing: a pass reports its end."""


@dataclass(frozen=True, kw_only=True)
class AnyEndurance:
    """An engine and a workload that are run again and again."""

    kind: EngineKind
    setup: Setup
    cluster: Cluster
    workload: Workload
    seed: int
    rate_per_s: float
    seconds: float
    report: Callable[[str], None] = lambda line: None

    def check(self) -> None:
        """Raise `UsageError` if this engine cannot run the workload on this cluster."""
        why_not = self.kind.lacks(self.setup, self.workload, self.cluster.spec)
        if why_not is not None:
            raise UsageError(why_not, remedy="choose another --workload or --engine")

    def until(self, kills_wanted: int) -> Counts:
        """Make passes until this number of kills was reached."""
        counts = Counts(guarantee=self.kind.guarantee)
        with ExitStack() as stack:
            engine: Engine | None = None
            while counts.kills < kills_wanted:
                if engine is None:
                    engine = stack.enter_context(self.kind.open(self.setup, self.cluster))
                    engine.configure(self.setup)
                if not self.run(engine, counts.passes, counts):
                    stack.close()  # another one of its kind goes on
                    engine = None
                self.report(f"{counts.kills} of {kills_wanted} kills")
        return counts

    def only(self, number: int) -> Counts:
        """Make one pass, from 0."""
        counts = Counts(guarantee=self.kind.guarantee)
        with self.kind.open(self.setup, self.cluster) as engine:
            engine.configure(self.setup)
            self.run(engine, number, counts)
        return counts

    def run(self, engine: Engine, number: int, counts: Counts) -> bool:
        """Make the pass of that number; return False if the engine is of no more use."""
        schedule = kills(self.seed, number, engine.targets(), self.seconds)
        name = f"endure-{number + 1}"
        context = cast("Context", Alone(self.cluster.scratch(name)))
        made = Runner(engine, self.setup, self.cluster, context).steady(
            name, self.workload, self.rate_per_s, self.seconds, INTERVAL_S,
            schedule=schedule, truth=True,
        )  # fmt: skip
        record, due, wrong = made.record, made.due(self.seconds), made.wrong(self.seconds)
        felt = sum(done.event.action is Action.KILL and done.felt for done in record.injected)
        counts.kills += felt
        counts.passes += 1
        counts.results += len(due)
        counts.lost += wrong["lost"]
        counts.contradictions += wrong["contradictions"]
        counts.repeated += wrong["duplicated"]
        counts.stalled += record.stalled
        counts.died += record.died is not None
        self.report(
            f"pass {number + 1}: {felt} killed, {len(due)} results due, "
            f"{wrong['lost']} lost, {wrong['contradictions']} wrong; again: "
            f"--seed {self.seed} --pass {number + 1}"
        )
        if record.died is not None:
            self.report(record.died)
        return record.died is None and not record.stalled
