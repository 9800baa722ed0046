"""The success of tuples, against a literal count."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.measure.success import DRAIN_S, TUPLE_TIMEOUT_S, first_arrivals_s, success_rate
from tests.levels import amount

NEVER = float("inf")


def test_timeout_and_drain_are_the_edge_papers() -> None:
    assert (TUPLE_TIMEOUT_S, DRAIN_S) == (5.0, 30.0)


times = st.floats(0, 100, allow_nan=False)


@settings(max_examples=amount(60), deadline=None)
@given(
    tuples=st.lists(st.tuples(times, st.lists(times | st.just(NEVER), max_size=4)), max_size=20),
    until_s=times,
    timeout_s=times,
    drain_s=times,
)
def test_it_is_what_a_literal_count_gives(
    tuples: list[tuple[float, list[float]]], until_s: float, timeout_s: float, drain_s: float
) -> None:
    """Each tuple with the arrivals of its results; each of them has a result of its own."""
    rows = [
        (number, sent, f"{number} {place}", arrival)
        for number, (sent, arrivals) in enumerate(tuples)
        for place, arrival in enumerate(arrivals)
    ]
    every = pd.DataFrame(rows, columns=["tuple", "sent_s", "result", "arrival_s"]).astype(
        {"sent_s": float, "arrival_s": float}
    )
    delivered = every[np.isfinite(every["arrival_s"])]
    found = first_arrivals_s(every.drop(columns="arrival_s"), delivered, ["result"])
    counted = [(sent, min(arrivals)) for sent, arrivals in tuples if arrivals]
    succeeded = [
        arrival - sent <= timeout_s and arrival < until_s + drain_s for sent, arrival in counted
    ]
    expected = sum(succeeded) / len(succeeded) if succeeded else None
    assert success_rate(
        found["sent_s"].to_numpy(),
        found["arrival_s"].to_numpy(),
        until_s=until_s,
        timeout_s=timeout_s,
        drain_s=drain_s,
    ) == (None if expected is None else pytest.approx(expected))
