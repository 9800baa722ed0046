"""The other models: their known values, and that none beats ours."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.errors import UsageError
from harness.intervals.rivals import (
    RIVALS,
    daly_first_order_interval_s,
    daly_interval_s,
    young_interval_s,
    zhuang_interval_s,
)
from harness.intervals.utilization import CheckpointedSystem
from tests.levels import amount


def system(cost_in_mttf: float, restart_s: float = 0.0) -> CheckpointedSystem:
    return CheckpointedSystem(cost_s=cost_in_mttf, failure_rate_per_s=1.0, restart_s=restart_s)


def test_young_is_the_square_root_and_the_checkpoint() -> None:
    assert young_interval_s(system(0.02)) == pytest.approx(0.2 + 0.02)


def test_dalys_first_order_counts_the_restart() -> None:
    assert daly_first_order_interval_s(system(0.02, 0.21)) == pytest.approx(0.22 + 0.02)


@pytest.mark.parametrize(
    ("cost_in_mttf", "within"), [(1e-6, 1e-9), (0.05, 1.2e-4), (0.5, 3.3e-3), (1.0, 9e-3)]
)
def test_dalys_higher_order_is_our_optimum_nearly(cost_in_mttf: float, within: float) -> None:
    best = float(system(cost_in_mttf).optimal_interval_s())
    assert daly_interval_s(system(cost_in_mttf)) == pytest.approx(best, rel=within)


def test_daly_gives_up_where_a_checkpoint_outlasts_two_mttfs() -> None:
    assert daly_interval_s(system(2.5)) == pytest.approx(1.0 + 2.5)


def test_zhuang_at_full_load_is_youngs_tau_as_a_period() -> None:
    assert zhuang_interval_s(system(0.02)) == pytest.approx(0.2)
    assert zhuang_interval_s(system(0.02), load=0.25) == pytest.approx(0.4)
    with pytest.raises(UsageError, match=r"load is 1\.5"):
        zhuang_interval_s(system(0.02), load=1.5)


@pytest.mark.parametrize("name", RIVALS)
@given(cost_in_mttf=st.floats(1e-9, 10.0), restart=st.floats(0.0, 5.0))
@settings(max_examples=amount(60), deadline=None)
def test_no_rival_beats_the_optimum(name: str, cost_in_mttf: float, restart: float) -> None:
    one = system(cost_in_mttf, restart)
    theirs = RIVALS[name](one)
    assert theirs >= cost_in_mttf
    ours = one.log_utilization(one.optimal_interval_s())
    assert one.log_utilization(theirs) <= ours + 1e-13


def test_dalys_higher_order_at_a_checkpoint_as_long_as_the_mttf() -> None:
    assert daly_interval_s(system(1.0)) == pytest.approx(1.8261, abs=1e-4)
    assert system(1.0).optimal_interval_s() == pytest.approx(1.8414, abs=1e-4)
