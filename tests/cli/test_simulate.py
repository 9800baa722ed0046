"""``faultline simulate`` as a user meets it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner

from harness.cli.simulate import command
from harness.protocol.task.outlet import Publisher
from tests.cli.kit import refusal


def invoke(*arguments: str) -> Any:
    return CliRunner().invoke(command, list(arguments))


@pytest.mark.parametrize(
    ("arguments", "message", "remedy"),
    [
        (["--scheme", "chekpoint"], "no scheme 'chekpoint'", "'checkpoint'"),
        (["--topology", "dimond"], "no topology 'dimond'", "'diamond'"),
        (["--seeds", "9..4"], "backwards", "4..9"),
        (["--seeds", "many"], "not a range", "0..999"),
        (["--faults", "a"], "not a list", "0,3"),
        (["--seeds", "1..2", "--faults", "0,99"], "none numbered 99", "leave"),
        (["--host", "--topology", "recovery"], "no topology 'recovery'", "chain"),
        (["--host", "--draw", "3"], "does not go with --draw", "leave one"),
        (["--host", "--seeds", "1..2", "--faults", "0,99"], "none numbered 99", "leave"),
        (["--draw", "3", "--picture", "nowhere/x.png"], "no directory nowhere", "mkdir -p"),
    ],
)
def test_bad_input_says_what_to_do(arguments: list[str], message: str, remedy: str) -> None:
    error = refusal(invoke(*arguments))
    assert message in error.what
    assert remedy in error.remedy


def test_a_violation_is_made_small_and_can_be_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Publisher.stable

    def loses_the_undo(self: Publisher, batch: int, payload: Any) -> None:
        self.next_tentative = max(self.next_stable, min(batch, self.next_tentative))
        right(self, batch, payload)

    monkeypatch.setattr(Publisher, "stable", loses_the_undo)
    result = invoke("--seeds", "0..3", "--scheme", "ppa", "--workers", "1", "--json")
    assert result.exit_code == 1
    document = json.loads(result.stdout)
    found = document["violations"][0]
    assert found["seed"] == document["violating_seeds"][0]
    assert f"seed {found['seed']} (ppa, {found['topology']}) violates" in result.stderr, "at once"
    assert found["invariant"] == "every-correction"
    assert "story of " in found["story"]
    assert "(the last 0 inputs)" not in found["story"]  # the run was repeated with stories
    again = invoke(*found["command"].split()[2:], "--workers", "1")
    assert again.exit_code == 1
    assert "every-correction" in again.stdout
