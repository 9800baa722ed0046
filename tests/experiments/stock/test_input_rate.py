"""The rate that the stock engine sustains, on passes made by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from experiments.stock import input_rate
from harness.judging.loads import load_plan
from harness.judging.outcome import first_latencies_s
from harness.results.record import Outcome
from tests.judging.constructed import LOAD_S, RATE, WORKLOAD, record


def batches(share: float) -> pd.DataFrame:
    """Return a batch every two seconds, which processes a share of the records since the last."""
    at_s = np.arange(2.0, LOAD_S + 1, 2.0)
    rows = [round(share * 200)] * len(at_s)
    return pd.DataFrame({"at_s": at_s, "dropped_rows": 0, "rows": rows})


def test_a_rate_is_sustained_when_the_backlog_does_not_grow() -> None:
    in_time = record(batches=batches(1.0))
    row = input_rate.summarize(in_time, WORKLOAD, 100)
    assert row["sustained"]
    assert row["processed_per_s"] == pytest.approx(100)
    assert row["backlog_growth_per_s"] == pytest.approx(0, abs=0.1)
    assert row["latency_p50_s"] == pytest.approx(1.0)
    late_deliveries = in_time.deliveries.assign(arrival_s=lambda f: f["arrival_s"] + 7)
    for late in (
        record(batches=batches(0.85)),
        record(batches=batches(1.0).head(2)),
        replace(in_time, drained=False),
        replace(in_time, deliveries=late_deliveries),
    ):
        assert not input_rate.summarize(late, WORKLOAD, 100)["sustained"]


def test_two_thirds_of_a_rate_in_time_and_the_rest_after_the_load_do_not_sustain_it() -> None:
    rest = pd.DataFrame({"at_s": [LOAD_S + 5], "dropped_rows": [0], "rows": [RATE.records // 3]})
    caught_up = record(batches=pd.concat([batches(0.67), rest], ignore_index=True))
    row = input_rate.summarize(caught_up, WORKLOAD, 100)
    assert not row["sustained"]
    assert row["processed_per_s"] == pytest.approx(67, rel=0.01)


def test_markers_among_a_batch_s_rows_are_no_records_that_were_processed() -> None:
    """Send 10 a second in each of two partitions.

    Batches that take 80 of 100 records a second and all markers count 100 rows; the backlog grows
    all the same."""
    plan = load_plan(WORKLOAD, RATE, {"lines": "lines"}, marker_s=0.1)
    row = input_rate.summarize(record(batches=batches(1.0), plan=plan), WORKLOAD, 100)
    assert row["backlog_growth_per_s"] == pytest.approx(20, rel=0.02)
    assert not row["sustained"]


def test_only_windows_that_a_record_closed_count_for_latency() -> None:
    latency = first_latencies_s(record(), WORKLOAD, input_rate.SETTLE_S)
    # Windows of 2 s with a delay of 1 s: the last one is due just before 30 s.
    assert len(latency) == 3 * (30 - input_rate.SETTLE_S)
    assert latency.to_numpy() == pytest.approx(1.0)


def test_rates_climb_until_the_engine_or_the_generator_gives_up() -> None:
    def until(limit: float, invalid_from: float = 1e9) -> Outcome:
        return input_rate._climb(
            [1_000, 4_000, 16_000],
            lambda rate: {
                "offered_per_s": rate,
                "sustained": rate < limit,
                "invalid": "too late" if rate >= invalid_from else None,
            },
        )

    saturated = until(4_000)
    assert saturated.values == {"sustained_per_s": 2_000, "ended_by": "saturation"}
    assert saturated.series["rates"]["offered_per_s"].tolist() == [1_000, 4_000, 2_000]
    assert until(1_500).values["sustained_per_s"] == 1_000
    assert until(500).values["sustained_per_s"] is None
    assert until(1e9).values["ended_by"] == "the highest rate that was tried"
    late = until(1e9, invalid_from=16_000)
    assert late.values == {
        "sustained_per_s": 11_314,
        "ended_by": "the load generator, at 16000/s: too late",
    }
    assert late.invalid is None
    assert late.series["rates"]["offered_per_s"].tolist() == [1_000, 4_000, 8_000, 11_314]
    below = until(10_000, invalid_from=16_000)
    assert below.values == {"sustained_per_s": 8_000, "ended_by": "saturation"}
    assert until(1e9, invalid_from=1_000).invalid == "the load generator, at 1000/s: too late"
