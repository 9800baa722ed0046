"""A workload in the tree is found, and its two forms fit together, where it has both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from harness.errors import UsageError
from tests.workloads.agreement import START_US
from workloads.accident import two_highways
from workloads.base import QUERY, TASKS, KeyedSource, RecordSource, Reference, Workload
from workloads.entries import all_workloads, workload_entry
from workloads.examples.hottest import WORKLOAD
from workloads.toolkit.operators import program_of, timeline_of

WITH_TASKS = [name for name, entry in all_workloads().items() if TASKS in entry.make().forms]


@pytest.mark.parametrize("name", all_workloads())
def test_an_entry_builds_the_same_workload_everywhere(name: str) -> None:
    entry = all_workloads()[name]
    workload = entry.make(seed=3)
    assert workload.name == entry.name == name
    assert workload.reference is not None
    again = workload.reference.build()
    assert again.sources == workload.sources, "another process builds the same input"
    for source in workload.sources:
        built = source.records.build()
        assert isinstance(built, RecordSource)
        assert not isinstance(built, KeyedSource) or len(built.keys(0, 0, 3)) == 3, "no field"


@pytest.mark.parametrize("make", [*(e.make for e in all_workloads().values()), two_highways])
def test_no_stream_of_one_seed_is_one_of_the_next(make: Callable[..., Workload]) -> None:
    """Seeds of streams are derived by name: ``seed + 1`` would be the first stream of the next."""

    def streams(seed: int) -> list[Reference]:
        return [source.records for source in make(seed=seed).sources]

    assert not [each for each in streams(5) if each in streams(6)]
    assert all(streams(5).count(each) == 1 for each in streams(5))


@pytest.mark.parametrize("name", WITH_TASKS)
def test_its_tasks_read_its_sources(name: str) -> None:
    workload = all_workloads()[name].make(seed=3)
    timeline = timeline_of(workload, start_us=START_US, batch_s=1)
    program = program_of(workload, timeline=timeline)
    assert set(program.sources.values()) == {source.name for source in workload.sources}
    for operator in program.topology.operators:
        for task in range(operator.parallelism):
            assert program.task(operator.name, task).memory >= 1


def test_a_workload_that_is_not_there_is_refused() -> None:
    with pytest.raises(UsageError, match="no workload is called 'world-cap'") as refused:
        workload_entry("world-cap")
    assert "world-cup" in str(refused.value.remedy)


def test_a_workload_without_tasks_says_what_to_do() -> None:
    timeline = timeline_of(WORKLOAD, start_us=START_US, batch_s=1)
    with pytest.raises(UsageError, match="no form 'tasks', only 'query'"):
        program_of(replace(WORKLOAD, forms={QUERY: WORKLOAD.form(QUERY)}), timeline=timeline)
