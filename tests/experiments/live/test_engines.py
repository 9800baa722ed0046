"""The figure of both engines, on passes made by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pandas as pd
import pytest

from experiments.live._engines_claims import curves_of
from experiments.live._judged import Tables
from experiments.live._kills import recoveries
from experiments.live._rates import REAL_TIME
from experiments.live.engines import EXPERIMENT, RATES
from harness.claims import Word
from harness.claims.samples import FEWEST
from harness.judging.outcome import wrong_results
from harness.results.record import Profile
from tests.experiments.judging import judged
from tests.judging.constructed import SCHEDULE, START, WORKLOAD, deliveries, injected, record, truth
from tests.there import there

KILL = injected(SCHEDULE)[:1]
KILLED_S = KILL[0].at_unix_s - START


def noticed(*rows: tuple[float, str, str]) -> pd.DataFrame:
    """Return incidents by milliseconds after the kill: (ms, event, target)."""
    return pd.DataFrame(
        [
            {
                "at_s": KILLED_S + ms / 1000,
                "event": event,
                "target": target,
                "cause": "replica",
                "tasks": "count.0",
                "detected_unix_s": 5.0 if target == "r1n1" else 6.0,
            }
            for ms, event, target in rows
        ]
    )


def kill(*rows: tuple[float, str, str]) -> dict[str, Any]:
    frame = recoveries(record(failures=KILL, incidents=noticed(*rows)))
    [row] = frame.to_dict("records")
    return {str(name): value for name, value in row.items()}


def test_a_kill_is_seen_and_restored() -> None:
    row = kill(
        (3, "failed", "r1n1"),
        (4, "detected", "r1n1"),
        (9, "detected", "r1n2"),
        (20, "recovered", "r1n1"),
        (30, "recovered", "r1n2"),
    )
    assert row["node"] == "r1n1"
    assert row["seen_ms"] == pytest.approx(3)
    assert row["takeover_ms"] == pytest.approx(16)
    assert row["restored_ms"] == pytest.approx(20)


def test_a_kill_that_was_noticed_before_its_instant_was_read() -> None:
    row = kill((-8, "failed", "r1n1"), (-7, "detected", "r1n1"), (12, "recovered", "r1n1"))
    assert row["seen_ms"] == pytest.approx(-8)
    assert row["restored_ms"] == pytest.approx(12)


def test_what_did_not_come_back_has_no_time() -> None:
    row = kill((3, "failed", "r1n1"), (4, "detected", "r1n1"))
    assert row["seen_ms"] == pytest.approx(3)
    assert row["takeover_ms"] is None
    assert row["restored_ms"] is None
    assert kill((9_000, "failed", "r1n1"))["seen_ms"] is None


def test_whatever_is_wrong_is_counted() -> None:
    found = deliveries().assign(stability="stable")
    assert not any(wrong_results(found, truth(), WORKLOAD).values())
    wrong = found["count"].where(found.index > 0, found["count"] + 1)
    changed = found.assign(count=wrong)
    assert wrong_results(changed, truth(), WORKLOAD)["contradictions"] == 1
    assert wrong_results(found.iloc[2:], truth(), WORKLOAD)["lost"] == 2
    twice = pd.concat([found, found.iloc[:3]])
    assert wrong_results(twice, truth(), WORKLOAD)["duplicated"] == 3
    tentative = found.assign(stability="tentative")
    assert wrong_results(tentative, truth(), WORKLOAD)["lost"] == len(truth())


def test_times_count_from_the_earlier_instant() -> None:
    [victim] = [
        replace(victim, began_unix_s=victim.at_unix_s - 0.008) for victim in KILL[0].victims
    ]
    done = [replace(KILL[0], victims=[victim])]
    seen = noticed((-2, "failed", "r1n1"), (-1, "detected", "r1n1"), (5, "recovered", "r1n1"))
    [row] = recoveries(record(failures=done, incidents=seen)).to_dict("records")
    assert row["seen_ms"] == pytest.approx(6, abs=0.01)
    assert row["restored_ms"] == pytest.approx(13, abs=0.01)
    assert row["signal_ms"] == pytest.approx(8, abs=0.01)


def rung(engine: str, rate_per_s: float, **changed: Any) -> dict[str, Any]:
    ours = engine == "tasks"
    row: dict[str, Any] = {
        "run": f"{engine} 0", "repeat": 0, "engine": engine, "workload": "word count",
        "settings": "" if ours else "tuned", "interval_s": 0.5 if ours else 0.1, "durable": True,
        "rate_per_s": rate_per_s, "held": True, "settled": True, "batches": 12,
        "records_per_core_s": 300_000.0 if ours else 20_000.0,
        "all_records_per_core_s": 90_000.0 if ours else 15_000.0,
        "latency_p50_s": 0.03 if ours else 0.7, "latency_p99_s": 1.0, "done_per_s": rate_per_s,
        "wrong": 0, "cpu_us_python": 3.0, "cpu_us_kafka": 2.0,
    }  # fmt: skip
    return {**row, **changed}


def tables(*rungs: dict[str, Any], each: int = 50) -> Tables:
    """Return the tables of six runs of these rungs, and of ``each`` kills of a scheme."""
    frame = pd.DataFrame(
        one | {"run": f"{one['run']} {number}"} for one in rungs for number in range(FEWEST)
    )
    kills = [
        {"part": "recovery", "engine": "tasks", "scheme": scheme, "seen_ms": 3.0,
         "takeover_ms": 5.0, "restored_ms": 20.0, "failures": 0, "how": how, "outside_ms": 600.0}
        for scheme, how in (("active", "replica"), ("checkpoint", "checkpoint"))
        for _ in range(each)
    ]  # fmt: skip
    return {"rungs": frame, "curves": curves_of(frame), "kills": pd.DataFrame(kills)}


LADDERS = [
    rung("tasks", 20_000.0), rung("tasks", 40_000.0), rung("tasks", 80_000.0, held=False),
    rung("structured", 20_000.0), rung("structured", 40_000.0, held=False),
    rung("tasks", 1_000.0, interval_s=0.1, latency_p99_s=0.3),
    rung("structured", 1_000.0, settings=REAL_TIME, latency_p50_s=0.05, batches=3),
    rung("structured", 5_000.0, settings=REAL_TIME, held=False),
]  # fmt: skip


def test_a_99th_percentile_needs_a_hundred_kills() -> None:
    few = judged(EXPERIMENT, tables(*LADDERS, each=6))
    assert few["seen-99th-percentile"].held is None
    assert "100 kills" in str(few["seen-99th-percentile"].why)
    assert few["seen-every"].held


def test_what_began_anew_was_not_restored_from_a_checkpoint() -> None:
    found = tables(*LADDERS)
    how = found["kills"]["how"].replace("checkpoint", "checkpoint, initial state")
    anew = {**found, "kills": found["kills"].assign(how=how)}
    assert judged(EXPERIMENT, found)["checkpoint-restored"].held
    assert judged(EXPERIMENT, anew)["checkpoint-restored"].held is None


def test_a_wrong_value_is_found_where_the_number_of_results_is_right() -> None:
    wrong = [LADDERS[0] | {"wrong": 1, "results": 10, "due": 10}, *LADDERS[1:]]
    assert judged(EXPERIMENT, tables(*wrong))["complete"].held is False
    cut_off = [LADDERS[0] | {"wrong": None}, *LADDERS[1:]]
    assert judged(EXPERIMENT, tables(*cut_off))["complete"].held is True


@pytest.mark.parametrize("why", [{"settled": False}, {"batches": 9}, {"held": False}])
def test_a_stock_engine_that_is_not_warm_is_not_compared(why: dict[str, Any]) -> None:
    """Its batches still become shorter, or ten of them were not waited for."""
    cold = [one | (why if one["engine"] == "structured" else {}) for one in LADDERS]
    verdict = judged(EXPERIMENT, tables(*cold))["word-count/same-rate"]
    assert verdict.held is None
    assert "no rate that both engines hold" in str(verdict.why)


def test_a_rate_counts_that_most_runs_hold() -> None:
    """All of its runs are samples, also those that did not hold it."""

    def with_failures(number: int) -> Tables:
        found = tables(*LADDERS)
        rungs = found["rungs"]
        noisy = rungs["engine"].eq("structured") & rungs["run"].str[-1].astype(int).lt(number)
        return {**found, "rungs": rungs.assign(held=rungs["held"] & ~noisy)}

    verdict = judged(EXPERIMENT, with_failures(2))["word-count/same-rate"]
    assert verdict.word is Word.HOLDS
    assert there(verdict.sample).n == 6
    assert judged(EXPERIMENT, with_failures(3))["word-count/same-rate"].held is None


def test_a_rate_that_only_some_runs_tried_is_not_compared() -> None:
    found = tables(*LADDERS, rung("tasks", 30_000.0))
    further = pd.DataFrame([rung("structured", 30_000.0) | {"run": "structured 0 0"}])
    rungs = pd.concat([found["rungs"], further])
    measured = judged(EXPERIMENT, {**found, "rungs": rungs})["word-count/same-rate"].measured
    assert measured["stock_rate_per_s"] == 20_000.0


def test_saturated_is_what_does_not_hold() -> None:
    endless = [one | {"held": True} for one in LADDERS]
    verdict = judged(EXPERIMENT, tables(*endless))["word-count/saturated"]
    assert verdict.held is None
    assert "highest rate of the ladder" in str(verdict.why)


def test_engines_take_turns_and_climb_the_same_rates() -> None:
    for profile in (Profile.QUICK, Profile.PAPER):
        grid = EXPERIMENT.measurement.grid[profile]
        ladders = [one for one in grid if one["part"] == "ladder" and one["interval_s"] != 1.0]
        assert EXPERIMENT.measurement.scheduling.keeps is None, "nothing groups an engine's runs"
        for workload in ("word count", "top 100"):
            mine = [one for one in ladders if one["workload"] == workload]
            full = {
                one["engine"]
                for one in mine
                if float(str(one["rate_per_s"])) >= max(RATES[profile])
            }
            assert full == {"tasks", "structured"}
    assert EXPERIMENT.measurement.repeats[Profile.PAPER] >= 5
