"""Experiments that need cuts, made by a second command in network namespaces."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from harness.cli import inside
from harness.cli.main import cli
from harness.cluster.base import Action
from harness.pages import walk
from harness.results.record import Profile
from harness.results.store import RecordStore
from harness.running import discovery
from harness.running.plan import RunSettings
from tests.running.test_execution import make
from tests.toys import toy

CUTS = frozenset({Action.CUT, Action.HEAL})
PLAIN, CUT = toy(), toy(identifier="stock/cut", actions=CUTS)


@pytest.fixture(autouse=True)
def namespaces(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (discovery, walk):
        monkeypatch.setattr(module, "all_experiments", lambda: [PLAIN, CUT])
    monkeypatch.setattr(discovery, "by_page", discovery.by_page.__wrapped__)  # keeps no toys
    monkeypatch.setattr(inside, "why_not", lambda: None)


def _invoke(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> Result:
    monkeypatch.setattr(sys, "argv", ["faultline", *arguments])
    return CliRunner().invoke(cli, [*arguments])


@pytest.mark.parametrize(("code", "makes"), [(0, True), (130, False)])
def test_what_needs_a_cut_is_made_by_a_second_command_and_judged_by_the_first(
    code: int, makes: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Sequence[str]] = []

    def second(arguments: Sequence[str]) -> int:
        seen.append(arguments)
        if makes:
            settings = RunSettings(profile=Profile.QUICK, root_seed=7)
            make(RecordStore(tmp_path), toy(identifier="stock/cut"), settings=settings)
        return code

    monkeypatch.setattr(inside, "run", second)
    command = ["reproduce", "--all", "--paper", "stock", "--out", str(tmp_path), "--seed", "7"]
    done = _invoke(monkeypatch, *command)
    assert done.exit_code == code, done.output
    assert "next, in network namespaces: stock/cut" in done.stderr
    assert ("stock/cut – Squares: 2 of 2 claims hold" in done.stdout) is makes
    (arguments,) = seen
    assert arguments[:2] == ["run", "stock/cut"]
    options = [[*arguments[at : at + 2]] for at in range(2, len(arguments), 2)]
    assert sorted(options) == [
        ["--network", "namespaces"], ["--out", str(tmp_path)], ["--seed", "7"],
    ]  # fmt: skip


def test_the_plan_names_them_and_a_network_of_the_users_keeps_them_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["run", "stock", "--dry-run", "--out", str(tmp_path)]
    assert "in network namespaces" in _invoke(monkeypatch, *command).stdout
    for others in (["--network", "loopback"], ["--profile", "smoke"]):
        shown = _invoke(monkeypatch, *command, *others).stdout
        assert "skipped: its failures need cut, heal" in shown
    monkeypatch.setattr(inside, "why_not", lambda: "forbidden")
    assert "skipped: its failures need cut, heal" in _invoke(monkeypatch, *command).stdout
