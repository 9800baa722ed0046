"""The plan of a load: streams of records with their rates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from math import gcd
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from harness.errors import UsageError
from harness.load.profile import Floats, RateProfile
from workloads.base import Reference

Time = TypeVar("Time", float, Floats)
GATHER_S = 0.004
"""Usual time for which due records wait for others (`LoadPlan.gather_s`)."""


def whole_ms(unix_s: Floats) -> NDArray[np.int64]:
    """Return the timestamp of a record: the millisecond in which its intended instant lies.

    An instant that is a whole millisecond counts as itself, although seconds since 1970 in a
    double are a fraction of a microsecond off: two passes with the same offsets from their starts
    must fall into the same windows."""
    return np.floor(unix_s * 1000 + 1e-3).astype(np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Turns:
    """The order in which records are dealt to partitions: one round of it, then the same again."""

    partition: NDArray[np.int64]
    rank: NDArray[np.int64]
    """The number of records of its partition that come before it in the round."""
    shares: tuple[int, ...]


@cache
def turns(shares: tuple[int, ...]) -> Turns:
    """Return the round in which each partition has these many records, spread evenly."""
    divisor = gcd(*shares)
    shares = tuple(share // divisor for share in shares)
    # The k-th record of a partition stands at (k + 1/2) / share of the round.
    at = [((k + 0.5) / share, p, k) for p, share in enumerate(shares) for k in range(share)]
    _, partition, rank = zip(*sorted(at), strict=True)
    return Turns(partition=np.array(partition), rank=np.array(rank), shares=shares)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """The records of one topic, dealt to its partitions in turn, or by ``skew``."""

    topic: str
    partitions: int
    rate: RateProfile
    records: Reference
    """Builds the `workloads.base.RecordSource` in the generator's process."""
    marker_s: float = 0.0
    """Interval at which each partition gets a record without content, so that event time moves on
    without records; 0: never. It carries the instant that the load has reached. Markers are not
    records of the load."""
    marker: bytes = b""
    skew: tuple[int, ...] = ()
    """The share of each partition, as whole numbers (`workloads.base.Source.skew`)."""
    lag_s: float = 0.0
    """Seconds of event time by which records and markers are sent after their own."""
    silent: Mapping[int, tuple[float, float]] = field(default_factory=dict)
    """Spans of the load in which a partition sends nothing; its records are sent at the end."""

    def __post_init__(self) -> None:
        if self.partitions < 1:
            raise UsageError(
                f"topic {self.topic} has {self.partitions} partitions", remedy="give it 1 or more"
            )

    def stamped(self, event: EventTime, elapsed_s: Time, start_unix_s: float) -> Time:
        """Return the event time of what is meant to be sent at an instant of the load."""
        return event.at(elapsed_s, start_unix_s) - self.lag_s

    def awake_s(self, at_s: float) -> float:
        """Return the first instant from ``at_s`` on at which a partition is not silent."""
        spans = [self.silent.get(p, (0.0, 0.0)) for p in range(self.partitions)]
        return min(end_s if begin_s <= at_s < end_s else at_s for begin_s, end_s in spans)

    def markers_until(self, elapsed_s: float) -> int:
        """Return the number of due markers of each partition; marker k is due at k · marker_s."""
        if not self.marker_s:
            return 0
        return int(min(elapsed_s, self.rate.duration_s) / self.marker_s + 1e-9)

    @property
    def _turns(self) -> Turns:
        return turns(self.skew or (1,) * self.partitions)

    def counts(self) -> list[int]:
        """Return the number of records of each partition."""
        rounds, rest = divmod(self.rate.records, len(self._turns.partition))
        more = np.bincount(self._turns.partition[:rest], minlength=self.partitions)
        return [rounds * own + int(n) for own, n in zip(self._turns.shares, more, strict=True)]

    def places(self, indices: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the partition of each of these records, and its place among the records there."""
        rounds, turn = np.divmod(indices, len(self._turns.partition))
        partition = self._turns.partition[turn]
        return partition, rounds * np.array(self._turns.shares)[partition] + self._turns.rank[turn]

    def intended_s(self, partition: int, offsets: NDArray[np.int64]) -> Floats:
        """Return the intended send times of the records at these offsets, from the start.

        Offset k of a partition is its k-th record where there are no markers: the producer is
        idempotent, so nothing is sent twice or out of order."""
        own = np.flatnonzero(self._turns.partition == partition)
        if not len(own):
            return np.empty(0)
        rounds, turn = np.divmod(offsets, len(own))
        return self.rate.intended_s(rounds * len(self._turns.partition) + own[turn])


@dataclass(frozen=True, slots=True, kw_only=True)
class EventTime:
    """The event time of a load: the timestamps of its records, by their intended send time."""

    begin_unix_s: float | None = None
    """The event time at which the load begins; None: the instant at which it does begin."""
    speed: float = 1.0
    """Seconds of event time that pass in one second."""

    def __post_init__(self) -> None:
        if not self.speed > 0:
            raise UsageError(
                f"event time that runs {self.speed:g} times as fast as the clock",
                remedy="give a speed above 0",
            )

    def origin(self, start_unix_s: float) -> float:
        """Return the event time of a load's begin, in seconds since the epoch."""
        return start_unix_s if self.begin_unix_s is None else self.begin_unix_s

    def at(self, elapsed_s: Time, start_unix_s: float) -> Time:
        """Return the event time of an instant of a load that began at ``start_unix_s``."""
        return self.origin(start_unix_s) + self.speed * elapsed_s

    def elapsed_s(self, event_unix_s: float, start_unix_s: float) -> float:
        """Return the instant of the load with this event time."""
        return (event_unix_s - self.origin(start_unix_s)) / self.speed


BY_THE_CLOCK = EventTime()
"""The event time of a load whose records are stamped with the instant of their sending."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPlan:
    """All streams of a run, which share one start, one process and one event time."""

    streams: Sequence[Stream]
    event: EventTime = BY_THE_CLOCK
    gather_s: float = GATHER_S
    """Longest time for which due records wait for others. What is sent together costs the generator
    and the broker a fraction, and comes so much later."""

    def __post_init__(self) -> None:
        if not self.streams:
            raise UsageError("a load has no streams", remedy="give the workload a source")

    @property
    def records(self) -> int:
        return sum(stream.rate.records for stream in self.streams)

    @property
    def duration_s(self) -> float:
        """The duration of the longest stream."""
        return max(stream.rate.duration_s for stream in self.streams)
