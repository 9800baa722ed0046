"""Plan adaptation: cheap, within the budget, never worse than doing nothing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.planning.adaptation import adapt
from harness.planning.structure_aware import StructureAware
from harness.topology import named
from harness.topology.fidelity import Evaluator
from tests.topology.strategies import SMALL, topologies


@given(st.data())
@SMALL
def test_within_the_budget_and_no_worse_than_what_fits_of_the_running_plan(
    data: st.DataObject,
) -> None:
    topology = data.draw(topologies(max_operators=4, max_cost=2))
    running = sorted(data.draw(st.sets(st.integers(0, topology.task_count - 1))))
    budget = data.draw(st.integers(0, topology.total_cost))
    change = adapt(topology, running, budget)
    after = (set(running) - set(change.retire)) | set(change.start)
    assert set(change.retire) <= set(running)
    assert not set(change.start) & set(running)
    assert sum(int(topology.costs[task]) for task in after) <= budget
    assert change.cost == sum(int(topology.costs[task]) for task in change.start)
    plan = np.isin(np.arange(topology.task_count), sorted(after))
    assert change.value_after == pytest.approx(Evaluator(topology).value(plan))
    if sum(int(topology.costs[task]) for task in running) <= budget:
        assert change.value_after >= change.value_before - 1e-9


def test_a_smaller_budget_retires_and_starts_nothing_needless() -> None:
    topology = named.q1()
    running = StructureAware().plan(topology, 14).tasks
    change = adapt(topology, running, 10)
    assert len(running) - len(change.retire) + len(change.start) <= 10
    assert change.cost == 0
    assert change.value_after >= 0.99 * StructureAware().plan(topology, 10).value
