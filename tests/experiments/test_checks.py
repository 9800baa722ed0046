"""The rule of a claim matches its sentence, with numbers where earlier, weaker rules differed."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from experiments.dpc import availability_bound, chain_length
from experiments.ppa import plan_runtime, scale
from harness.pages.assessment import verdicts


def verdict(module: Any, table: pd.DataFrame, text: str) -> bool | None:
    (found,) = (each for each in verdicts(module.EXPERIMENT, table) if each.text.startswith(text))
    return found.held


@pytest.mark.parametrize(("largest_s", "held"), [(4.0, True), (11.9, True), (12.1, False)])
def test_no_longer_in_a_larger_cluster_is_one_sided(largest_s: float, held: bool) -> None:
    table = pd.DataFrame(
        {
            "nodes": [10, 100] * len(scale.PLANS),
            "plan": [plan for plan in scale.PLANS for _ in range(2)],
            "mean": [1.0, 1.0] * (len(scale.PLANS) - 1) + [10.0, largest_s],
        }
    )
    assert verdict(scale, table, "Recovering one rack takes no longer") is held


@pytest.mark.parametrize(("times", "held"), [(30.0, False), (99.0, False), (100.0, True)])
def test_two_orders_of_magnitude_are_a_factor_of_a_hundred(times: float, held: bool) -> None:
    planners = ["sa", "greedy", "dp", plan_runtime.PRINTED]
    small = pd.DataFrame({"part": "a", "x": 0.4, "planner": planners, "mean": [1, 1, times, 1.0]})
    large = pd.DataFrame({"part": "b", "x": [10, 20] * 2, "planner": ["sa"] * 2 + ["greedy"] * 2})
    table = pd.concat([small, large.assign(mean=1.0)], ignore_index=True)
    assert verdict(plan_runtime, table, "Our DP too takes up to two orders") is held


@pytest.mark.parametrize(("share", "held"), [(1.0, True), (0.5, False), (1.5, False)])
def test_proportionally_is_more_than_falling(share: float, held: bool) -> None:
    bounds = [1.0, 2.0, 3.0]
    per_s = availability_bound.AVAILABLE_PER_S
    fall = [share * per_s * (availability_bound.FAILURE_S - bound) for bound in bounds]
    table = pd.DataFrame(
        {
            "during_failure": ["delay"] * 3 + ["process"] * 3,
            "bound_s": bounds * 2,
            "delay_new_s": bounds * 2,
            "tentative": fall * 2,
            "expected": fall * 2,
        }
    )
    assert (
        verdict(availability_bound, table, "With Delay, N_tentative falls proportionally") is held
    )


@pytest.mark.parametrize(("share", "held"), [(1.0, True), (0.6, False)])
def test_delays_that_add_up_are_a_sum_and_not_only_more(share: float, held: bool) -> None:
    chains = pd.DataFrame({"chain": [1, 2, 3], "stabilizing_s": [2.0, 5.0, 9.0]})
    combinations = ["process & process", "delay & delay", "process & suspend"]
    table = pd.concat([chains.assign(combination=name) for name in combinations]).assign(
        delay_new_s=lambda t: t["chain"] * chain_length.BOUND_S,
        delay_after_heal_s=lambda t: t["stabilizing_s"] * share,
        last_stabilizing_s=lambda t: t["chain"] * 1.0 + 1.0,
        tentative=lambda t: t["chain"] * 100,
    )
    table = table.reset_index(drop=True)
    assert verdict(chain_length, table, "With Process & Suspend the delay is the sum") is held
