"""The figure of both engines, on passes made by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pandas as pd
import pytest

from experiments.live._kills import compare, recoveries
from experiments.live.engines import EXPERIMENT
from harness.claims import Verdict
from tests.experiments.live.judging import failing, held, judged, panels
from tests.judging.constructed import SCHEDULE, START, WORKLOAD, deliveries, injected, record, truth

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


def test_equal_output_has_nothing_wrong() -> None:
    found = deliveries().assign(stability="stable")
    assert compare(found, truth(), WORKLOAD) == {"lost": 0, "duplicated": 0, "contradictions": 0}


def test_whatever_is_wrong_is_counted() -> None:
    found = deliveries().assign(stability="stable")
    wrong = found["count"].where(found.index > 0, found["count"] + 1)
    changed = found.assign(count=wrong)
    assert compare(changed, truth(), WORKLOAD)["contradictions"] == 1
    assert compare(found.iloc[2:], truth(), WORKLOAD)["lost"] == 2
    twice = pd.concat([found, found.iloc[:3]])
    assert compare(twice, truth(), WORKLOAD)["duplicated"] == 3
    tentative = found.assign(stability="tentative")
    assert compare(tentative, truth(), WORKLOAD)["lost"] == len(truth())


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


def table(
    *, ours: float, theirs: float, restored_ms: float, failures: int = 0, each: int = 50
) -> pd.DataFrame:
    """Return rows of rates, and ``each`` kills of a scheme."""
    rates: list[dict[str, Any]] = [
        {"part": part, "engine": name, "scheme": "checkpoint", "interval_s": 0.1,
         "workload": "word count", "rate_per_s": 5_000.0, "records_per_core_s": rate,
         "latency_p50_s": latency_s, "latency_early_s": latency_s, "latency_late_s": latency_s,
         "results": 10, "due": 10}
        for part in ("rate", "saturation")
        for name, rate, latency_s in (("tasks", ours, 0.03), ("structured", theirs, 0.7))
    ]  # fmt: skip
    kills: list[dict[str, Any]] = [
        {"part": "recovery", "engine": "tasks", "scheme": scheme, "seen_ms": 3.0,
         "takeover_ms": 5.0, "restored_ms": restored_ms, "failures": failures, "how": how}
        for scheme, how in (("active", "replica"), ("checkpoint", "checkpoint"))
        for _ in range(each)
    ]  # fmt: skip
    return pd.DataFrame(rates + kills)


def test_every_sentence_can_hold_and_can_fail() -> None:
    good = held(EXPERIMENT, table(ours=200_000, theirs=10_000, restored_ms=20))
    assert list(good.values()) == [True] * 11
    bad = table(ours=12_000, theirs=10_000, restored_ms=900, failures=2)
    assert failing(EXPERIMENT, bad) == {
        "word-count/efficiency", "word-count/saturated", "right-output", "replica-restored",
        "checkpoint-restored",
    }  # fmt: skip


def test_a_99th_percentile_needs_a_hundred_kills() -> None:
    few = judged(EXPERIMENT, table(ours=200_000, theirs=10_000, restored_ms=20, each=6))
    assert few["seen-99th-percentile"].held is None
    assert "100 kills" in str(few["seen-99th-percentile"].why)
    assert few["seen-every"].held


def test_what_began_anew_was_not_restored_from_a_checkpoint() -> None:
    kills = table(ours=200_000, theirs=10_000, restored_ms=20)
    anew = kills.assign(how=kills["how"].replace("checkpoint", "checkpoint, initial state"))
    assert judged(EXPERIMENT, kills)["checkpoint-restored"].held
    assert judged(EXPERIMENT, anew)["checkpoint-restored"].held is None


def test_engines_are_compared_where_both_keep_up() -> None:
    rates = table(ours=200_000, theirs=10_000, restored_ms=20).query("part == 'rate'")
    stock = rates["engine"] == "structured"

    def efficiency(rows: pd.DataFrame) -> Verdict:
        return judged(EXPERIMENT, rows)["word-count/efficiency"]

    behind = rates.assign(latency_late_s=rates["latency_late_s"].where(~stock, 4.0))
    latency = judged(EXPERIMENT, behind)["word-count/latency"]
    assert latency.held is None, "a backlog has no latency"
    assert "keeps up" in str(latency.why)
    assert efficiency(behind).held is None, "nor an efficiency"
    late = efficiency(rates.assign(latency_p50_s=rates["latency_p50_s"].where(~stock, 1.2)))
    assert late.held, "any latency is accepted"
    assert late.measured["stock_within_1_s"] is None
    slow = rates.assign(latency_p50_s=rates["latency_p50_s"].where(stock, 1.2))
    assert efficiency(slow).held is None, "but not of the task engine"
    faster = rates[~stock].assign(rate_per_s=50_000.0, records_per_core_s=400_000.0)
    found = efficiency(pd.concat([rates, faster])).measured
    assert found["times"] == pytest.approx(40)
    assert found["times_at_the_same_rate"] == pytest.approx(20)


def test_what_was_not_measured_is_not_judged() -> None:
    part = table(ours=1, theirs=1, restored_ms=1)
    assert len(held(EXPERIMENT, part[part["part"] == "recovery"])) == 7, "as in smoke"
    rates = part[(part["part"] == "rate") & (part["engine"] == "tasks")]
    verdicts = held(EXPERIMENT, rates.assign(seen_ms=None, takeover_ms=None, restored_ms=None))
    assert verdicts.pop("complete") is True
    assert set(verdicts.values()) == {None}


def test_the_figure_can_be_drawn() -> None:
    full = table(ours=200_000, theirs=10_000, restored_ms=20).assign(cpu_us_python=3.0)
    assert len(panels(EXPERIMENT, full)) == 4
    assert panels(EXPERIMENT, full[["part", "scheme", "restored_ms"]].query("part == 'recovery'"))
