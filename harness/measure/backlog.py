"""The growth of an engine's backlog, which shows if the engine keeps up with its input.

The backlog is the number of records that are due and not processed yet. Under a rate that is
sustained it swings around a level, batch by batch; under one that is not, it grows without end. Its
slope distinguishes the two while the load still runs, and later processing does not improve it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

FEWEST = 3
"""The least number of batches for a slope."""


def backlog(batches: pd.DataFrame, due: Callable[[float], int]) -> pd.DataFrame:
    """Return a row per batch, at its end: ``at_s`` and ``backlog``, in records.

    ``batches`` has ``at_s`` (seconds from the start of the load) and ``rows`` (processed records);
    ``due(at_s)`` is the number of records that are due by then."""
    done = batches[batches["rows"] > 0].sort_values("at_s")
    sent = done["at_s"].map(lambda at_s: due(float(at_s)))
    return pd.DataFrame({"at_s": done["at_s"], "backlog": sent - done["rows"].cumsum()})


def slope_per_s(levels: pd.DataFrame, *, from_s: float, until_s: float) -> float | None:
    """Return the growth of the backlog in records per second over a span, by least squares.

    None with fewer than `FEWEST` batches in it."""
    span = levels[(levels["at_s"] >= from_s) & (levels["at_s"] <= until_s)]
    if len(span) < FEWEST:
        return None
    return float(np.polyfit(span["at_s"], span["backlog"], 1)[0])
