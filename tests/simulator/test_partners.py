"""Pairs of copies that stabilize in turns, behind a stream that is cut off, with every checker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from harness.protocol import effects as do
from harness.protocol import inputs as told
from harness.protocol.coordinator.placement import Planned, Spread
from harness.protocol.coordinator.registry import NodeInfo
from harness.protocol.scheme import Closing, Corrections, Policy, Recovery, Scheme, Tentative
from harness.protocol.task.machine import TaskMachine
from harness.simulator.faults import Fault, FaultKind
from harness.simulator.observing import Observer
from harness.simulator.options import Costs, Network, Options
from harness.simulator.topologies import layered
from harness.simulator.world import World
from tests.simulator.kit import watched

STREAMS, BUCKET_US, TUPLES, PROCESS_US = 3, 100_000, 100, 22
BEGIN_S, FAILURE_S, AFTER_S = 4, 5, 8


@dataclass
class Talk(Observer):
    """Keeps what the copies of a task said to each other."""

    said: list[str] = field(default_factory=list)

    def after(
        self,
        number: int,
        copy: TaskMachine,
        item: told.NodeInput,
        effects: Sequence[Any],
        clock: int,
    ) -> None:
        for effect in effects:
            if isinstance(effect, do.Send) and effect.to == copy.task:
                self.said.append(type(effect.message).__name__)


@dataclass(frozen=True)
class Seen:
    """What the client saw."""

    tentative: int
    longest_s: float
    said: Sequence[str]


def behind_a_cut(
    policies: str,
    *,
    bound_s: float,
    nodes: int = 1,
    crash_of: int | None = None,
    memory: int = 1,
    converges: bool = False,
) -> Seen:
    """Cut one stream off from the pair that joins it; perhaps a node of the first pair crashes."""
    during, after = map(Policy, policies.split(" & "))
    pairs = tuple(range(STREAMS, STREAMS + nodes))
    client = STREAMS + nodes
    rows = [(0, 1, "full"), *((row, row + 1, "one") for row in range(1, nodes + 1))]
    names = ["stream", *(f"node {n + 1}" for n in range(nodes)), "client"]
    wiring = layered([STREAMS, *[1] * (nodes + 1)], rows, memory=memory, names=names)
    replicas = {task: client + 1 + task - STREAMS for task in pairs}
    first, second = STREAMS, replicas[STREAMS]
    begin_us, end_us = BEGIN_S * 1_000_000, (BEGIN_S + FAILURE_S) * 1_000_000
    cuts = [
        Fault(kind=FaultKind.LINK, at_us=begin_us, until_us=end_us, target=0, other=node)
        for node in (first, second)
    ]
    if crash_of is not None:
        node = (first, second)[crash_of]
        at_us = end_us + 20_000  # while the pair reconciles
        cuts.append(
            Fault(kind=FaultKind.KILL, at_us=at_us, until_us=at_us + 2_000_000, target=node)
        )
    options = Options(
        seed=1,
        topology="pairs",
        wiring=wiring,
        scheme=Scheme(
            name="dpc",
            recovery=Recovery.LOCAL,
            checkpoint_every=10,
            replicated=pairs,
            tentative=Tentative(
                closing=Closing.TASK,
                bound_us=int(bound_s * 1e6),
                during_failure=during,
                during_stabilization=after,
                corrections=Corrections.DONE,
                interval_us=BUCKET_US,
                partners=True,
                converges=converges,
                at_once=(client,),
            ),
            heartbeat_us=100_000,
            suspect_after_us=500_000,
        ),
        nodes=tuple(
            NodeInfo(name=f"n{n}", rack=f"r{n}", slots=1) for n in range(client + 1 + nodes)
        ),
        placement=tuple(wiring.tasks),
        strategy=Planned(replicas=replicas, otherwise=Spread(tuple(wiring.tasks))),
        batches=(BEGIN_S + FAILURE_S + AFTER_S) * 1_000_000 // BUCKET_US,
        interval_us=BUCKET_US,
        tuples=TUPLES,
        costs=Costs(batch_us=0, tuple_us=PROCESS_US),
        network=Network(delay_us=1_000, jitter_us=500, store_us=1_000, log_us=1_000),
        faults=tuple(cuts),
    )
    talk = Talk()
    report, world = watched(options, talk)
    assert report.violation is None, report.violation
    return seen_by(client, world, talk)


def seen_by(client: int, world: World, talk: Talk) -> Seen:
    first: dict[int, int] = {}
    tentative = 0
    for published in world.partitions[client].records:
        record = published.record
        if record.kind is do.Kind.UNDO:
            continue
        if record.kind is do.Kind.TENTATIVE:
            tentative += record.payload[0]
        first.setdefault(record.batch, published.at_us)
    longest = max(at - (batch + 1) * BUCKET_US for batch, at in first.items())
    return Seen(tentative, longest / 1e6, talk.said)


RECONCILING_S = 2 * STREAMS * TUPLES * FAILURE_S * 1e6 / BUCKET_US * PROCESS_US / 1e6
"""The node's time for what came during the failure, and then the client's."""
AVAILABLE_PER_S = 2 * TUPLES * 1_000_000 // BUCKET_US


@pytest.mark.parametrize(
    ("policies", "bound_s", "expected"),
    [
        ("delay & suspend", 1.0, AVAILABLE_PER_S * (FAILURE_S - 1)),
        ("delay & suspend", 3.0, AVAILABLE_PER_S * (FAILURE_S - 3)),
        ("process & suspend", 3.0, AVAILABLE_PER_S * FAILURE_S),
        ("process & process", 6.0, 0),
    ],
)
def test_a_client_counts_what_the_analytic_model_says(
    policies: str, bound_s: float, expected: int
) -> None:
    seen = behind_a_cut(policies, bound_s=bound_s)
    assert abs(seen.tentative - expected) <= 0.3 * AVAILABLE_PER_S
    assert seen.longest_s <= min(bound_s, FAILURE_S) + 0.1 + RECONCILING_S
    assert "PostponementGranted" not in seen.said, "nothing goes on while new batches are suspended"


@pytest.mark.parametrize("policies", ["process & process", "delay & delay"])
def test_a_pair_stabilizes_in_turns_within_the_bound(policies: str) -> None:
    seen = behind_a_cut(policies, bound_s=2.7, nodes=2)
    words = [word for word in seen.said if word != "ProgressReported"]
    assert words.index("PostponementRequested") < words.index("PostponementGranted")
    assert words.index("PostponementGranted") < words.index("CorrectionsServed")
    assert words[-1] == "ServiceEnded"
    assert seen.longest_s <= 2 * 2.7 + 0.5


@pytest.mark.parametrize("crash_of", [0, 1])
@pytest.mark.parametrize(
    ("memory", "converges"),
    [
        pytest.param(1, False, id="it remembers nothing"),
        pytest.param(7, True, id="it comes back empty and fills its state"),
    ],
)
def test_a_copy_that_dies_while_its_pair_stabilizes_costs_no_output(
    crash_of: int, memory: int, converges: bool
) -> None:
    seen = behind_a_cut(
        "process & process", bound_s=1.0, crash_of=crash_of, memory=memory, converges=converges
    )
    assert seen.tentative > 0
