"""A plan that follows the load, live: the sources' rates swap, and the replicas with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.endurance.trial import Disturbance, Trial
from harness.engines.base import EventKind
from harness.engines.tasks.adapting import Adapting, drifted
from harness.engines.tasks.engine import TaskEngine
from harness.load.plan import LoadPlan
from harness.load.profile import RateProfile
from harness.protocol.effects import CopyEvent
from harness.topology.model import Edge, Operator, Topology
from harness.topology.partitioning import Partitioning
from tests.cluster.helpers import eventually
from tests.engines.tasks.live import WITHIN_S, WORDS, kill, trial
from workloads.base import QUERY, TASKS, Reference, Workload
from workloads.toolkit.operators import Forward, TableProgram, TableTask, Timeline, program_of
from workloads.toolkit.operators import timeline_of as timeline
from workloads.wordcount import RESULT, Count, Lower, Split

HERE = Path(__file__).resolve()
LEFT, RIGHT = (0, 2), (1, 3)
"""The tasks that only one of the two sources goes through; 4 counts, 5 collects."""


def two_sources() -> Workload:
    """Make a word count of two topics, with a separate path for each up to the counter."""
    (lines,) = WORDS.sources
    left, right = (replace(lines, name=name, partitions=1) for name in ("left", "right"))
    return replace(
        WORDS,
        sources=[left, right],
        reference=Reference(target=f"{HERE}:two_sources"),
        forms={QUERY: print, TASKS: Reference(target=f"{HERE}:two_ways")},
    )


def two_ways(*, timeline: Timeline, rate: float | None = None) -> TableProgram:
    """Make the topology of both paths; ``rate`` is the sum of both sources."""
    each = (rate or 200.0) / 2
    ends = ("left", "right")
    one, full = Partitioning.ONE_TO_ONE, Partitioning.FULL
    edges = (
        ("left", "lower-left", one), ("right", "lower-right", one),
        ("lower-left", "count", full), ("lower-right", "count", full), ("count", "collect", full),
    )  # fmt: skip
    topology = Topology(
        operators=(
            *(Operator(name=end, parallelism=1, rate=(each,), selectivity=5.0) for end in ends),
            *(Operator(name=f"lower-{end}", parallelism=1) for end in ends),
            Operator(name="count", parallelism=1),
            Operator(name="collect", parallelism=1),
        ),
        edges=tuple(
            Edge(upstream=above, downstream=below, partitioning=kind)
            for above, below, kind in edges
        ),
    )

    def task(operator: str, index: int) -> TableTask:
        if operator in ends:
            return Split()
        if operator.startswith("lower"):
            return Lower(1)
        return Count(timeline) if operator == "count" else Forward(RESULT)

    return TableProgram(
        topology=topology, task=task, sources={end: end for end in ends}, timeline=timeline
    )


WORKLOAD = two_sources()
TOPOLOGY = program_of(
    WORKLOAD, timeline=timeline(WORKLOAD, start_us=0, batch_s=0.1), rate=200
).topology


def test_the_plan_goes_over_to_where_the_records_come_from() -> None:
    plans: list[tuple[int, ...]] = []
    no_broker: Any = None
    one = Adapting(TOPOLOGY, no_broker, plans.append, plan=(*LEFT, 4, 5), budget=4, every_s=60)
    one.step({0: 150.0, 1: 50.0})
    assert (plans, one.asked) == ([], 1), "it is right as it is"
    one.step({0: 155.0, 1: 50.0})
    assert one.asked == 1, "hardly anything has changed"
    one.step({0: 50.0, 1: 150.0})
    assert plans == [(1, 3, 4, 5)]
    (change,) = one.done
    assert (change.retired, change.started, change.cost) == (LEFT, RIGHT, 2)
    assert change.value_before == pytest.approx(0.25)
    assert change.value_after == pytest.approx(0.75)
    assert change.rates == {"left.0": 50.0, "right.0": 150.0}


@pytest.mark.parametrize(
    ("planned", "rates", "new"),
    [
        (None, {0: 0.0, 1: 0.0}, False),
        (None, {0: 1.0, 1: 0.0}, True),
        ({0: 10.0, 1: 10.0}, {0: 100.0, 1: 100.0}, False),
        ({0: 10.0, 1: 10.0}, {0: 11.0, 1: 9.0}, False),
        ({0: 10.0, 1: 10.0}, {0: 14.0, 1: 6.0}, True),
        ({0: 10.0, 1: 10.0}, {0: 0.0, 1: 0.0}, False),
    ],
)
def test_shares_drift_and_sums_do_not(
    planned: Mapping[int, float] | None, rates: Mapping[int, float], new: bool
) -> None:
    assert drifted(planned, rates) is new


class OnceReplicated(Trial):
    """A trial that kills nothing before the replicas of the right-hand way are ready."""

    def _disturb(self, disturbance: Disturbance) -> None:
        eventually(lambda: set(RIGHT) <= replicated(self.engine), limit_s=WITHIN_S)
        super()._disturb(disturbance)


def replicated(engine: TaskEngine) -> set[int]:
    """Return the tasks that have had a replica with its state."""
    notes = [noted.note for noted in engine.notes()]
    return {n.task for n in notes if n.event is CopyEvent.READY and n.term is None}


@pytest.mark.cluster
@pytest.mark.spark
@pytest.mark.long
def test_a_plan_is_adapted_while_it_runs(engine: TaskEngine, tmp_path: Path) -> None:
    """Send 150 and 50 lines a second, and after 4 s the other way round.

    Once the newly replicated tasks have replicas, their node dies, and these take over."""
    one = trial(
        engine,
        tmp_path,
        "rppg",
        10,
        workload=WORKLOAD,
        of=OnceReplicated,
        plan=(0, 2, 4, 5),
        adapt_s=1.0,
        placement=(0, 1, 0, 1, 2, 2),
    )
    many, few = RateProfile(((4, 150), (6, 50))), RateProfile(((4, 50), (6, 150)))
    one.load = LoadPlan(
        streams=[
            replace(stream, rate=rate)
            for stream, rate in zip(one.load.streams, (many, few), strict=True)
        ]
    )
    done = one.run([kill(5, "r1n2")])
    assert (done.kills, done.failures) == (1, 0), done
    changes = [event for event in engine.events() if event.kind is EventKind.ADAPTED]
    assert changes, "the planner was asked again"
    last = changes[-1].detail
    assert engine.adapting is not None
    assert engine.adapting.done[-1].plan == (1, 3, 4, 5)
    assert float(last["value_after"]) > float(last["value_before"])
    assert last["cost"] >= 1
    started = {task for change in engine.adapting.done for task in change.started}
    assert set(RIGHT) <= started
    notes = engine.notes()
    retired = {n.note.task for n in notes if n.note.event is CopyEvent.RETIRED}
    assert set(LEFT) <= retired
    promoted = {n.note.task for n in notes if n.note.event is CopyEvent.PROMOTED}
    assert set(RIGHT) <= promoted, "what was replicated while it ran took over"
