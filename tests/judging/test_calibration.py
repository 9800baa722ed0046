"""A ramp ends at the first rung that the machine sustains, and this rung scales the grids."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import pytest

from harness.judging.calibration import (
    MEDIAN_INTERVALS,
    TAIL_INTERVALS,
    GridScale,
    Rung,
    Tried,
    climb,
    judged,
    ladder,
    told,
)
from harness.load.generator import LoadResult
from harness.measure.windows import Normal
from tests.judging.constructed import WORKLOAD, deliveries, record

RUNG = Rung(interval_s=2.0, rate_per_s=500.0)
RUNGS = ladder(2.0, 500.0)


def tried(rung: Rung, median: float, slowest: float) -> Tried:
    """With latencies in the rung's intervals."""
    normal = Normal(
        median_s=median * rung.interval_s,
        slowest_s=slowest * rung.interval_s,
    )
    return Tried(rung=rung, normal=normal)


def climbing(*latencies: tuple[float, float]) -> Callable[[Rung], Tried]:
    left: Iterator[tuple[float, float]] = iter(latencies)
    return lambda rung: tried(rung, *next(left))


def rungs_of(steps: Sequence[Tried]) -> list[tuple[float, float]]:
    return [(step.rung.interval_s, step.rung.rate_per_s) for step in steps]


def test_a_slow_machine_gets_longer_intervals() -> None:
    steps = climb(RUNGS, climbing((4.0, 9.0), (2.2, 2.5), (2.0, 3.0)))
    assert rungs_of(steps) == [(2, 500), (3, 500), (4, 500)]
    values = told(RUNGS[0], steps).values
    assert values["held_interval_s"] == 4
    assert GridScale.read(values) == GridScale(intervals_times=2.0)


def test_a_single_hiccup_is_looked_at_twice_and_a_late_median_is_not() -> None:
    hiccup = climb(RUNGS, climbing((1.0, TAIL_INTERVALS + 0.1), (1.0, 2.0)))
    assert rungs_of(hiccup) == [(2, 500), (2, 500)]
    late = climb(RUNGS, climbing((MEDIAN_INTERVALS + 0.1, 2.0), (1.0, 2.0)))
    assert rungs_of(late) == [(2, 500), (3, 500)]


def test_a_slower_machine_gets_lower_rates_and_the_slowest_nothing() -> None:
    late = [(5.0, 9.0)] * 5
    lower = told(RUNGS[0], climb(RUNGS, climbing(*late, (1.0, 1.0))))
    assert GridScale.read(lower.values) == GridScale(intervals_times=4.0, rate_share=0.5)
    nothing = told(RUNGS[0], climb(RUNGS, climbing(*late, (5.0, 9.0), (5.0, 9.0))))
    assert GridScale.read(nothing.values) is None
    assert nothing.values["tried"] == len(nothing.series["ramp"]) == len(RUNGS)
    assert not nothing.series["ramp"]["held"].any()


def test_windows_count_by_their_last_result_and_not_before_the_engine_has_settled() -> None:
    late_start = deliveries({0: 20.0, 1: 19.0, 10: 4.0})
    step = judged(RUNG, record(late_start), WORKLOAD, settle_s=5)
    assert step.normal is not None
    assert step.normal.median_s == pytest.approx(1.0)
    assert step.normal.slowest_s == pytest.approx(4.0)
    assert step.held


@pytest.mark.parametrize("trouble", ["late load", "undrained", "nothing"])
def test_a_pass_that_says_nothing_holds_nothing(trouble: str) -> None:
    good = record()
    load: LoadResult = replace(good.load, invalid="4 % of the records came late")
    bad = {
        "late load": replace(good, load=load),
        "undrained": replace(good, drained=False),
        "nothing": record(deliveries().iloc[:0]),
    }[trouble]
    step = judged(RUNG, bad, WORKLOAD, settle_s=5)
    assert not step.held
    assert not step.prompt
    assert step.why_not
    assert step.row()["latency_median_s"] is None
