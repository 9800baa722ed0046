"""The cost of planning: many plans at once, and a plan for a large topology.

Ratios are measured in one run, over the processor time of the process, so that they mean the same
on every machine: `ratio` in each benchmark's extra info."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from time import process_time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from harness.planning.greedy import Greedy
from harness.planning.planners import planner
from harness.planning.structure_aware import StructureAware
from harness.seeds import generator
from harness.topology.fidelity import Evaluator, output_fidelity
from harness.topology.generate import Specification, random_topology
from harness.topology.model import Edge, Operator, Topology
from harness.topology.partitioning import Partitioning
from tests.topology import oracle

if TYPE_CHECKING:
    from pytest_benchmark.fixture import BenchmarkFixture

PLANS = 1000
PAPER_S = 0.5
"""ppa TKDE Fig. 18b: SA and greedy "within half a second" at 50 operators."""


def topology(operators: int = 50, tasks: tuple[int, int] = (10, 20), seed: int = 0) -> Topology:
    """Draw a topology of Fig. 18b's kind."""
    spec = Specification(operators=(operators, operators), parallelism=tasks, join_fraction=0.5)
    return random_topology(spec, generator(seed, "benchmark"))


def seconds(call: Callable[[], object]) -> float:
    started = process_time()
    call()
    return process_time() - started


def timed(benchmark: BenchmarkFixture, call: Callable[[], object], rounds: int = 5) -> float:
    """Return the least processor time of ``call``, in seconds."""
    pedantic: Any = benchmark.pedantic
    times: list[float] = []
    pedantic(lambda: times.append(seconds(call)), rounds=rounds, warmup_rounds=1)
    benchmark.extra_info["processor_ms"] = round(1000 * min(times), 3)
    return min(times)


def test_a_thousand_plans_against_the_oracle(benchmark: BenchmarkFixture) -> None:
    large = topology()
    plans = generator(0, "plans").random((PLANS, large.task_count)) < 0.8
    once = np.asarray(plans[0]).tolist()
    literal_s = seconds(lambda: oracle.output_fidelity(large, once))
    ours_s = timed(benchmark, lambda: output_fidelity(large, plans))
    benchmark.extra_info["ratio"] = round(PLANS * literal_s / ours_s, 1)


@pytest.mark.parametrize("name", ["sa", "greedy"])
def test_a_plan_for_figure_18b(benchmark: BenchmarkFixture, name: str) -> None:
    large = topology()
    budget = int(0.8 * large.total_cost)
    ours_s = timed(benchmark, lambda: planner(name).plan(large, budget))
    benchmark.extra_info["ratio"] = round(PAPER_S / ours_s, 1)
    greedy_s = seconds(lambda: Greedy().plan(large, budget))
    benchmark.extra_info["times_greedy"] = round(ours_s / greedy_s, 1)


def test_a_plan_within_one_per_cent(benchmark: BenchmarkFixture) -> None:
    """Refined SA takes half a second at most where the optimum is proven (``ppa/optimum-gap``)."""
    spec = Specification(operators=(6, 6), parallelism=(3, 8), zipf=0.1, join_fraction=0.5)
    small = random_topology(spec, generator(0, "benchmark"))
    budget = small.total_cost // 2
    ours_s = timed(benchmark, lambda: planner("refined").plan(small, budget))
    benchmark.extra_info["ratio"] = round(PAPER_S / ours_s, 1)
    sa_s = seconds(lambda: planner("sa").plan(small, budget))
    benchmark.extra_info["times_sa"] = round(ours_s / sa_s, 1)


def exponent(sizes: list[int], times: list[float]) -> float:
    """Return the slope of time over size, both logarithmic."""
    return float(np.polyfit(np.log(sizes), np.log(times), 1)[0])


def apart(tasks: int) -> Topology:
    """Return five operators whose tasks are connected one to one: as many separate chains."""
    names = [f"operator {number}" for number in range(5)]
    rates = tuple(generator(0, "rates").integers(1, 50, tasks).astype(float).tolist())
    operators = [Operator(name=name, parallelism=tasks) for name in names[1:]]
    return Topology(
        operators=(Operator(name=names[0], parallelism=tasks, rate=rates), *operators),
        edges=tuple(
            Edge(upstream=up, downstream=down, partitioning=Partitioning.ONE_TO_ONE)
            for up, down in pairwise(names)
        ),
    )


@pytest.mark.parametrize("grows", ["operators", "tasks", "budget", "chains"])
def test_growth_of_the_structure_aware_planner(benchmark: BenchmarkFixture, grows: str) -> None:
    """O(R N M^2 E): at most cubic in N (R and E grow with it), cubic in M, linear in R.

    Of separate chains a step changes one alone, so their number counts at most squared."""
    sizes = {
        "operators": [10, 20, 40],
        "tasks": [5, 10, 20, 40],
        "budget": [20, 40, 60, 80],
        "chains": [250, 500, 1000],
    }[grows]
    cases = []
    for size in sizes:
        if grows == "chains":
            cases.append((apart(size), size // 2))
            continue
        case = {
            "operators": (size, (10, 20)),
            "tasks": (12, (size, size)),
            "budget": (20, (10, 20)),
        }[grows]
        share = size / 100 if grows == "budget" else 0.8
        large = topology(*case)
        cases.append((large, int(share * large.total_cost)))

    def plan_all() -> list[float]:
        return [
            min(seconds(lambda: StructureAware().plan(case, budget)) for _ in range(3))  # noqa: B023
            for case, budget in cases
        ]

    pedantic: Any = benchmark.pedantic
    times = pedantic(plan_all, rounds=1)
    benchmark.extra_info["sizes"] = sizes
    benchmark.extra_info["processor_ms"] = [round(1000 * each, 2) for each in times]
    benchmark.extra_info["exponent"] = round(exponent(sizes, times), 2)
    benchmark.extra_info["bound"] = {"operators": 3, "tasks": 3, "budget": 1, "chains": 2}[grows]


def test_evaluating_one_plan(benchmark: BenchmarkFixture) -> None:
    large = topology()
    evaluator = Evaluator(large)
    alive = np.ones(large.task_count, dtype=bool)
    timed(benchmark, lambda: evaluator.value(alive))
