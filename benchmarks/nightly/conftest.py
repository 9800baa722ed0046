"""The measurement of the nightly benchmarks.

Measured modules are imported inside the benchmarks: if an older revision lacks one, only that
metric has no number there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from time import process_time
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pytest_benchmark.fixture import BenchmarkFixture

FEWEST_CALLS, MOST_CALLS, ABOUT_S = 7, 60, 0.1
"""Calls of one sample: as many as fit into this time, but no fewer and no more than these."""

Measure = Callable[[Callable[[], object]], None]


def pytest_benchmark_generate_machine_info() -> dict[str, str]:
    """Leave the machine out: the history describes it, and a query takes a second per sample."""
    return {"described_by": "harness.results.provenance"}


def pytest_benchmark_generate_commit_info() -> dict[str, str]:
    """Leave the revision out: both sides name their own."""
    return {}


@pytest.fixture
def measure(benchmark: BenchmarkFixture) -> Measure:
    """Time a call a few times after one to warm up; the gate takes the least of them."""
    import harness

    assert harness.__file__ is not None
    benchmark.extra_info["tree"] = str(Path(harness.__file__).resolve().parent.parent)

    def run(call: Callable[[], object]) -> None:
        call()  # to warm up
        began = process_time()
        call()
        fitting = ABOUT_S / max(process_time() - began, 1e-9)
        rounds = round(min(max(fitting, FEWEST_CALLS), MOST_CALLS))
        pedantic: Any = benchmark.pedantic
        pedantic(call, rounds=rounds)

    return run
