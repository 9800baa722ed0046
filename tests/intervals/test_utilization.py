"""The closed forms against the paper's printed digits, an exact oracle, and their own laws."""

from __future__ import annotations

from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.errors import UsageError
from harness.intervals.utilization import (
    CheckpointedSystem,
    optimal_period_in_mttf,
    system_failure_rate_per_s,
)
from tests.levels import amount

Row = tuple[float, int, float, float, float, float, str]
TABLE_1: list[Row] = [
    # λ/min, n, c s, R s, δ ms, U(30 min), T* min, both as printed
    (0.05, 5, 1.60, 23.1, 27.353, 0.4222, "1.0418"),
    (0.05, 7, 3.09, 23.81, 32.652, 0.4216, "1.4526"),
    (0.01, 5, 1.07, 23.70, 13.861, 0.8536, "1.8945"),
    (0.01, 7, 1.59, 24.12, 15.071, 0.8533, "2.3110"),
    (0.005, 5, 1.15, 25.37, 12.61, 0.9243, "2.7753"),
    (0.005, 7, 2.57, 24.07, 12.851, 0.9237, "4.1536"),
]

costs_in_mttf = st.floats(1e-12, 10.0)
shares = st.floats(0.0, 5.0)


@pytest.mark.parametrize("row", TABLE_1, ids=lambda row: f"{row[0]}/min, {row[1]} operators")
def test_table_1_has_the_digits_that_are_printed(row: Row) -> None:
    rate, depth, cost, restart, delay, at_30_min, optimum_min = row
    system = CheckpointedSystem(
        cost_s=cost,
        failure_rate_per_s=rate / 60.0,
        restart_s=restart,
        depth=depth,
        delay_s=delay / 1000.0,
    )
    assert f"{system.optimal_interval_s() / 60.0:.4f}" == optimum_min
    assert system.utilization(1800.0) == pytest.approx(at_30_min, abs=1e-4)


def test_five_real_systems_and_two_of_many_nodes_gain_what_the_paper_says() -> None:
    many = [float(system_failure_rate_per_s(nodes, 1.0 / 0.0022)) for nodes in (1000, 2000)]
    rates = np.array([0.8475, 0.1701, 0.135, 0.1161, 0.0606, *many]) / 3600.0
    system = CheckpointedSystem(cost_s=5.0, failure_rate_per_s=rates)
    gain = 100.0 * system.increase(system.optimal_interval_s(), over_s=1800.0)
    assert gain == pytest.approx([18.91, 2.4, 1.73, 1.4, 0.5, 68.8, 226.83], abs=0.02)


def exact_optimum(p: float) -> Decimal:
    """Return λT* to 45 digits, by Newton's method on y - 1 + e^-y = p."""
    with localcontext() as context:
        context.prec = 60
        target = Decimal(p)
        y = (2 * target).sqrt() + target
        for _ in range(80):
            y -= (y - 1 + (-y).exp() - target) / (1 - (-y).exp())
        return +y


@pytest.mark.parametrize(
    "p", [1e-12, 1e-10, 1e-7, 1e-4, 1e-3, 9.999e-3, 1e-2, 1.001e-2, 0.05, 0.5, 1.0, 3.0, 10.0]
)
def test_optimum_keeps_its_digits_from_one_end_to_the_other(p: float) -> None:
    error = (Decimal(float(optimal_period_in_mttf(p))) - exact_optimum(p)) / exact_optimum(p)
    assert abs(error) < Decimal("1e-14")


@given(p=costs_in_mttf, mttf=st.floats(1e-3, 1e9), factor=st.floats(1.0001, 20.0))
@settings(max_examples=amount(150), deadline=None)
def test_nothing_beats_the_optimum(p: float, mttf: float, factor: float) -> None:
    system = CheckpointedSystem(cost_s=p * mttf, failure_rate_per_s=1.0 / mttf)
    best = float(system.optimal_interval_s())
    assert best > system.cost_s
    at_best = system.log_utilization(best)
    assert at_best >= system.log_utilization(best * factor) - 1e-13
    shorter = max(best / factor, float(system.cost_s) * (1 + 1e-12))
    assert at_best >= system.log_utilization(shorter) - 1e-13


