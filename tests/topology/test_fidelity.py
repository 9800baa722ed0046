"""Output fidelity and internal completeness: worked examples, the oracle, invariants."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.topology import named
from harness.topology.fidelity import Evaluator, Objective, internal_completeness, output_fidelity
from harness.topology.model import Topology
from tests.levels import amount
from tests.topology import oracle
from tests.topology.strategies import topologies


def without(topology: Topology, *failed: tuple[str, int]) -> np.ndarray:
    alive = np.ones(topology.task_count, dtype=bool)
    alive[[topology.task(*place) for place in failed]] = False
    return alive


@pytest.mark.parametrize(("join", "left"), [(False, 3 / 4), (True, 3 / 5)])
def test_figure_2_loses_a_quarter_or_with_correlated_inputs_two_fifths(
    join: bool, left: float
) -> None:
    topology = named.figure_2(join=join)
    alive = without(topology, ("O2", 1))
    assert output_fidelity(topology, alive)[0, 0] == pytest.approx(left)
    # Internal completeness knows no joins: 3 + 3 taken in by O1 and O2, 6 of 8 by O3.
    assert internal_completeness(topology, alive)[0] == pytest.approx(12 / 16)


def test_priorities_weigh_the_queries() -> None:
    topology = named.figure_5a((1, 0, 3))
    alive = np.zeros(7, dtype=bool)
    alive[0] = True
    assert Evaluator(topology).by_query(alive).tolist() == [[0.25, 0, 0]]
    assert Evaluator(topology).value(alive) == pytest.approx(0.25 / 4)


@given(st.data())
@settings(max_examples=amount(80), deadline=None)
def test_equal_to_the_oracle(data: st.DataObject) -> None:
    topology = data.draw(topologies(max_queries=3))
    flags = st.lists(st.booleans(), min_size=topology.task_count, max_size=topology.task_count)
    plans = data.draw(st.lists(flags, min_size=1, max_size=4))
    fidelity = output_fidelity(topology, plans)
    completeness = internal_completeness(topology, plans)
    assert fidelity.shape == (len(plans), len(topology.queries))
    for row, plan in enumerate(plans):
        assert fidelity[row] == pytest.approx(oracle.output_fidelity(topology, plan))
        assert completeness[row] == pytest.approx(oracle.internal_completeness(topology, plan))


@given(st.data())
@settings(max_examples=amount(80), deadline=None)
def test_within_zero_and_one_and_monotone_in_the_plan(data: st.DataObject) -> None:
    topology = data.draw(topologies(max_queries=2))
    size = topology.task_count
    plan = np.array(data.draw(st.lists(st.booleans(), min_size=size, max_size=size)))
    larger = plan | np.eye(size, dtype=bool)
    for objective in Objective:
        evaluator = Evaluator(topology, objective)
        values = evaluator.values(np.vstack([plan, larger]))
        assert (values >= 0).all()
        assert (values <= 1).all()
        assert (values[1:] >= values[0] - 1e-12).all()
        assert evaluator.value(np.ones(size, dtype=bool)) == pytest.approx(1)
        assert evaluator.value(np.zeros(size, dtype=bool)) == 0


@given(st.data())
@settings(max_examples=amount(40), deadline=None)
def test_gains_are_what_a_task_more_or_less_changes(data: st.DataObject) -> None:
    """No two branches of one task meet in a join, which would make it a derivative only."""
    plain = topologies(max_operators=5, max_queries=2, joins=False)
    topology = data.draw(st.one_of(plain, st.just(named.figure_1a(join=True))))
    evaluator = Evaluator(topology, data.draw(st.sampled_from(Objective)))
    count = topology.task_count
    plans = np.array([
        data.draw(st.lists(st.booleans(), min_size=count, max_size=count)) for _ in range(2)
    ])  # fmt: skip
    found = evaluator.gains(plans)
    for plan, gains in zip(plans, found, strict=True):
        for task in range(count):
            with_it, without_it = plan.copy(), plan.copy()
            with_it[task], without_it[task] = True, False
            change = evaluator.value(with_it) - evaluator.value(without_it)
            assert gains[task] == pytest.approx(change, abs=1e-12)
