"""docs/own-workload.md: its file is executed as it stands, and its commands are understood."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
import pyarrow as pa
import pytest
from click.testing import CliRunner

from harness.cli.main import cli
from harness.engines.structured import sample, sample_stream
from harness.errors import UsageError
from harness.judging.outcome import against_truth
from harness.measure.values import demand_comparable, read_json
from workloads.base import Workload
from workloads.own import load_workload_file

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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


@pytest.mark.spark
@pytest.mark.slow
def test_a_stream_of_the_sample_gives_what_its_batch_gives(
    spark: SparkSession, orders: Path, tmp_path: Path
) -> None:
    workload = load_workload_file(orders)
    batch = sample.check_query(spark, workload)
    stream = sample_stream.run_stream(spark, workload, tmp_path / "stream").results
    assert len(batch) > 100
    order = workload.columns
    left, right = (frame.sort_values(order, ignore_index=True) for frame in (batch, stream))
    pd.testing.assert_frame_equal(left, right)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (('.where(F.col("orders") > 0)', ""), "markers become results, such as window_start="),
        (('identity=["window_start", "shop"]', 'identity=["window_start"]'), "share theirs"),
        (('"shop", "average", "orders")', '"average", "orders")'), "no column 'shop'"),
        (('F.col("orders") > 0', 'F.col("orders") > 10**6'), "gives no result for 400 records"),
    ],
)
def test_a_sample_finds_what_would_spoil_a_run(
    spark: SparkSession, tmp_path: Path, change: tuple[str, str], message: str
) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        sample.check_query(spark, changed(tmp_path, *change))


@pytest.mark.spark
@pytest.mark.slow
def test_a_filter_on_the_key_keeps_the_windows_of_a_stream_open(
    spark: SparkSession, tmp_path: Path
) -> None:
    workload = changed(tmp_path, 'F.col("orders") > 0', 'F.col("shop").isNotNull()')
    assert len(sample.check_query(spark, workload)) > 100, "a batch does not show it"
    stream = sample_stream.run_stream(spark, workload, tmp_path / "stream").results
    last_ms = sample.START_MS + 1000 * (sample.span_s(workload) - workload.window_s)
    assert not (stream["window_start"] >= last_ms).any()
