"""Kills are read from every series that holds some, and judged by the other runs alone."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pandas as pd
import pytest

from harness.advice.accuracy import markdown
from harness.advice.judged import judge, published
from harness.advice.live import COLUMNS, kills_of
from harness.advice.sums import known
from harness.intervals.recovery import RESTART, Origin
from harness.intervals.systems import SYSTEMS, Failure
from harness.measure.recovery import Unrecovered
from harness.results import load
from harness.results.library import Library
from harness.results.provenance import ROOT
from tests.advice.test_advice import JOB


def library(
    parameters: dict[str, dict[str, Any]], engines: dict[str, str], **series: pd.DataFrame
) -> Library:
    """Return as much of a library as the kills need, a run for each key of ``parameters``."""
    points = [
        {
            "run": run,
            "kind": "parameter",
            "quantity": name,
            "value": value if isinstance(value, float) else None,
            "text": value if isinstance(value, str) else None,
        }
        for run, values in parameters.items()
        for name, value in values.items()
    ]
    return cast(
        Library,
        SimpleNamespace(
            points=pd.DataFrame(points, columns=["run", "kind", "quantity", "value", "text"]),
            runs=pd.DataFrame({"run": list(engines), "engine": list(engines.values())}),
            series_names=sorted(series),
            series=series.__getitem__,
            recoveries=series.get("recoveries"),
        ),
    )


def recoveries(run: str, *seconds: float | None, **more: Any) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "run": run,
            "experiment": "stock/worker-kill",
            "status": "ok",
            "action": "kill",
            "recovery_s": list(seconds),
            "overlaps": False,
            "detection_s": 0.1,
            "variant": None,
            **more,
        }
    )


def test_a_kill_has_its_system_its_interval_and_its_recovery() -> None:
    found = kills_of(
        library(
            {"a": {"scheme": "checkpoint", "interval_s": 2.0}},
            {"a": "structured"},
            recoveries=recoveries("a", 9.0, 0.0, None),
        )
    )
    assert found.frame["system"].tolist() == ["spark", "spark"]
    assert found.frame["interval_s"].tolist() == [2.0, 2.0]
    assert found.frame["recovery_s"].tolist() == [9.0, 0.0]
    assert found.left_out == {"its recovery is not known": 1}


@pytest.mark.parametrize(
    ("parameters", "more", "reason"),
    [
        ({"scheme": "active", "interval_s": 2.0}, {}, "not under checkpoints alone"),
        ({"scheme": "checkpoint", "interval_s": 2.0}, {"status": "invalid"}, "valid run"),
        ({"scheme": "checkpoint", "interval_s": 2.0}, {"action": "pause"}, "not a kill"),
        ({"scheme": "checkpoint", "tuning": "tuned", "interval_s": 2.0}, {}, "own settings"),
        (
            {"scheme": "checkpoint", "tuning": "real-time, tuned", "interval_s": 2.0},
            {},
            "own settings",
        ),
        ({"scheme": "checkpoint"}, {"experiment": "stock/gone"}, "interval is not known"),
    ],
)
def test_what_the_sum_is_not_about_is_left_out(
    parameters: dict[str, Any], more: dict[str, Any], reason: str
) -> None:
    found = kills_of(
        library({"a": parameters}, {"a": "structured"}, recoveries=recoveries("a", 9.0, **more))
    )
    assert not len(found.frame)
    (said,) = found.left_out
    assert reason in said


CHECKPOINTED = {"scheme": "checkpoint", "interval_s": 2.0}


@pytest.mark.parametrize(
    ("more", "seen"),
    [
        ({"recovery_s": [None], "recovery_at_least_s": 18.4}, [(18.4, False)]),
        ({"outside_ms": [None], "outside_at_least_ms": 900.0}, [(0.9, False)]),
        ({"outage_s": [26.3, 6.4], "caught_up": [False, True]}, [(26.3, False), (6.4, True)]),
        ({"recovery_s": [None], "recovery_why_not": str(Unrecovered.UNRESOLVED)}, [(0.0, True)]),
        # The second came 2.25 s after the first, before output was calm: until then it is known.
        (
            {"recovery_s": [None, None], "recovery_at_least_s": [9.0, 6.75], "overlaps": True,
             "at_s": [13.0, 15.25]},
            [(2.25, False)],
        ),
        # A recovery that ended before the next failure is its own.
        (
            {"recovery_s": [2.0, 5.0, 1.0], "overlaps": True, "at_s": [10.0, 12.5, 16.5]},
            [(2.0, True), (4.0, False)],
        ),
    ],
    ids=["watched", "in ms", "of a peer", "below the resolution", "overlapping", "apart"],
)  # fmt: skip
def test_a_kill_that_was_not_over_is_known_to_have_lasted_so_long(
    more: dict[str, Any], seen: list[tuple[float, bool]]
) -> None:
    (count,) = {len(value) for value in more.values() if isinstance(value, list)}
    rows = recoveries("a", *[None] * count).assign(**more)
    found = kills_of(library({"a": CHECKPOINTED}, {"a": "structured"}, recoveries=rows))
    assert list(zip(found.frame["recovery_s"], found.frame["over"], strict=True)) == seen
    assert sum(found.left_out.values()) == count - len(seen)


def test_a_pass_names_its_interval() -> None:
    found = kills_of(
        library(
            {"a": {"engine": "live"}},
            {"a": "tasks"},
            recoveries=recoveries("a", 1.5, variant="CKP-30s-single-node-0"),
        )
    )
    assert found.frame[["system", "interval_s"]].to_numpy().tolist() == [["tasks", 30.0]]


def test_peers_are_read_from_their_outages() -> None:
    outages = pd.DataFrame(
        {"run": "a", "experiment": "live/peers", "status": "ok", "outage_s": [46.0, 47.0]}
    )
    parameters = {"engine": "kafka-streams", "tuning": "as it comes", "checkpoint_s": 30.0}
    found = kills_of(library({"a": parameters}, {"a": "kafka-streams"}, outages=outages))
    assert found.frame["system"].tolist() == ["kafka-streams"] * 2
    assert found.frame["recovery_s"].tolist() == [46.0, 47.0]


def kills(**runs: list[float]) -> pd.DataFrame:
    """Return kills by run; a negative number is one that was not over after so many seconds."""
    rows = [
        {
            "system": "spark", "experiment": "e", "run": run, "interval_s": 2.0,
            "recovery_s": abs(took), "over": took >= 0.0,
        }
        for run, recovery in runs.items()
        for took in recovery
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=list(COLUMNS))


def test_a_kill_is_predicted_from_other_runs_only() -> None:
    (judged,) = judge(kills(a=[10.0, 10.0, 10.0], b=[20.0, 22.0, 21.0])).values()
    predicted = judged.kills.groupby("run")["predicted_s"].unique().to_dict()
    assert predicted["a"].tolist() == [21.0]
    assert predicted["b"].tolist() == [10.0]
    assert judged.median_error == pytest.approx((1.1 + 11 / 21) / 2, abs=0.35)


def test_too_few_others_predict_nothing_and_a_kill_that_cost_nothing_has_no_error() -> None:
    (judged,) = judge(kills(a=[10.0, 11.0], b=[9.0])).values()
    assert judged.median_error is None
    (judged,) = judge(kills(a=[10.0, 11.0, 12.0], b=[0.0])).values()
    assert not len(judged.predicted)
    assert judged.error is None


def test_kills_that_were_not_over_count_in_predictions_and_in_errors() -> None:
    """Of a's kills two of four were over within 11 s, the others not within 30 s."""
    (judged,) = judge(kills(a=[10.0, 11.0, -30.0, -30.0], b=[25.0, -40.0, 10.5])).values()
    predicted = judged.kills.groupby("run")["predicted_s"].first()
    assert predicted["b"] == 20.5, "half were over by 11 s, so the median is 20.5 s at least"
    assert predicted["a"] == 25.0, "not 17.75, the median of those that came back"
    shown = judged.predicted.set_index(["run", "recovery_s"])["error"].sort_index()
    assert shown.loc["a", 30.0].tolist() == pytest.approx([5 / 30] * 2), "so much is missing"
    assert shown.loc["b", 10.5].tolist() == pytest.approx([10.0 / 10.5])
    assert judged.error is not None
    assert judged.error.not_over == 3


