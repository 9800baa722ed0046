"""Numbers of a run from passes made by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from harness.cluster.base import Action, Victim
from harness.engines.deliveries import relative_windows
from harness.failures.injector import InjectedFailure
from harness.failures.schedule import FailureEvent
from harness.judging.foreign import ForeignLoad, worst_of
from harness.judging.outcome import TWIN_BEHIND
from harness.judging.passes import PassRecord
from harness.measure.facts import FACTS
from harness.measure.metrics import METRICS, describe
from harness.measure.values import read_json
from harness.results.kills import OF_ONE_FAILURE, Kill, Unrecovered, frame_of
from harness.results.record import Outcome
from tests.judging.constructed import (
    KILL_AT_S,
    START,
    WORKLOAD,
    deliveries,
    injected,
    judged,
    record,
    truth,
)

STOPPED = {start: 8.0 - (start - 7) for start in range(7, 14)}
"""Windows due from the kill on arrive together, seven seconds later."""


def values(frame: pd.DataFrame | None = None, **changes: Any) -> dict[str, Any]:
    return dict(judged(record(frame, failures=injected(), **changes)).values)


def shows(found: Mapping[str, Any], **expected: Any) -> None:
    """Check these values; one that is True or False must be no number."""
    assert {name: found[name] for name in expected} == expected
    truths = {name for name, value in expected.items() if isinstance(value, bool)}
    assert all(isinstance(found[name], bool) for name in truths)


def one_more(frame: pd.DataFrame, row: int) -> pd.DataFrame:
    """Return the same results, but one of them has counted one word more."""
    return frame.assign(count=frame["count"] + (frame.index == row))


def done(at_s: float, action: str, target: str, *nodes: str) -> InjectedFailure:
    event = FailureEvent(at_s=at_s, action=Action(action), target=target)
    victims = [
        Victim(node=node, reached=True, processes=(7,), at_unix_s=START + at_s) for node in nodes
    ]
    return InjectedFailure(event=event, victims=victims, at_unix_s=START + at_s, lateness_s=0.0)


def test_a_run_without_any_effect() -> None:
    found = values()
    shows(found, output_equals_truth=True, output_equals_twin=True, twin_equals_truth=True)
    assert (found["recovery_s"], found["output_gap_s"]) == (0, 0)
    assert found["latency_p50_s"] == pytest.approx(1.0)
    assert (found["duplicates"], found["accuracy_first"]) == (0, 1)
    assert found["kills_done"] == found["kills_planned"] == 1
    assert found["twin_first"] is False, "both began at once"
    earlier = record(name="twin", start_unix_s=START - 60)
    assert judged(record(failures=injected()), earlier).values["twin_first"] is True
    shows(found, processes_killed=2, killed_at_s=pytest.approx(KILL_AT_S + 0.1))


def test_results_that_had_no_time_to_come_decide_nothing_and_wrong_ones_do() -> None:
    short = deliveries().iloc[:-3]
    late = values(short, drained=False)
    shows(late, output_equals_truth=None, output_equals_twin=None)
    assert values(short)["output_equals_truth"] is False, "there was time for them"
    assert values(short, drained=False, died="gone")["output_equals_truth"] is False
    assert values(short, drained=False, stalled=True)["output_equals_truth"] is False
    assert values(one_more(short, 9), drained=False)["output_equals_truth"] is False


def test_a_twin_that_had_no_time_to_deliver_everything_decides_nothing() -> None:
    short = record(deliveries().iloc[:-3], name="twin", drained=False)
    found = judged(record(failures=injected()), short).values
    shows(found, output_equals_truth=True, output_equals_twin=None, twin_equals_truth=None)
    assert found["incomplete"] == (
        "twin: the engine did not deliver everything in the time allowed"
    )
    wrong = record(one_more(short.deliveries, 9), name="twin", drained=False)
    found = judged(record(failures=injected()), wrong).values
    shows(found, twin_equals_truth=False, output_equals_twin=False)
    assert values()["incomplete"] is None


def test_a_twin_that_lost_results_does_not_make_the_output_unequal() -> None:
    twin = record(deliveries().drop(index=30), name="twin")
    found = judged(record(failures=injected()), twin).values
    shows(found, twin_equals_truth=False, output_equals_twin=None)
    assert found["incomplete"] == "the twin lost results"
    lost = judged(record(deliveries().drop(index=40), failures=injected()), twin).values
    assert lost["output_equals_twin"] is False


def averages(form: Callable[[Decimal], Any], name: str = "failures", **changes: Any) -> PassRecord:
    """Return a pass whose counts are decimals, in the form of a sink."""
    frame = deliveries()
    exact = [Decimal(count) / 7 for count in frame["count"]]
    six = [value.quantize(Decimal("0.000001")) for value in exact]
    return record(frame.assign(count=[form(value) for value in six]), name=name, **changes)


@pytest.mark.parametrize("form", [float, str, Decimal])
def test_decimals_are_compared_by_value_whatever_the_sink(form: Callable[[Decimal], Any]) -> None:
    exact: list[Any] = [(Decimal(n) / 7).quantize(Decimal("0.000001")) for n in truth()["count"]]
    due = truth().assign(count=exact)
    found = judged(averages(form, failures=injected()), averages(form, "twin"), due).values
    shows(found, output_equals_truth=True, output_equals_twin=True)

    def off(value: Decimal) -> Any:
        return form(value + Decimal("0.000001"))

    found = judged(averages(off, failures=injected()), averages(form, "twin"), due).values
    assert found["output_equals_truth"] is False, "within the tolerance of a double, yet exact"
    assert found["output_equals_twin"] is False


def test_a_failure_is_read_back_as_it_was_stored(tmp_path: Path) -> None:
    incidents = pd.DataFrame(
        {"at_s": [12.0, 15.0], "event": ["detected", "recovered"], "target": "r1n1", "cause": "x"}
    )
    endings: list[dict[str, Any]] = [
        {}, {"incidents": incidents}, {"died": "gone"}, {"clock_jump_s": 9.0}
    ]  # fmt: skip
    for number, changes in enumerate(endings):
        broken = record(deliveries(STOPPED), failures=injected(), **changes)
        outcome = judged(broken)
        path = tmp_path / f"{number}.parquet"
        outcome.series["recoveries"].to_parquet(path)
        (read,) = map(Kill.from_row, pd.read_parquet(path).to_dict("records"))
        assert (read.lateness_s, read.nodes) == (0.002, ("r1n1",))
        assert frame_of([read]).equals(outcome.series["recoveries"])
        assert {n: outcome.values[n] for n in OF_ONE_FAILURE} == read.outcome


def test_a_run_that_is_not_timed_keeps_no_time_that_cannot_be_trusted() -> None:
    late = replace(LOAD, lag={"p99_s": 3.0}, invalid="5% of the records are late")
    broken = record(failures=injected(), load=late)
    assert "late" in str(judged(broken, stationary=False).invalid), "whatever is compared"
    outcome = judged(broken, timed=False)
    assert outcome.invalid is None
    assert outcome.values["output_equals_truth"] is True
    assert "late" in outcome.values["mistimed"]
    for name in ("latency_p50_s", "throughput_per_s", "recovery_s", "output_gap_s", "silence_s"):
        assert outcome.values[name] is None, name
    assert outcome.values["recovery_why_not"] == Unrecovered.MISTIMED.value
    assert outcome.series["recoveries"]["recovery_s"].isna().all()


def test_every_value_is_a_metric_or_a_fact_and_each_of_these_is_given() -> None:
    conditions = {"foreign_share": 0.0, "steal_share": 0.0, "other_clusters": 0}
    for clock in ("broker", "clock"):
        conditions |= {f"{clock}_offset_s": 0.0, f"{clock}_bound_s": 0.001}
    machine = worst_of([ForeignLoad(foreign_share=0.0, steal_share=0.0).conditions()])
    twin = record(name="twin", conditions=conditions)
    run = judged(record(failures=injected(), conditions=conditions), twin)
    given = {*run.values, *machine}
    assert {"twin_foreign_share", "twin_other_clusters"} <= given
    facts = {name for name in given if describe(name) is None}
    assert {name.removeprefix("twin_") if name not in FACTS else name for name in facts} == set(
        FACTS
    )
    metrics = {found.name for name in given if (found := describe(name))}
    assert metrics == {metric.name for metric in METRICS}


def test_output_that_stopped_and_came_back() -> None:
    found = values(deliveries(STOPPED))
    assert found["recovery_s"] == pytest.approx(7 + 3 + 8 - KILL_AT_S - 0.1)
    shows(found, silence_s=pytest.approx(8.0), output_gap_s=pytest.approx(7.0))
    assert found["normal_latency_s"] == pytest.approx(2.0)
    assert found["output_equals_truth"]


def test_a_tampered_result_is_wrong_against_twin_and_truth() -> None:
    tampered = one_more(deliveries(), 40)
    found = values(tampered)
    shows(found, output_equals_truth=False, output_equals_twin=False, twin_equals_truth=True)
    assert "1 wrong" in found["difference_from_truth"]
    assert found["accuracy_first"] == pytest.approx(1 - 1 / len(truth()))


def test_an_injector_that_is_off_measures_no_recovery() -> None:
    found = judged(record(deliveries(STOPPED), failures=())).values
    assert (found["kills_planned"], found["kills_done"]) == (1, 0)
    shows(found, processes_killed=0, recovery_s=None, output_gap_s=None, kill_lateness_s=None)


def test_a_clock_that_is_known_too_badly_makes_times_null_and_no_run_invalid() -> None:
    outcome = judged(record(unclear_clock="the clock of r1n1 is vague", failures=injected()))
    assert (outcome.invalid, outcome.again) == (None, None)
    assert outcome.values["mistimed"] == "failures: the clock of r1n1 is vague"
    assert outcome.values["output_equals_truth"] is True
    assert outcome.values["latency_p50_s"] is None
    assert outcome.values["recovery_s"] is None
    assert judged(record(failures=injected())).values["latency_p50_s"] is not None


def test_a_run_without_any_result_says_so(tmp_path: Path) -> None:
    nothing = read_json([], WORKLOAD.columns).assign(arrival_s=[], copy=[])
    empty = relative_windows(nothing, WORKLOAD, START)
    outcome = judged(
        record(empty, failures=injected()), record(empty, name="twin"), truth().head(0)
    )
    assert outcome.invalid is not None
    assert "no result" in outcome.invalid
    shows(outcome.values, results=0, output_equals_truth=False)
    for name, series in outcome.series.items():
        series.to_parquet(tmp_path / f"{name}.parquet")


def test_a_sample_that_could_not_be_taken_is_left_out() -> None:
    """A driver's child that vanished once gave 0, and the whole lifetime counted as the pass."""
    usage = record().usage
    gap = usage.head(2).assign(at_s=usage["at_s"].min() - 1)
    gap.loc[gap["who"] == "drivers", ["cpu_s", "resident_bytes"]] = float("nan")
    found = values(usage=pd.concat([usage, gap]).sort_values("at_s", kind="stable"))
    shows(found, cpu_s=pytest.approx(6 + 3), resident_bytes=190)


