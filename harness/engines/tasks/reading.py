"""The content of the out topic by the rules of every reader, and the content it should have.

Tests: ``tests/engines/tasks/test_endure.py``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
import pyarrow as pa
from confluent_kafka import Consumer, TopicPartition

from harness.engines.deliveries import relative_windows
from harness.engines.tasks.records import Results, in_ms
from harness.errors import EnvironmentFailure
from harness.hosting.codec import CorruptData, Encoded, decode
from harness.measure.collector import Message
from harness.measure.values import from_arrow, read_json
from harness.measure.versions import Stability
from harness.protocol.effects import Kind, OutputRecord
from harness.protocol.output import OutputBatch, OutputEntry, OutputReader
from workloads.base import Workload
from workloads.toolkit.operators import SOURCE_SCHEMA

_STABILITY = {
    Kind.STABLE: Stability.STABLE,
    Kind.TENTATIVE: Stability.TENTATIVE,
    Kind.UNDO: Stability.UNDO,
}
_WITHIN_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Fenced:
    """A publication of a copy after its replacement."""

    sink: int
    at_ms: int
    """When it came into the log, in milliseconds of the wall clock."""
    term: int


class Reading:
    """Follows the out topic, sink by sink."""

    def __init__(self, workload: Workload) -> None:
        self.workload = workload
        self._readers: dict[int, OutputReader] = {}
        self._standing: dict[int, dict[int, pd.DataFrame]] = {}
        """Sink to batch to the tentative results that no undo has taken back."""
        self._waiting = Results()
        self._stable_below: dict[int, int] = {}
        self.undone_stable = 0
        """Stable outputs that an undo would take back: there must be none."""
        self.fenced: list[Fenced] = []
        """Entries that were dropped because a later fence had ended their term."""

    def take(self, message: Message) -> list[pd.DataFrame]:
        """Return the results in a message; none if it is fenced off, repeated or a fence."""
        entry = self._entry(message)
        if entry is None:
            return []
        reader = self._readers.setdefault(message.copy, OutputReader())
        if isinstance(entry, OutputBatch) and entry.term < reader.term:
            self.fenced.append(Fenced(sink=message.copy, at_ms=message.append_ms, term=entry.term))
        frames = []
        for record in reader.accept(entry):
            self._check(message.copy, record)
            found = self._results(message.copy, record)
            if len(found):
                arrival = {"arrival_ms": message.append_ms, "copy": message.copy}
                frames.append(found.assign(**arrival, stability=_STABILITY[record.kind].value))
        return frames

    def _entry(self, message: Message) -> OutputEntry | None:
        """Return the entry of a message, with its results where they were records of their own."""
        if message.key is not None:
            if message.value:
                self._waiting.add(message.key, message.value)
                return None
            return self._waiting.close(message.key, message.headers)
        try:
            entry: OutputEntry = decode(message.value)
        except CorruptData as error:
            raise EnvironmentFailure(
                f"record {message.offset} of the out topic's partition {message.partition} is none "
                f"of the engine's: {error.what}",
                remedy="see who else writes to this broker",
            ) from error
        return entry

    @property
    def repeated(self) -> int:
        """Stable outputs that were appended although their batch was stable: there must be none."""
        return sum(reader.repeated for reader in self._readers.values())

    def standing(self) -> int:
        """Tentative results that were neither taken back nor replaced."""
        return sum(len(found) for sink in self._standing.values() for found in sink.values())

    def _check(self, sink: int, record: OutputRecord) -> None:
        stable = self._stable_below.get(sink, 0)
        if record.kind is Kind.STABLE:
            self._stable_below[sink] = max(stable, record.batch + 1)
        elif record.batch < stable:
            self.undone_stable += stable - record.batch

    def _results(self, sink: int, record: OutputRecord) -> pd.DataFrame:
        standing = self._standing.setdefault(sink, {})
        if record.kind is Kind.UNDO:
            void = [standing.pop(batch) for batch in sorted(standing) if batch >= record.batch]
            found = pd.concat(void) if void else self._frame(None)
            return found.assign(**dict.fromkeys(self.workload.values))
        rows = isinstance(record.payload, list)
        columns = self.workload.columns
        found = read_json(record.payload, columns) if rows else self._frame(record.payload)
        if record.kind is Kind.TENTATIVE:
            standing[record.batch] = found
        return found

    def _frame(self, payload: Any) -> pd.DataFrame:
        columns = self.workload.columns
        table = payload.value if isinstance(payload, Encoded) else payload
        if table is None or not table.num_rows:
            return pd.DataFrame(columns=columns)
        return plain(table, columns)


def plain(table: pa.Table, columns: Sequence[str]) -> pd.DataFrame:
    """Results with timestamps as milliseconds since the epoch, as every engine delivers them."""
    return from_arrow(in_ms(table, columns))


def read_results(
    messages: Sequence[Message], reading: Reading, start_unix_s: float
) -> pd.DataFrame:
    """Return the results in messages of the out topic.

    Columns: ``window_start_s``, the workload's other columns, ``arrival_s``, ``copy`` (the sink
    task), ``stability``."""
    workload = reading.workload
    # Within a partition the order is the log's; between partitions it does not matter.
    ordered = sorted(messages, key=lambda message: (message.partition, message.offset))
    frames = [frame for message in ordered for frame in reading.take(message)]
    if not frames:
        frames = [
            pd.DataFrame(columns=[*workload.columns, "arrival_ms", "copy", "stability"]).astype(
                {workload.window_start: "int64", "arrival_ms": "int64"}
            )
        ]
    found = pd.concat(frames, ignore_index=True)
    found["arrival_s"] = found.pop("arrival_ms") / 1000 - start_unix_s
    found = found.sort_values("arrival_s", kind="stable", ignore_index=True)
    return relative_windows(found, workload, start_unix_s)


def read_input(client: Mapping[str, Any], topic: str, partitions: int, start_us: int) -> pa.Table:
    """All records of a source's topic from time 0 of the load on, as source tasks read them.

    Raises `EnvironmentFailure` where the broker has deleted some."""
    consumer = Consumer(
        {**client, "group.id": "truth", "enable.auto.commit": False, "log_level": 2}
    )
    rows: list[tuple[bytes, int, int, int]] = []
    try:
        places = [TopicPartition(topic, partition, 0) for partition in range(partitions)]
        extents = [consumer.get_watermark_offsets(place, timeout=_WITHIN_S) for place in places]
        for partition, (low, _) in enumerate(extents):
            if low:
                raise EnvironmentFailure(
                    f"the broker has deleted records 0 to {low - 1} of {topic}[{partition}], and "
                    "the due results follow from all input",
                    remedy="let the broker keep the topic's records until the end of the run",
                )
        consumer.assign(places)
        left = sum(high for _, high in extents)
        while left:
            messages = consumer.consume(min(left, 50_000), _WITHIN_S)
            if not messages:
                raise EnvironmentFailure(
                    f"{left} records of {topic} did not come within {_WITHIN_S:g} s",
                    remedy="look at the broker's log in the run directory",
                )
            good = [message for message in messages if message.error() is None]
            left -= len(good)
            rows += [
                (message.value() or b"", message.partition(), message.offset(), stamp * 1000)
                for message in good
                if (stamp := message.timestamp()[1]) * 1000 >= start_us
            ]
    finally:
        consumer.close()
    rows.sort(key=lambda row: (row[1], row[2]))
    values, partitions_, offsets, stamps = zip(*rows, strict=True) if rows else ((), (), (), ())
    columns = [
        pa.array(values, pa.binary()),
        pa.array(partitions_, pa.int32()),
        pa.array(offsets, pa.int64()),
        pa.array(stamps, pa.int64()).cast(pa.timestamp("us")),
    ]
    return pa.Table.from_arrays(columns, schema=SOURCE_SCHEMA)
