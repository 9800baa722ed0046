"""Recovery orders: complete, TO topological, INC by whole trees and with the larger area."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.planning.incremental import (
    Incremental,
    RecoveryOrder,
    TopologicalOrder,
    fidelity_curve,
)
from harness.topology import named
from tests.topology.strategies import SMALL, topologies

ORDERS = [Incremental(), TopologicalOrder()]


@pytest.mark.parametrize("recovery", ORDERS, ids=lambda order: str(order.name))
@given(data=st.data())
@SMALL
def test_restores_every_failed_task_once(recovery: RecoveryOrder, data: st.DataObject) -> None:
    topology = data.draw(topologies(max_operators=4, max_cost=2, max_queries=2))
    alive = data.draw(st.sets(st.integers(0, topology.task_count - 1)))
    order = recovery.order(topology, alive=sorted(alive))
    assert sorted(order) == [task for task in range(topology.task_count) if task not in alive]
    arrived, values = fidelity_curve(topology, order, alive=sorted(alive))
    assert (np.diff(values) >= -1e-12).all()
    assert values[-1] == pytest.approx(1)
    assert arrived[0] == 0


def test_to_restores_upstream_first() -> None:
    topology = named.recovery()
    order = TopologicalOrder().order(topology)
    place = {task: position for position, task in enumerate(order)}
    for index in range(8):
        assert place[topology.task("O1", index)] > place[topology.task("source", 2 * index)]
        assert place[topology.task("O1", index)] > place[topology.task("source", 2 * index + 1)]


def test_inc_restores_a_whole_tree_first_and_its_siblings_next() -> None:
    topology = named.recovery()
    order = Incremental().order(topology)
    arrived, values = fidelity_curve(topology, order)
    assert values[5] == pytest.approx(1 / 16)
    assert values[6] == pytest.approx(2 / 16)
    assert arrived[-1] == 1
