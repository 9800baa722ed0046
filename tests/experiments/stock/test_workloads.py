"""Claims, tables and figures of the experiments over all workloads, on runs made by hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from experiments.stock import input_rate, workload_kill
from experiments.stock._kills import tabulate
from experiments.stock._workloads import WORKLOADS
from harness.engines.base import NOT_SCORED, Scored
from harness.errors import UsageError
from harness.judging.loads import load_plan
from harness.judging.outcome import first_latencies_s, judge
from harness.judging.passes import PassRecord
from harness.results.record import Outcome, Point, Profile
from harness.stock_kills.measure import run_kill
from tests.experiments.stock import judging
from tests.judging.constructed import (
    LOAD_S,
    RATE,
    SCHEDULE,
    WORKLOAD,
    deliveries,
    injected,
    record,
    truth,
)
from workloads.base import Workload

STOPPED = record(
    deliveries({start: 15.0 - start for start in range(7, 14)}),
    failures=injected(),
    table=truth(),
)
WENT_ON = record(failures=injected(), table=truth())
GOOD: Mapping[tuple[str, str], PassRecord] = {
    (workload, scheme): STOPPED if scheme == "checkpoint" else WENT_ON
    for workload in workload_kill.SHOWN
    for scheme in ("checkpoint", "active")
}


ACCURATE = Scored(first=1.0, last=1.0)


def kills(
    passes: Mapping[tuple[str, str], PassRecord],
    directory: Path,
    *,
    accuracy: Scored = ACCURATE,
    success: Mapping[str, float] = {"checkpoint": 0.8, "active": 1.0},
) -> Mapping[str, pd.DataFrame]:
    """Return the tables. ``success`` is by scheme: the made-up passes of another query lack it."""
    outcomes: list[tuple[Point, Outcome]] = []
    for (workload, scheme), failed in passes.items():
        outcome = judge(
            record(name="twin"),
            failed,
            truth(),
            workload=WORKLOAD,
            schedule=SCHEDULE,
            settle_s=3,
            trigger_s=1,
            accuracy=accuracy,
        )
        counted = success[scheme] if workload == "accidents" else None
        values = {**outcome.values, "success_rate": counted}
        point: Point = {"workload": workload, "scheme": scheme, "interval_s": 1}
        outcomes.append((point, replace(outcome, values=values)))
    return tabulate(judging.results_of(outcomes, directory))


KILL = workload_kill.EXPERIMENT


def test_every_claim_about_kills_holds_where_it_should(tmp_path: Path) -> None:
    table = kills(GOOD, tmp_path)
    assert [*judging.held(KILL, table).values()] == [True] * 14


def test_claims_about_kills_fail_when_they_should(tmp_path: Path) -> None:
    wrong = deliveries().replace({"count": {107: 108}})
    missed = [replace(done, victims=[]) for done in injected()]
    bent = {
        **GOOD,
        ("traffic-jams", "checkpoint"): record(wrong, failures=injected()),
        ("accidents", "active"): replace(WENT_ON, injected=missed),
    }
    assert {"really-failed", "traffic-jams/equal"} <= judging.failing(KILL, kills(bent, tmp_path))


@pytest.mark.parametrize(
    "accuracy", [Scored(first=0.99, last=1.0), Scored(first=1.0, last=0.99), NOT_SCORED]
)
def test_accuracy_below_one_or_unscored_fails_its_claim(accuracy: Scored, tmp_path: Path) -> None:
    found = judging.failing(KILL, kills(GOOD, tmp_path, accuracy=accuracy))
    assert found == {f"{workload}/accurate" for workload in workload_kill.SHOWN}


@pytest.mark.parametrize(
    "table", [None, truth().drop(index=3), truth().replace({"count": {107: 108}})]
)
def test_another_table_than_the_truth_fails_its_claim(
    table: pd.DataFrame | None, tmp_path: Path
) -> None:
    bent = {**GOOD, ("accidents", "active"): replace(WENT_ON, table=table)}
    assert judging.failing(KILL, kills(bent, tmp_path)) == {"accidents/table"}


def test_fewer_successes_under_replication_fail_the_papers_claim(tmp_path: Path) -> None:
    fewer = kills(GOOD, tmp_path, success={"checkpoint": 0.9, "active": 0.9})
    assert judging.failing(KILL, fewer) == {"accidents/more-succeed"}


def test_what_was_not_run_is_not_judged(tmp_path: Path) -> None:
    """Leave a comparison open without a scheme.

    A workload without a run has no claims, as a profile may leave it out."""
    one = {key: value for key, value in GOOD.items() if key == ("world-cup", "checkpoint")}
    assert [*judging.held(KILL, kills(one, tmp_path)).values()] == [*[True] * 5, *[None] * 2]


# Rates


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


@pytest.mark.parametrize("name", WORKLOADS)
def test_every_workload_can_be_built_by_another_process(name: str) -> None:
    workload = WORKLOADS[name].make(7)
    assert workload.reference is not None
    again = workload.reference.build()
    assert isinstance(again, Workload)
    assert again.sources == workload.sources
    assert again.columns == workload.columns
    assert (again.window_s, again.slide_s) == (workload.window_s, workload.slide_s)


def test_a_bad_workload_file_is_refused_before_anything_starts(tmp_path: Path) -> None:
    class NoCluster:
        """A context whose cluster must not be asked for."""

        profile = Profile.SMOKE

        def __init__(self, text: str) -> None:
            file = tmp_path / f"own_{abs(hash(text))}.py"
            file.write_text(text)
            self.options = {"workload": str(file)}

        def cluster(self, spec: object) -> object:
            raise AssertionError("a cluster was started")

        def seed(self, *names: object) -> int:
            return 1

    point = {"scheme": "checkpoint", "interval_s": 1}
    with pytest.raises(UsageError, match="defines no WORKLOAD"):
        run_kill(point, NoCluster("x = 1\n"))  # type: ignore[arg-type]