def corrected(row: int) -> pd.DataFrame:
    """Return a result that was wrong at first and right later, stable both times."""
    wrong = one_more(deliveries(), row)
    right = deliveries().iloc[[row]].assign(copy=1)
    return pd.concat([wrong, right.assign(arrival_s=60.0)], ignore_index=True)


def test_a_first_version_that_was_wrong_is_not_repaired_by_a_later_one() -> None:
    found = values(corrected(40))
    shows(found, output_equals_truth=False, output_equals_twin=False, contradictions=2)
    assert found["accuracy_last"] == found["accuracy_first"] + 1 / len(truth())


def test_tentative_output_that_is_corrected_equals_the_twin() -> None:
    """Accuracy 1 is not an invariant under tentative output; equal stable output is."""
    tentative = one_more(deliveries(), 40).iloc[[40, 41]].assign(stability="tentative")
    stable = deliveries(STOPPED).assign(stability="stable")
    found = values(pd.concat([tentative, stable]).sort_values("arrival_s", ignore_index=True))
    shows(found, output_equals_truth=True, output_equals_twin=True, contradictions=0)
    shows(found, accuracy_first=pytest.approx(1 - 1 / len(truth())), accuracy_last=1)
    assert (found["tentative"], found["corrections"], found["uncorrected"]) == (2, 1, 0)


