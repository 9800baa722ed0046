"""Lateness of windows, the twin's as the yardstick, and silences of the output.

Times are in seconds from the instant the load began. A window is *due* when the record that
closes it is due: the first one whose intended send time is at or after the window's end plus the
watermark's delay. It is *complete* when the last result that belongs to it has arrived for the
first time; infinitely late if one never came."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from harness.measure.values import identities

LATER_S, MUCH_LATER_S = 1.0, 5.0
"""Seconds above the twin's median after which a result is late, and much too late. They are the
same for every system, rate and window. Fixed on 2026-11-27, before any run that is judged by them;
until then it was a quarter above nine tenths of the twin's windows, which differed by system."""

KEPT_UP_TRIGGERS, KEPT_UP_S = 3.0, 1.0
"""A twin kept up if its median window took no longer than this number of trigger intervals and
seconds together: a window waits up to one interval for the batch with the record that closes it,
then for that batch and for the next one, which delivers it. Above, the machine was too busy or the
rate too high, and the addition of a failure has no meaning. 2 intervals until 2026-11-21 15:24 UTC,
when two-core machines were seen to need 3."""

KEPT_UP_TAIL = 1.5
"""The twin's slowest window may take this many times the limit of its median. Fixed on
2026-11-22."""


def due_times(
    window_start_s: pd.Series[float],
    *,
    window_s: float,
    watermark_delay_s: float,
    next_record_s: Callable[[float], float],
) -> pd.Series[float]:
    """Return the due time of each of these windows.

    ``next_record_s`` gives the intended send time of the first record at or after an instant;
    infinity when there is none: only the run's final marker closes such a window."""
    starts = window_start_s.unique()
    due = {start: next_record_s(start + window_s + watermark_delay_s) for start in starts}
    return window_start_s.map(due).astype(float)


def summarize_windows(
    first: pd.DataFrame,
    expected: pd.DataFrame,
    due_s: Callable[[pd.Series[float]], pd.Series[float]],
    identity: Sequence[str],
) -> pd.DataFrame:
    """Return a row per expected window, by due time.

    Columns: ``window_start_s``, ``due_s``, ``expected``, ``delivered``, ``first_s``, ``complete_s``
    and ``latency_s`` (complete minus due). ``first`` are first versions with ``arrival_s``;
    ``expected`` is the ground truth. A result that is not expected completes no window."""
    due, came = identities([expected, first], identity)
    by_window = first[np.isin(came, due)].groupby("window_start_s")["arrival_s"]
    windows = expected.groupby("window_start_s").size().rename("expected").to_frame()
    windows["delivered"] = by_window.size().reindex(windows.index, fill_value=0)
    windows["first_s"] = by_window.min().reindex(windows.index, fill_value=np.inf)
    windows["complete_s"] = by_window.max().reindex(windows.index, fill_value=np.inf)
    windows.loc[windows["delivered"] < windows["expected"], "complete_s"] = np.inf
    windows = windows.reset_index()
    windows["due_s"] = due_s(windows["window_start_s"])
    windows["latency_s"] = windows["complete_s"] - windows["due_s"]
    return windows.sort_values("due_s", ignore_index=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Normal:
    """The latency of windows without a failure: the twin's, as the yardstick."""

    median_s: float
    slowest_s: float

    @property
    def late_s(self) -> float:
        """The latency above which a window is late."""
        return self.median_s + LATER_S

    @property
    def much_too_late_s(self) -> float:
        """The latency above which it is much too late."""
        return self.median_s + MUCH_LATER_S

    def kept_up(self, trigger_s: float) -> bool:
        """Return True if the twin's median and slowest windows show that it followed its load."""
        limit_s = KEPT_UP_TRIGGERS * trigger_s + KEPT_UP_S
        return self.median_s <= limit_s and self.slowest_s <= KEPT_UP_TAIL * limit_s


def normal_of(twin: pd.DataFrame, *, from_s: float, until_s: float) -> Normal:
    """Return the yardstick of the no-failure twin's windows that were due in the span.

    Raises `ValueError` when there is none, or one that never became complete."""
    span = twin.loc[(twin["due_s"] >= from_s) & (twin["due_s"] <= until_s), "latency_s"]
    if not len(span) or not np.isfinite(span).all():
        raise ValueError("the twin did not complete every window, so nothing is normal")
    return Normal(median_s=float(span.median()), slowest_s=float(span.max()))


def longest_silence_s(arrival_s: pd.Series[float], *, from_s: float, until_s: float) -> float:
    """Return the longest time without a new result that reaches into the span.

    ``arrival_s`` are first versions' arrivals. A silence that began before ``from_s`` counts from
    where it began, one that lasts beyond ``until_s`` up to there."""
    times = np.sort(arrival_s.to_numpy(dtype=float))
    before = times[times <= from_s]
    begin = float(before[-1]) if len(before) else from_s
    inside = times[(times > from_s) & (times < until_s)]
    return float(np.diff(np.concatenate([[begin], inside, [until_s]])).max())


def timeline(first: pd.DataFrame, *, until_s: float, bin_s: float = 0.5) -> pd.DataFrame:
    """Return a row per time bin up to ``until_s``.

    Columns: ``at_s`` (its begin), ``throughput_per_s`` (first versions that arrived) and their
    ``latency_p50_s``, ``latency_p99_s``, ``latency_max_s``."""
    edges = np.arange(0, until_s + bin_s, bin_s)
    number = np.floor(first["arrival_s"] / bin_s).astype(int)
    groups = first.assign(bin=number).groupby("bin")
    every = pd.RangeIndex(len(edges) - 1)
    frame = pd.DataFrame({"at_s": edges[:-1]}, index=every)
    frame["throughput_per_s"] = groups.size().reindex(every, fill_value=0) / bin_s
    latency = groups["latency_s"]
    frame["latency_p50_s"] = latency.median().reindex(every)
    frame["latency_p99_s"] = latency.quantile(0.99).reindex(every)
    frame["latency_max_s"] = latency.max().reindex(every)
    return frame.reset_index(drop=True)
