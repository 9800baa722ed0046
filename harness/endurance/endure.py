"""Endurance: pass after pass under random failures, until a number of nodes was killed.

Each pass takes the next contender (a scheme with its planner's plan) and another workload. Some
passes have no more slots than copies, or nodes that stay away for a while: then a lost task does
not find a place at once, and output is tentative if the scheme allows it. The disturbances
follow from the seed (`draw`). The process that dies and its activity at that instant do not: the
machine decides, which is the reason for a thousand kills."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from harness.cluster.base import Action
from harness.endurance.draw import MEAN_GAP_S, RUN_S, choose, schedule
from harness.endurance.trial import Trial, Verdict
from harness.engines.tasks.engine import TaskEngine
from harness.engines.tasks.parameters import TaskParameters
from harness.engines.tasks.systems import SYSTEMS
from workloads.base import Workload

PARAMETERS = TaskParameters(checkpoint_s=2.0)
INTERVAL_S = 0.1
CALM_GAP_S, SHORT_INTERVAL_S, RETENTION_S = 20.0, 0.05, 60.0
"""Where hours count and not kills: the mean time between disturbances, the length of a batch, and
for how long the broker keeps output. A pass lasts many times as long as that."""


def pace(hours: float | None, contenders: int) -> Mapping[str, float]:
    """Return the fields of `Endurance` for many kills, or for some hours with few.

    Hours are divided among the contenders, so that each has one long pass."""
    if hours is None:
        return {"gap_s": MEAN_GAP_S, "interval_s": INTERVAL_S, "seconds": RUN_S}
    return {
        "gap_s": CALM_GAP_S,
        "interval_s": SHORT_INTERVAL_S,
        "seconds": max(RUN_S, 3600 * hours / contenders),
        "retention_s": RETENTION_S,
    }


@dataclass(kw_only=True)
class Tally(Verdict):
    """All passes so far: the sums of their verdicts."""

    runs: int = 0
    leftover_processes: int = 0
    """Processes of the cluster that live after it was stopped."""
    contenders: dict[str, int] = field(default_factory=dict)
    """Kills under each contender."""
    workloads: dict[str, int] = field(default_factory=dict)
    """Kills under each workload."""

    def add(self, contender: str, workload: str, verdict: Verdict) -> None:
        """Count one more pass."""
        self.runs += 1
        for counts, name in ((self.contenders, contender), (self.workloads, workload)):
            counts[name] = counts.get(name, 0) + verdict.kills
        for name, count in asdict(verdict).items():
            setattr(self, name, getattr(self, name) + count)

    @property
    def failures(self) -> int:
        """Number of errors of all kinds."""
        return super().failures + self.leftover_processes


@dataclass(frozen=True, kw_only=True)
class Endurance:
    """An engine and workloads that are run again and again."""

    engine: TaskEngine
    workloads: Sequence[Workload]
    seed: int
    directory: Path
    """The directory for files of successful passes, which belongs to the cluster."""
    keep: Path
    """The directory for the evidence of failed passes."""
    rate_per_s: float
    contenders: Sequence[str] = tuple(SYSTEMS)
    seconds: float = RUN_S
    gap_s: float = MEAN_GAP_S
    """Mean time between two disturbances."""
    interval_s: float = INTERVAL_S
    """Length of a batch."""
    retention_s: float | None = None
    """Time after which the broker forgets output; None: it forgets none."""
    report: Callable[[str], None] = lambda line: None

    def until(self, kills: int) -> Tally:
        """Make passes, each with the next contender, until this number of kills was reached."""
        tally = Tally()
        while tally.kills < kills:
            self.run(tally.runs, tally)
            self.report(f"{tally.kills} of {kills} kills")
        return tally

    def for_hours(self, hours: float) -> Tally:
        """Make passes, each with the next contender, until these hours are over."""
        tally, began_s = Tally(), time.monotonic()
        while (done_h := (time.monotonic() - began_s) / 3600) < hours:
            self.run(tally.runs, tally)
            self.report(f"{tally.kills} kills, {done_h:.2f} of {hours:g} hours")
        return tally

    def run(self, number: int, tally: Tally) -> None:
        """Make the pass of that number, from 0; cut racks off where the cluster can do it."""
        engine = self.engine
        chosen = choose(self.seed, number, self.workloads, self.contenders)
        engine.setup = chosen.setup(engine.fleet.nodes, self.rate_per_s, PARAMETERS)
        engine.check()
        cluster = engine.fleet.cluster
        planned = schedule(
            self.seed,
            number,
            engine.fleet.nodes,
            seconds=self.seconds,
            servers=sorted(cluster.breakable()),
            cuts=Action.CUT in cluster.capabilities(),
            away_s=chosen.away_s,
            gap_s=self.gap_s,
        )
        name = f"pass {number + 1}, {chosen}"
        self.report(f"{name}: {len(planned)} disturbances")
        place = self.directory / f"pass-{number + 1}"
        place.mkdir()
        trial = Trial(
            engine,
            chosen.workload,
            place,
            rate_per_s=self.rate_per_s,
            seconds=self.seconds,
            interval_s=self.interval_s,
            retention_s=self.retention_s,
            report=self.report,
        )
        verdict = trial.run(planned)
        tally.add(chosen.contender, chosen.workload.name, verdict)
        self.report(
            f"{name}: {verdict.kills} killed, {verdict.cuts} cut off, {verdict.results} results, "
            f"{verdict.tentative} tentative first, {verdict.failures} wrong"
        )
        if verdict.failures:
            kept = self.keep / f"seed-{self.seed}-pass-{number + 1}"
            trial.keep(kept)
            (kept / "verdict.json").write_text(json.dumps(asdict(verdict), indent=2) + "\n")
            self.report(f"what was due, what came and every event are in {kept}")
