"""Operators that raise: another node is tried, and a batch that fails everywhere ends the run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from harness.protocol import inputs as told
from harness.protocol.coordinator.losses import OperatorFailures
from harness.protocol.effects import EndRun
from harness.protocol.scheme import Recovery, Tentative
from harness.simulator.draw import draw
from harness.simulator.options import Options
from harness.simulator.synthetic import DigestOperator, digests
from harness.simulator.world import World
from tests.protocol.clusters import Cluster, joined, node, report, sent

ERROR = "Traceback: ValueError: no such word"


def fail(cluster: Cluster, task: int, *, now: int, position: int = 4) -> list[Any]:
    """Report from the node of a task's primary that its operator has raised."""
    copy = cluster.primary(task)
    given = report(copy, position=position, ready=False, failed=ERROR)
    return cluster.beat(copy.node, now=now, copies=[given])


def test_a_copy_that_gave_up_is_restored_elsewhere_though_its_node_lives() -> None:
    cluster = joined(0, 1, 2, nodes=[node(n, slots=2) for n in range(3)], tentative=Tentative())
    effects = fail(cluster, 1, now=1)
    assert cluster.hosts() == [0, 2]
    assert [item.upstream for item in sent(effects, told.UpstreamClosed)] == [], "it is the sink"
    assert [item.task for item in sent(effects, told.CopyRetired)] == [1]
    assert not [effect for effect in effects if isinstance(effect, EndRun)]


def test_its_replica_takes_over() -> None:
    cluster = joined(0, 1, 2, replicated=(1,))
    fail(cluster, 1, now=1)
    primary = cluster.primary(1)
    assert (primary.node, primary.term) == (2, 3)


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


def test_where_it_failed_it_goes_again_only_if_there_is_no_other_node() -> None:
    cluster = joined(0, 1, nodes=[node(0), node(1)])
    fail(cluster, 1, now=1)
    assert cluster.hosts() == [0, 1]
    primary = cluster.primary(1)
    assert primary.incarnation == 2


@pytest.mark.parametrize("recovery", list(Recovery))
def test_a_batch_that_fails_on_two_nodes_ends_the_run_with_its_traceback(
    recovery: Recovery,
) -> None:
    every = 0 if recovery is Recovery.REPLAY else 3
    cluster = joined(
        0,
        1,
        2,
        nodes=[node(n, slots=2) for n in range(3)],
        recovery=recovery,
        checkpoint_every=every,
    )
    fail(cluster, 1, now=1)
    [end] = [effect for effect in fail(cluster, 1, now=2) if isinstance(effect, EndRun)]
    assert "O1.0 fails at batch 4 on nodes [1, 2]" in end.reason
    assert ERROR in end.reason
    assert cluster.sweep(3000) == [], "there is nothing left to decide"


def test_another_batch_is_another_failure() -> None:
    failures = OperatorFailures()
    copy = told.CopyReport(
        task=1, incarnation=1, term=1, position=4, stored=0, published=0, ready=False, failed="x"
    )
    assert not failures.note(copy, 1, cluster=3)
    assert not failures.note(structs.replace(copy, position=5), 2, cluster=3)
    assert failures.nodes(1) == {2}
    assert failures.note(structs.replace(copy, position=5), 1, cluster=3)


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
