"""Live and simulated recovery: instants of kills, claims that can fail, the simulated half."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pandas as pd
import pytest

from experiments.live import _topology, recovery
from experiments.live._recovery_figure import CORRELATED, FAILURES, SINGLE
from experiments.live.recovery import EXPERIMENT, SCALES
from harness.claims import ClaimKind, Word
from harness.measurement import Context
from harness.results.record import Outcome, Point, Profile
from harness.results.tables import Results
from tests.experiments.live.judging import all_hold, failing, held, judged, passes
from tests.experiments.smoke import SmokeContext

LATENCY_S = {"Active-5s": 0.01, "CKP-5s": 0.2, "CKP-30s": 0.9, "Storm": 0.5}


SAMPLES = 6


def made_up(runs: int = SAMPLES) -> dict[str, pd.DataFrame]:
    """As a campaign of the quick profile has it: all grows with the rate, Storm with the window."""
    rows: list[dict[str, Any]] = []
    for point in EXPERIMENT.grid[Profile.QUICK]:
        for contender, seconds in LATENCY_S.items():
            rate = int(str(point["rate"])) / 1_000 if contender != "Active-5s" else 1
            window = int(str(point["window_s"])) / 10 if contender == "Storm" else 1
            for run in range(runs):
                latency_s = seconds * rate * window * (1 + 0.01 * run)
                rows += [
                    {**point, "run": f"{run}", "contender": contender, "failure": failure,
                     "place": "all", "faster": 10.0, "latency_s": latency_s,
                     "outside_s": latency_s + 0.2, "simulated_s": latency_s, "twin_s": 0.0}
                    for failure in FAILURES
                ]  # fmt: skip
    mine = [{"variant": name} for name in ("CKP-5s-single-node", "Storm-all-15-nodes")]
    both = passes(*mine, engine=_topology.PACED, window_s=10, rate=1_000, difference_from_twin="")
    samples = pd.DataFrame(rows)
    return {"samples": samples, "kills": samples.copy(), "passes": both}


def test_too_few_samples_decide_nothing() -> None:
    verdicts = judged(EXPERIMENT, made_up(runs=4))
    assert verdicts["active-much-faster"].word is Word.UNDECIDED
    assert "--repeats" in str(verdicts["active-much-faster"].why)
    assert verdicts["equal-output"].word is Word.HOLDS


def test_a_limit_inside_the_interval_decides_nothing() -> None:
    table = made_up()
    rows = table["samples"]
    mine = (rows["contender"] == "Active-5s") & (rows["engine"] == _topology.PACED)
    spread = rows.loc[mine, "run"].astype(int) % 2 * 90 + 1
    rows.loc[mine, "latency_s"] *= spread
    assert judged(EXPERIMENT, table)["active-much-faster"].word is Word.UNDECIDED


def test_both_measures_are_shown_with_intervals_and_numbers_of_samples() -> None:
    measured = judged(EXPERIMENT, made_up())["active-much-faster"].measured
    for shown in (measured["cells"], measured["seen_from_outside"]):
        value, low, high, n = next(iter(shown.values()))
        assert low <= value <= high
        assert n == SAMPLES


def test_a_measure_that_is_missing_leaves_the_other_one() -> None:
    table = made_up()
    table["samples"]["outside_s"] = None
    assert all_hold(EXPERIMENT, table)


def test_a_repetition_has_phases_of_its_own() -> None:
    scale = SCALES[Profile.QUICK]
    one, other = (recovery.fail_at_s(10, scale, shift) for shift in (0.1, 0.6))
    for failure in FAILURES:
        for task in one[failure]:
            phases = [each[failure][task] * 10 / recovery.LONGEST_S % 1 for each in (one, other)]
            assert abs(phases[0] - phases[1]) > 0.1
        assert min(one[failure].values()) * 10 >= recovery.LONGEST_S


def test_all_claims_hold_where_all_is_well() -> None:
    assert all_hold(EXPERIMENT, made_up())


def test_a_pass_that_lost_something_breaks_the_invariant() -> None:
    table = made_up()
    table["passes"].loc[1, "output_equals_twin"] = False
    assert failing(EXPERIMENT, table) == {"equal-output"}
    assert judged(EXPERIMENT, table)["equal-output"].kind is ClaimKind.INVARIANT


@pytest.mark.parametrize(
    ("contender", "factor", "claim"),
    [
        ("Active-5s", 90, "active-much-faster"),
        ("CKP-5s", 20, "longer-with-interval"),
        ("Storm", 20, "storm-faster-with-short-windows"),
        ("Storm", 20, "simulated-near-measured"),
    ],
)
def test_every_claim_can_fail(contender: str, factor: float, claim: str) -> None:
    table = made_up()
    for name in ("samples", "kills"):
        rows = table[name]
        changed = (rows["contender"] == contender) & (rows["engine"] == _topology.PACED)
        rows.loc[changed, "latency_s"] *= factor
    assert claim in failing(EXPERIMENT, table)


@pytest.mark.parametrize(
    ("failure", "factor", "claim"),
    [
        (FAILURES[0], 0.6, "in-proportion-to-rate"),
        (FAILURES[0], 1.6, "in-proportion-to-rate"),
        (FAILURES[1], 0.6, "grows-rapidly-with-rate"),
    ],
)
def test_proportion_is_asked_of_single_failures_and_rapid_growth_of_correlated_ones(
    failure: str, factor: float, claim: str
) -> None:
    table = made_up()
    rows = table["samples"]
    fast = (rows["failure"] == failure) & (rows["rate"] == 2_000) & (rows["contender"] == "CKP-5s")
    rows.loc[fast & (rows["engine"] == _topology.PACED), "latency_s"] *= factor
    assert {"in-proportion-to-rate", "grows-rapidly-with-rate"} & failing(EXPERIMENT, table) == {
        claim
    }


def test_without_live_runs_nothing_is_judged() -> None:
    table = made_up()
    only = {
        name: table[name][table[name]["engine"] == _topology.SIMULATED]
        for name in ("samples", "kills")
    }
    verdicts = held(EXPERIMENT, {**only, "passes": table["passes"][:0]})
    assert set(verdicts.values()) == {None}


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
    at_s = recovery.fail_at_s(10, SCALES[Profile.QUICK])
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
    assert [_topology.level_of(task) for task in _topology.one_of_each_level()] == [
        "O1", "O2", "O3", "O4",
    ]  # fmt: skip


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
    frame.to_parquet(tmp_path / "latencies.parquet")
    runs = pd.DataFrame(
        [{"engine": "live", "window_s": 10, "rate": 1_000, "faster": 10.0, "run": "one"}]
    )
    found = recovery.table(Results(runs, {"one": tmp_path}))["latencies"]
    mean = found.set_index(["contender", "failure"])["latency_s"]
    assert mean["Storm", SINGLE] == pytest.approx((8 * 1 + 4 * 2 + 2 * 3 + 1 * 4) / 15)
    assert mean["Storm", CORRELATED] == pytest.approx(5)
    assert pd.isna(mean["CKP-5s", SINGLE]), "one never came back"
    outside = found.set_index(["contender", "failure"])["outside_s"]
    assert outside["Storm", CORRELATED] == pytest.approx(10)


def test_storms_single_failures_are_far_apart() -> None:
    scale = SCALES[Profile.PAPER]
    point: Point = {"engine": _topology.PACED, "window_s": 10, "rate": 2_000}
    passes = list(recovery._passes(recovery.fail_at_s(10, scale), scale, point))
    storm = [each for each in passes if each.contender == "Storm" and each.failure == SINGLE]
    assert len({each.name for each in passes}) == len(passes)
    assert sorted(task for each in storm for task in each.at_s) == list(
        _topology.one_of_each_level()
    )
    for each in storm:
        first, second = each.at_s.values()
        assert second - first > 29


def test_what_a_profile_leaves_out_is_left_out_of_live_runs_alone() -> None:
    scale = SCALES[Profile.QUICK]

    def made(engine: str, window_s: int, rate: int = 2_000) -> set[tuple[str, str]]:
        point: Point = {"engine": engine, "window_s": window_s, "rate": rate}
        passes = recovery._passes(recovery.fail_at_s(window_s, scale), scale, point)
        return {(each.contender, each.failure) for each in passes}

    every = {(contender, failure) for contender in LATENCY_S for failure in FAILURES}
    assert made(_topology.SIMULATED, 30) == every
    assert made(_topology.PACED, 10) == every - {(name, SINGLE) for name in ("CKP-30s", "Storm")}
    assert made(_topology.SIMULATED, 10, 1_000) == every
    three = ("Active-5s", "CKP-5s", "Storm")
    assert made(_topology.PACED, 10, 1_000) == {(name, CORRELATED) for name in three}
    assert made(_topology.PACED, 30) == {("Storm", CORRELATED)}
    assert made(_topology.LIVE, 10) == {(name, CORRELATED) for name in three[:2]}


def test_the_simulated_half_recovers() -> None:
    context = SmokeContext(EXPERIMENT)
    point: Point = {"engine": _topology.SIMULATED, "window_s": 10, "rate": 1_000}
    found = recovery.run(point, cast(Context, context)).series["latencies"]
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
    back = _topology.counterpart(shape, contender, kills, seed=1).latency_s([16, 17])
    assert back == _topology.simulate(late).latency_s([16, 17])
    assert back != _topology.simulate(planned).latency_s([16, 17])
