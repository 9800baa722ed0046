"""The draw of a pass of `endure`: its workload, scheme and disturbances, from a seed.

Both follow from the seed and the number of the pass alone, so a pass can be planned again."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from harness.cluster.base import Node
from harness.endurance.trial import Disturb, Disturbance
from harness.engines.base import Setup
from harness.engines.tasks.choices import parameters_of, scheme_of
from harness.engines.tasks.job import wiring_for
from harness.engines.tasks.pacing import US_PER_S
from harness.engines.tasks.parameters import TaskParameters
from harness.engines.tasks.systems import setup_of
from harness.seeds import derive_seed
from workloads.base import Workload
from workloads.entries import workload_entry

MEAN_GAP_S = 1.2
"""Mean time between two disturbances."""
BACK_S, RACK_BACK_S = 0.7, 4.0
"""Usual time until a killed node is back (alone, and with its worker), without the time for which
it is kept away: before that there is nothing to kill."""
FIRST_S, CALM_S = 1.0, 1.5
"""Time without disturbances at the beginning and at the end of a pass."""
RACK_GAP_S = 15.0
"""Least time between two rack kills: a worker with its executor needs some seconds to return."""
SHARES: Mapping[str, int] = {"node": 70, "again": 12, "rack": 6, "coordinator": 6, "pause": 6}
"""Per cent of disturbances; "again" kills a node during the recovery from the last disturbance."""
SERVER_SHARE = 3
"""Additional share, where Kafka's and Redis' processes belong to the cluster and can be frozen."""
CUT_SHARE = 12
"""Additional share, where the network of a rack can be cut."""
PAUSES_S = (0.3, 2.5)
CUTS_S = (0.3, 5.0)
"""Durations of cuts; some end before the coordinator suspects a failure. Nodes and the coordinator
die meanwhile, too, but not another rack: a part of the cluster must still work."""
RUN_S = 90.0
"""Length of a pass: long, so that its start and its judging cost little per kill."""
AWAY_S = (0.0, 0.0, 0.5, 1.5)
"""Least times for which the nodes of a pass stay away, each with the same probability."""
TIGHT = 1 / 3
"""Share of the passes with no more slots than copies."""
SMALL: Mapping[str, Mapping[str, Any]] = {
    "accidents": {"partitions": 4, "start_s": 100},
    "traffic-jams": {"users": 2_000, "segments": 100, "window_s": 6, "slide_s": 2},
    "word-count": {"depth": 4},
    "world-cup": {"partitions": 4, "mergers": 2, "window_s": 4, "slide_s": 1},
}
"""The workloads of the papers with few tasks and short windows."""


def workload_of(name: str, seed: int) -> Workload:
    """Make a workload by its name, small if `SMALL` has it."""
    return workload_entry(name).make(seed=seed, **SMALL.get(name, {}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The contents of a pass."""

    contender: str
    workload: Workload
    away_s: float
    tight: bool

    def setup(self, nodes: Sequence[Node], rate_per_s: float, base: TaskParameters) -> Setup:
        """Return the setup: ``base`` with this choice's own parameters."""
        parameters = replace(base, restart_s=self.away_s)
        setup = setup_of(
            self.contender, self.workload, nodes, rate_per_s=rate_per_s, parameters=parameters
        )
        if not self.tight:
            return setup
        wiring = wiring_for(self.workload, US_PER_S, {})
        copies = len(wiring.names) + len(scheme_of(setup, wiring, 1.0).replicated)
        planned = Counter(parameters_of(setup).placement)  # primaries by node, if they are given
        slots = max([math.ceil(copies / len(nodes)), *planned.values()])
        return replace(setup, parameters=replace(parameters_of(setup), slots=slots))

    def __str__(self) -> str:
        tight = ", no slot to spare" if self.tight else ""
        away = f", nodes away for {self.away_s:g} s" if self.away_s else ""
        return f"{self.workload.name}, {self.contender}{tight}{away}"


def choose(
    seed: int, number: int, workloads: Sequence[Workload], contenders: Sequence[str]
) -> Choice:
    """Choose the ``number``-th pass: every contender meets every workload."""
    chance = random.Random(derive_seed(seed, f"choice {number}"))
    turn = number // len(contenders)
    return Choice(
        contender=contenders[number % len(contenders)],
        workload=workloads[(number + turn) % len(workloads)],
        away_s=chance.choice(AWAY_S),
        tight=chance.random() < TIGHT,
    )


def schedule(
    seed: int,
    number: int,
    nodes: Sequence[Node],
    *,
    seconds: float = RUN_S,
    servers: Sequence[str] = (),
    cuts: bool = False,
    away_s: float = 0.0,
    gap_s: float = MEAN_GAP_S,
) -> list[Disturbance]:
    """Draw the disturbances of the ``number``-th pass.

    With ``servers`` these are frozen, and with ``cuts`` racks are cut off, too. ``away_s`` is the
    least time for which dead nodes stay away, ``gap_s`` the mean time between two disturbances."""
    chance = random.Random(derive_seed(seed, f"pass {number}"))
    racks = sorted({node.rack for node in nodes})
    names = [node.name for node in nodes]
    shares = dict(SHARES) | ({"server": SERVER_SHARE} if servers else {})
    shares |= {"cut": CUT_SHARE} if cuts else {}
    found: list[Disturbance] = []
    back_at_s: dict[str, float] = {}
    at_s, rack_at_s, healed_at_s = FIRST_S, -RACK_GAP_S, 0.0
    while True:
        kind = chance.choices(list(shares), list(shares.values()))[0]
        again = kind == "again" and found
        at_s += chance.uniform(0.005, 0.3) if again else chance.expovariate(1 / gap_s)
        if at_s > seconds - CALM_S:
            return found
        if kind == "rack" and (at_s - rack_at_s < RACK_GAP_S or at_s < healed_at_s):
            kind = "node"
        if kind == "cut" and at_s < healed_at_s:
            kind = "node"
        if kind == "rack":
            rack_at_s, rack = at_s, chance.choice(racks)
            found.append(_at(at_s, Disturb.KILL, rack))
            dead = [node.name for node in nodes if node.rack == rack]
            back_at_s |= dict.fromkeys(dead, at_s + away_s + RACK_BACK_S)
        elif kind == "coordinator":
            found.append(_at(at_s, Disturb.COORDINATOR))
        elif kind in ("pause", "server"):
            lasting = chance.uniform(*PAUSES_S)
            target = chance.choice(names if kind == "pause" else servers)
            found.append(_at(at_s, Disturb.PAUSE, target, lasting))
            at_s += lasting
        elif kind == "cut":
            lasting = min(chance.uniform(*CUTS_S), seconds - at_s - 0.001)
            found.append(_at(at_s, Disturb.CUT, chance.choice(racks), lasting))
            healed_at_s = at_s + lasting
        else:
            living = [name for name in names if back_at_s.get(name, 0.0) <= at_s]
            victim = chance.choice(living or names)
            found.append(_at(at_s, Disturb.KILL, victim))
            back_at_s[victim] = at_s + away_s + BACK_S


def _at(at_s: float, kind: Disturb, target: str = "", for_s: float = 0.0) -> Disturbance:
    return Disturbance(at_s=round(at_s, 3), kind=kind, target=target, for_s=round(for_s, 3))
