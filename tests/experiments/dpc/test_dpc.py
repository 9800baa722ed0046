"""Borealis' figures: formulas by hand, single runs, and the cells of the live ones."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from experiments.dpc import (
    _live,
    _shared,
    _table2,
    availability_bound,
    checkpoint_overhead,
    reconciliation,
)
from experiments.dpc._table2 import FAILURE_S
from harness.protocol.scheme import Method, Policy, Scheme
from harness.results.record import Profile
from harness.results.tables import Results
from tests.experiments.judging import claim_of


def test_analytic_count_of_tentative_tuples() -> None:
    assert availability_bound.expected("process", 4.0) == 10_000
    assert availability_bound.expected("delay", 4.0) == 2_000
    assert availability_bound.expected("delay", 5.0) == 0


def test_table_2_by_hand() -> None:
    # S = 1000, Dλ = 5000, λ = 1000/s; 22 µs to process, 2 to copy, 1 to compare a tuple
    assert _table2.analytic("checkpoint", 1000, 5000, 1000) == pytest.approx(
        1000 * 2e-6 + 5000 * 22e-6
    )
    # a marker before every second bucket of 100 ms: half a bucket, 50 tuples, again
    undo = 6000 * 23e-6 + 50 * 22e-6
    assert _table2.analytic("undo", 1000, 5000, 1000) == pytest.approx(undo)
    limited = _table2.analytic("undo, limited history", 1000, 5000, 1000)
    assert undo - limited == pytest.approx(5000 * 1e-6)
    two = _table2.analytic("checkpoint, 2 boxes", 1000, 5000, 1000)
    assert two == pytest.approx(1000 * 2e-6 + 2 * 5000 * 22e-6)


def test_a_late_burst_is_old_while_a_node_stabilizes() -> None:
    """The node behind one that delays must not count from the arrival of its burst."""
    tentative = {}
    for known in (True, False):
        setting = _shared.Setting(
            failure_s=8.0,
            settle_us=8_000_000,
            bound_s=2.7,
            chain=2,
            during_failure=Policy.DELAY,
            during_stabilization=Policy.DELAY,
            interval_known=known,
        )
        tentative[known] = _shared.measure(setting).tentative
    assert tentative[True] > tentative[False]


def test_suspending_throughout_blocks_for_the_whole_failure() -> None:
    measured = _shared.measure(
        _shared.Setting(
            failure_s=4.0, settle_us=8_000_000, bound_s=1.0, during_failure=Policy.SUSPEND
        )
    )
    assert measured.tentative == 0
    assert measured.delay_new_s >= 3.9


def test_one_method_at_a_time_is_on() -> None:
    stored, marked = (checkpoint_overhead.cell_of(method, 0.2) for method in Method)
    assert (stored.checkpoint_s, stored.snapshot_every) == (0.2, 0)
    never = checkpoint_overhead.NEVER
    assert (marked.checkpoint_s, marked.snapshot_every) == (never.checkpoint_s, 2)
    assert never.snapshot_every == 0


@pytest.mark.parametrize("profile", Profile)
def test_never_is_longer_than_the_load_and_fits_the_buffers(profile: Profile) -> None:
    chain = _live.Chain(rate_per_s=checkpoint_overhead.LIVE_RATE_PER_S, state=8_000)
    assert chain.begin_s + checkpoint_overhead.COUNTED_S[profile] < checkpoint_overhead.NEVER_S
    window: Any = next(field.default for field in fields(Scheme) if field.name == "window")
    assert checkpoint_overhead.NEVER_S / chain.bucket_s < window


def test_a_run_that_waits_for_a_bucket_less_moves_no_delay() -> None:
    """Of two seeds each had one run of five with 0.025 s in place of 0.125."""
    runs = pd.DataFrame(
        [
            {"panel": "state", "method": "checkpoint", "state": 4000, "rate_per_s": 990,
             "delay_s": delay_s, "kept_tuples": 9000}
            for delay_s in (0.1246, 0.1245, 0.1252, 0.0251, 0.125)
        ]
    )  # fmt: skip
    (row,) = reconciliation.table(Results(runs, {})).to_dict("records")
    assert row["delay_s"] == 0.1246
    assert (row["kept_tuples"], row["runs"]) == (9000, 5)


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


@pytest.mark.parametrize(("undo_s", "held"), [(0.12, True), (0.1, False)])
def test_the_methods_are_compared_in_each_run(undo_s: float, held: bool) -> None:
    passes = pd.DataFrame(
        [
            {"run": f"{rate} {number}", "state": reconciliation.SMALL, "redo": rate * FAILURE_S,
             "method": method, "delay_s": delay_s + rate / 1e4}
            for rate in (990.0, 9000.0)
            for number in range(3)
            for method, delay_s in (("checkpoint", 0.1), ("undo", undo_s))
        ]
    )  # fmt: skip
    claim = claim_of(reconciliation.LIVE_EXPERIMENT, "checkpoint-beats-undo")
    found = claim.decide({"passes": passes})
    assert found.held is held
    assert found.sample is not None
    assert found.sample.n == 6
