"""The list of experiments without importing them: current, and made anew after any change."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from harness.results.store import RecordStore
from harness.running import catalogue
from harness.running.catalogue import listed, needs
from harness.running.discovery import all_experiments
from tests.running.test_execution import SMOKE, make
from tests.there import there
from tests.toys import toy


def test_the_list_is_that_of_the_experiments_also_from_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    made = listed()
    assert [each.id for each in made] == [each.id for each in all_experiments()]
    (file,) = (tmp_path / "faultline" / "catalogue").iterdir()
    assert listed() == made
    file.write_text("spoilt")
    assert listed() == made, "made anew"


def test_a_change_of_the_code_changes_the_fingerprint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = tmp_path / "harness" / "one.py"
    module.parent.mkdir()
    module.write_text("1")
    monkeypatch.setattr(catalogue, "ROOT", tmp_path)
    before = catalogue._fingerprint()
    assert catalogue._fingerprint() == before
    module.write_text("12")
    assert catalogue._fingerprint() != before


def test_what_runs_needed_is_the_most_of_the_newest_campaign(tmp_path: Path) -> None:
    assert needs("stock/toy", tmp_path) is None
    store = RecordStore(tmp_path)
    make(store, toy(), settings=SMOKE)
    found = there(needs("stock/toy", tmp_path))
    assert found.profile == "smoke"
    assert there(found.peak_memory_bytes) > 10e6
    assert found.disk_bytes is not None
    make(store, toy(), settings=replace(SMOKE, root_seed=2))
    again = there(needs("stock/toy", tmp_path))
    assert again.seconds != found.seconds, "the runs of another seed are not added"
