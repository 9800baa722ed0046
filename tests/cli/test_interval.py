"""``faultline interval``: its text, its JSON and its refusals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from harness.cli.interval import command
from harness.errors import UsageError

TABLE_1_ROW_1 = [
    "--cost", "1.6s", "--mttf", "20min", "--restart", "23.1s", "--depth", "5",
    "--delay", "27.353ms",
]  # fmt: skip


def run(*arguments: str) -> str:
    result = CliRunner().invoke(command, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def answer(*arguments: str) -> Any:
    return json.loads(run(*arguments, "--json"))


def test_json_has_the_optimum_and_its_utilization() -> None:
    document = answer(*TABLE_1_ROW_1)
    assert document["optimal_interval_s"] / 60.0 == pytest.approx(1.0418, abs=5e-5)
    assert document["utilization_at_optimum"] == pytest.approx(0.9311, abs=5e-5)
    assert "utilization" not in document


def test_the_report_says_what_the_json_says_and_draws_it() -> None:
    text = run(*TABLE_1_ROW_1, "--interval", "30min")
    assert "Checkpoint every 1.04 min" in text
    assert "42.22%" in text
    assert "93.11%" in text
    assert "█" in text
    assert "● in use 30 min" in text
    assert max(map(len, text.splitlines())) <= 90


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--cost", "1.6", "--mttf", "20min"], "--cost: '1.6' has no unit"),
        (["--cost", "1.6s", "--mttf", "-20min"], "--mttf: '-20min' is not above zero"),
        (["--cost", "0s", "--mttf", "20min"], "--cost: '0s' is not above zero"),
        (["--cost", "1s", "--mttf", "1e300d"], "--mttf: '1e300d' is too long"),
        (["--cost", "1e-300s", "--mttf", "1d"], "--cost: '1e-300s' is too short"),
        (["--cost", "1s", "--mttf", "1e999d"], "--mttf: '1e999d' is too long"),
        (["--cost", "1s", "--mttf", "20fortnights"], "--mttf: 'fortnights' is not a unit"),
        (["--cost", "1s", "--mttf", "1h", "--restart", "5"], "--restart: '5' has no unit"),
        (["--cost", "1h", "--mttf", "2h", "--interval", "30min"], "1 h does not fit into 30 min"),
        (["--cost", "1s"], "failure rate is not given"),
        (["--cost", "1s", "--nodes", "5"], "--nodes and --node-mttf go together"),
        (["--cost", "1s", "--nodes", "0", "--node-mttf", "1d"], "--nodes: 0 is below 1"),
        (["--cost", "1s", "--mttf", "1h", "--nodes", "5", "--node-mttf", "1d"], "given twice"),
        (["--cost", "1s", "--mttf", "1h", "--depth", "0"], "--depth: 0 is below 1"),
        (["--cost", "1s", "--mttf", "1h", "--depth", "5"], "--depth changes nothing without"),
        (["--cost", "1s", "--mttf", "1h", "--delay", "1s"], "--delay changes nothing without"),
        (["--cost", "1s", "--mttf", "1h", "--system", "2"], "--system needs --failure-records"),
        (["--cost", "1s", "--failure-records", "/absent.csv", "--system", "2"], "does not exist"),
    ],
)
def test_what_cannot_be_used_is_named_with_a_remedy(arguments: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        run(*arguments)
    assert caught.value.exit_code == 2
    assert caught.value.remedy


def test_recorded_failures_give_the_rate_and_are_replayed(tmp_path: Path) -> None:
    file = tmp_path / "records.csv"
    file.write_text(
        "System,Prob Started,Prob Fixed\n"
        + "".join(f"7,1/{day}/2005 0:00,1/{day}/2005 0:30\n" for day in range(1, 32))
    )
    document = answer(
        "--cost", "1min", "--failure-records", str(file), "--system", "7", "--interval", "1h"
    )
    assert document["mttf_s"] == 86400.0
    # A failure each midnight: 24 whole hours of work, each less its checkpoint's minute.
    assert document["replayed"]["utilization"] == pytest.approx(59 / 60)
    assert "31 recorded failures" in run("--cost", "1min", "--failure-records", str(file))
