"""Workloads' own operators in virtual time: stable output equals that without failures."""

from __future__ import annotations

import pyarrow as pa
import pytest

from harness.hosting.program import Program, host
from harness.protocol.effects import Kind
from harness.protocol.schemes import SCHEMES
from harness.simulator.draw import draw
from tests.simulator.kit import watched
from tests.workloads.agreement import START_US, generated, ordered, require_equal
from workloads import wordcount, worldcup
from workloads.base import Workload
from workloads.toolkit import operators as tables
from workloads.toolkit.local import cut, run_locally

SECONDS, PER_S = 20, 40
WORDS = wordcount.word_count(text=[__file__], window_s=3, slide_s=1, depth=4)
CUP = worldcup.world_cup(window_s=4, slide_s=2, mergers=2)


def hosted(code: tables.TableProgram, sources: dict[str, pa.Table]) -> Program:
    """Return a workload's program for the simulator."""
    batches = {}
    for operator, source in code.sources.items():
        for index in range(code.topology.operator(operator).parallelism):
            mine = pa.array(tables.numbers(sources[source], "partition") == index)
            batches[operator, index] = cut(sources[source].filter(mine), code.timeline)
    nothing = tables.SOURCE_SCHEMA.empty_table()
    return host(
        code.topology,
        task=code.task,
        read=lambda operator, index, batch: batches[operator, index].get(batch, nothing),
    )


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("workload", [WORDS, CUP], ids=lambda workload: workload.name)
def test_stable_output_is_what_the_operators_give_without_failures(
    workload: Workload, scheme: str
) -> None:
    timeline = tables.timeline_of(workload, start_us=START_US, batch_s=1)
    code = tables.program_of(workload, timeline=timeline)
    sources = generated(workload, SECONDS, PER_S)
    program = hosted(code, sources)
    expected = ordered(run_locally(code, sources).to_pandas(), workload)
    assert len(expected) >= 8
    for seed in range(2):
        options = draw(seed, scheme=scheme, topology=workload.name, wiring=program.wiring)
        report, world = watched(options, program=program)
        assert report.violation is None, f"seed {seed}: {report.violation}"
        assert sum(report.faults.values()) >= 3
        stable = [
            published.record.payload
            for partition in world.partitions.values()
            for published in partition.records
            if published.record.kind is Kind.STABLE
        ]
        found = ordered(pa.concat_tables(stable).to_pandas(), workload)
        require_equal(found, expected)
