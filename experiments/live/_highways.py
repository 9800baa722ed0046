"""Accident detection on two highways, live, as the figures of plans use it.

Every report counts, so a result has as many reports as its highway sent. The rack of all primaries
dies and stays away; what comes out meanwhile is computed by the plan's replicas alone."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from experiments.live._six_nodes import SPEC
from experiments.live.query_accuracy import HERE, LATE_S, THERE
from harness.cluster.base import TOGETHER
from harness.engines.base import Setup
from harness.engines.tasks.parameters import TaskParameters
from harness.failures.generators import one_target
from harness.failures.schedule import Schedule
from harness.topology.model import Topology
from workloads.accident import FAR, HIGHWAYS

RATE_PER_S = 400.0
BATCH_S = 0.25
WINDOW_S = 1.0


def setup(topology: Topology, plan: Sequence[int], away_s: float, *, adapt_s: float = 0) -> Setup:
    """Deal primaries to the first rack; the second has just enough room for the plan's replicas.

    A lost task without a replica waits for its rack, and takes no replica's place."""
    tasks = topology.task_count
    there = [THERE[number % len(THERE)] for number in range(len(plan))]
    return Setup(
        scheme="ppa",
        parameters=TaskParameters(
            plan=plan,
            placement=[HERE[task % len(HERE)] for task in range(tasks)],
            replicas_at=dict(zip(plan, there, strict=True)),
            slots=[tasks for _ in HERE] + [there.count(node) for node in THERE],
            keeps_replicas=True,
            checkpoint_s=1.0,
            restart_s=away_s + LATE_S,
            adapt_s=adapt_s,
        ),
    )


def outage(at_s: float) -> Schedule:
    """Kill the rack of the primaries; the engine starts it again."""
    return one_target(TOGETHER.join(SPEC.node_names[node] for node in HERE), at_s=at_s)


def reports(results: pd.DataFrame, *, until_s: float) -> pd.DataFrame:
    """Return ``window_start_s``, ``query``, and the reports of each pass: ``twin``, ``failed``.

    Of first deliveries, and of windows that end by ``until_s``, `LATE_S` before the rack is back.
    What came in the pass with the failure after that is missing."""
    inside = results["window_start_s"].between(0, until_s - WINDOW_S)
    there = (results["pass"] == "twin") | (results["arrival_s"] <= until_s + LATE_S)
    mine = results[inside & there]
    counted = pd.DataFrame(
        {
            "window_start_s": mine["window_start_s"],
            "query": mine["location"].ge(FAR).map({False: HIGHWAYS[0], True: HIGHWAYS[1]}),
            "pass": mine["pass"],
            "reports": mine["car_ids"].str.split().str.len(),
        }
    )
    by = ["window_start_s", "query"]
    wide = counted.pivot_table(index=by, columns="pass", values="reports", aggfunc="sum")
    return wide.reindex(columns=["twin", "failed"]).fillna(0.0).reset_index()


def share(counted: pd.DataFrame, from_s: float, query: str | None = None) -> float | None:
    """Return the part of the twin's reports in windows that begin from ``from_s`` on."""
    mine = counted[counted["window_start_s"] >= from_s]
    mine = mine if query is None else mine[mine["query"] == query]
    whole = float(mine["twin"].sum())
    return float(mine["failed"].sum()) / whole if whole else None
