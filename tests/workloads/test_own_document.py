"""docs/own-workload.md: its file is executed as it stands, and its commands are understood."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
from click.testing import CliRunner

from harness.cli.main import cli
from harness.judging.outcome import against_truth
from harness.measure.values import demand_comparable, read_json
from workloads.base import Workload
from workloads.examples.hottest import WORKLOAD as HOTTEST
from workloads.own import load_workload_file

TEXT = (Path(__file__).parents[2] / "docs/own-workload.md").read_text()
FILE = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)[0]
COMMANDS = [
    line.removeprefix("./faultline ").split()
    for block in re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL)
    for line in block.splitlines()
    if line.startswith("./faultline ")
]


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    path = tmp_path / "orders.py"
    path.write_text(FILE)
    return path


def changed(tmp_path: Path, *change: str) -> Workload:
    assert change[0] in FILE
    path = tmp_path / f"orders_{abs(hash(change))}.py"
    path.write_text(FILE.replace(*change))
    return load_workload_file(path)


def test_its_results_compare_by_their_types(orders: Path) -> None:
    workload = load_workload_file(orders)
    types = {"window_start": pa.int64(), "shop": pa.int32(), "average": pa.decimal128(14, 6)}
    for column, kind in {**types, "orders": pa.int64()}.items():
        demand_comparable("orders", column, kind, identity=column in workload.identity)
    row = {"window_start": 0, "shop": 17, "average": Decimal("22.100000"), "orders": 3}
    truth = pd.DataFrame([row]).rename(columns={"window_start": "window_start_s"})
    sent = read_json(
        [b'{"window_start": 0, "shop": 17, "average": 22.1, "orders": 3}'], workload.columns
    ).rename(columns={"window_start": "window_start_s"})
    assert against_truth(sent, truth, workload, workload.identity_in_run).equal
    other = sent.assign(average=pd.Series([Decimal("22.100001")], dtype=object))
    assert not against_truth(other, truth, workload, workload.identity_in_run).equal


def test_it_names_what_the_example_has() -> None:
    assert "workloads/examples/hottest.py" in TEXT
    for name in (*HOTTEST.identity, *HOTTEST.values, "payloads", "members", "watermark_delay_s"):
        assert f"`{name}`" in TEXT, name


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_its_commands_are_understood(orders: Path, command: list[str]) -> None:
    arguments = [str(orders) if word == "orders.py" else word for word in command]
    if command[0] == "run":
        arguments = [*arguments, "--out", str(orders.parent / "out"), "--dry-run"]
        done = CliRunner().invoke(cli, arguments)
        assert done.exit_code == 0, done.output
        assert "windows of 10 s, in event time that runs 5 times as fast" in done.output
        return
    with cli.make_context("faultline", list(arguments)) as context:
        found = cli.get_command(context, arguments[0])
        assert found is not None
        found.make_context(arguments[0], arguments[1:], parent=context)
