"""Records that this checkout's code would make otherwise are counted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from harness.results.provenance import machine_name
from harness.results.store import RecordStore
from harness.running import code
from tests.running.test_execution import SMOKE, make
from tests.toys import toy


def test_records_of_other_code_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code, "all_experiments", lambda: [toy()])
    store = RecordStore(tmp_path)
    make(store, toy(), settings=SMOKE)
    first, second, *rest = (each.record for each in store.read(toy().id, machine_name()))
    assert code.of_other_code([first, second, *rest]) == {}
    changed, gone = replace(first, code="another"), replace(second, experiment="toy/gone")
    assert code.of_other_code([changed, gone, *rest]) == {toy().id: 1, "toy/gone": 1}