def test_output_that_stayed_tentative_does_not_equal_the_truth() -> None:
    tentative = deliveries().assign(stability="stable")
    tentative.loc[40, "stability"] = "tentative"
    found = values(tentative)
    assert found["output_equals_truth"] is False
    assert (found["accuracy_last"], found["uncorrected"]) == (1, 1)


def test_a_kill_that_reached_nobody_is_not_done() -> None:
    missed = [replace(done, victims=[]) for done in injected()]
    found = judged(record(failures=missed)).values
    assert (found["kills_done"], found["nodes_killed"]) == (0, [])


LOAD = record().load
DROPPING = pd.DataFrame({"at_s": [1.0], "dropped_rows": [3], "rows": [9]})


@pytest.mark.parametrize(
    ("twin", "failed", "why"),
    [
        ({"batches": DROPPING}, {}, "twin: the watermark dropped 3 rows"),
        ({}, {"batches": DROPPING}, None),
        ({}, {"clock_jump_s": 0.01}, None),
        ({}, {"clock_jump_s": -3.0}, "clock jumped by -3.000 s"),
        ({}, {"load": replace(LOAD, invalid="3 % were late")}, "failures: 3 % were late"),
        ({}, {"load": replace(LOAD, records=17)}, "failures: 17 of 3000 records were sent"),
    ],
    ids=[
        "the twin dropped rows",
        "rows dropped after a failure alone are a finding about the engine",
        "a clock that hardly moved",
        "a clock that jumped",
        "a load that fell behind",
        "a load that was not sent",
    ],
)
def test_a_pass_that_was_not_as_planned_makes_a_run_invalid(
    twin: dict[str, Any], failed: dict[str, Any], why: str | None
) -> None:
    found = judged(record(failures=injected(), **failed), record(name="twin", **twin))
    assert (found.invalid is None) if why is None else (why in str(found.invalid))
    dropped = (found.values["dropped_rows"], found.values["twin_dropped_rows"])
    assert dropped == (3 if "batches" in failed else 0, 3 if "batches" in twin else 0)


