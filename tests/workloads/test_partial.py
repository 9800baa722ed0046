"""The output of a program while some of its tasks are away (`workloads.toolkit.partial`)."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tests.workloads.agreement import START_US, ordered, require_equal
from workloads.accident import accidents
from workloads.base import Workload
from workloads.synthetic import synthetic
from workloads.toolkit.local import places, run_locally
from workloads.toolkit.operators import TableProgram, program_of, timeline_of
from workloads.toolkit.partial import PartialRuns, recorded
from workloads.traffic import traffic_jams
from workloads.worldcup import world_cup

SECONDS = 12


def started(
    workload: Workload, rate: float
) -> tuple[TableProgram, dict[str, pa.Table], PartialRuns]:
    timeline = timeline_of(workload, start_us=START_US, batch_s=1)
    program = program_of(workload, timeline=timeline, rate=rate)
    sources, _ = recorded(workload, program, seconds=SECONDS)
    return program, sources, PartialRuns(program, sources, batches=SECONDS + 8)


WORKLOADS = {
    "world-cup": (world_cup(partitions=4, window_s=4, slide_s=2), 400.0),
    "traffic": (traffic_jams(users=400, segments=40, partitions=4, window_s=4, slide_s=2), 200.0),
    "synthetic": (synthetic(levels=2, keys=10, window_s=2), 80.0),
    "accident": (accidents(partitions=4, start_s=100), 400.0),
}


@pytest.mark.parametrize("name", WORKLOADS)
def test_with_every_task_alive_it_is_the_whole_program(name: str) -> None:
    workload, rate = WORKLOADS[name]
    program, sources, runs = started(workload, rate)
    whole = run_locally(program, sources).to_pandas()
    assert len(whole) > 3
    require_equal(ordered(runs.results().to_pandas(), workload), ordered(whole, workload))
    alive = places(program.topology)
    require_equal(ordered(runs.results(alive).to_pandas(), workload), ordered(whole, workload))


def test_a_living_tree_gives_what_its_partitions_hold() -> None:
    """Half of the recovery topology sums the keys of half of the sources, exactly."""
    workload, rate = WORKLOADS["synthetic"]
    _, _, runs = started(workload, rate)
    half = [("source", 0), ("source", 1), ("O1", 0), ("O2", 0)]
    full = ordered(runs.results().to_pandas(), workload)
    found = ordered(runs.results(half).to_pandas(), workload)
    # Sources 0 and 1 have the keys 0 to 19, which O2 halves.
    require_equal(found, full[full["key"] < 10].reset_index(drop=True))
