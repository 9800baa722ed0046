"""The reason why a pass does not end: its missing windows, and the engine's last report.

Pure. An engine may report in the detail of a batch: ``watermark`` (ISO), ``behind_records``,
`BEHIND` and `NEWEST`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import pandas as pd

from harness.engines.base import Event, EventKind
from harness.engines.deliveries import BEHIND, NEWEST
from workloads.base import Workload

GRACE_S = 10.0
"""Time after the last markers in which their batch may still be under way."""
REPORTED_S = 1.0
"""Longest time between the end of a batch and its report."""
_MOST = 6
"""Windows that are named."""


def unseen_markers(
    events: Sequence[Event], *, marked_unix_s: float, until_unix_s: float, start_unix_s: float
) -> str | None:
    """Return a sentence if the query drops the markers before they can close a window; else None.

    They were sent at ``marked_unix_s`` with an event time after ``until_unix_s``. A batch that
    began later and left no record unread has read them; one from before may end long after."""
    batches = [e for e in events if e.kind is EventKind.PROGRESS and NEWEST in e.detail]
    read = [
        e
        for e in batches
        if e.at_unix_s - e.detail["duration_s"] > marked_unix_s + REPORTED_S
        and e.detail["rows"]
        and not e.detail["behind_records"]
    ]
    newest = [seen for e in batches if (seen := _unix_s(e.detail[NEWEST])) is not None]
    if not read or max(newest, default=0.0) >= until_unix_s:
        return None
    upto = f"{max(newest) - start_unix_s:.1f} s" if newest else "nothing"
    return (
        "the markers that close the last windows never reach the query's watermark: it has read "
        f"every record, its newest event time is {upto} of the load, and windows up to "
        f"{until_unix_s - start_unix_s:g} s stay open"
    )


def describe(
    delivered: pd.DataFrame,
    events: Sequence[Event],
    *,
    workload: Workload,
    duration_s: float,
    start_unix_s: float,
    now_unix_s: float,
    source_of: Mapping[str, str],
) -> str:
    """Return the windows without a result and the state of the input at the last batch.

    ``delivered`` has ``window_start_s``; ``source_of`` names the source of each topic."""
    return f"{_windows(delivered, workload, duration_s)}; " + _last_batch(
        events, start_unix_s, now_unix_s, source_of
    )


def _windows(delivered: pd.DataFrame, workload: Workload, duration_s: float) -> str:
    if workload.window_end:
        last = float(delivered["window_start_s"].max()) if len(delivered) else -math.inf
        return f"the latest window with a result ends at {last + workload.window_s:g} s of the load"
    slide_s, window_s = workload.slide_s, workload.window_s
    there = set(delivered["window_start_s"].round(3))
    first = -int((window_s - 1e-6) // slide_s)
    starts = [round(n * slide_s, 3) for n in range(first, int((duration_s - 1e-6) // slide_s) + 1)]
    missing = [f"{start:g}-{start + window_s:g} s" for start in starts if start not in there]
    if not missing:
        return f"every one of {len(starts)} windows has a result"
    named = ", ".join(missing[-_MOST:])
    more = f"{len(missing) - _MOST} earlier ones and " if len(missing) > _MOST else ""
    return f"{len(missing)} of {len(starts)} windows have no result: {more}{named} of the load"


def _last_batch(
    events: Sequence[Event], start_unix_s: float, now_unix_s: float, source_of: Mapping[str, str]
) -> str:
    batches = [event for event in events if event.kind is EventKind.PROGRESS]
    if not batches:
        return "no batch was reported"
    last = max(batches, key=lambda event: event.at_unix_s)
    text = (
        f"the last batch was done {now_unix_s - last.at_unix_s:.0f} s ago with "
        f"{last.detail.get('rows', 0)} records"
    )
    watermark = _unix_s(last.detail.get("watermark"))
    if watermark is not None and watermark > 0:
        text += f", its watermark at {watermark - start_unix_s:.1f} s of the load"
    behind = str(last.detail.get(BEHIND) or "")
    for topic, source in source_of.items():
        behind = behind.replace(topic, source)
    return text + (f", unread: {behind}" if behind else ", no record unread")


def _unix_s(text: object) -> float | None:
    if not isinstance(text, str) or not text:
        return None
    moment = datetime.fromisoformat(text)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
