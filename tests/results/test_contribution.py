"""Contributed results are whole records of one commit's code, and no more."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from harness.results import contribution
from harness.results.archive import readable
from harness.results.contribution import CONTRIBUTED, problems
from harness.results.library import SHIPPED


@pytest.fixture
def given(tmp_path: Path) -> Path:
    """Return a good contribution."""
    root = tmp_path / "somebody"
    place = "records/dpc/properties"
    shutil.copytree(readable(SHIPPED) / place, root / place)
    for path in root.rglob("record.json"):
        record = json.loads(path.read_text())
        path.write_text(json.dumps({**record, "commit": record["commit"].rstrip("+")}))
    return root


def some_record(root: Path) -> Path:
    return next(iter(sorted(root.rglob("record.json"))))


@pytest.mark.parametrize(
    "root",
    sorted(path for path in CONTRIBUTED.glob("*") if path.is_dir()),
    ids=lambda path: path.name,
)
def test_what_was_contributed_can_be_taken(root: Path) -> None:
    assert not [*problems(root)]


def test_a_good_one_has_no_problem(given: Path) -> None:
    (given / "README.md").write_text("a laptop")
    assert not [*problems(given)]


def test_what_does_not_belong_there_is_named(given: Path) -> None:
    (given / "site").mkdir()
    (given / "site" / "index.html").write_text("")
    assert [*problems(given)] == [
        "site/index.html: only README.md, records, report/claims.json belong to a contribution"
    ]


def test_a_large_one_is_refused(given: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contribution, "LARGEST_BYTES", 1000)
    assert any("leave out series" in words for words in problems(given))


def test_an_empty_one_is_refused(tmp_path: Path) -> None:
    assert "there is no record" in next(problems(tmp_path))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"commit": "abc+"}, "changed files"),
        ({"experiment": "dpc/other"}, "records stay where a run put them"),
        ({"machine": {}}, "names no machine"),
        ({"schema": 999}, "cannot be read"),
    ],
)
def test_a_changed_record_is_refused(given: Path, change: dict[str, object], words: str) -> None:
    path = some_record(given)
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    (found,) = problems(given)
    assert words in found


def test_a_spoilt_record_and_a_copy_are_refused(given: Path) -> None:
    path = some_record(given)
    shutil.copytree(path.parent, path.parents[1] / "a-copy")
    found = [*problems(given)]
    assert any("is there twice" in words for words in found)
    path.write_text("{")
    assert any("cannot be read" in words for words in problems(given))
