"""A campaign's schedules on a Spark cluster: one job, and the same reports for the same seeds.

Reports come as they are made.

The harness's side is `spread_reports`; run as ``python -m harness.simulator.spread`` this
is the driver. Tasks run some seeds each and send their reports through an accumulator, which
Spark counts once for every task of a job, also when an executor is lost and its tasks run again."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from harness.child import Child, end_with_parent, orders, speaker
from harness.cluster.base import Cluster
from harness.cluster.spark import spread_settings
from harness.simulator.campaign import PROTOCOL, Choice, run_seed
from harness.simulator.checkers import Violation
from harness.simulator.run import SimulatedRun

TASKS_PER_SLOT = 16
"""So many that a slow one delays little and an executor's loss costs little."""
MOST_SEEDS_PER_TASK = 64
NEXT_REPORT_S = 300.0
_LOOK_AGAIN_S = 0.2


def spread_reports(choice: Choice, cluster: Cluster) -> Iterator[SimulatedRun]:
    """One report per seed, in the order of seeds, made by the cluster's executors.

    Raises `harness.errors.EnvironmentFailure` when the driver dies or nothing comes any more."""
    child = Child(
        "harness.simulator.spread",
        name="the campaign's driver",
        log=cluster.scratch("spread") / "driver.log",
        remedy="read its log; the same seeds without --spread run on this machine",
        environment=cluster.driver_environment(),
    )
    try:
        conf, slots = spread_settings(cluster), cluster.spec.task_slots
        child.send({"conf": conf, "choice": document_of(choice), "slots": slots})
        yield from in_order(choice, _arriving(child, len(choice.seeds)))
    finally:
        child.stop(within_s=30)


def _arriving(child: Child, total: int) -> Iterator[SimulatedRun]:
    events, seen = child.each("reports of schedules", "reports", within_s=NEXT_REPORT_S), 0
    while seen < total:
        for document in next(events)["reports"]:
            seen += 1
            yield report_of(document)


def in_order(choice: Choice, arriving: Iterator[SimulatedRun]) -> Iterator[SimulatedRun]:
    """Hold reports back until those of all smaller seeds are there."""
    early: dict[int, SimulatedRun] = {}
    following = iter(choice.seeds)
    wanted = next(following, None)
    for report in arriving:
        early[report.seed] = report
        while wanted is not None and wanted in early:
            yield early.pop(wanted)
            wanted = next(following, None)


def report_of(document: dict[str, Any]) -> SimulatedRun:
    """Return a report from its `dataclasses.asdict` after a way through JSON."""
    violation = document["violation"]
    return SimulatedRun(**{**document, "violation": Violation(**violation) if violation else None})


def shares(choice: Choice, slots: int) -> list[tuple[int, int]]:
    """First and last seed of each task."""
    total = len(choice.seeds)
    each = max(1, min(MOST_SEEDS_PER_TASK, total // (slots * TASKS_PER_SLOT)))
    return [
        (first, min(first + each - 1, choice.last_seed))
        for first in range(choice.first_seed, choice.last_seed + 1, each)
    ]


def document_of(choice: Choice) -> dict[str, Any]:
    """Return a choice of the protocol's schedules in terms of JSON."""
    assert choice.fidelity is PROTOCOL, "whole processes run on one machine"
    document = asdict(choice)
    del document["fidelity"]
    return document


def choice_of(document: dict[str, Any]) -> Choice:
    """Return a choice from its document after a way through JSON."""
    faults = document["faults"]
    return Choice(**{**document, "faults": None if faults is None else tuple(faults)})


def main() -> None:
    emit = speaker()
    order = next(orders(), None)
    if order is None:
        return
    end_with_parent()
    from pyspark import AccumulatorParam
    from pyspark.sql import SparkSession

    class Arrivals(AccumulatorParam[deque[dict[str, Any]]]):  # type: ignore[misc]  # no types
        """A queue that executors add to and the driver empties."""

        def zero(self, value: deque[dict[str, Any]]) -> deque[dict[str, Any]]:
            """Nothing has arrived."""
            return deque()

        def addInPlace(  # noqa: N802 - Spark's name
            self, value1: deque[dict[str, Any]], value2: deque[dict[str, Any]]
        ) -> deque[dict[str, Any]]:
            """Those of one task, then those of another."""
            value1.extend(value2)
            return value1

    builder = SparkSession.builder.appName("faultline-simulate").config(map=order["conf"])
    context = builder.getOrCreate().sparkContext
    choice = choice_of(order["choice"])
    queue: deque[dict[str, Any]] = deque()
    arrived = context.accumulator(queue, Arrivals())

    def run(share: tuple[int, int]) -> None:
        made = [asdict(run_seed((choice, seed))) for seed in range(share[0], share[1] + 1)]
        arrived.add(deque(made))

    def hand_over() -> None:
        found = []
        while queue:
            found.append(queue.popleft())
        if found:
            emit({"event": "reports", "reports": found})

    done = threading.Event()

    def watch() -> None:
        while not done.wait(_LOOK_AGAIN_S):
            hand_over()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    wanted = shares(choice, order["slots"])
    context.parallelize(wanted, len(wanted)).foreach(run)
    done.set()
    watcher.join()
    hand_over()
    context.stop()


if __name__ == "__main__":
    main()
