"""The recovery topology live and simulated: instants of kills, both measures, checkpoints."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import cast

import numpy as np
import pandas as pd
import pytest

from experiments.live._runs import nodes_cpu_s
from experiments.ppa import _topology, checkpoint_cost, partial_replication
from experiments.ppa import recovery_single as recovery
from experiments.ppa._live_recovery import CORRELATED, FAILURES, SINGLE
from experiments.ppa._recoveries import calibrated
from experiments.ppa._recovery import FIRSTS, level_of
from experiments.ppa._topology import SIMULATED, SPEC, Contender, Shape, Ways
from experiments.ppa.partial_replication import LIVE_EXPERIMENT
from experiments.ppa.recovery_single import SCALES
from harness.claims.samples import FEWEST
from harness.engines.tasks.choices import parameters_of
from harness.measurement import Context
from harness.protocol.schemes import make_scheme
from harness.results.record import Outcome, Point, Profile
from tests.experiments.smoke import SmokeContext, results_of


def test_a_repetition_has_phases_of_its_own() -> None:
    scale = SCALES[Profile.PAPER]
    one, other = (recovery.fail_at_s(10, scale, shift) for shift in (0.1, 0.6))
    for failure in FAILURES:
        for task in one[failure]:
            phases = [each[failure][task] / recovery.LONGEST_S % 1 for each in (one, other)]
            assert abs(phases[0] - phases[1]) > 0.1
        assert min(one[failure].values()) >= recovery.LONGEST_S


@pytest.mark.parametrize("window_s", [10.0, 30.0])
def test_kills_fall_when_windows_are_full(window_s: float) -> None:
    scale = SCALES[Profile.PAPER]
    at_s = recovery.fail_at_s(window_s, scale)
    singles = list(at_s[SINGLE].values())
    assert singles == sorted(singles)
    for number, seconds in enumerate(singles, start=1):
        assert seconds >= max(number * window_s, recovery.LONGEST_S)
        assert seconds / recovery.LONGEST_S % 1 == pytest.approx(recovery.PHASES[number - 1])
    assert len(at_s[CORRELATED]) == 15
    (together_s,) = set(at_s[CORRELATED].values())
    assert recovery.LONGEST_S <= together_s <= max(singles)
    assert together_s > max(singles) - recovery.LONGEST_S
    assert together_s / recovery.LONGEST_S % 1 == pytest.approx(recovery.LATE)


def test_what_dies_together_is_one_event() -> None:
    at_s = recovery.fail_at_s(10, SCALES[Profile.PAPER])
    single, together = (_topology.kills(at_s[failure]).events for failure in FAILURES)
    assert [event.target.count("+") for event in single] == [0] * 4
    assert [event.target.count("+") for event in together] == [14]


def test_primaries_fail_together_and_sources_stay() -> None:
    placement = _topology.placement()
    nodes = _topology.SPEC.node_names
    assert len(placement) == 31
    assert {nodes[node].partition("n")[0] for node in placement[16:]} == {"r1"}
    assert len(set(placement[16:])) == 15
    assert {nodes[node].partition("n")[0] for node in placement[:16]} == {"r2"}
    assert [level_of(task) for task in FIRSTS.values()] == ["O1", "O2", "O3", "O4"]


def test_latency_counts_from_the_detection_until_the_last_is_back() -> None:
    nodes = _topology.SPEC.node_names
    rows = [
        ("detected", 5.1, nodes[0], 1.0), ("detected", 5.3, nodes[1], 2.0),
        ("recovered", 5.9, nodes[0], 1.0), ("recovered", 5.6, nodes[1], 2.0),
        ("detected", 9.0, nodes[0], 3.0), ("recovered", 9.9, nodes[0], 3.0),
    ]  # fmt: skip
    incidents = pd.DataFrame(rows, columns=["event", "at_s", "target", "detected_unix_s"])
    found = _topology.ways(incidents, {16: 5.0, 17: 5.0})
    assert found.latency_s([16, 17]) == pytest.approx(0.6), "from the last one found"
    assert found.latency_s([17]) == pytest.approx(0.3)
    lost = _topology.ways(incidents[incidents["event"] == "detected"], {16: 5.0})
    assert lost.latency_s([16]) is None
    assert _topology.ways(incidents, {20: 5.0}).latency_s([20]) is None


def test_a_single_failure_is_the_mean_over_the_tasks_that_may_fail(tmp_path: Path) -> None:
    rows = [
        ("Storm", SINGLE, "O1", 1.0), ("Storm", SINGLE, "O2", 2.0), ("Storm", SINGLE, "O3", 3.0),
        ("Storm", SINGLE, "O4", 4.0), ("Storm", CORRELATED, "all", 5.0),
        ("CKP-5s", SINGLE, "O1", 1.0), ("CKP-5s", SINGLE, "O2", None),
    ]  # fmt: skip
    frame = pd.DataFrame(rows, columns=["contender", "failure", "place", "latency_s"])
    frame = frame.assign(outside_s=2 * frame["latency_s"])
    point: Point = {"engine": "live", "window_s": 10, "rate": 1_000, "faster": 10.0}
    made = point, Outcome(series={"latencies": frame})
    found = recovery.tabulate_live(results_of([made], tmp_path))["latencies"]
    mean = found.set_index(["contender", "failure"])["latency_s"]
    assert mean["Storm", SINGLE] == pytest.approx((8 * 1 + 4 * 2 + 2 * 3 + 1 * 4) / 15)
    assert mean["Storm", CORRELATED] == pytest.approx(5)
    assert pd.isna(mean["CKP-5s", SINGLE]), "one never came back"
    outside = found.set_index(["contender", "failure"])["outside_s"]
    assert outside["Storm", CORRELATED] == pytest.approx(10)


def test_storms_single_failures_are_far_apart() -> None:
    scale = SCALES[Profile.PAPER]
    point: Point = {"engine": _topology.PACED, "window_s": 10, "rate": 2_000}
    passes = list(recovery._passes(scale, point, 0.0))
    storm = [each for each in passes if each.contender == "Storm" and each.failure == SINGLE]
    assert len({each.name for each in passes}) == len(passes)
    assert sorted(task for each in storm for task in each.at_s) == list(FIRSTS.values())
    for each in storm:
        first, second = each.at_s.values()
        assert second - first > 29


def test_quick_decides_active_against_checkpoints_at_the_papers_times() -> None:
    scale = SCALES[Profile.QUICK]
    assert scale.faster == 1
    for point in recovery.LIVE_MEASUREMENT.grid[Profile.QUICK]:
        for shift in (0.0, 0.3, 0.99):
            passes = recovery.in_turns(list(recovery._passes(scale, point, shift)), 7)
            assert {each.failure for each in passes} == {CORRELATED}
            made = Counter(each.contender for each in passes)
            assert made == {"Active-5s": FEWEST, "CKP-30s": FEWEST, "Storm": 1}
            assert all(30 <= min(each.at_s.values()) < 60 for each in passes), "windows are full"
            assert [each.part for each in passes] == sorted(each.part for each in passes)
            kills_s = sorted(each.at_s[16] for each in passes if each.contender == "CKP-30s")
            assert np.diff(kills_s) == pytest.approx(recovery.LONGEST_S / FEWEST), "evenly spread"


def test_no_pass_is_judged_by_its_own_overhead() -> None:
    rows = pd.DataFrame(
        {
            "case": ["a"] * 4 + ["b"],
            "run": "one",
            "sample": [0, 1, 1, 2, 0],
            "latency_s": [1.5, 2.25, 2.75, 9.0, 4.0],
            "simulated_s": [1.0, 2.0, 2.0, 3.0, 1.0],
        }
    )
    found = calibrated(rows, ["case"])
    assert list(found["case"]) == ["a"] * 4, "of a single pass nothing is known from others"
    overhead_s = dict(zip(found["sample"], found["overhead_s"], strict=True))
    assert overhead_s == {0: (0.5 + 6.0) / 2, 1: (0.5 + 6.0) / 2, 2: 0.5}


def test_the_simulated_half_recovers() -> None:
    context = SmokeContext(recovery.LIVE_EXPERIMENT)
    point: Point = {"engine": _topology.SIMULATED, "window_s": 10, "rate": 1_000}
    found = recovery.run_live(point, cast(Context, context)).series["latencies"]
    by = found.set_index(["contender", "failure"])["latency_s"]
    assert (by["Active-5s"] < by["CKP-30s"]).all()


def test_a_delay_below_the_resolution_is_none_that_a_user_saw() -> None:
    row = {"planned_at_s": 5.0, "at_s": 5.0, "recovery_s": None, "recovery_at_least_s": None,
           "recovery_why_not": "later than the twin, but less than the resolution",
           "overlaps": False, "twin_recovery_s": None}  # fmt: skip
    (kill,) = _topology.kills_of(
        Outcome(series={"recoveries": pd.DataFrame([row])}), {16: 5.0}
    ).values()
    assert (kill.seen_s, kill.twin_recovery_s) == (0.0, None)
    assert kill.recovery_why_not is not None


def test_the_simulator_gets_the_instants_that_really_were() -> None:
    shape = _topology.Shape(window_s=10, rate=1_000, faster=10)
    contender, at_s = recovery.CONTENDERS["CKP-30s"], {16: 5.0, 17: 5.0}
    rows = [
        {"planned_at_s": planned_s, "at_s": real_s, "recovery_s": None, "recovery_at_least_s": 1.5,
         "recovery_why_not": "not caught up by the end of the load", "overlaps": False,
         "twin_recovery_s": 0.0}
        for planned_s, real_s in ((4.0, 4.0), (5.0, 5.08))
    ]  # fmt: skip
    found = Outcome(series={"recoveries": pd.DataFrame(rows)})
    kills = _topology.kills_of(found, at_s)
    assert {kill.at_s for kill in kills.values()} == {5.08}
    assert {kill.seen_s for kill in kills.values()} == {1.5}, "a lower bound is a value"
    late, planned = (
        shape.simulated(contender, instants, seed=1)
        for instants in ({task: kill.at_s for task, kill in kills.items()}, at_s)
    )
    assert {fault.at_us for fault in late.faults} == {5_080_000}
    simulated_s = [_topology.simulate(each).latency_s([16, 17]) for each in (late, planned)]
    assert simulated_s[0] != simulated_s[1], "the place between two checkpoints decides"


@pytest.mark.parametrize("interval_s", [5, 15, 30])
def test_the_kill_falls_late_in_an_interval_with_full_windows(interval_s: int) -> None:
    at_s = partial_replication.kill_at_s(interval_s)
    assert at_s >= partial_replication.FULL_S
    assert at_s / interval_s % 1 == pytest.approx(partial_replication.PHASE)
    other_s = partial_replication.kill_at_s(interval_s, shift=0.5)
    assert other_s / interval_s % 1 == pytest.approx((partial_replication.PHASE + 0.5) % 1)
    assert other_s >= partial_replication.FULL_S


def test_the_first_tentative_result_counts_from_the_detection() -> None:
    results = pd.DataFrame(
        {
            "pass": ["failed", "failed", "failed", "twin"],
            "stability": ["stable", "tentative", "tentative", "tentative"],
            "arrival_s": [1.0, 9.3, 9.1, 2.0],
        }
    )
    back = Ways(detected_s={16: 8.5, 17: 9.0}, restored_s={16: 10.0, 17: None})
    outcome = Outcome(series={"results": results})
    assert _topology.first_tentative_s(outcome, back) == pytest.approx(0.1)
    late = Ways(detected_s={16: 8.5, 17: 9.5}, restored_s={})
    assert _topology.first_tentative_s(outcome, late) == 0.0
    stable = Outcome(series={"results": results[results["stability"] == "stable"]})
    assert _topology.first_tentative_s(stable, back) is None


def test_the_simulated_half_runs() -> None:
    context = cast(Context, SmokeContext(LIVE_EXPERIMENT))
    (point, *_) = LIVE_EXPERIMENT.grid[Profile.SMOKE]
    assert point["engine"] == SIMULATED
    by = partial_replication.run_live(point, context).series["latencies"].set_index("series")
    assert by["latency_s"]["PPA-1.0"] < by["latency_s"]["PPA-0.5"]
    assert by["latency_s"]["PPA-0.5-active"] < by["latency_s"]["PPA-0.5"]


def test_only_the_nodes_of_synthetic_tasks_count_and_only_while_windows_are_full() -> None:
    source = SPEC.node_names[17]
    usage = pd.DataFrame(
        [
            {"pass": which, "who": who, "at_s": at_s, "cpu_s": factor * at_s}
            for which, factor in (("failed", 1.0), ("twin", 100.0))
            for who in (SPEC.node_names[0], SPEC.node_names[14], source)
            for at_s in (0.0, 4.0, 10.0)
        ]
    )
    found = nodes_cpu_s(usage, checkpoint_cost.hosts(), from_s=3.0, until_s=9.0)
    assert found == pytest.approx(2 * 6.0)


@pytest.mark.parametrize("profile", Profile)
def test_the_pass_without_checkpoints_takes_none_and_is_accepted(profile: Profile) -> None:
    faster = checkpoint_cost.FASTER[profile]
    shape = Shape(window_s=30, rate=1_000, faster=faster, speed=False)
    setup = shape.setup(Contender(scheme="checkpoint", checkpoint_s=checkpoint_cost.NEVER_S))
    make_scheme("checkpoint", shape.wiring(), checkpoint_every=round(checkpoint_cost.NEVER_S))
    load_s = (checkpoint_cost.FULL_S + checkpoint_cost.COUNTED_S) / faster
    assert parameters_of(setup).checkpoint_s > load_s


def test_checkpoints_within_the_counted_time() -> None:
    assert len(checkpoint_cost.checkpoints_of(1)) == 60
    assert len(checkpoint_cost.checkpoints_of(15)) == 4


def test_a_share_of_replicas_is_judged_by_all_tasks_and_not_by_tentative_output() -> None:
    samples = pd.DataFrame(
        [
            {"run": f"run {run}", "engine": _topology.PACED, "rate": 2_000, "interval_s": 15.0,
             "series": plan, "latency_s": latency_s, "outside_s": 1 / latency_s}
            for run in range(FEWEST)
            for plan, latency_s in (("PPA-1.0", 0.1), ("PPA-0.5", 1.0), ("PPA-0", 1.5))
        ]
    )  # fmt: skip
    found = partial_replication.in_order.decide({"samples": samples})
    assert found.held is True
    assert found.measured["seen_from_outside"]
