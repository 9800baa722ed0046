"""Live tentative output: places, windows that count, plans, and nodes that come back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
import pytest

from experiments.live import _plans
from experiments.live._six_nodes import SPEC
from experiments.ppa import _highways, _live, drift, query_accuracy, recovery_accuracy
from experiments.ppa._live import HERE, KILL_AT_S, THERE
from experiments.ppa.query_fidelity import LIVE_EXPERIMENT as LIVE_FIDELITY
from experiments.ppa.recovery_accuracy import NODES, ORDERS, Arrivals
from harness.claims.samples import FEWEST
from harness.engines.tasks.choices import parameters_of
from harness.planning.planners import recovery_order
from harness.results.record import Outcome, Profile
from tests.experiments.judging import claim_of
from workloads.accident import FAR, two_highways


@pytest.mark.parametrize("name", _live.QUERIES)
def test_only_what_has_a_replica_finds_room_while_the_rack_is_away(name: str) -> None:
    chosen = _live.query(name, 1)
    tasks = _live.topology_of(chosen).task_count
    assert tasks == 25
    plan = list(range(0, tasks, 2))
    given = parameters_of(_live.setup(tasks, plan, 9.0))
    assert given.restart_s == pytest.approx(9.0 + _live.LATE_S), "what counts has come"
    slots = given.slots
    assert isinstance(slots, tuple)
    assert set(given.placement) == set(HERE)
    assert len(slots) == len(SPEC.node_names)
    assert sum(slots[node] for node in THERE) == len(plan)
    assert [slots[node] for node in HERE] == [tasks] * len(HERE), "the last to die takes all"


def outcome(begins: list[float], arrivals: list[float]) -> Outcome:
    windows = pd.DataFrame({"window_start_s": begins, "members": 10, "first": [10, 4, 6, 10]})
    results = pd.DataFrame({"pass": "failed", "window_start_s": begins, "arrival_s": arrivals})
    return Outcome(series={"accuracy": windows, "results": results})


def test_only_windows_within_the_failure_count() -> None:
    chosen = _live.query("Q1", 1)  # windows of 4 s, the rack away from 4 to 13 s
    found = outcome([3.0, 4.0, 9.0, 10.0], [7.1, 8.1, 13.1, 14.1])
    assert query_accuracy.measured_accuracy(found, chosen) == pytest.approx(0.5)
    outside = outcome([0.0, 1.0, 2.0, 3.0], [4.1, 5.1, 6.1, 7.1])
    assert query_accuracy.measured_accuracy(outside, chosen) is None


def test_what_came_when_the_rack_was_back_is_missing() -> None:
    chosen = _live.query("Q1", 1)
    late = outcome([3.0, 4.0, 9.0, 10.0], [7.1, 8.1, 14.0, 14.1])
    assert query_accuracy.measured_accuracy(late, chosen) == pytest.approx(0.2)


@pytest.mark.parametrize("name", _live.QUERIES)
def test_plans_fit_into_their_budget_and_differ(name: str) -> None:
    topology = _live.topology_of(_live.query(name, 1))
    plans = query_accuracy._plans(topology, Profile.QUICK)
    assert all(len(plan.tasks) <= 25 * ratio for (_, ratio), plan in plans.items())
    assert plans["greedy", 0.3].tasks != plans["sa", 0.3].tasks


def test_a_querys_accuracy_is_of_its_own_locations_while_the_rack_is_away() -> None:
    def row(
        which: str, start_s: float, location: int, cars: str, at_s: float, how: str
    ) -> dict[str, Any]:
        return {"pass": which, "window_start_s": start_s, "location": location, "car_ids": cars,
                "arrival_s": at_s, "stability": how}  # fmt: skip

    results = pd.DataFrame(
        [
            row("twin", 4.0, 7, "1 2 3 4", 5.1, "stable"),
            row("twin", 4.0, FAR + 7, "1 2", 5.1, "stable"),
            row("twin", 1.0, 7, "1 2", 2.1, "stable"),
            row("failed", 4.0, 7, "1 2 3", 5.2, "tentative"),
            row("failed", 4.0, FAR + 7, "1 2", 9.0, "stable"),
            row("failed", 1.0, 7, "1 2", 2.1, "stable"),
        ]
    )
    counted = _highways.reports(results, until_s=7.0)
    assert _highways.share(counted, 3.0, "north") == pytest.approx(0.75)
    assert _highways.share(counted, 3.0, "south") == 0.0
    assert _highways.share(counted, 0.0) == pytest.approx(5 / 8)
    assert _highways.share(counted, 5.0) is None


def test_the_last_change_before_the_kill_decides_the_fidelity() -> None:
    topology = _plans.topology_of(two_highways(share=drift.SHARE), 400.0)
    north = (0, 1, 4, 6)
    assert drift.fidelity(topology, north, pd.DataFrame()) == pytest.approx(0.25)
    changes = pd.DataFrame({"at_s": [6.0, 5.0], "value_after": [0.75, 0.5]})
    assert drift.fidelity(topology, north, changes) == pytest.approx(0.75)


ARRIVALS = Arrivals(steps=3, window_s=2.0, slide_s=1.0)


def test_nodes_come_back_in_groups() -> None:
    assert ARRIVALS.away_s == (2.5, 2.5, 7.5, 7.5, 12.5, 12.5)
    assert ARRIVALS.inside(0) == (KILL_AT_S, KILL_AT_S + 2.5)
    assert ARRIVALS.inside(1) == (KILL_AT_S + 4.0, KILL_AT_S + 7.5)
    assert ARRIVALS.inside(3)[1] == KILL_AT_S + ARRIVALS.over_s


@pytest.mark.parametrize("name", _live.QUERIES)
@pytest.mark.parametrize("steps", sorted(set(recovery_accuracy.STEPS.values())))
def test_a_window_fits_into_every_step_and_all_tasks_into_the_last(name: str, steps: int) -> None:
    chosen = recovery_accuracy.shortened(name, 1)
    workload = chosen.workload
    arrivals = Arrivals(steps=steps, window_s=workload.window_s, slide_s=workload.slide_s)
    for step in range(1, steps + 1):
        from_s, until_s = arrivals.inside(step)
        begins = [n * workload.slide_s for n in range(int(until_s))]
        assert any(from_s <= at_s <= until_s - workload.window_s for at_s in begins)
    topology = _live.topology_of(chosen)
    for who in ORDERS:
        order = list(recovery_order(who).order(topology))
        setup = recovery_accuracy.setup(topology.task_count, order, arrivals.away_s)
        given = parameters_of(setup)
        assert isinstance(given.slots, tuple)
        assert isinstance(given.restart_s, tuple)
        assert sum(given.slots) == topology.task_count
        assert len(given.restart_s) == NODES
        for node, away_s in enumerate(given.restart_s):
            step = node // (NODES // steps)
            back_s = _live.KILL_AT_S + away_s
            assert back_s >= arrivals.inside(step)[1] + _live.LATE_S, "it counts no more"
        shares = [
            recovery_accuracy.restored_fidelity(topology, order, step, steps)
            for step in range(steps + 1)
        ]
        assert shares[0] == 0
        assert shares[-1] == pytest.approx(1)


def test_what_comes_after_the_next_arrival_is_missing() -> None:
    windows = pd.DataFrame(
        {"window_start_s": [8.0, 9.0, 10.0, 11.0], "members": 10, "first": [9, 8, 6, 9]}
    )
    results = pd.DataFrame(
        {
            "pass": ["failed"] * 3 + ["twin"],
            "window_start_s": [9.0, 10.0, 10.0, 8.0],
            "arrival_s": [11.1, 12.2, 20.0, 10.0],
        }
    )
    seen = _live.on_time(windows, results)
    assert recovery_accuracy.accuracy(seen, ARRIVALS, 1) == pytest.approx(8 / 20)
    assert recovery_accuracy.accuracy(seen, ARRIVALS, 3) is None


def test_accuracy_is_close_to_of_while_a_part_of_the_tasks_is_back() -> None:
    curves = pd.DataFrame(
        [
            {"query": "Q1", "planner": who, "repeat": repeat, "arrived": arrived, "value": arrived,
             "measured": accuracy}
            for repeat in range(FEWEST)
            for who in ORDERS
            for arrived, accuracy in ((0.0, 0.0), (0.5, 0.75), (1.0, 1.0))
        ]
    )  # fmt: skip
    claim = claim_of(recovery_accuracy.LIVE_EXPERIMENT, "q1-close-to-of")
    found = claim.decide({"curves": curves})
    assert found.held is False, "0.25 apart, and 0.08 if the ends counted"


def plans(query: str, by: str, accuracies: Mapping[tuple[str, float], float]) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {"query": query, by: who, "ratio": ratio, "repeat": repeat, "value": ratio,
             "measured": accuracy, "computed": accuracy}
            for repeat in range(FEWEST)
            for (who, ratio), accuracy in accuracies.items()
        ]
    )  # fmt: skip


@pytest.mark.parametrize(("second", "held"), [(0.1, True), (0.05, True), (0.2, False)])
def test_an_accuracy_that_stays_does_not_rise_with_ic(second: float, held: bool) -> None:
    samples = plans("Q2", "objective", {("ic", 0.3): 0.1, ("ic", 0.6): second})
    decide = claim_of(query_accuracy.LIVE_EXPERIMENT, "q2-not-with-ic").decide
    assert decide({"samples": samples}).held is held
    assert decide({"samples": samples[samples["repeat"] < FEWEST - 1]}).held is None, "too few"


@pytest.mark.parametrize(("greedy", "held"), [(0.2, True), (0.5, False), (0.6, False)])
def test_greedy_is_worst_where_it_is_below_sa(greedy: float, held: bool) -> None:
    given = {("dp", 0.3): 0.55, ("sa", 0.3): 0.5, ("greedy", 0.3): greedy}
    samples = plans("Q1", "planner", given)
    worst, close = (claim_of(LIVE_FIDELITY, name) for name in ("greedy-worst", "sa-close-to-dp"))
    assert worst.decide({"samples": samples}).held is held
    assert close.decide({"samples": samples}).held is True
    assert worst.decide({"samples": samples[:0]}).held is None
