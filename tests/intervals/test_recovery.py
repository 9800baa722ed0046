"""The sum of a recovery: each part by hand, and what must hold for all."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import UsageError
from harness.intervals.recovery import (
    DETECT,
    NOTHING,
    REPLAY,
    RESTART,
    RESTORE,
    TRANSACTION,
    Load,
    Origin,
    Part,
    Recovery,
    Span,
    exactly,
    recovery_of,
    silence,
)
from harness.intervals.systems import SYSTEMS, Failure, system_named

seconds = st.floats(0.0, 1e4)


@st.composite
def spans(draw: st.DrawFn) -> Span:
    best, mean, worst = sorted(draw(st.tuples(seconds, seconds, seconds)))
    return Span(best_s=best, mean_s=mean, worst_s=worst)


@st.composite
def loads(draw: st.DrawFn) -> Load:
    rate = draw(st.floats(1.0, 1e5))
    busy = draw(st.floats(0.01, 0.95))
    return Load(rate_per_s=rate, capacity_per_s=rate / busy, interval_s=draw(seconds))


def part(name: str, span: Span) -> Part:
    return Part(name=name, span=span, origin=Origin.GIVEN, why="a test")


def whole(
    detect: Span, restart: Span, restore: Span, load: Load, settled: Span | None = None
) -> Recovery:
    return recovery_of(
        part(DETECT, detect),
        [part(RESTART, restart)],
        part(RESTORE, restore),
        load,
        None if settled is None else part(TRANSACTION, settled),
    )


def test_catching_up_takes_the_backlog_over_what_the_job_can_do_beyond_its_input() -> None:
    load = Load(rate_per_s=1000.0, capacity_per_s=3000.0, interval_s=60.0)
    outage = Span(best_s=10.0, mean_s=20.0, worst_s=30.0)
    # Backlogs of 10,000, of 30,000 + 20,000 and of 60,000 + 30,000 tuples, at 2,000 tuples/s.
    assert load.replay(outage) == Span(best_s=5.0, mean_s=25.0, worst_s=45.0)


def test_the_parts_add_up() -> None:
    load = Load(rate_per_s=1000.0, capacity_per_s=2000.0, interval_s=10.0)
    found = whole(exactly(4.0), exactly(3.0), exactly(1.0), load)
    assert found.total == Span(best_s=16.0, mean_s=21.0, worst_s=26.0)
    assert found.part(REPLAY).mean_s == 13.0
    assert found.part(TRANSACTION) == NOTHING


@pytest.mark.parametrize(
    ("detect", "left"),
    [
        (silence(45.0, 3.0), NOTHING),  # the transaction has ended long before
        (silence(6.0, 2.0), Span(best_s=6.0, mean_s=10.0, worst_s=14.0)),
        (NOTHING, Span(best_s=10.0, mean_s=15.0, worst_s=20.0)),
    ],
)
def test_a_transaction_adds_what_is_left_of_it_after_the_detection(
    detect: Span, left: Span
) -> None:
    settled = Span(best_s=10.0, mean_s=15.0, worst_s=20.0)
    load = Load(rate_per_s=1.0, capacity_per_s=2.0, interval_s=0.0)
    assert whole(detect, NOTHING, NOTHING, load, settled).part(TRANSACTION) == left


@given(spans(), spans(), spans(), loads(), st.none() | spans())
def test_the_worst_is_not_below_the_mean_nor_that_below_the_best(
    detect: Span, restart: Span, restore: Span, load: Load, settled: Span | None
) -> None:
    found = whole(detect, restart, restore, load, settled)
    for each in [found.total, *(one.span for one in found.parts)]:
        assert 0.0 <= each.best_s <= each.mean_s <= each.worst_s
    assert found.total.mean_s >= detect.mean_s + restart.mean_s + restore.mean_s


@given(spans(), spans(), spans(), loads(), st.floats(0.0, 1e3))
def test_no_part_that_grows_makes_the_recovery_shorter(
    detect: Span, restart: Span, restore: Span, load: Load, more_s: float
) -> None:
    total = whole(detect, restart, restore, load).total
    longer = replace(load, interval_s=load.interval_s + more_s)
    faster = replace(load, capacity_per_s=load.capacity_per_s * (1.0 + more_s))
    more = exactly(more_s)
    for other in (
        whole(detect + more, restart, restore, load),
        whole(detect, restart + more, restore, load),
        whole(detect, restart, restore + more, load),
        whole(detect, restart, restore, longer),
    ):
        assert other.total.mean_s >= total.mean_s
        assert other.total.worst_s >= total.worst_s
    assert whole(detect, restart, restore, faster).total.worst_s <= total.worst_s


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"rate_per_s": 0.0}, "the rate is 0"),
        ({"capacity_per_s": -1.0}, "the capacity is -1"),
        ({"rate_per_s": 10.0}, "never catches up"),
        ({"interval_s": -1.0}, "the interval is -1 s"),
    ],
)
def test_a_load_that_cannot_be_is_refused(change: dict[str, float], words: str) -> None:
    load = Load(rate_per_s=1.0, capacity_per_s=10.0, interval_s=1.0)
    with pytest.raises(UsageError, match=words):
        replace(load, **change)


def test_a_span_out_of_order_is_refused() -> None:
    with pytest.raises(UsageError, match="cannot be"):
        Span(best_s=2.0, mean_s=1.0, worst_s=3.0)


def test_every_system_names_the_source_of_each_default() -> None:
    assert {"spark", "spark-real-time", "flink-2", "flink-1.14", "kafka-streams", "tasks"} <= set(
        SYSTEMS
    )
    for system in SYSTEMS.values():
        assert set(system.detect) == set(system.why) == set(Failure)
        assert all(setting.source for setting in system.settings)
        assert bool(system.settled) == bool(system.settled_why)
        assert (system.wait != NOTHING) == bool(system.wait_why)
        slower, faster = system.detect[Failure.MACHINE], system.detect[Failure.PROCESS]
        assert slower.mean_s >= faster.mean_s, "a machine that is silent is noticed later"


def test_a_misspelt_system_is_answered_with_the_nearest() -> None:
    with pytest.raises(UsageError) as error:
        system_named("kafka-stream")
    assert "did you mean 'kafka-streams" in error.value.remedy


@given(spans(), spans(), loads())
def test_a_transaction_never_ends_sooner_than_it_does(
    detect: Span, settled: Span, load: Load
) -> None:
    found = whole(detect, NOTHING, NOTHING, load, settled)
    ended_s = found.part(DETECT).worst_s + found.part(TRANSACTION).worst_s
    assert ended_s >= settled.worst_s * (1 - 1e-12)
