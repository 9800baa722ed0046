"""The reason why a pass does not end."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pandas as pd
import pytest

from harness.engines.base import Event, EventKind
from harness.judging.undelivered import describe, unseen_markers
from tests.judging.constructed import WORKLOAD

START = 1_700_000_000.0
"""Where the load begins."""


def at(load_s: float) -> str:
    return datetime.fromtimestamp(START + load_s, UTC).isoformat()


def batch(at_s: float, *, rows: int = 10, **detail: Any) -> Event:
    known: dict[str, Any] = {"watermark": at(0), "behind_records": 0.0, "duration_s": 0.5}
    known |= {"behind": "", "newest_event": None}
    return Event(
        kind=EventKind.PROGRESS,
        at_unix_s=START + at_s,
        detail={"rows": rows, **known, **detail},
    )


LOAD = batch(30, newest_event=at(29.9))


@pytest.mark.parametrize(
    ("batches", "unseen"),
    [
        ([LOAD, batch(34)], True),
        ([batch(34)], True),
        ([LOAD, batch(34, newest_event=at(50))], False),  # the marker came through
        ([LOAD], False),  # no batch since the marker was sent
        ([LOAD, batch(34, rows=0)], False),
        ([LOAD, batch(34, behind_records=5.0)], False),  # it may not have read the marker yet
        ([LOAD, batch(45, duration_s=20.0)], False),  # it began before the marker
        ([], False),
        ([Event(kind=EventKind.PROGRESS, at_unix_s=START + 32, detail={"rows": 1})], False),
    ],
)
def test_dropped_markers_are_recognized(batches: list[Event], unseen: bool) -> None:
    why = unseen_markers(
        batches, marked_unix_s=START + 31, until_unix_s=START + 40, start_unix_s=START
    )
    assert (why is not None) == unseen
    if why is not None:
        assert "windows up to 40 s stay open" in why


def test_missing_windows_unread_partitions_and_the_last_batch_are_named() -> None:
    slide_s, window_s = WORKLOAD.slide_s, WORKLOAD.window_s
    text = describe(
        pd.DataFrame({"window_start_s": [0.0]}),
        [LOAD, batch(32, watermark=at(25), behind="topic-1-lines/3: 120")],
        workload=WORKLOAD,
        duration_s=2 * slide_s,
        start_unix_s=START,
        now_unix_s=START + 40,
        source_of={"topic-1-lines": "lines"},
    )
    assert f"{slide_s:g}-{slide_s + window_s:g} s" in text
    assert "done 8 s ago with 10 records, its watermark at 25.0 s of the load" in text
    assert text.endswith("unread: lines/3: 120")
