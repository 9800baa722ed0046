"""The worked example of a user's own workload."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import workloads.examples
from tests.workloads.agreement import START_US, by_operators, by_query, require_equal, steady
from workloads.own import load_workload_file
from workloads.toolkit.operators import program_of, timeline_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXAMPLE = Path(workloads.examples.__file__).parent / "hottest.py"
ROOT = Path(__file__).parents[2]


def test_the_documentation_names_what_there_is() -> None:
    text = (ROOT / "docs/own-workload.md").read_text()
    assert str(EXAMPLE.relative_to(ROOT)) in text
    workload = load_workload_file(EXAMPLE)
    for name in (*workload.identity, *workload.values, "payloads", "members", "watermark_delay_s"):
        assert f"`{name}`" in text, name


@pytest.mark.spark
@pytest.mark.slow
def test_its_tasks_give_what_its_query_gives(spark: SparkSession) -> None:
    workload = load_workload_file(EXAMPLE)
    source = workload.sources[0].records.build()
    payloads = [[*source.payloads(partition, 0, 300), b""] for partition in range(2)]
    table = steady(payloads, 100)
    timeline = timeline_of(workload, start_us=START_US, batch_s=0.1)
    program = program_of(workload, timeline=timeline)
    sources = {"readings": table}
    by_tasks = by_operators(program, workload, sources)
    require_equal(by_query(spark, workload, sources), by_tasks)
    assert len(by_tasks) > 100
