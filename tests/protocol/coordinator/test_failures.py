"""Operators that raise: another node is tried, and a batch that fails everywhere ends the run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from harness.protocol.effects import EndRun
from harness.simulator.draw import draw
from harness.simulator.options import Options
from harness.simulator.synthetic import DigestOperator, digests
from harness.simulator.world import World
from tests.protocol.clusters import Cluster, joined, node, report

ERROR = "Traceback: ValueError: no such word"


def fail(cluster: Cluster, task: int, *, now: int, position: int = 4) -> list[Any]:
    """Report from the node of a task's primary that its operator has raised."""
    copy = cluster.primary(task)
    given = report(copy, position=position, ready=False, failed=ERROR)
    return cluster.beat(copy.node, now=now, copies=[given])


def test_a_batch_that_fails_three_times_on_the_only_node_ends_the_run() -> None:
    cluster = joined(0, nodes=[node(0, slots=2)], placement=(0, 0))
    ends: list[EndRun] = []
    for number in range(3):
        assert not ends, "a node may lack something for a moment"
        effects = fail(cluster, 1, now=number + 1)
        ends = [effect for effect in effects if isinstance(effect, EndRun)]
    [end] = ends
    assert "fails at batch 4 3 times on node 0, and there is no other" in end.reason
    assert ERROR in end.reason


def test_on_the_only_node_it_counts_from_the_first_failure_of_a_batch() -> None:
    cluster = joined(0, nodes=[node(0, slots=2)], placement=(0, 0))
    for number in range(6):
        effects = fail(cluster, 1, now=number + 1, position=4 + number // 2)
        assert not [effect for effect in effects if isinstance(effect, EndRun)]


def test_the_takeover_of_a_copy_that_then_fails_is_no_takeover() -> None:
    earlier = joined(0, 1, 2, replicated=(1,))
    replica = earlier.replica(1)
    later = Cluster(replicated=(1,), owner=2, registry=earlier.stored[-1])
    later.beat(0, 1, 2, now=1)
    failed = [report(replica, term=replica.grant, failed="MemoryError")]
    later.beat(replica.node, now=2, copies=failed)
    assert later.primary(1).incarnation > replica.grant, "both copies are gone"


class Poisoned(DigestOperator):
    """Fails at one batch, wherever it runs."""

    def process(self, state: Any, batch: int, inputs: Sequence[Any]) -> Any:
        if batch == 7:
            raise ValueError("no such word")
        return super().process(state, batch, inputs)


@pytest.mark.parametrize("scheme", ["checkpoint", "global", "replay", "active"])
def test_a_simulated_run_of_a_poisoned_batch_ends(scheme: str) -> None:
    options: Options = draw(3, scheme=scheme, topology="chain")
    options = replace(options, faults=(), unknown_nodes=0, strategy=None)
    wiring = options.wiring
    poisoned = Poisoned(task=1, memory=wiring.memory[1], fan_out=len(wiring.downstream[1]))
    program = digests(options)
    program = replace(program, operators=(program.operators[0], poisoned, *program.operators[2:]))
    world = World(options, program)
    world.start()
    world.kernel.run(until=120_000_000, stop=lambda: bool(world.ended))
    assert "O1.0 fails at batch 7 on nodes" in world.ended
    assert "ValueError: no such word" in world.ended
