"""The records and the report of a toy experiment."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.pages import report, walk
from harness.results.store import RecordStore
from tests.running.test_execution import SMOKE, make
from tests.toys import toy


@pytest.fixture
def measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(walk, "all_experiments", lambda: [toy()])
    make(RecordStore(tmp_path / "results"), toy(), settings=SMOKE)
    report.write_report(RecordStore(tmp_path / "results"))
    return tmp_path / "results"
