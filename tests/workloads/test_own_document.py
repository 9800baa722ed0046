"""docs/own-workload.md: its file is executed as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from harness.cli.main import cli
from harness.results.provenance import ROOT

TEXT = (ROOT / "docs/own-workload.md").read_text()
FILE = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)[0]
COMMANDS = re.findall(r"^\./faultline (run .*)$", TEXT, re.MULTILINE)


@pytest.mark.parametrize("command", COMMANDS)
def test_it_is_run_as_the_document_prints(tmp_path: Path, command: str) -> None:
    orders = tmp_path / "orders.py"
    orders.write_text(FILE)
    words = [str(orders) if word == "orders.py" else word for word in command.split()]
    done = CliRunner().invoke(cli, [*words, "--dry-run", "--out", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    assert "windows of 10 s, in event time that runs 5 times as fast" in done.output
