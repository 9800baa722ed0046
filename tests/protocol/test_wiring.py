"""Wirings: the shipped ones, those that are refused, and the way back of source replay."""

from __future__ import annotations

import pytest

from harness.errors import UsageError
from harness.protocol.coordinator.placing import replay_starts
from harness.protocol.wiring import Wiring, wire
from harness.simulator.topologies import NAMED, chain, recovery


def test_the_recovery_topology_is_the_papers() -> None:
    wiring = recovery()
    assert len(wiring.sources) == 16
    assert len(wiring.sinks) == 1
    assert [len(wiring.upstream[task]) for task in range(16, 31)] == [2] * 15
    assert wiring.depth() == 5


@pytest.mark.parametrize("name", NAMED)
def test_every_task_stands_behind_its_upstream_tasks(name: str) -> None:
    wiring = NAMED[name]()
    place = {task: i for i, task in enumerate(wiring.order)}
    for task in wiring.tasks:
        assert all(place[up] < place[task] for up in wiring.upstream[task])


def test_a_cycle_is_refused() -> None:
    with pytest.raises(UsageError, match="cycle"):
        wire([(0, 1), (1, 2), (2, 1)], names=["a", "b", "c"], memory=[1, 1, 1])


def test_an_edge_with_one_end_is_refused() -> None:
    with pytest.raises(UsageError, match="b receives from a"):
        Wiring(names=("a", "b"), upstream=((), (0,)), downstream=((), ()), memory=(1, 1))


def test_source_replay_goes_back_by_the_memory_of_every_task_on_the_way() -> None:
    wiring = chain(3, memory=3)  # 0 -> 1 -> 2 -> 3, sources remember one batch
    starts = replay_starts(wiring, [2], [0, 0, 0, 20], {3: 20})
    assert starts == {2: (18, 20), 1: (16, 18), 0: (16, 16)}


def test_source_replay_spares_what_is_not_upstream() -> None:
    wiring = NAMED["join"]()
    join = wiring.sinks[0]
    left = wiring.names.index("L.0")
    starts = replay_starts(wiring, [left], [10] * len(wiring.tasks), {join: 10})
    assert {wiring.names[task] for task in starts} == {"L.0", "left.0"} | {
        wiring.names[t] for t in wiring.upstream[left]
    }
