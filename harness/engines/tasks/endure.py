"""Killing without end: pass after pass under random failures until so many were killed.

What is done in a pass, and when, follows from the seed and the number of the pass alone. Which
process dies, and in the middle of what, does not: that is the machine's, and the reason to do it
a thousand times.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.cluster.base import Action, Node
from harness.engines.base import Setup
from harness.engines.tasks.engine import TaskEngine
from harness.engines.tasks.trial import Disturb, Disturbance, Trial, Verdict
from harness.protocol.schemes import SCHEMES
from harness.seeds import derive_seed
from workloads.base import Workload

MEAN_GAP_S = 1.5
"""Between two disturbances; a node is back after about half of it."""
FIRST_S, CALM_S = 1.0, 1.5
"""A pass begins and ends without disturbances for so long."""
RACK_GAP_S = 15.0
"""Between two rack kills: a worker with its executor takes some seconds to come back."""
SHARES = {"node": 70, "again": 12, "rack": 6, "coordinator": 6, "pause": 6}
"""Of disturbances, in per cent; "again" is a node killed while the last one is being recovered
from."""
CUT_SHARE = 12
"""Beside the others, where the network of a rack can be cut."""
PAUSES_S = (0.3, 2.5)
CUTS_S = (0.3, 5.0)
"""Some end before the coordinator suspects anything. Nodes and the coordinator die meanwhile,
too, but no other rack: something must be left that works."""
RUN_S = 40.0


def schedule(
    seed: int, number: int, nodes: Sequence[Node], *, seconds: float = RUN_S, cuts: bool = False
) -> list[Disturbance]:
    """What is done in the ``number``-th pass; with ``cuts`` racks are cut off, too."""
    chance = random.Random(derive_seed(seed, f"pass {number}"))
    racks = sorted({node.rack for node in nodes})
    names = [node.name for node in nodes]
    shares = {**SHARES, "cut": CUT_SHARE} if cuts else SHARES
    found: list[Disturbance] = []
    at_s, rack_at_s, healed_at_s = FIRST_S, -RACK_GAP_S, 0.0
    while True:
        kind = chance.choices(list(shares), list(shares.values()))[0]
        again = kind == "again" and found
        at_s += chance.uniform(0.005, 0.3) if again else chance.expovariate(1 / MEAN_GAP_S)
        if at_s > seconds - CALM_S:
            return found
        if kind == "rack" and (at_s - rack_at_s < RACK_GAP_S or at_s < healed_at_s):
            kind = "node"
        if kind == "cut" and at_s < healed_at_s:
            kind = "node"
        if kind == "rack":
            rack_at_s = at_s
            found.append(_at(at_s, Disturb.KILL, chance.choice(racks)))
        elif kind == "coordinator":
            found.append(_at(at_s, Disturb.COORDINATOR))
        elif kind == "pause":
            lasting = chance.uniform(*PAUSES_S)
            found.append(_at(at_s, Disturb.PAUSE, chance.choice(names), lasting))
            at_s += lasting
        elif kind == "cut":
            lasting = min(chance.uniform(*CUTS_S), seconds - at_s - 0.001)
            found.append(_at(at_s, Disturb.CUT, chance.choice(racks), lasting))
            healed_at_s = at_s + lasting
        else:
            found.append(_at(at_s, Disturb.KILL, chance.choice(names)))


def _at(at_s: float, kind: Disturb, target: str = "", for_s: float = 0.0) -> Disturbance:
    return Disturbance(at_s=round(at_s, 3), kind=kind, target=target, for_s=round(for_s, 3))


@dataclass(slots=True, kw_only=True)
class Tally:
    """All passes so far."""

    kills: int = 0
    runs: int = 0
    results: int = 0
    lost: int = 0
    duplicated: int = 0
    contradictions: int = 0
    undone_stable: int = 0
    uncorrected: int = 0
    tentative: int = 0
    """Results that were delivered as tentative ones at first."""
    corrected: int = 0
    fenced: int = 0
    """Publications of replaced copies that readers dropped: no failure."""
    cuts: int = 0
    """Nodes that were cut off, and healed."""
    leftover_processes: int = 0
    """Of the cluster's after it was stopped."""
    schemes: dict[str, int] = field(default_factory=dict)
    """Kills under each scheme."""

    def add(self, scheme: str, verdict: Verdict) -> None:
        self.runs += 1
        self.schemes[scheme] = self.schemes.get(scheme, 0) + verdict.kills
        for name, count in verdict.to_json().items():
            setattr(self, name, getattr(self, name) + count)

    @property
    def failures(self) -> int:
        """How much is not as it must be."""
        return (
            self.lost
            + self.duplicated
            + self.contradictions
            + self.undone_stable
            + self.uncorrected
            + self.leftover_processes
        )


def endure(
    engine: TaskEngine,
    workload: Workload,
    directory: Path,
    *,
    kills: int,
    seed: int,
    scheme: str | None = None,
    rate_per_s: float = 400,
    seconds: float = RUN_S,
    report: Callable[[str], None] = lambda line: None,
) -> Tally:
    """Go on until ``kills`` nodes and coordinators were killed; each pass takes the next scheme
    unless one is given. Racks are cut off, too, where the cluster can do it."""
    cuts = Action.CUT in engine.fleet.cluster.capabilities()
    tally, parameters = Tally(), dict(engine.setup.parameters)
    names = [scheme] if scheme else list(SCHEMES)
    while tally.kills < kills:
        number = tally.runs
        name = names[number % len(names)]
        engine.setup = Setup(scheme=name, parameters=parameters)
        engine.check()
        planned = schedule(seed, number, engine.fleet.nodes, seconds=seconds, cuts=cuts)
        report(f"pass {number + 1}, {name}: {len(planned)} disturbances")
        place = directory / f"pass-{number}"
        place.mkdir()
        verdict = Trial(
            engine, workload, place, rate_per_s=rate_per_s, seconds=seconds, report=report
        ).run(planned)
        tally.add(name, verdict)
        report(
            f"pass {number + 1}, {name}: {verdict.kills} killed, {verdict.cuts} cut off, "
            f"{verdict.results} results, {verdict.failures} wrong; {tally.kills} of {kills} kills"
        )
    return tally
