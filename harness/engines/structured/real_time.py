"""What real-time mode asks of a workload and of a cluster, and the end of its input.

All tasks of a query in this mode run at once, each in a slot of its own: one for each partition of
its sources and one for each part of its state. A query with fewer free slots does not start."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from harness.cluster.base import ClusterSpec
from harness.engines.deliveries import BEHIND, NEWEST, UNREAD
from harness.engines.structured.parameters import LEAST_CHECKPOINT_S, StockParameters
from workloads.base import SINK, Workload

SCHEMES = ("checkpoint", "active")


def lacking(
    parameters: StockParameters, workload: Workload, spec: ClusterSpec, scheme: str
) -> str | None:
    """Return why a workload cannot run in real-time mode on such a cluster; None if it can."""
    if (why := unable(workload)) is not None:
        return f"workload {workload.name!r} cannot run in Spark's real-time mode: {why}"
    if scheme not in SCHEMES:
        return f"scheme {scheme!r} needs append mode, and real-time mode delivers updates"
    slots = spec.task_slots // spec.racks if scheme == "active" else spec.task_slots
    if state_tasks(parameters, workload, slots) < 1:
        return (
            f"real-time mode needs a slot for each of the {partitions(workload)} partitions of "
            f"workload {workload.name!r}, one more for its state and {parameters.spare_slots} "
            f"spare ones, and each application has {slots}"
        )
    return None


def unable(workload: Workload) -> str | None:
    """Return what the workload itself says against real-time mode; None if nothing."""
    if SINK in workload.forms:
        return "its sink is written batch by batch"
    return workload.no_real_time


def partitions(workload: Workload) -> int:
    """Return the partitions of all sources, each of which takes a slot."""
    return sum(source.partitions for source in workload.sources)


def state_tasks(parameters: StockParameters, workload: Workload, slots: int) -> int:
    """Return the tasks that keep state: one for each slot that is left."""
    return slots - partitions(workload) - parameters.spare_slots


def orders(
    parameters: StockParameters, workload: Workload, slots: int, interval_s: float
) -> dict[str, Any]:
    """Return the part of the order to begin that depends on the mode."""
    if not parameters.real_time:
        return {"mode": parameters.mode, "trigger_s": interval_s}
    return {
        "mode": parameters.mode,
        "trigger_s": parameters.checkpoint_s or LEAST_CHECKPOINT_S,
        "shuffle_partitions": state_tasks(parameters, workload, slots),
    }


def drained(event: Mapping[str, Any], until_unix_s: float) -> bool:
    """Return True for a report that all records before an instant have been processed.

    Those of a marker are behind every record of its partition, and nothing is unread. In this mode
    Spark looks at the topic anew for its metric alone (`UNREAD`)."""
    unread = event[BEHIND] or event[UNREAD]
    return not unread and instant_s(event[NEWEST]) >= until_unix_s


def instant_s(text: str | None) -> float:
    """Return the Unix time of an instant in a report; minus infinity for none."""
    return datetime.fromisoformat(text).timestamp() if text else float("-inf")
