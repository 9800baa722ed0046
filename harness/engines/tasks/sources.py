"""A source's partition, cut into batches by the records' intended time.

Batch b is complete when a record from behind its end has come: within a partition records are in
the order of their time, and the load generator marks every batch's end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from confluent_kafka import Message
from numpy.typing import NDArray

from harness.engines.tasks.exchange import Begin, Unreadable
from workloads.toolkit.operators import SOURCE_SCHEMA


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Records of one batch that stand one behind the other in the partition."""

    batch: int
    values: pa.Array
    offsets: NDArray[np.int64]
    times_ms: NDArray[np.int64] | None
    """None where nobody looks at them."""


class SourceReader:
    """The reader of one partition: `cut` runs in the reader's thread, `take` in the event loop.

    The work for each record is done where the record has just been made, in a warm cache, and its
    memory is free for the next one."""

    def __init__(
        self,
        *,
        first: int,
        start_us: int,
        batch_us: int,
        partition: int,
        with_times: bool = True,
        give: Callable[[int, pa.Table], None],
    ) -> None:
        """Call ``give(batch, table)`` for each batch from ``first`` on, in order.

        Without ``with_times`` the column of times holds nulls: reading them costs time."""
        self.next = first
        """The batch that is being filled."""
        self._start_us, self._batch_us = start_us, batch_us
        self._partition, self._with_times, self._give = partition, with_times, give
        self._pieces: list[Piece] = []
        self._newest = -(1 << 62)
        """The batch of the last record that was cut."""

    def begin(self) -> Begin:
        return Begin(at_ms=(self._start_us + self.next * self._batch_us) // 1000)

    def cut(self, records: Sequence[Message]) -> list[Piece]:
        """Cut the next records into batches. Raises `Unreadable` if their time goes backwards.

        Within a batch it may: another reader cuts the same records into that batch."""
        times_ms = np.fromiter((record.timestamp()[1] for record in records), np.int64)
        # What comes before the pass may be in any order: every reader passes over it.
        batches = np.maximum((times_ms * 1000 - self._start_us) // self._batch_us, -1)
        if batches[0] < self._newest or (len(batches) > 1 and np.any(np.diff(batches) < 0)):
            self._refuse(records, batches)
        self._newest = int(batches[-1])
        ends = [*np.flatnonzero(np.diff(batches)) + 1, len(records)]
        pieces, at = [], 0
        for until in ends:
            part = records[at:until]
            piece = Piece(
                batch=int(batches[at]),
                values=pa.array([record.value() or b"" for record in part], pa.binary()),
                offsets=_offsets(part),
                times_ms=times_ms[at:until] if self._with_times else None,
            )
            pieces.append(piece)
            at = int(until)
        return pieces

    def _refuse(self, records: Sequence[Message], batches: NDArray[np.int64]) -> None:
        """Raise for the first record of an earlier batch than one before it."""
        newest = np.maximum.accumulate(np.concatenate([[self._newest], batches[:-1]]))
        at = int(np.flatnonzero(batches < newest)[0])
        raise Unreadable(
            f"record {records[at].offset()} is of batch {batches[at]} by its time stamp, and a "
            f"record before it of batch {newest[at]}: each reading would cut them differently",
            remedy="let the broker stamp the topic's records (message.timestamp.type="
            "LogAppendTime), or write each partition in the order of time",
        )

    def completes(self, newest: Piece) -> bool:
        """Return True if a batch is complete once this has come.

        A caller that sees an older `next` from another thread gets True too often, which loses
        nothing."""
        return newest.batch > self.next

    def take(self, pieces: Sequence[Piece]) -> None:
        """Take cut records in order; those before the first batch are dropped."""
        for piece in pieces:
            while piece.batch > self.next:
                batch, self.next = self.next, self.next + 1
                gathered, self._pieces = self._pieces, []
                self._give(batch, self._table(gathered))
            if piece.batch == self.next:
                self._pieces.append(piece)

    def _table(self, pieces: Sequence[Piece]) -> pa.Table:
        if not pieces:
            return _NOTHING
        offsets = np.concatenate([piece.offsets for piece in pieces])
        times = (
            pa.array(np.concatenate([p.times_ms for p in pieces if p.times_ms is not None]) * 1000)
            if self._with_times
            else pa.nulls(len(offsets), pa.int64())
        )
        columns = [
            pa.concat_arrays([piece.values for piece in pieces]),
            pa.array(np.full(len(offsets), self._partition, dtype=np.int32)),
            pa.array(offsets),
            times.cast(pa.timestamp("us")),
        ]
        return pa.Table.from_arrays(columns, schema=SOURCE_SCHEMA)


_NOTHING = SOURCE_SCHEMA.empty_table()


def _offsets(records: Sequence[Message]) -> NDArray[np.int64]:
    """Mostly without gaps; then the ends give all of them."""
    first, last = records[0].offset(), records[-1].offset()
    if last - first == len(records) - 1:
        return np.arange(first, last + 1, dtype=np.int64)
    return np.array([record.offset() for record in records], dtype=np.int64)
