"""How late each window was, and how long the output took to come back.

Times are in seconds from the instant the load began. A window is *due* when the record that
closes it is due: the first one whose intended send time is at or after the window's end plus the
watermark's delay. It is *complete* when the last result that belongs to it has arrived for the
first time; infinitely late if one never came.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

TOLERANCE = 1.25
"""A window is late when it took this many times as long as the twin's slowest. Fixed before
anything was measured: two runs of the same thing differ by some tenths."""

CALM_S = 5.0
"""How long output must have been on time to count as caught up. A window that is late after
such a calm is another disturbance, and counted as one."""


KEPT_UP_TRIGGERS, KEPT_UP_S = 3.0, 1.0
"""A twin kept up if its median window took no longer than so many trigger intervals and so many
seconds: a window waits up to one interval for the batch with the record that closes it, that
batch, and the next one, which delivers it. Above, the machine was too busy or the rate too high,
and what a failure adds to that says nothing."""


def due_times(
    window_start_s: pd.Series[float],
    *,
    window_s: float,
    watermark_delay_s: float,
    next_record_s: Callable[[float], float],
) -> pd.Series[float]:
    """When each of these windows is due.

    ``next_record_s`` gives the intended send time of the first record at or after an instant;
    infinity when there is none: only the run's final marker closes such a window.
    """
    starts = window_start_s.unique()
    due = {start: next_record_s(start + window_s + watermark_delay_s) for start in starts}
    return window_start_s.map(due).astype(float)


def summarize_windows(
    first: pd.DataFrame,
    expected: pd.DataFrame,
    due_s: Callable[[pd.Series[float]], pd.Series[float]],
) -> pd.DataFrame:
    """A row per expected window, by due time: ``window_start_s``, ``due_s``, ``expected``,
    ``delivered``, ``first_s``, ``complete_s`` and ``latency_s`` (complete minus due).

    ``first`` are first versions with ``arrival_s``; ``expected`` the ground truth.
    """
    by_window = first.groupby("window_start_s")["arrival_s"]
    windows = expected.groupby("window_start_s").size().rename("expected").to_frame()
    windows["delivered"] = by_window.size().reindex(windows.index, fill_value=0)
    windows["first_s"] = by_window.min().reindex(windows.index, fill_value=np.inf)
    windows["complete_s"] = by_window.max().reindex(windows.index, fill_value=np.inf)
    windows.loc[windows["delivered"] < windows["expected"], "complete_s"] = np.inf
    windows = windows.reset_index()
    windows["due_s"] = due_s(windows["window_start_s"])
    windows["latency_s"] = windows["complete_s"] - windows["due_s"]
    return windows.sort_values("due_s", ignore_index=True)


def normal_latency_s(twin: pd.DataFrame, *, from_s: float, until_s: float) -> float:
    """The latency up to which a window is on time: `TOLERANCE` times that of the slowest window
    of the no-failure twin that was due in the span."""
    span = twin[(twin["due_s"] >= from_s) & (twin["due_s"] <= until_s)]
    if not len(span) or not np.isfinite(span["latency_s"]).all():
        raise ValueError("the twin did not complete every window, so nothing is normal")
    return TOLERANCE * float(span["latency_s"].max())


def kept_up(twin: pd.DataFrame, *, trigger_s: float, from_s: float, until_s: float) -> bool:
    """Whether the no-failure twin followed its load (`KEPT_UP_TRIGGERS`)."""
    span = twin[(twin["due_s"] >= from_s) & (twin["due_s"] <= until_s)]
    return bool(span["latency_s"].median() <= KEPT_UP_TRIGGERS * trigger_s + KEPT_UP_S)


def recovery_s(
    windows: pd.DataFrame,
    *,
    failed_at_s: float,
    normal_s: float,
    until_s: float,
    calm_s: float = CALM_S,
) -> float | None:
    """From the failure until the output has caught up, as a user sees it.

    Caught up: the arrival of the last late result before every window has been on time for
    ``calm_s``. 0 when no window was late; None when the output was still late at ``until_s``,
    the end of the load, when a window never became complete, or none was due after the failure.
    """
    after = windows[(windows["complete_s"] > failed_at_s) & (windows["due_s"] <= until_s)]
    if not len(after) or not np.isfinite(after["complete_s"]).all():
        return None
    caught_up_s, late_due_s, last_is_late = failed_at_s, failed_at_s, False
    for due_s, complete_s in after[["due_s", "complete_s"]].itertuples(index=False):
        last_is_late = complete_s - due_s > normal_s
        if last_is_late:
            caught_up_s, late_due_s = max(caught_up_s, complete_s), due_s
        elif due_s - late_due_s >= calm_s:
            break
    if last_is_late:
        return None
    return float(caught_up_s - failed_at_s)


def longest_silence_s(arrival_s: pd.Series[float], *, from_s: float, until_s: float) -> float:
    """The longest time without a new result that reaches into the span.

    ``arrival_s`` are first versions' arrivals. A silence that began before ``from_s`` counts from
    where it began, one that lasts beyond ``until_s`` up to there.
    """
    times = np.sort(arrival_s.to_numpy(dtype=float))
    before = times[times <= from_s]
    begin = float(before[-1]) if len(before) else from_s
    inside = times[(times > from_s) & (times < until_s)]
    return float(np.diff(np.concatenate([[begin], inside, [until_s]])).max())


def timeline(first: pd.DataFrame, *, until_s: float, bin_s: float = 0.5) -> pd.DataFrame:
    """Per time bin up to ``until_s``: ``at_s`` (its begin), ``throughput_per_s`` (first versions
    that arrived), ``latency_p50_s``, ``latency_p99_s``, ``latency_max_s`` of those."""
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
