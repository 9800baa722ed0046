"""Whether an engine keeps up with its input: by how fast its backlog grows.

The backlog is what was meant to be sent and is not processed yet. Under a rate that is sustained
it swings around a level, batch by batch; under one that is not, it grows without end. Its slope
tells the two apart while the load still runs, and is not helped by what is processed afterwards.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

FEWEST = 3
"""Fewer batches than this give no slope."""


def backlog(batches: pd.DataFrame, due: Callable[[float], int]) -> pd.DataFrame:
    """A row per batch, at the instant it was done: ``at_s`` and ``backlog``, in records.

    ``batches`` has ``at_s`` (seconds from the start of the load) and ``rows`` (records it
    processed), ``due(at_s)`` is how many records were meant to have been sent by then.
    """
    done = batches[batches["rows"] > 0].sort_values("at_s")
    sent = done["at_s"].map(lambda at_s: due(float(at_s)))
    return pd.DataFrame({"at_s": done["at_s"], "backlog": sent - done["rows"].cumsum()})


def slope_per_s(levels: pd.DataFrame, *, from_s: float, until_s: float) -> float | None:
    """By how many records the backlog grows per second in a span, by least squares; None with
    fewer than `FEWEST` batches in it."""
    span = levels[(levels["at_s"] >= from_s) & (levels["at_s"] <= until_s)]
    if len(span) < FEWEST:
        return None
    return float(np.polyfit(span["at_s"], span["backlog"], 1)[0])
