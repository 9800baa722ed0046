"""The arguments, exit codes and records of pytest under ``faultline test``."""

from __future__ import annotations

import sys
from itertools import product

import pytest
from click.testing import CliRunner

from harness.cli import test as testing
from harness.cli.main import cli


@pytest.fixture(autouse=True)
def nothing_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every run of pytest beside another one end at once: this test is in it."""
    monkeypatch.setattr(testing, "_command", lambda arguments: [sys.executable, "-c", ""])


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Collect the arguments of each run of pytest, and start none."""
    made: list[list[str]] = []

    def record(arguments: list[str], environment: dict[str, str]) -> int:
        made.append(list(arguments))
        return 1 if "cluster and not long" in arguments else 0

    monkeypatch.setattr(testing, "_pytest", record)
    monkeypatch.setattr(testing, "_fetch_first", dict)
    monkeypatch.setattr(testing, "_environment", dict)
    return made


def test_whole_suite_goes_on_after_a_failing_part(calls: list[list[str]]) -> None:
    done = CliRunner().invoke(cli, ["test", "--all"])
    assert done.exit_code == 1
    assert len(calls) == 2
    assert done.stdout.strip() == "0 passed, 0 failed, 0 skipped"


def test_after_a_change_the_parts_run_side_by_side_and_each_is_shown(
    calls: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The part without servers says something and fails; that with servers passes."""
    said = "import sys; print('what failed'); sys.exit(2)"
    monkeypatch.setattr(testing, "_command", lambda arguments: [sys.executable, "-c", said])
    done = CliRunner().invoke(cli, ["test"])
    assert done.exit_code == 2
    (with_servers,) = calls
    assert "cluster and not deep and not long" in with_servers
    assert done.stdout.splitlines() == ["what failed", "", "0 passed, 0 failed, 0 skipped"]


def test_no_test_is_in_neither_level() -> None:
    """The two parts of ``--all`` and the tests marked ``long`` are all tests."""
    for level, left_out in ((testing.ALL, "long"), (testing.AFTER_A_CHANGE, "deep")):
        selected = [part[part.index("-m") + 1] for part in level.values()]
        for marks in product((False, True), repeat=2):
            cluster, other = marks
            names = {"cluster": cluster, "deep": False, "long": False, left_out: other}
            chosen = [eval(text, {}, names) for text in selected]
            assert sum(chosen) == (0 if other else 1), names


@pytest.mark.usefixtures("calls")
def test_failing_check_fails_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(testing, "_passes", lambda name, program: name != "lint")
    done = CliRunner().invoke(cli, ["test", "--checks", __file__])
    assert done.exit_code == 1
    assert "these checks failed: lint" in done.stderr
