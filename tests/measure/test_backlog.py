from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from harness.measure.backlog import FEWEST, backlog, slope_per_s

RATE = 1_000


def batches(share: float, *, every_s: float = 2.0) -> pd.DataFrame:
    """Return batches at an interval, each with that share of the records since the last one."""
    at_s = np.arange(every_s, 20.0 + every_s / 2, every_s)
    return pd.DataFrame({"at_s": at_s, "rows": [round(share * RATE * every_s)] * len(at_s)})


def slope(frame: pd.DataFrame) -> float | None:
    levels = backlog(frame, lambda at_s: round(RATE * min(at_s, 20.0)))
    return slope_per_s(levels, from_s=5, until_s=20)


def test_an_engine_that_falls_behind_has_a_growing_one() -> None:
    assert slope(batches(0.63)) == pytest.approx(0.37 * RATE, rel=0.01)


def test_a_batch_at_the_end_of_the_span_counts() -> None:
    """The frame has the smallest sufficient number of batches, the last one at its end."""
    frame = pd.DataFrame({"at_s": [5.0, 10.0, 15.0, 20.0], "backlog": [0, 5, 10, 15]})
    frame = frame.tail(FEWEST)
    assert slope_per_s(frame, from_s=frame["at_s"].iloc[0], until_s=20) == pytest.approx(1.0)


def test_empty_batches_and_too_few_say_nothing() -> None:
    idle = pd.DataFrame({"at_s": [6.0, 7.0, 8.0, 9.0], "rows": [0, 0, 0, 0]})
    assert slope(idle) is None
    assert slope(batches(1.0, every_s=9.0)) is None
