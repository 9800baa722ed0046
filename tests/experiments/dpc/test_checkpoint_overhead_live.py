"""The price of being able to go back, live: passes by method, and claims that can fail."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pandas as pd
import pytest

from experiments.dpc import checkpoint_overhead_live
from experiments.dpc._live import Chain
from experiments.dpc.checkpoint_overhead_live import EXPERIMENT, cell_of
from harness.protocol.scheme import Method, Scheme
from harness.results.record import Profile
from tests.experiments.live.judging import all_hold, held, panels, passes


def made_up() -> dict[str, pd.DataFrame]:
    rows = [
        {
            "state": state,
            "method": method.value,
            "interval_s": interval_s,
            "share": state / interval_s / 1e5 / (1 if method is Method.CHECKPOINT else 10),
            "repeat": repeat,
        }
        for state in (500, 8_000)
        for method in Method
        for interval_s in (0.2, 1.0)
        for repeat in range(6)
    ]
    samples = pd.DataFrame(rows)
    points = samples.groupby(["state", "method", "interval_s"])["share"].mean().reset_index()
    return {"points": points, "samples": samples, "passes": passes({"state": 500, "cell": "none"})}


def test_every_claim_can_hold_and_can_fail() -> None:
    assert all_hold(EXPERIMENT, made_up())
    table = made_up()
    table["samples"]["share"] *= -1
    table["passes"].loc[0, "output_equals_truth"] = False
    assert set(held(EXPERIMENT, table).values()) == {False}


def test_what_was_not_measured_is_not_judged() -> None:
    table = made_up()
    table["samples"] = table["samples"].query("state == 500 and interval_s == 0.2")
    found = held(EXPERIMENT, table)
    assert found["grows-with-state"] is found["grows-with-frequency"] is None
    assert found["checkpoints-cost-more"] is True


def test_four_samples_leave_it_open() -> None:
    table = made_up()
    table["samples"] = table["samples"].query("repeat < 4")
    assert held(EXPERIMENT, table)["checkpoints-cost-more"] is None


def test_a_line_for_each_method_and_state() -> None:
    (axes,) = panels(EXPERIMENT, made_up())
    assert len(axes.get_legend_handles_labels()[1]) == 4


def test_one_method_at_a_time_is_on() -> None:
    stored, marked = (cell_of(method, 0.2) for method in (Method.CHECKPOINT, Method.UNDO))
    assert (stored.checkpoint_s, stored.snapshot_every) == (0.2, 0)
    assert (marked.checkpoint_s, marked.snapshot_every) == (
        checkpoint_overhead_live.NEVER.checkpoint_s,
        2,
    )
    assert checkpoint_overhead_live.NEVER.snapshot_every == 0


@pytest.mark.parametrize("profile", Profile)
def test_never_is_longer_than_the_load_and_fits_the_buffers(profile: Profile) -> None:
    chain = Chain(rate_per_s=checkpoint_overhead_live.RATE_PER_S, state=8_000)
    load_s = chain.begin_s + checkpoint_overhead_live.COUNTED_S[profile]
    assert load_s < checkpoint_overhead_live.NEVER_S
    window: Any = next(field.default for field in fields(Scheme) if field.name == "window")
    assert checkpoint_overhead_live.NEVER_S / chain.bucket_s < window
