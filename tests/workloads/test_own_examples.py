"""docs/examples: every workload runs over a sample, and gives the right results."""

from __future__ import annotations

import json
import runpy
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from harness.engines.structured import frames, sample
from harness.engines.structured.local import sampled
from harness.errors import UsageError
from harness.measure.values import normalized, read_json, types_of
from harness.measure.versions import compare
from workloads.base import Reference, Source, Workload
from workloads.own import load_workload_file
from workloads.packages import places

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "docs/examples"
FILES = ("sessions", "conversions", "temperatures", "packaged", "visits", "late", "table")
WINDOW = "window_start"
SOURCE = Source(name="in", records=Reference(target=f"{__file__}:None", parameters={}))


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """Return an empty directory with the examples, and the recording of one."""
    for path in [*EXAMPLES.glob("*.py"), *EXAMPLES.glob("*/*.py")]:
        target = tmp_path / path.relative_to(EXAMPLES)
        target.parent.mkdir(exist_ok=True)
        shutil.copy(path, target)
    runpy.run_path(str(tmp_path / "make_temperatures.py"))
    return tmp_path


@pytest.mark.spark
def test_times_are_sent_with_all_of_their_digits(spark: SparkSession) -> None:
    seen, other = "2026-10-25 00:30:00.000007", "2026-10-25 00:30:00.000008"
    rows = [
        f"SELECT TIMESTAMP'2026-10-25 00:30:00' AS {WINDOW}, TIMESTAMP'{at}' AS at, "
        f"array(TIMESTAMP'{at}') AS all, TIMESTAMP_NTZ'{at}' AS plain"
        for at in (seen, other)
    ]
    workload = Workload(
        name="times", sources=[SOURCE], forms={"query": lambda *_: None}, identity=[WINDOW, "at"],
        values=["all", "plain"], window_start=WINDOW, window_s=4, watermark_delay_s=1,
    )  # fmt: skip
    result = spark.sql(" UNION ALL ".join(rows))
    sent = [row["value"] for row in frames.encode(result, workload, 0).collect()]
    one, two = (json.loads(value) for value in sent)
    assert one[WINDOW] == two[WINDOW] == 1_792_888_200_000
    assert [one[name] == two[name] for name in ("at", "all", "plain")] == [False] * 3
    truth = sample.results_of(result, workload)
    types = types_of(truth, workload.columns, {})
    came = normalized(read_json([value.encode() for value in sent], workload.columns), types)
    due = normalized(truth, types)
    assert compare(came, due, workload.identity, workload.values).equal
    swapped = came.assign(all=came["all"][::-1].to_list())
    assert not compare(swapped, due, workload.identity, ["all"]).equal


@pytest.mark.spark
@pytest.mark.parametrize("name", FILES)
def test_an_example_runs_over_a_sample(spark: SparkSession, here: Path, name: str) -> None:
    workload = load_workload_file(here / f"{name}.py")
    sampled_by = sampled(spark, workload)
    found = sampled_by.results
    assert (sampled_by.late > 0) == workload.late_data
    assert (sampled_by.no_real_time or "").endswith(NO_REAL_TIME.get(name, ""))
    assert (sampled_by.no_real_time is None) == (name not in NO_REAL_TIME)
    assert len(found) >= 6, "three windows or more"
    EXPECTED[name](found, workload)


NO_REAL_TIME = {
    "sessions": "session window streaming aggregations on streaming DataFrames/DataSets",
    "conversions": "not supported in Update output mode, only in Append output mode",
    "table": "its sink is written batch by batch",
    "visits": "real-time mode runs in the JVM alone",
}
"""The end of Spark's own reason against real-time mode."""


def _records(workload: Workload, source: int = 0) -> list[tuple[int, dict[str, object]]]:
    rows = sample.rows_of(workload.sources[source], workload)
    return [(row[4], json.loads(row[1])) for row in rows]


def _sessions(found: pd.DataFrame, workload: Workload) -> None:
    ends: dict[tuple[int, int], int] = {}
    for user in {int(str(record["user"])) for _, record in _records(workload)}:
        at = sorted(ms for ms, record in _records(workload) if record["user"] == user)
        groups = np.split(at, np.flatnonzero(np.diff(at) >= 2000) + 1)
        ends |= {(int(group[-1]) + 2000, user): len(group) for group in groups}
    delivered = dict(
        zip(zip(found["session_end"], found["user"], strict=True), found["clicks"], strict=True)
    )
    assert delivered == ends
    begins = found["session_start"].astype("int64") // 1000
    assert len(set(found["session_end"] - begins)) > 1, "lengths differ"


def _conversions(found: pd.DataFrame, workload: Workload) -> None:
    totals: list[dict[tuple[int, int], int]] = [{}, {}]
    for number, total in enumerate(totals):
        for ms, record in _records(workload, number):
            key = ms // 4000 * 4000, int(str(record["shop"]))
            total[key] = total.get(key, 0) + int(str(record["amount"]))
    ordered, paid = totals
    assert {(r.window_start, r.shop) for r in found.itertuples()} == ordered.keys() | paid.keys()
    for row in found.to_dict("records"):
        key = row["window_start"], row["shop"]
        assert row["ordered"] == ordered.get(key), key
        assert row["paid"] == paid.get(key), key
    assert found["ordered"].isna().any(), "an outer join"
    assert found["paid"].isna().any()


def _temperatures(found: pd.DataFrame, workload: Workload) -> None:
    readings = [record["celsius"] for _, record in _records(workload)]
    mean = float(np.average(found["mean"], weights=found["readings"]))
    assert mean == pytest.approx(np.mean(np.array(readings, dtype=float)))
    assert {str(day) for day in found["day"]} == {"2027-01-15"}


def _packaged(found: pd.DataFrame, workload: Workload) -> None:
    assert set(found["kind"]) == {"cheap", "dear"}


def _visits(found: pd.DataFrame, workload: Workload) -> None:
    assert found["clicks"].sum() == sample.RECORDS, "every click is in one visit"
    assert (found["visit_end"] - found["begins"] >= 4000).all()


def _late(found: pd.DataFrame, workload: Workload) -> None:
    assert set(found["site"]) == {"north", "south"}, "headers"
    assert {f"sensor-{n}" for n in range(20)} == set(found["sensor"]), "keys"
    assert found["readings"].sum() == sample.RECORDS


def _table(found: pd.DataFrame, workload: Workload) -> None:
    assert found["sales"].sum() == sample.RECORDS
    assert set(found["shop"]) == set(range(50))


EXPECTED = {
    "table": _table,
    "visits": _visits,
    "late": _late,
    "sessions": _sessions,
    "conversions": _conversions,
    "temperatures": _temperatures,
    "packaged": _packaged,
}


def test_a_package_is_found_beside_the_file(here: Path) -> None:
    workload = load_workload_file(here / "packaged.py")
    found = places(here / "packaged.py", workload.packages)
    assert [place.name for place in found] == ["shopjob"]
    with pytest.raises(UsageError, match="packages names 'shopjobb'"):
        places(here / "packaged.py", ["shopjobb"])
