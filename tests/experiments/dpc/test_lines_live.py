"""Straight lines of the live figures: what too few points leave open, and what breaks them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from experiments.dpc import availability_bound, chain_length, reconciliation, serialization
from experiments.dpc._table2 import FAILURE_S
from harness.results.record import Profile
from tests.experiments.live.judging import held

LINES = ("delay-proportional", "delay-linear")


def bounds(bounds_s: Sequence[float], beyond_s: float = 0.0) -> dict[str, pd.DataFrame]:
    """Return points as the analytic model has them; the longest bound is exceeded by a time."""
    points = pd.DataFrame(
        [
            {"during_failure": policy, "bound_s": bound_s, "delay_new_s": bound_s,
             "tentative": availability_bound.expected(policy, bound_s)}
            for policy in ("delay", "process") for bound_s in bounds_s
        ]
    )  # fmt: skip
    points["expected"] = points["tentative"]
    longest = points["bound_s"] == max(bounds_s)
    points.loc[longest, "delay_new_s"] += beyond_s
    return {"points": points, "passes": pd.DataFrame()}


@pytest.mark.parametrize("profile", [Profile.QUICK, Profile.PAPER])
def test_the_bounds_of_a_profile_show_whether_the_delay_is_linear(profile: Profile) -> None:
    inside = [each for each in availability_bound.LIVE_BOUNDS_S[profile] if each < 5]
    for beyond_s, expected in ((0.0, True), (1.0, False)):
        claims = [each for each in availability_bound.SENTENCES if each.id in LINES]
        verdicts = {
            each.id: each.decide(bounds(inside, beyond_s)["points"]).held for each in claims
        }
        assert verdicts["delay-linear"] is expected
        assert verdicts["delay-proportional"] is True


def test_two_bounds_are_no_line() -> None:
    claims = [each for each in availability_bound.SENTENCES if each.id in LINES]
    assert [each.decide(bounds((1.5, 6.0))["points"]).held for each in claims] == [None, None]


def delays(by_bucket_ms: dict[int, float]) -> dict[str, bool | None]:
    """Return which claims hold for average delays (s)."""
    frame = pd.DataFrame({"bucket_ms": by_bucket_ms.keys(), "mean_delay_s": by_bucket_ms.values()})
    passes = pd.DataFrame({"output_equals_truth": [True]})
    return held(serialization.LIVE_EXPERIMENT, {"points": frame, "passes": passes})


def test_two_bucket_sizes_are_no_line() -> None:
    assert delays({50: 0.037, 200: 0.112, 500: 0.262})["linear"] is True
    assert delays({50: 0.037, 500: 0.262})["linear"] is None


def test_a_line_may_have_any_slope_and_a_curve_is_none() -> None:
    steep = delays({50: 0.062, 200: 0.212, 500: 0.512})
    assert (steep["linear"], steep["half-a-bucket"]) == (True, False)
    assert delays({50: 0.0025, 200: 0.04, 500: 0.25})["linear"] is False


def test_a_step_is_per_node_also_between_chains_that_differ_by_several() -> None:
    def delays(by_chain: dict[int, float]) -> bool | None:
        table = pd.DataFrame({"chain": by_chain.keys(), "delay_new_s": by_chain.values()})
        return chain_length.delay_adds_up.decide(table.assign(combination="delay & delay")).held

    assert delays({1: 2.8, 4: 10.9}) is True
    assert delays({1: 2.8, 4: 5.5}) is False
    assert delays({4: 10.9}) is None


def test_panels_that_share_an_axis_show_what_is_highest_in_the_second() -> None:
    redo = reconciliation.LOW_PER_S * FAILURE_S
    points = pd.DataFrame(
        [
            {"method": method, "state": state, "redo": redo * more, "delay_s": delay_s}
            for method in ("checkpoint", "undo")
            for state, more, delay_s in (
                (reconciliation.SMALL, 1, 0.1), (12_000, 1, 0.2),
                (reconciliation.SMALL, 9, 0.9),
            )
        ]
    )  # fmt: skip
    figure = Figure()
    reconciliation.LIVE_EXPERIMENT.draw({"points": points, "passes": pd.DataFrame()}, figure)
    for axes in figure.axes:
        drawn = np.concatenate([np.asarray(line.get_ydata(), dtype=float) for line in axes.lines])
        assert axes.get_ylim()[0] <= drawn.min() < drawn.max() <= axes.get_ylim()[1]
