"""World Cup logs made up for tests."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from datasets.worldcup.format import DAY_ONE_S, DAY_S, RECORD, Records

GENUINE = Path(__file__).parents[2].parent / "shared/data/worldcup98/wc_day50_4.head"


def genuine_log() -> Path:
    """Return 10,000 records of the archive; skip the test on a machine without it."""
    if not GENUINE.exists():
        pytest.skip(f"{GENUINE} is absent: real records of the archive are not redistributed")
    return GENUINE


def midday(day: int) -> int:
    """Return noon in Paris of ``day``, in Unix seconds."""
    return DAY_ONE_S + (day - 1) * DAY_S + DAY_S // 2


def possible_records(number: int, *, day: int = 66, seed: int = 0, start_s: int = 0) -> Records:
    """Return ``number`` records for a log of ``day``, from ``start_s`` after its noon on."""
    random = np.random.default_rng(seed)
    records = np.zeros(number, dtype=RECORD)
    records["timestamp"] = midday(day) + start_s + np.sort(random.integers(0, 60, number))
    records["client"] = random.integers(0, 1000, number)
    records["object"] = random.integers(0, 300, number)
    records["size"] = random.integers(0, 10_000, number)
    records["status"] = 66
    records["server"] = random.choice([0, 5, 33, 73, 101], number)
    return records


def write_log(path: Path, records: Records) -> Path:
    """Write ``records`` as a file of the archive, compressed if its name ends so."""
    data = records.tobytes()
    path.write_bytes(gzip.compress(data, 1) if path.suffix == ".gz" else data)
    return path
