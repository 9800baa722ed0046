"""``faultline plan``: the documented topology, the budget's grammar, bad input, pictures."""

from __future__ import annotations

import json
from pathlib import Path
from threading import Event
from typing import Any

import click
import pytest
from click.testing import CliRunner

from harness.cli import plan as plan_module
from harness.cli.plan import command, parse_budget
from harness.errors import UsageError
from harness.planning.base import ReplicationPlan
from harness.planning.greedy import Greedy
from harness.results.provenance import ROOT
from harness.topology import named
from tests.cli.kit import refusal

TOPOLOGY = str(ROOT / "docs/examples/topology.yaml")


def planned(*options: str) -> dict[str, Any]:
    result = CliRunner().invoke(command, [TOPOLOGY, *options, "--json"], catch_exceptions=False)
    assert result.exit_code == 0
    document = json.loads(result.stdout)
    assert isinstance(document, dict)
    return document


@pytest.mark.parametrize("planner", ["dp", "greedy", "sa", "optimum", "exhaustive"])
@pytest.mark.parametrize("objective", ["of", "ic"])
def test_every_planner_answers_in_the_documented_form(planner: str, objective: str) -> None:
    found = planned("--budget", "5", "--planner", planner, "--objective", objective)
    assert (found["planner"], found["budget"]) == (planner, 5)
    assert found["cost"] <= 5
    assert all(name in ("vehicles", "speed", "jam") for name, _ in found["plan"])
    assert 0 <= found["output_fidelity"] <= 1
    assert 0 <= found["internal_completeness"] <= 1
    assert found["seconds"] >= 0
    if planner in ("dp", "optimum", "exhaustive"):
        value = found["output_fidelity" if objective == "of" else "internal_completeness"]
        assert found["optimum"] == pytest.approx(value)
    else:
        assert found["optimum"] is None


def test_the_example_by_hand() -> None:
    found = planned("--budget", "50%", "--planner", "dp")
    assert found["plan"] == [["vehicles", 0], ["vehicles", 1], ["speed", 0], ["jam", 0]]
    assert found["output_fidelity"] == pytest.approx(2 / 3)
    assert found["internal_completeness"] == pytest.approx((200 + 200 + 100) / (300 + 300 + 150))


def test_people_get_a_page() -> None:
    result = CliRunner().invoke(command, [TOPOLOGY, "--budget", "5", "--planner", "optimum"])
    assert "vehicles  0 1  of 4" in result.stdout
    assert "no plan exceeds       0.6667" in result.stdout
    assert "compared with         sa, output fidelity 0.6667" in result.stdout


@pytest.mark.parametrize(
    ("text", "units"),
    [("1", 1), ("1.0", 10), ("100%", 10), ("0.5", 5), ("0.59", 5), ("29%", 2), ("0", 0), (".3", 3)],
)
def test_the_budgets_grammar(text: str, units: int) -> None:
    assert parse_budget(text, 10) == units


@pytest.mark.parametrize("text", ["-1", "11", "1.1", "101%", "-0.5", "half", "", "1e-1", "nan"])
def test_a_budget_that_is_none(text: str) -> None:
    with pytest.raises(UsageError, match="--budget") as error:
        parse_budget(text, 10)
    assert error.value.remedy


@pytest.mark.parametrize(
    ("options", "names"),
    [
        (["--budget", "5", "--planner", "sat"], "'sat'"),
        (["--budget", "5", "--objective", "fo"], "'fo'"),
        (["--budget", "5", "--draw", "plan.doc"], "plan.doc"),
        (["--budget", "99"], "beyond the total cost of 10"),
    ],
)
def test_wrong_use_is_explained(options: list[str], names: str) -> None:
    assert names in str(refusal(CliRunner().invoke(command, [TOPOLOGY, *options])))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    done = CliRunner().invoke(command, [str(tmp_path / "none.yaml"), "--budget", "1"])
    assert "none.yaml cannot be read" in refusal(done).what


def test_draws_the_plan(tmp_path: Path) -> None:
    picture = tmp_path / "plan.svg"
    planned("--budget", "5", "--draw", str(picture))
    assert picture.stat().st_size > 2000


def test_whoever_waits_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told = Event()
    monkeypatch.setattr(plan_module, "_FIRST_NOTE_S", 0.01)

    def echo(text: str, *, err: bool) -> None:
        assert err
        print(text)
        told.set()

    monkeypatch.setattr(click, "echo", echo)
    topology = named.figure_3b()

    def planning() -> ReplicationPlan:
        assert told.wait(timeout=30)
        return Greedy().plan(topology, 3)

    assert plan_module._watched(planning, "optimum") == Greedy().plan(topology, 3)
    assert "optimum: planning for 0 s; gives the best plan" in capsys.readouterr().out


def test_an_error_while_planning_is_the_commands_own() -> None:
    def failing() -> ReplicationPlan:
        raise UsageError("too large", remedy="use sa")

    with pytest.raises(UsageError, match="too large"):
        plan_module._watched(failing, "dp")


def test_a_fraction_is_exact() -> None:
    assert parse_budget("0.29", 100) == 29
    assert parse_budget("0." + "9" * 40, 10) == 9, "every digit counts"
    assert parse_budget("99." + "9" * 40 + "%", 10) == 9