def test_the_start_of_a_task_is_no_shorter_than_what_was_not_over() -> None:
    job = JOB.__class__(rate_per_s=1.0, state_bytes=1.0, node_mttf_s=1e6, system="spark", nodes=1)
    whole, cut = (known(job, kills(a=list(seen)), []) for seen in ((8, 9, 10), (8, 9, 10, -30)))
    assert cut.restart[-1].span.mean_s > whole.restart[-1].span.mean_s + 3
    assert cut.restart[-1].span.worst_s > 25
    assert "4 kills in the records, 1 of them not over" in cut.restart[-1].why


def test_kills_on_real_servers_decide_the_start_of_a_task() -> None:
    job = JOB.__class__(rate_per_s=1.0, state_bytes=1.0, node_mttf_s=1e6, system="spark", nodes=1)
    spark = SYSTEMS["spark"]
    settings_s = spark.detect[Failure.PROCESS].mean_s + spark.wait.mean_s
    found = known(job, kills(a=[8.0, 9.0, 10.0]), [])
    start = found.restart[-1]
    assert start.origin is Origin.LIVE
    assert start.span.mean_s == pytest.approx(9.0 - settings_s)
    few = known(job, kills(a=[8.0]), []).restart[-1]
    assert few.origin is Origin.ASSUMED
    assert few.name == RESTART


def test_the_page_is_what_the_command_prints() -> None:
    """``./faultline advise --judge > docs/advice.md`` makes it again."""
    assert (ROOT / "docs" / "advice.md").read_text(encoding="utf-8") == markdown(load())


def test_the_page_shows_every_published_row_also_those_that_are_missed() -> None:
    table = published()
    text = markdown(load())
    assert len(table) == 6
    for ratio in table["ratio"]:
        assert f"| {ratio:.2f} |" in text
    assert table["ratio"].min() < 0.75, "Structured Streaming is missed, and shown"
