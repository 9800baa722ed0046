"""Memory of a run's processes over time: rows, growth, and a picture."""

from __future__ import annotations

import os

import pandas as pd

from harness.endurance.memory import COLUMNS, HARNESS, Memory, growth


def test_every_process_of_a_run_is_looked_at() -> None:
    looks = iter([{os.getpid(): 5_000_000}, {os.getpid(): 6_000_000, 1 << 30: 7_000_000}])
    memory = Memory("run", processes=lambda run: next(looks))
    memory.sample()
    memory.sample()
    table = memory.table()
    assert list(table.columns) == list(COLUMNS)
    assert table["role"].tolist() == [HARNESS, HARNESS, "other"]
    assert table["resident_mb"].tolist() == [5.0, 6.0, 7.0]


def rows(role: str, *resident_mb: float) -> pd.DataFrame:
    at_s = [float(number) for number in range(len(resident_mb))]
    return pd.DataFrame({"at_s": at_s, "role": role, "pid": 1, "resident_mb": resident_mb})


def test_growth_is_of_the_largest_process_after_it_has_warmed_up() -> None:
    leaks = rows("nodes", 10, 50, 60, 70, 80, 90, 100, 110, 120)
    flat = rows("Redis", 1, 9, 9, 9, 9, 9, 9, 9, 9)
    small = leaks.assign(resident_mb=1.0)
    assert growth(pd.concat([leaks, flat, small])) == {"Redis": 0.0, "nodes": 40.0}
    assert growth(pd.DataFrame(columns=list(COLUMNS))) == {}