@given(p=costs_in_mttf, stretch=st.floats(1.0, 1e6), restart=shares, depth=st.integers(1, 50))
@settings(max_examples=amount(150), deadline=None)
def test_utilization_stays_between_0_and_1(
    p: float, stretch: float, restart: float, depth: int
) -> None:
    system = CheckpointedSystem(
        cost_s=p, failure_rate_per_s=1.0, restart_s=restart, depth=depth, delay_s=0.01
    )
    value = float(system.utilization(p * stretch))
    assert 0.0 <= value <= 1.0


@pytest.mark.parametrize("interval", [700.0, 712.0, 1e5, 1e300])
def test_an_overflowing_exponential_is_no_utilization_at_all(interval: float) -> None:
    system = CheckpointedSystem(cost_s=1.0, failure_rate_per_s=1.0, restart_s=800.0)
    assert system.utilization(interval) == 0.0
    assert np.isfinite(system.log_utilization(interval))
    assert system.increase(2.0, over_s=interval) > 1e300


def test_thirty_minutes_is_optimal_at_a_failure_in_19_days() -> None:
    system = CheckpointedSystem(cost_s=1.0, failure_rate_per_s=0.0022 / 3600.0)
    assert system.optimal_interval_s() / 60.0 == pytest.approx(30.0, abs=0.2)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("cost_s", 0.0),
        ("cost_s", -1.0),
        ("cost_s", float("nan")),
        ("failure_rate_per_s", 0.0),
        ("failure_rate_per_s", float("inf")),
        ("restart_s", -2.0),
        ("depth", 0.0),
        ("delay_s", -0.1),
    ],
)
def test_a_value_that_means_nothing_is_named(field: str, value: float) -> None:
    good = {"cost_s": 1.0, "failure_rate_per_s": 0.1}
    with pytest.raises(UsageError, match=rf"{field} is {value:g}") as caught:
        CheckpointedSystem(**{**good, field: value})
    assert caught.value.remedy


def test_a_checkpoint_longer_than_its_interval_is_an_error_that_names_both() -> None:
    system = CheckpointedSystem(cost_s=np.array([1.0, 90.0]), failure_rate_per_s=1e-3)
    with pytest.raises(UsageError, match=r"costs 1\.5 min .* interval of 1 min"):
        system.utilization(60.0)


def test_nodes_add_their_rates() -> None:
    assert system_failure_rate_per_s(19, 19 * 86400.0) == pytest.approx(1 / 86400.0)
    with pytest.raises(UsageError, match="nodes is 0"):
        system_failure_rate_per_s(0, 86400.0)


@given(p=costs_in_mttf, restart=shares, depth=st.integers(1, 1000), delay=shares)
@settings(max_examples=amount(50), deadline=None)
def test_optimum_ignores_restart_depth_and_delay(
    p: float, restart: float, depth: int, delay: float
) -> None:
    plain = CheckpointedSystem(cost_s=p, failure_rate_per_s=1.0)
    deep = CheckpointedSystem(
        cost_s=p, failure_rate_per_s=1.0, restart_s=restart, depth=depth, delay_s=delay
    )
    assert plain.optimal_interval_s() == deep.optimal_interval_s()
    grid = np.geomspace(p * 1.001, p + 30.0, 200)
    assert plain.log_utilization(grid).argmax() == deep.log_utilization(grid).argmax()


@given(
    p=st.floats(1e-6, 5.0),
    unit_s=st.sampled_from([1e-3, 60.0, 3600.0, 86400.0]),
    stretch=st.floats(1.01, 50.0),
)
@settings(max_examples=amount(50), deadline=None)
def test_the_unit_of_time_does_not_matter(p: float, unit_s: float, stretch: float) -> None:
    one = CheckpointedSystem(cost_s=p, failure_rate_per_s=1.0)
    other = CheckpointedSystem(cost_s=p * unit_s, failure_rate_per_s=1.0 / unit_s)
    assert other.utilization(p * stretch * unit_s) == pytest.approx(
        float(one.utilization(p * stretch)), rel=1e-9
    )
