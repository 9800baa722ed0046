"""Reports of cars that begin when the roads have been driven on for a while."""

from __future__ import annotations

import numpy as np
import pytest

from datasets.accident import REPORT, SENSOR_ERROR_KMH, Cars
from harness.errors import UsageError

CARS = 20


def test_a_later_start_leaves_the_first_reports_out() -> None:
    early = Cars(seed=5, partitions=3, cars=CARS)
    late = Cars(seed=5, partitions=3, cars=CARS, start_s=130)
    for partition in range(3):
        assert late.payloads(partition, 7, 900) == early.payloads(partition, 7 + 130 * CARS, 900)


def test_accidents_have_happened_by_then() -> None:
    """At second 0 the first accident has yet to come."""

    def seconds_with_standing_cars(start_s: int) -> int:
        source = Cars(seed=5, partitions=4, start_s=start_s)
        standing = np.zeros(30, dtype=bool)
        for partition in range(4):
            speed = REPORT.decode(source.payloads(partition, 0, 3_000))["speed"]
            standing |= (speed <= SENSOR_ERROR_KMH).reshape(30, 100).any(axis=1)
        return int(standing.sum())

    assert seconds_with_standing_cars(100) > seconds_with_standing_cars(0)


def test_a_start_before_the_simulation_is_refused() -> None:
    with pytest.raises(UsageError, match="from -1 s on"):
        Cars(seed=5, start_s=-1)
