"""The most expensive loops of planners."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.nightly.conftest import Measure
    from harness.topology.model import Topology


def topology(operators: int, tasks: tuple[int, int] = (10, 20)) -> Topology:
    """Draw a random topology of Fig. 18b's kind, half of its operators joins."""
    from harness.seeds import generator
    from harness.topology.generate import Specification, random_topology

    spec = Specification(operators=(operators, operators), parallelism=tasks, join_fraction=0.5)
    return random_topology(spec, generator(0, "nightly"))


def test_output_fidelity(measure: Measure) -> None:
    from harness.seeds import generator
    from harness.topology.fidelity import output_fidelity

    large = topology(50)
    plans = generator(0, "plans").random((1000, large.task_count)) < 0.8
    measure(lambda: output_fidelity(large, plans))


def test_plan_structure_aware(measure: Measure) -> None:
    from harness.planning.structure_aware import StructureAware

    large = topology(12)
    measure(lambda: StructureAware().plan(large, int(0.8 * large.total_cost)))


def test_plan_greedy(measure: Measure) -> None:
    from harness.planning.greedy import Greedy

    large = topology(50)
    measure(lambda: Greedy().plan(large, int(0.8 * large.total_cost)))


def test_plan_dynamic_programming(measure: Measure) -> None:
    from harness.planning.dynamic_programming import DynamicProgramming

    small = topology(5, (2, 3))
    measure(lambda: DynamicProgramming().plan(small, int(0.5 * small.total_cost)))
