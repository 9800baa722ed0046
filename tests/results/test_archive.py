"""Results in one file: what was recorded can be read again, and nothing is listed that is gone."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner

from harness.cli.export import command
from harness.cli.main import cli
from harness.errors import UsageError
from harness.report import build, sides
from harness.results import load
from harness.results.archive import pack
from harness.results.store import RecordStore
from tests.running.test_execution import SMOKE, make
from tests.toys import toy


@pytest.fixture
def measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(build, "all_experiments", lambda: [toy()])
    make(RecordStore(tmp_path / "results"), toy(), settings=SMOKE)
    build.write_report(RecordStore(tmp_path / "results"))
    return tmp_path / "results"


def test_an_archive_holds_every_record_series_and_claim(measured: Path, tmp_path: Path) -> None:
    file = tmp_path / "all.zip"
    result = CliRunner().invoke(command, ["--raw", str(file), "--from", str(measured)])
    assert result.exit_code == 0, result.output
    assert result.output.startswith("6 records")
    there, packed = load(measured), load(file)
    pd.testing.assert_frame_equal(
        packed.runs.drop(columns="directory"), there.runs.drop(columns="directory")
    )
    pd.testing.assert_frame_equal(packed.series("noise"), there.series("noise"))
    pd.testing.assert_frame_equal(packed.claims, there.claims)
    assert len(packed.claims) > 0
    assert packed.series_names == ["noise"]
    before = file.read_bytes()
    pack(measured, file)
    assert file.read_bytes() == before, "equal results, equal bytes"


def test_a_series_that_is_gone_is_not_packed_and_not_listed(measured: Path, tmp_path: Path) -> None:
    for path in measured.rglob("noise.parquet"):
        path.unlink()
    assert load(measured).series_names == []
    with pytest.raises(UsageError, match="6 series are gone, the first one is noise of"):
        pack(measured, tmp_path / "all.zip")
    assert not (tmp_path / "all.zip").exists()


def test_a_report_shows_the_results_of_another_machine(measured: Path, tmp_path: Path) -> None:
    for place in measured.glob("records/*/*/*"):
        place.rename(place.parent / "another-machine")
    pack(measured, tmp_path / "all.zip")
    for source in (measured, tmp_path / "all.zip"):
        out = tmp_path / f"of-{source.name}"
        call = ["report", "--from", str(source), "--out", str(out), "--json"]
        result = CliRunner().invoke(cli, call)
        assert result.exit_code == 0, result.output
        assert {each["verdict"] for each in json.loads(result.stdout)["claims"]} != set()
        assert (out / "report" / "index.html").exists()
    refused = CliRunner().invoke(cli, ["report", "--out", str(measured)])
    assert isinstance(refused.exception, UsageError)
    assert "--from results/baselines" in refused.exception.remedy, "what ships is offered"


def test_an_archive_is_compared_like_a_directory(
    measured: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sides, "all_experiments", lambda: [toy()])
    file = tmp_path / "all.zip"
    pack(measured, file)
    result = CliRunner().invoke(cli, ["compare", str(measured), str(file), "--json"])
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert [each["results"] for each in document["sides"]] == [str(measured), str(file)]
    assert {each["id"] for each in document["claims"]} == {"rising", "positive"}


def test_what_is_no_archive_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "notes.zip"
    file.write_text("nothing")
    with pytest.raises(UsageError, match="not an archive of results"):
        load(file)
    with pytest.raises(UsageError, match="no records"):
        pack(tmp_path, tmp_path / "all.zip")
    for wrong in (["--raw", "x.tar"], ["--raw", "x.zip", "--experiment", "ppa"]):
        refused = CliRunner().invoke(command, wrong)
        assert isinstance(refused.exception, UsageError), wrong
