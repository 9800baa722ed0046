"""Numbers of a run from passes made by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from harness.engines.deliveries import decode, relative_windows
from harness.engines.outcome import judge
from harness.engines.passes import PassRecord
from harness.failures.schedule import NO_FAILURES
from harness.results.record import Outcome
from tests.engines.constructed import (
    KILL_AT_S,
    LOAD_S,
    SCHEDULE,
    START,
    WORKLOAD,
    deliveries,
    injected,
    record,
    truth,
)

STOPPED = {start: 8.0 - (start - 7) for start in range(7, 14)}
"""Windows due from the kill on arrive together, seven seconds later."""


def judged(
    failed: PassRecord, twin: PassRecord | None = None, expected: pd.DataFrame | None = None
) -> Outcome:
    return judge(
        twin or record(name="twin"),
        failed,
        truth() if expected is None else expected,
        workload=WORKLOAD,
        schedule=SCHEDULE,
        trigger_s=1.0,
        settle_s=3.0,
    )


def values(frame: pd.DataFrame | None = None, **changes: Any) -> dict[str, Any]:
    return dict(judged(record(frame, failures=injected(), **changes)).values)


def one_more(frame: pd.DataFrame, row: int) -> pd.DataFrame:
    """The same results, but one of them has counted one word more."""
    return frame.assign(count=frame["count"] + (frame.index == row))


def test_a_run_without_any_effect() -> None:
    found = values()
    assert found["output_equals_truth"] is True
    assert found["output_equals_twin"] is True
    assert found["twin_equals_truth"] is True
    assert found["recovery_s"] == 0
    assert found["output_gap_s"] == 0
    assert found["latency_p50_s"] == pytest.approx(1.0)
    assert found["duplicates"] == 0
    assert found["accuracy_first"] == 1
    assert found["kills_done"] == found["kills_planned"] == 1
    assert found["processes_killed"] == 2
    assert found["killed_at_s"] == pytest.approx(KILL_AT_S + 0.1)


def test_output_that_stopped_and_came_back() -> None:
    found = values(deliveries(STOPPED))
    assert found["recovery_s"] == pytest.approx(7 + 3 + 8 - KILL_AT_S - 0.1)
    assert found["silence_s"] == pytest.approx(8.0)
    assert found["output_gap_s"] == pytest.approx(7.0)
    assert found["normal_latency_s"] == pytest.approx(1.25)
    assert found["output_equals_truth"]


def test_windows_that_only_the_marker_closes_have_no_latency() -> None:
    outcome = judged(record(deliveries({28: 90.0, 29: 90.0}), failures=injected()))
    assert outcome.values["latency_max_s"] == pytest.approx(1.0)
    assert outcome.values["output_equals_truth"]


def test_a_tampered_result_is_wrong_against_twin_and_truth() -> None:
    tampered = one_more(deliveries(), 40)
    found = values(tampered)
    assert found["output_equals_truth"] is False
    assert found["output_equals_twin"] is False
    assert found["twin_equals_truth"] is True
    assert "1 wrong" in found["difference_from_truth"]
    assert found["accuracy_first"] == pytest.approx(1 - 1 / len(truth()))


def test_a_tampered_twin_is_found_too() -> None:
    tampered = one_more(deliveries(), 40)
    found = judged(record(failures=injected()), record(tampered, name="twin")).values
    assert found["output_equals_truth"] is True
    assert found["output_equals_twin"] is False
    assert found["twin_equals_truth"] is False


def test_a_lost_result() -> None:
    found = values(deliveries().drop(index=50))
    assert found["output_equals_truth"] is False
    assert "1 missing" in found["difference_from_twin"]
    assert found["recovery_s"] is None


def test_a_result_too_many() -> None:
    more = pd.concat([deliveries(), deliveries().tail(1).assign(word="z")], ignore_index=True)
    assert values(more)["output_equals_truth"] is False


def test_copies_are_counted_and_the_first_one_is_taken() -> None:
    second = deliveries().assign(copy=1, arrival_s=lambda f: f["arrival_s"] + 20)
    found = values(pd.concat([deliveries(), second]).sort_values("arrival_s", ignore_index=True))
    assert found["duplicates"] == len(truth())
    assert found["output_equals_truth"] is True
    assert found["contradictions"] == 0
    assert found["latency_p99_s"] == pytest.approx(1.0)


def test_copies_that_contradict_each_other_are_a_violation() -> None:
    second = deliveries().assign(copy=1, arrival_s=lambda f: f["arrival_s"] + 1)
    second = one_more(second, 12)
    found = values(pd.concat([deliveries(), second]).sort_values("arrival_s", ignore_index=True))
    assert found["contradictions"] == 2
    assert found["accuracy_first"] == 1
    assert found["output_equals_truth"] is False


def test_an_injector_that_is_off_measures_no_recovery() -> None:
    found = judged(record(deliveries(STOPPED), failures=())).values
    assert found["kills_planned"] == 1
    assert found["kills_done"] == 0
    assert found["processes_killed"] == 0
    assert found["recovery_s"] is None
    assert found["output_gap_s"] is None
    assert found["kill_lateness_s"] is None


def test_a_kill_that_reached_nobody_is_not_done() -> None:
    missed = [replace(done, victims=[]) for done in injected()]
    found = judged(record(failures=missed)).values
    assert found["kills_done"] == 0
    assert found["nodes_killed"] == []


@pytest.mark.parametrize("name", ["twin", "failures"])
def test_dropped_rows_make_a_run_invalid(name: str) -> None:
    dropped = record(
        name=name, batches=pd.DataFrame({"at_s": [1.0], "dropped_rows": [3], "rows": [9]})
    )
    other = record(name="other")
    outcome = judged(dropped, other) if name == "failures" else judged(other, dropped)
    assert outcome.invalid is not None
    assert f"{name}: the watermark dropped 3 rows" in outcome.invalid


def test_a_load_that_fell_behind_makes_a_run_invalid() -> None:
    behind = record()
    behind = replace(behind, load=replace(behind.load, invalid="3 % were late"))
    assert judged(behind).invalid == "failures: 3 % were late"
    fewer = replace(behind, load=replace(behind.load, invalid=None, records=17))
    assert judged(fewer).invalid == "failures: 17 of 3000 records were sent"


def test_a_run_without_any_result_says_so(tmp_path: Path) -> None:
    nothing = decode([], WORKLOAD.columns).assign(arrival_s=[], copy=[])
    empty = relative_windows(nothing, WORKLOAD, START)
    outcome = judged(
        record(empty, failures=injected()), record(empty, name="twin"), truth().head(0)
    )
    assert outcome.invalid is not None
    assert "no result" in outcome.invalid
    assert outcome.values["results"] == 0
    assert outcome.values["output_equals_truth"] is False
    for name, series in outcome.series.items():
        series.to_parquet(tmp_path / f"{name}.parquet")


def test_valid_otherwise() -> None:
    assert judged(record(failures=injected())).invalid is None


def test_resources_are_what_the_pass_used() -> None:
    found = values()
    assert found["cpu_s"] == pytest.approx(6 + 3)
    assert found["resident_bytes"] == 190


def test_resources_without_a_counter_are_null() -> None:
    uncounted = record().usage.assign(cpu_s=float("nan"))
    assert values(usage=uncounted)["cpu_s"] is None


def test_a_twin_that_lost_results_defines_nothing_as_normal() -> None:
    twin = record(deliveries().drop(index=30), name="twin")
    found = judged(record(failures=injected()), twin).values
    assert found["normal_latency_s"] is None
    assert found["recovery_s"] is None
    assert found["twin_equals_truth"] is False


def test_series_are_there_for_figure_and_notebook() -> None:
    outcome = judged(record(deliveries(STOPPED), failures=injected()))
    timeline = outcome.series["timeline"]
    assert set(timeline["pass"]) == {"twin", "failed"}
    failed = timeline[timeline["pass"] == "failed"]
    assert failed["throughput_per_s"].sum() * 0.5 == len(truth())
    assert timeline["at_s"].max() >= LOAD_S
    assert outcome.series["failures"]["action"].tolist() == ["kill", "restart"]
    assert {"latency_s", "copy", "word"} <= set(outcome.series["results"].columns)


def test_a_twin_that_fell_behind_leaves_recovery_unmeasured() -> None:
    slow = dict.fromkeys(range(-1, 30), 6.0)
    twin = record(deliveries(slow), name="twin")
    found = judged(record(deliveries(slow), failures=injected()), twin).values
    assert found["twin_kept_up"] is False
    assert found["recovery_s"] is None
    assert found["output_gap_s"] is None
    assert found["output_equals_truth"] is True
    assert values()["twin_kept_up"] is True


def test_a_twin_of_itself() -> None:
    outcome = judge(
        record(name="twin"),
        record(),
        truth(),
        workload=WORKLOAD,
        schedule=NO_FAILURES,
        trigger_s=1.0,
        settle_s=3.0,
    )
    assert outcome.values["kills_planned"] == 0
    assert outcome.values["recovery_s"] is None
