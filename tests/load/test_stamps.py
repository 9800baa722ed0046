"""The timestamps, keys and headers that records carry."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.load import child
from harness.load.plan import BY_THE_CLOCK, EventTime, Stream, whole_ms
from harness.load.profile import RateProfile
from workloads.base import Reference

STARTS = st.integers(1_600_000_000, 2_000_000_000)
START, SECONDS = 1_700_000_000.0, 3.0


class Blank:
    """Records without content."""

    def payloads(self, partition: int, start_index: int, count: int) -> list[bytes]:
        return [b"record"] * count


class Whole(Blank):
    """Records with keys and headers."""

    def keys(self, partition: int, start_index: int, count: int) -> list[bytes]:
        return [b"%d-%d" % (partition, start_index + number) for number in range(count)]

    def headers(
        self, partition: int, start_index: int, count: int
    ) -> list[list[tuple[str, bytes]]]:
        return [[("n", b"%d" % (start_index + number))] for number in range(count)]


STREAM = Stream(
    topic="t", partitions=2, rate=RateProfile.constant(100, SECONDS), marker_s=0.1,
    marker=b"marker", records=Reference(target=f"{__name__}:Blank"),
)  # fmt: skip


class Kept:
    """A producer that keeps what each partition is sent: stamps, and those of markers apart."""

    def __init__(self, partitions: int) -> None:
        self.stamps: list[list[int]] = [[] for _ in range(partitions)]
        self.markers: list[list[int]] = [[] for _ in range(partitions)]
        self.parts: list[list[tuple[Any, Any]]] = [[] for _ in range(partitions)]

    def __len__(self) -> int:
        return 0

    def produce(
        self, topic: str, value: bytes, *, partition: int, timestamp: int, **more: Any
    ) -> None:
        self.stamps[partition].append(timestamp)
        if value == b"marker":
            self.markers[partition].append(timestamp)
        else:
            self.parts[partition].append((more.get("key"), more.get("headers")))


def sent(
    stream: Stream, looks_s: Iterable[float], event: EventTime = BY_THE_CLOCK
) -> tuple[Kept, child._Sender]:
    """Return what a sender has sent that looked at its schedule at these instants."""
    kept = Kept(stream.partitions)
    sender = child._Sender(stream, kept, START, event)
    for at_s in looks_s:
        look(sender, at_s)
    return kept, sender


def look(sender: child._Sender, at_s: float) -> None:
    """Let a sender send what is due at this instant of its schedule."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sender, "_elapsed_s", lambda: at_s)
        sender.advance()


@given(first=STARTS, second=STARTS, rate_per_s=st.integers(1, 20_000))
def test_a_pass_that_starts_at_another_second_stamps_alike(
    first: int, second: int, rate_per_s: int
) -> None:
    offsets_s = RateProfile.constant(rate_per_s, 3.0).intended_s(np.arange(3 * rate_per_s))
    stamps = [whole_ms(start + offsets_s) - start * 1000 for start in (first, second)]
    assert (stamps[0] == stamps[1]).all()
    assert stamps[0][0] == 0
    assert (stamps[0] <= offsets_s * 1000 + 1e-2).all()


def test_a_wall_clock_that_is_set_before_the_start_moves_no_record(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It was set after this process began, and before the start was chosen."""
    wall_s = time.time() + 3600.0
    monkeypatch.setattr(time, "time", lambda: wall_s)
    stream = replace(STREAM, partitions=1, rate=RateProfile.constant(10, 3600))
    sender = child._Sender(stream, Kept(1), wall_s)
    sender.advance()
    assert sender.sent == 1
    assert sender.lag.largest_s < 60


def test_a_marker_after_a_pause_stands_behind_nothing_later() -> None:
    """From 0.19 s to 0.27 s the process did not run; a batch of 0.25 s ended meanwhile."""
    kept, _ = sent(replace(STREAM, rate=RateProfile.constant(300, SECONDS)), [0.19, 0.27])
    for stamps in kept.stamps:
        assert stamps == sorted(stamps)
    assert [marker[-1] - START * 1000 for marker in kept.markers] == [270, 270]


@given(
    looks_s=st.lists(st.floats(0, SECONDS + 0.5), min_size=1, max_size=40).map(sorted),
    rate_per_s=st.integers(1, 2_000),
    pause=st.booleans(),
    event=st.sampled_from([BY_THE_CLOCK, EventTime(begin_unix_s=900_000_000.0, speed=48)]),
)
def test_time_does_not_go_backwards_in_a_partition_and_markers_move_it_on_in_a_pause(
    looks_s: list[float], rate_per_s: int, pause: bool, event: EventTime
) -> None:
    segments = ((1.0, rate_per_s), (1.0, 0 if pause else rate_per_s), (1.0, rate_per_s))
    kept, _ = sent(replace(STREAM, rate=RateProfile(segments)), looks_s, event)
    begin_ms, end_ms = whole_ms(np.array([event.at(at_s, START) for at_s in (0.0, SECONDS)]))
    last_s = min(looks_s[-1], SECONDS)
    for stamps, markers in zip(kept.stamps, kept.markers, strict=True):
        assert stamps == sorted(stamps)
        assert all(mark <= end_ms for mark in markers)
        reached_s = (max(markers, default=begin_ms) - begin_ms) / 1000 / event.speed
        assert reached_s > last_s - 0.11, "the newest marker is of the last look"


def test_records_carry_their_keys_and_headers_to_a_partition_of_their_share() -> None:
    records = Reference(target=f"{__name__}:Whole")
    rate = RateProfile.constant(100, 1)
    stream = replace(STREAM, partitions=3, rate=rate, records=records, skew=(3, 1, 0))
    kept, _ = sent(stream, [0.3, 0.8, 1.0])
    for partition, count in enumerate((75, 25, 0)):
        assert kept.parts[partition] == [
            (b"%d-%d" % (partition, n), [("n", b"%d" % n)]) for n in range(count)
        ]


@given(st.lists(st.floats(0, SECONDS), min_size=1, max_size=9), st.floats(0.05, 4.0))
def test_a_silent_partition_keeps_its_records_and_sends_them_at_its_end(
    looks_s: list[float], until_s: float
) -> None:
    """Nothing of it is sent before, no marker either; then all of it, at its own times."""
    silent = replace(STREAM, silent={1: (1.0, 1.0 + until_s)}, lag_s=0.5)
    kept, sender = sent(silent, [])
    for at_s in sorted(looks_s):
        look(sender, at_s)
        if 1.0 <= at_s < min(1.0 + until_s, SECONDS):
            last_s = max(kept.stamps[1], default=0) / 1000 - START + 0.5
            assert last_s < 1.0, "it is silent"
            assert not sender.done
    while not sender.done:
        look(sender, SECONDS + 1)
    for partition in range(2):
        times = sorted(set(kept.stamps[partition]) - set(kept.markers[partition]))
        count = silent.counts()[partition]
        meant = silent.intended_s(partition, np.arange(count)) + START - 0.5
        assert set(times) <= set(whole_ms(meant).tolist())
        assert len(kept.stamps[partition]) - len(kept.markers[partition]) == count
        marked: set[int] = set()
        for stamp in kept.stamps[partition]:
            assert not any(stamp < mark for mark in marked), "a marker is behind what is earlier"
            if stamp in kept.markers[partition]:
                marked.add(stamp)