def test_a_kill_that_came_late_makes_a_run_invalid() -> None:
    """At a checkpoint each second, 0.05 s are allowed."""

    def late(seconds: float, **changes: Any) -> Outcome:
        kill, restart = injected()
        return judged(record(failures=[replace(kill, lateness_s=seconds), restart]), **changes)

    assert late(0.05).invalid is None
    outcome = late(0.2)
    assert "the kill came 0.200 s late" in str(outcome.invalid)
    assert (outcome.values["kill_lateness_s"], outcome.values["punctual_s"]) == (0.2, 0.05)
    assert late(0.2, timed=False).invalid is None
    assert late(0.2, punctual_s=0.3).invalid is None
    assert late(0.02, trigger_s=0.1).invalid is None, "0.02 s are always allowed"


def test_the_latest_kill_decides() -> None:
    punctual, late = (done(at_s, "kill", "r1n1", "r1n1") for at_s in (7.0, 12.0))
    both = [punctual, replace(late, lateness_s=0.3)]
    assert "at 12 s" in str(judged(record(failures=both)).invalid)


def test_a_run_whose_twin_fell_behind_has_no_recovery_and_is_made_again_where_times_count() -> None:
    """It is valid: equality holds, but it answers less than the question."""
    failed, usual = record(failures=injected()), judged(record(failures=injected()))
    twin = record(deliveries(dict.fromkeys(range(-1, 30), 6.0)), name="twin")
    behind = judged(failed, twin)
    assert (behind.invalid, behind.again) == (None, TWIN_BEHIND)
    shows(behind.values, twin_kept_up=False, recovery_s=None, output_gap_s=None)
    assert behind.values["output_equals_truth"] is True
    assert judged(failed, twin, timed=False).again is None
    assert judged(failed, twin, stationary=False).again is None
    assert (usual.again, usual.values["twin_kept_up"]) == (None, True)


@pytest.mark.parametrize(
    ("seen", "grown"),
    [([31.0, 2.0, 31.5], 0.5), ([31.0, 30.99, 30.99], 0.0), ([1.0, 4.0, 0.5], 3.5)],
    ids=["it comes back", "it hardly fell", "it begins anew"],
)
def test_a_counter_that_falls_has_begun_anew_only_if_it_stays_low(
    seen: list[float], grown: float
) -> None:
    """One read while a process ended once counted whole lifetimes: 1.8 cores in place of 0.3."""
    usage = pd.DataFrame(
        {"at_s": range(len(seen)), "who": "r1n1", "cpu_s": seen, "resident_bytes": 1}
    )
    assert values(usage=usage)["cpu_s"] == pytest.approx(grown)
