"""Accident detection on two highways: one query or two, and no location in common."""

from __future__ import annotations

import pytest

from workloads.accident import FAR, two_highways
from workloads.toolkit.local import run_locally
from workloads.toolkit.operators import program_of, timeline_of
from workloads.toolkit.partial import recorded

EVERY_KMH, RATE_PER_S, SECONDS = 1_000, 400.0, 3


@pytest.mark.parametrize(("priorities", "tasks"), [((), 7), ((3, 1), 8)])
def test_every_report_of_both_is_in_a_result(priorities: tuple[int, ...], tasks: int) -> None:
    workload = two_highways(share=0.75, priorities=priorities, epsilon_kmh=EVERY_KMH)
    timeline = timeline_of(workload, start_us=1_800_000_000_000_000, batch_s=0.25)
    program = program_of(workload, timeline=timeline, rate=RATE_PER_S)
    assert program.topology.task_count == tasks
    sources, _ = recorded(workload, program, seconds=SECONDS)
    rows = run_locally(program, sources).to_pandas()
    reports = rows["car_ids"].str.split().str.len()
    south = rows["location"] >= FAR
    assert int(reports[~south].sum()) == 0.75 * RATE_PER_S * SECONDS
    assert int(reports[south].sum()) == 0.25 * RATE_PER_S * SECONDS
