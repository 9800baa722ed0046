"""Anyone can open results: of many directories and machines, of older versions, broken ones."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner

from harness.cli.export import command
from harness.errors import UsageError
from harness.measure.metrics import label
from harness.pages.dictionary import EXAMPLES, columns, dictionary
from harness.results import load
from harness.results.library import TABLES
from harness.results.provenance import ROOT
from harness.results.record import SCHEMA_VERSION

TOY = "stock/toy"


def record_of(root: Path) -> Path:
    return next(root.glob("records/*/*/*/*/record.json"))


def test_every_run_is_a_row_and_every_quantity_is_one(measured: Path) -> None:
    results = load(measured)
    assert len(results.runs) == 6
    assert set(results.runs["status"]) == {"ok"}
    points = results.points
    assert set(points["kind"]) == {"parameter", "value"}
    squares = points.query("quantity == 'y'").set_index("run")["value"]
    sides = points.query("quantity == 'x'").set_index("run")["value"]
    assert (squares == sides**2).all()
    wide = results.wide(TOY)
    assert (wide["y"] == wide["x"] ** 2).all()
    assert list(results.series("noise")["run"]) == sorted(results.runs["run"])
    assert list(results.series_names) == ["noise"]


def test_two_machines_stand_side_by_side(measured: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(measured, other)
    (machine,) = (other / "records" / TOY).iterdir()
    machine.rename(machine.parent / "another-machine")
    both = load(measured, other)
    assert len(both.runs) == 12
    assert "another-machine" in set(both.runs["machine_name"])
    assert len(load(measured, measured).runs) == 6, "a run counts once"


def test_an_empty_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no records in"):
        load(tmp_path)


@pytest.mark.parametrize("name", ["run", "experiment", "values", "point", "series", "seconds"])
def test_a_record_with_a_null_field_is_left_out_with_a_word(measured: Path, name: str) -> None:
    path = record_of(measured)
    path.write_text(json.dumps({**json.loads(path.read_text()), name: None}))
    said: list[str] = []
    found = load(measured, warn=said.append)
    assert (len(found.runs), len(found.points.groupby("run"))) == (5, 5)
    assert f"got `null` - at `$.{name}`" in said[0]


def test_a_newer_record_is_refused_with_the_remedy(measured: Path) -> None:
    path = record_of(measured)
    path.write_text(json.dumps({**json.loads(path.read_text()), "schema": 99}))
    with pytest.raises(UsageError, match="schema 99; this program reads up to") as error:
        load(measured)
    assert "update this checkout" in error.value.remedy


def test_a_record_from_before_engines_were_named_is_read(measured: Path) -> None:
    path = record_of(measured)
    document = json.loads(path.read_text())
    assert document["schema"] == SCHEMA_VERSION
    for later in ("engine", "peak_memory_bytes", "disk_bytes", "setting"):
        del document[later]
    path.write_text(json.dumps({**document, "schema": 2}))
    runs = load(measured).runs
    assert len(runs) == 6
    assert set(runs["engine"]) == {""}
    kept = [each.record.peak_memory_bytes is not None for each in load(measured).found]
    assert kept.count(False) == 1, "nobody had measured what it needed"


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_export_writes_what_load_gives(measured: Path, tmp_path: Path, ending: str) -> None:
    file = tmp_path / f"points.{ending}"
    done = CliRunner().invoke(command, ["--from", str(measured), str(file)], catch_exceptions=False)
    assert done.exit_code == 0
    found = pd.read_parquet(file) if ending == "parquet" else pd.read_csv(file)
    assert len(found) == len(load(measured).points)
    assert list(found) == list(columns("points"))


def test_export_refuses_another_format(measured: Path) -> None:
    with pytest.raises(UsageError, match="the ending decides"):
        CliRunner().invoke(
            command, ["--from", str(measured), "points.xlsx"], catch_exceptions=False
        )


def test_the_dictionary_is_current() -> None:
    assert (ROOT / "docs" / "results.md").read_text() == dictionary(), (
        "renew it: ./faultline export --dictionary > docs/results.md"
    )


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("resolution_s", "resolution, s"),
        ("twin_latency_p99_s", "twin’s latency (99th percentile), s"),
        ("cpu_s", "CPU time, s"),
        ("mean_gain_percent", "mean gain, %"),
        ("expected_tuples_per_s", "expected tuples per s"),
        ("window_10_s", "window 10 s"),
        ("ms_per_ms", "ms per ms"),
        ("share_of_cases", "share of cases"),
        ("of", "OF"),
        ("checkpoint 2 s, repetition 0", "checkpoint 2 s, repetition 0"),
        ("SA", "SA"),
    ],
)
def test_a_measured_number_is_labelled_in_words(name: str, words: str) -> None:
    assert label(name) == words


def test_the_shipped_results_have_what_the_dictionary_says() -> None:
    results = load()
    assert len(results.runs)
    assert not results.claims.empty
    for name in TABLES:
        table = results.table(name)
        assert len(table), name
        assert set(table) <= set(columns(name)), name
    for example in EXAMPLES.values():
        assert eval(example, {"results": results}) is not None
