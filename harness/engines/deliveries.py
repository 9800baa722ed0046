"""Results of an engine, as they are in the out topic and as the judge reads them.

A result travels as a JSON object, with the number of its copy in a header. Every engine writes this
form, so that one reader serves all of them."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from harness.measure.collector import Message
from harness.measure.values import read_json
from harness.measure.versions import STABILITY, Stability
from workloads.base import Workload

BEHIND, NEWEST = "behind", "newest_event"
"""Details of a batch that an engine may report and no record keeps: the unread records of each
partition as text, and the latest event time behind the query's filters (ISO)."""
UNREAD = "behind_records"
"""A detail that a record keeps: the most unread records of a partition."""
COPY_HEADER = "copy"
"""Carries the number of the application that sent a result, in ASCII digits."""


def deliveries(
    messages: Sequence[Message],
    workload: Workload,
    start_unix_s: float,
    origin_unix_s: float | None = None,
) -> pd.DataFrame:
    """Return a row per message of the out topic, in their order.

    ``origin_unix_s`` is the event time at which the load began, by default ``start_unix_s``.

    Columns: ``window_start_s``, the workload's other columns, ``arrival_s``
    (`Message.arrival_ms` since the start of the load), ``copy``, and ``stability`` (the header of
    that name, stable without one)."""
    frame = read_json([message.value for message in messages], workload.columns)
    frame["arrival_s"] = [message.arrival_ms / 1000 - start_unix_s for message in messages]
    frame["copy"] = [message.copy for message in messages]
    frame[STABILITY] = [
        message.headers.get(STABILITY, Stability.STABLE.value.encode()).decode()
        for message in messages
    ]
    return relative_windows(
        frame, workload, start_unix_s if origin_unix_s is None else origin_unix_s
    )


def relative_windows(frame: pd.DataFrame, workload: Workload, origin_unix_s: float) -> pd.DataFrame:
    """Windows by their distance from the start of the load, so that passes can be compared.

    Seconds are those of event time. A window that is known by its end begins ``window_s`` before
    it: that of a session with its last record."""
    milliseconds = frame[workload.window_column].astype("int64") - round(origin_unix_s * 1000)
    since_start = milliseconds / 1000 - (workload.window_s if workload.window_end else 0.0)
    return frame.drop(columns=workload.window_column).assign(window_start_s=since_start)
