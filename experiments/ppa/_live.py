"""The papers' queries live on two racks, which the figures of accuracy share.

All primaries are on one rack, the replicas of a plan on the other, which has room for nothing else.
The first rack is killed and stays away for some seconds: output is then tentative, computed by the
plan's tasks alone. Its accuracy is the share of the twin's answers that it has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from experiments.live import _plans
from experiments.live._six_nodes import SPEC
from harness.cluster.base import TOGETHER
from harness.engines.base import Setup
from harness.engines.tasks.parameters import TaskParameters
from harness.failures.generators import one_target
from harness.failures.schedule import Schedule
from harness.topology.model import Topology
from workloads.base import Workload
from workloads.traffic import traffic_jams
from workloads.worldcup import world_cup

HERE, THERE = range(3), range(3, 6)
"""The nodes of the primaries, and those of the replicas."""
BATCH_S = 0.5
KILL_AT_S = 4.0
LATE_S = 0.2
"""Time within which a window's result comes after its end. Nodes stay away for so much longer than
the windows that count: once they are back they are soon where they were, and what they give then
nobody had while the failure lasted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveQuery:
    """One of the papers' queries as it runs here."""

    workload: Workload
    rate_per_s: float
    away_s: float
    """Time that the rack stays away: several windows begin and end meanwhile."""


WINDOWS_S = {"Q1": 4, "Q2": 6}


def query(name: str, seed: int, *, windows_s: Mapping[str, float] = WINDOWS_S) -> LiveQuery:
    """Return Q1 with 20-4-1 tasks or Q2 with 8-8-8-1, as in `ppa/query-accuracy`."""
    window_s = windows_s[name]
    if name == "Q1":
        workload = world_cup(seed=seed, partitions=20, window_s=window_s, slide_s=1)
        return LiveQuery(workload=workload, rate_per_s=2_000, away_s=9)
    workload = traffic_jams(
        seed=seed, users=5_000, segments=200, partitions=8, window_s=window_s, slide_s=2
    )
    rate_per_s = QUICKER * sum(source.share for source in workload.sources)
    return LiveQuery(workload=workload, rate_per_s=rate_per_s, away_s=12)


QUICKER = 6.0
"""Speed-up of Q2's clock over the papers', so that a short window holds a score of incidents."""
QUERIES = ("Q1", "Q2")
GRID = [{"query": name} for name in QUERIES]


def setup(
    tasks: int, plan: Sequence[int], away_s: float, *, checkpoint_s: float = 2.0, **more: Any
) -> Setup:
    """Deal primaries to the first rack, the plan's replicas to the second with just enough room.

    A task without a replica then waits until its rack is back. Nodes that die together are found
    one after the other, within milliseconds. Each node of the first rack therefore has room for all
    tasks: for want of room a replica of a task that still lives would be given up for a lost one.
    ``more``: further parameters of the engine."""
    there = [THERE[number % len(THERE)] for number in range(len(plan))]
    return Setup(
        scheme="ppa",
        parameters=TaskParameters(
            plan=plan,
            placement=[HERE[task % len(HERE)] for task in range(tasks)],
            replicas_at=dict(zip(plan, there, strict=True)),
            slots=[tasks for _ in HERE] + [there.count(node) for node in THERE],
            checkpoint_s=checkpoint_s,
            restart_s=away_s + LATE_S,
            **more,
        ),
    )


PRIMARIES = [SPEC.node_names[node] for node in HERE]


def topology_of(chosen: LiveQuery) -> Topology:
    return _plans.topology_of(chosen.workload, chosen.rate_per_s)


def all_at_once(nodes: Sequence[str], at_s: float = KILL_AT_S) -> Schedule:
    """Kill these nodes at one instant; the engine starts them again."""
    return one_target(TOGETHER.join(nodes), at_s=at_s)


def on_time(windows: pd.DataFrame, results: pd.DataFrame) -> pd.DataFrame:
    """Return the windows with ``arrival_s``, the arrival of a window's last first version.

    In the out topic; null where it never came."""
    failed = results[results["pass"] == "failed"]
    arrival_s = failed.groupby("window_start_s")["arrival_s"].max()
    return windows.assign(arrival_s=windows["window_start_s"].map(arrival_s))


def accuracy_within(
    windows: pd.DataFrame, span: tuple[float, float], *, window_s: float
) -> float | None:
    """Return the accuracy of the windows that begin and end within ``span``; None without one.

    Of their first versions; seconds of the pass. A result after its end (`LATE_S`) is missing."""
    from_s, until_s = span
    begin = windows["window_start_s"]
    inside = windows[(begin >= from_s) & (begin + window_s <= until_s)]
    there = inside[inside["arrival_s"] <= until_s + LATE_S]
    members = float(inside["members"].sum())
    return float(there["first"].sum()) / members if members else None
