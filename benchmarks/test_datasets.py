"""Records per second of one core, compared with the necessary rate.

Day 66 replayed 48 times as fast peaks at 172,000 records/s. `ratio` in each benchmark's extra
info is the rate of one core as a multiple of that."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from datasets import accident, traffic
from datasets.blocks import BLOCK_RECORDS, BlockSource
from datasets.worldcup.archive import find, read_all
from datasets.worldcup.format import DAY_ONE_S, DAY_S, RECORD
from datasets.worldcup.generator import Day66
from datasets.worldcup.summary import summarize

if TYPE_CHECKING:
    from pytest_benchmark.fixture import BenchmarkFixture

PEAK_PER_S = 172_000
RECORDS = 1_000_000


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    random = np.random.default_rng(66)
    records = np.zeros(RECORDS, dtype=RECORD)
    records["timestamp"] = DAY_ONE_S + 65 * DAY_S + np.sort(random.integers(0, 3600, RECORDS))
    records["client"] = random.integers(0, 100_000, RECORDS)
    records["object"] = random.zipf(1.5, RECORDS) % 20_000
    records["size"] = random.integers(0, 10_000, RECORDS)
    records["status"] = 66
    records["server"] = random.integers(33, 43, RECORDS)
    path = tmp_path_factory.mktemp("logs") / "wc_day66_1"
    path.write_bytes(records.tobytes())
    path.with_suffix(".gz").write_bytes(gzip.compress(records.tobytes(), 6))
    return path


def timed(benchmark: BenchmarkFixture, call: Callable[[], int]) -> None:
    """Time ``call``, which returns the number of its records, and report them per second."""
    pedantic: Any = benchmark.pedantic
    records = pedantic(call, rounds=3)
    assert benchmark.stats is not None
    rate = records / benchmark.stats.stats.mean
    benchmark.extra_info["records_per_s"] = round(rate)
    benchmark.extra_info["ratio"] = round(rate / PEAK_PER_S, 1)


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_decoding(benchmark: BenchmarkFixture, log: Path, suffix: str) -> None:
    files = find([log.with_suffix(suffix)])
    timed(benchmark, lambda: sum(len(chunk.records) for chunk in read_all(files)))


def test_summarizing(benchmark: BenchmarkFixture, log: Path) -> None:
    files = find([log])
    timed(benchmark, lambda: summarize(read_all(files)).records)


GENERATORS: dict[str, Callable[[], BlockSource]] = {
    "worldcup": lambda: Day66(seed=66, partitions=2),
    "traffic locations": lambda: traffic.Locations(seed=66),
    "traffic reports": lambda: traffic.Reports(seed=66),
    "cars": lambda: accident.Cars(seed=66),
}


@pytest.mark.parametrize("name", GENERATORS)
def test_generating(benchmark: BenchmarkFixture, name: str) -> None:
    source = GENERATORS[name]()
    source.payloads(0, 0, 1)  # what is drawn once
    starts = iter(range(BLOCK_RECORDS, 10**9, 20 * BLOCK_RECORDS))

    def make() -> int:
        start = next(starts)  # never the same blocks twice: nothing comes out of the cache
        parts = range(start, start + 20 * BLOCK_RECORDS, 10_000)
        return sum(len(source.payloads(0, part, 10_000)) for part in parts)

    timed(benchmark, make)
