"""A night is shown on the workflow's page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from harness.cli.main import cli
from harness.nightly import gate, revisions
from harness.nightly.revisions import Revision
from harness.nightly.summary import MOST_LINES, markdown
from tests.nightly.test_history import night

ALARMS = [f"loop-{number}: 1.2 times\nthe | cost" for number in range(30)]


def test_alarms_come_first_and_long_lists_are_counted() -> None:
    bad = replace(night(2), alarms=ALARMS, notes=["a note"])
    page = markdown(bad)
    assert page.startswith("## Nightly: 30 alarms\n")
    assert page.index("loop-0") < page.index("| codec |") < page.index("a note")
    assert page.count("1.2 times") == MOST_LINES
    assert "10 more" in page


@pytest.mark.parametrize("alarms", [[], ["codec: 1.2 times"]])
def test_the_command_adds_to_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, alarms: list[str]
) -> None:
    measured = replace(night(2), alarms=alarms)
    monkeypatch.setattr(gate, "measure_night", lambda *given, **named: measured)
    monkeypatch.setattr(revisions, "build", lambda revision, report: None)
    monkeypatch.setattr(revisions, "resolve", lambda name: Revision(commit=name, subject="a"))
    monkeypatch.setattr(revisions, "changed_code", lambda revision: ["harness/seeds.py"])
    page = tmp_path / "page.md"
    page.write_text("an earlier step\n")
    words = ["nightly", "--no-live", "--baseline", "main", "--out", str(tmp_path)]
    done = CliRunner().invoke(cli, words, env={"GITHUB_STEP_SUMMARY": str(page)})
    assert done.exit_code == bool(alarms), done.output
    assert page.read_text() == "an earlier step\n" + markdown(measured)
