"""Kills are read from every series that holds some, and judged by the other runs alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from harness.advice.accuracy import markdown
from harness.advice.judged import judge
from harness.advice.live import COLUMNS, kills_of
from harness.advice.sums import known
from harness.results import load
from harness.results.kills import Unrecovered
from harness.results.provenance import ROOT
from harness.results.record import Record
from harness.results.setting import Setting
from harness.results.store import StoredRecord
from tests.advice.test_advice import JOB


def run_of(
    folder: Path,
    point: Mapping[str, Any],
    engine: str = "structured",
    *,
    experiment: str = "stock/worker-kill",
    status: str = "ok",
    setting: Setting | None = None,
    **series: pd.DataFrame,
) -> list[StoredRecord]:
    """Return a recorded run with these series."""
    for name, frame in series.items():
        frame.to_parquet(folder / f"{name}.parquet")
    record = Record(
        run="a", experiment=experiment, profile="quick", point=point, repeat=0, repeats=1,
        root_seed=1, options={}, code="", commit="", machine={}, engine=engine, versions={},
        started_unix_s=0.0, seconds=1.0, status=status, series=sorted(series),
        setting={} if setting is None else setting.row(),
    )  # fmt: skip
    return [StoredRecord(record, folder, folder)]


def recoveries(*seconds: float | None, **more: Any) -> pd.DataFrame:
    columns = {"action": "kill", "at_s": 1.0, "overlaps": False, "detection_s": 0.1, "target": "n"}
    return pd.DataFrame({"recovery_s": list(seconds), **columns, **more})


CHECKPOINTED = {"scheme": "checkpoint", "interval_s": 2.0}


def test_a_kill_has_its_system_its_interval_and_its_recovery(tmp_path: Path) -> None:
    found = kills_of(run_of(tmp_path, CHECKPOINTED, recoveries=recoveries(9.0, 0.0, None)))
    assert found.frame["system"].tolist() == ["spark", "spark"]
    assert found.frame["interval_s"].tolist() == [2.0, 2.0]
    assert found.frame["outage_s"].tolist() == [9.0, 0.0]
    assert found.left_out == {"its recovery is not known": 1}


def test_of_one_system_no_other_engines_series_are_read(tmp_path: Path) -> None:
    runs = run_of(tmp_path, CHECKPOINTED, "tasks", recoveries=recoveries(9.0))
    (tmp_path / "recoveries.parquet").write_text("spoilt")
    assert not len(kills_of(runs, "spark").frame)
    with pytest.raises(ValueError, match="Parquet"):
        kills_of(runs, "tasks")


def test_a_record_that_says_its_setting_is_believed(tmp_path: Path) -> None:
    setting = Setting(engine="flink", scheme="checkpoint", interval_s=7.0, settings="as it comes")
    point = {"scheme": "active", "interval_s": 2.0, "tuning": "tuned"}
    found = kills_of(run_of(tmp_path, point, setting=setting, recoveries=recoveries(9.0)))
    assert found.frame[["system", "interval_s"]].to_numpy().tolist() == [["flink-2", 7.0]]
    own = recoveries(9.0, scheme="active")
    assert not len(kills_of(run_of(tmp_path, point, setting=setting, recoveries=own)).frame)


@pytest.mark.parametrize(
    ("point", "more", "reason"),
    [
        ({"scheme": "active", "interval_s": 2.0}, {}, "not under checkpoints alone"),
        (CHECKPOINTED, {"status": "invalid"}, "valid run"),
        (CHECKPOINTED, {"recoveries": recoveries(9.0, action="pause")}, "not a kill"),
        ({**CHECKPOINTED, "tuning": "tuned"}, {}, "own settings"),
        ({**CHECKPOINTED, "tuning": "real-time, tuned"}, {}, "own settings"),
        ({"scheme": "checkpoint"}, {"experiment": "stock/gone"}, "not under checkpoints alone"),
    ],
)
def test_what_the_sum_is_not_about_is_left_out(
    tmp_path: Path, point: dict[str, Any], more: dict[str, Any], reason: str
) -> None:
    found = kills_of(run_of(tmp_path, point, **{"recoveries": recoveries(9.0), **more}))
    assert not len(found.frame)
    (said,) = found.left_out
    assert reason in said


@pytest.mark.parametrize(
    ("series", "more", "seen"),
    [
        ("recoveries", {"recovery_s": [None], "recovery_at_least_s": 18.4}, [(18.4, False)]),
        ("kills", {"outside_ms": [None], "outside_at_least_ms": 900.0}, [(0.9, False)]),
        (
            "outages",
            {"outage_s": [26.3, 6.4], "caught_up": [False, True], "kill": "worker"},
            [(26.3, False), (6.4, True)],
        ),
        (
            "recoveries",
            {"recovery_s": [None], "recovery_why_not": str(Unrecovered.UNRESOLVED)},
            [(0.0, True)],
        ),
        # The second came 2.25 s after the first, before output was calm: until then it is known.
        (
            "recoveries",
            {"recovery_s": [None, None], "recovery_at_least_s": [9.0, 6.75], "overlaps": True,
             "at_s": [13.0, 15.25]},
            [(2.25, False)],
        ),
        # A recovery that ended before the next failure is its own.
        (
            "recoveries",
            {"recovery_s": [2.0, 5.0, 1.0], "overlaps": True, "at_s": [10.0, 12.5, 16.5]},
            [(2.0, True), (4.0, False)],
        ),
    ],
    ids=["watched", "in ms", "of a peer", "below the resolution", "overlapping", "apart"],
)  # fmt: skip
def test_a_kill_that_was_not_over_is_known_to_have_lasted_so_long(
    tmp_path: Path, series: str, more: dict[str, Any], seen: list[tuple[float, bool]]
) -> None:
    (count,) = {len(value) for value in more.values() if isinstance(value, list)}
    rows = recoveries(*[None] * count).assign(**more)
    if series != "recoveries":
        rows = rows.drop(columns="recovery_s")
    kept: dict[str, Any] = {series: rows}
    found = kills_of(run_of(tmp_path, CHECKPOINTED, **kept))
    assert list(zip(found.frame["outage_s"], found.frame["over"], strict=True)) == seen
    assert sum(found.left_out.values()) == count - len(seen)


def kills(**runs: list[float]) -> pd.DataFrame:
    """Return kills by run; a negative number is one that was not over after so many seconds."""
    rows = [
        {
            "system": "spark", "experiment": "e", "run": run, "interval_s": 2.0,
            "outage_s": abs(took), "over": took >= 0.0,
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


def test_kills_that_were_not_over_count_in_predictions_and_in_errors() -> None:
    """Of a's kills two of four were over within 11 s, the others not within 30 s."""
    (judged,) = judge(kills(a=[10.0, 11.0, -30.0, -30.0], b=[25.0, -40.0, 10.5])).values()
    predicted = judged.kills.groupby("run")["predicted_s"].first()
    assert predicted["b"] == 20.5, "half were over by 11 s, so the median is 20.5 s at least"
    assert predicted["a"] == 25.0, "not 17.75, the median of those that came back"
    shown = judged.predicted.set_index(["run", "outage_s"])["error"].sort_index()
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


def test_the_page_is_what_the_command_prints() -> None:
    """``./faultline advise --judge > docs/advice.md`` makes it again."""
    assert (ROOT / "docs" / "advice.md").read_text(encoding="utf-8") == markdown(load())
