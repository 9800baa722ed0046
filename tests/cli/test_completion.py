"""Shells complete commands, options and experiments."""

from __future__ import annotations

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from harness.cli.completion import VARIABLE
from harness.cli.main import cli


def completions(*words: str) -> list[str]:
    shell = ShellComplete(cli, {}, "faultline", VARIABLE)
    return [each.value for each in shell.get_completions([*words[:-1]], words[-1])]


def test_commands_options_and_experiments_are_completed() -> None:
    assert "reproduce" in completions("rep")
    assert "--profile" in completions("run", "--prof")
    assert completions("run", "stock/rack") == ["stock/rack-kill"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_asks_by_the_variable_that_the_program_answers(shell: str) -> None:
    result = CliRunner().invoke(cli, ["completion", shell])
    assert result.exit_code == 0, result.output
    assert VARIABLE in result.output
