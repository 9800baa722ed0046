"""Results in one file: what was recorded can be read again, and nothing is listed that is gone."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner

from harness.cli import site
from harness.cli.export import command
from harness.cli.main import cli
from harness.errors import UsageError
from harness.results import archive, library, load
from harness.results.archive import CLAIMS, PACKED, pack, readable
from harness.results.library import SHIPPED
from harness.results.store import RecordStore


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


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the place of unpacked results in an empty cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    archive._unpacked.cache_clear()
    return tmp_path / "cache" / "faultline" / "results"


@pytest.fixture
def shipped(measured: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: Path) -> Path:
    """Return a directory into which a set was put by the command."""
    place = tmp_path / "shipped"
    (place / "records" / "of" / "an" / "older-set").mkdir(parents=True)
    (place / "report").mkdir()
    monkeypatch.setattr(library, "SHIPPED", place)
    site._ship(measured, lambda text: None)
    return place


def test_a_set_is_put_in_the_place_of_the_shipped_one(measured: Path, shipped: Path) -> None:
    files = {path.relative_to(shipped).as_posix() for path in shipped.rglob("*") if path.is_file()}
    assert files == {PACKED, CLAIMS}, "a handful, and nothing of the older set"
    there, packed = load(measured), load()
    assert list(packed.runs["run"]) == list(there.runs["run"])
    pd.testing.assert_frame_equal(packed.claims, there.claims)
    pd.testing.assert_frame_equal(packed.series("noise"), there.series("noise"))
    assert RecordStore(shipped).read("stock/toy", there.runs["machine_name"][0])
    (shipped / "again").mkdir()
    site._ship(shipped, lambda text: None)
    assert list(load(shipped).runs["run"]) == list(there.runs["run"])


def test_what_ships_leaves_out_deliveries_and_nothing_that_a_figure_reads(
    measured: Path, tmp_path: Path
) -> None:
    for path in [*measured.rglob("noise.parquet")][:2]:
        for name in ("results", "truth"):
            shutil.copyfile(path, path.with_stem(name))
        record = path.with_name("record.json")
        content = json.loads(record.read_text())
        record.write_text(json.dumps({**content, "series": ["noise", "results", "truth"]}))
    file = tmp_path / "x.zip"
    count, left_out = archive.pack_to_ship(measured, file, most_bytes=0)
    assert (count, len(left_out)) == (6, 4)
    there = load(file)
    assert there.series("noise")["run"].nunique() == 6, "too large, and kept"
    assert there.series_names == ["noise"]
    assert pack(readable(file), tmp_path / "y.zip") == 6, "no record lists what was left out"
    sizes = sorted(path.stat().st_size for path in measured.rglob("*.parquet"))
    assert len(archive.pack_to_ship(measured, file, most_bytes=sum(sizes) - 1)[1]) == 1
    assert archive.pack_to_ship(measured, file, most_bytes=sum(sizes)) == (6, [])


def test_an_archive_is_unpacked_once_and_again_when_it_changes(
    measured: Path, shipped: Path, cache: Path
) -> None:
    place = readable(shipped)
    assert place.parent == cache
    kept = place / "kept"
    kept.touch()
    assert readable(shipped) == place
    archive._unpacked.cache_clear()
    assert readable(shipped / PACKED) == place
    assert kept.exists(), "not unpacked again"
    shutil.rmtree(next(iter(measured.glob("records/*/*/*/*"))))
    pack(measured, shipped / PACKED)
    assert readable(shipped) != place
    assert len(load(shipped).runs) == 5
    assert not [*cache.glob(".partial-*")]


def test_the_shipped_results_are_a_handful_of_files() -> None:
    kept = [path for path in SHIPPED.rglob("*") if path.is_file()]
    kept = [path for path in kept if not path.is_relative_to(SHIPPED / "site")]
    assert {path.relative_to(SHIPPED).as_posix() for path in kept} <= {
        "README.md", PACKED, CLAIMS, ".lock",
    }  # fmt: skip
    assert (SHIPPED / PACKED).stat().st_size < 16e6


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


def test_what_nobody_has_read_for_a_month_is_discarded(shipped: Path, cache: Path) -> None:
    place = readable(shipped)
    os.utime(place, (0, 0))
    recent = cache / "recent"
    recent.mkdir()
    archive._discard_unused(cache)
    assert [*cache.iterdir()] == [recent]
