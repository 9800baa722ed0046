"""A topic as it stands now, as a recording that `workloads.toolkit.recorded` replays.

Tests: ``tests/load/test_record.py``."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.errors import EnvironmentFailure, UsageError

if TYPE_CHECKING:
    import pyarrow as pa

WITHIN_S = 30.0
"""Longest wait for the broker without a record."""
_AT_ONCE = 5_000
JAAS = "sasl.jaas.config"
_LOGIN = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_ESCAPED = re.compile(r"\\(.)")


def record_topic(
    consumer: Any,
    topic: str,
    *,
    most: int,
    progress: Callable[[int], None] = lambda count: None,
) -> pa.Table:
    """Return the records of a topic from its begin to what is its end now, at most ``most``.

    ``consumer`` is one of confluent-kafka's. Columns: ``timestamp`` (ms, UTC), ``partition``,
    ``offset``, ``key``, ``value``. An empty record has the value null."""
    import pyarrow as pa
    from confluent_kafka import TopicPartition

    found = consumer.list_topics(topic, timeout=WITHIN_S).topics[topic]
    if found.error is not None or not found.partitions:
        why = found.error.str() if found.error else "it has no partition"
        raise UsageError(
            f"topic {topic!r} cannot be read: {why}",
            remedy="look at its name and at your permissions",
        )
    ends: dict[int, int] = {}
    starts = []
    for number in sorted(found.partitions):
        place = TopicPartition(topic, number)
        low, high = consumer.get_watermark_offsets(place, timeout=WITHIN_S)
        if high > low:
            ends[number] = high
            starts.append(TopicPartition(topic, number, low))
    consumer.assign(starts)
    rows: list[tuple[int, int, int, bytes | None, bytes | None]] = []
    heard_s = time.monotonic()
    while ends and len(rows) < most:
        for message in consumer.consume(_AT_ONCE, timeout=1.0):
            if message.error() is not None:
                raise EnvironmentFailure(
                    f"topic {topic!r} was not read to its end: {message.error()}",
                    remedy="look at the broker, and give the same command again",
                )
            heard_s = time.monotonic()
            number, offset = message.partition(), message.offset()
            if offset < ends.get(number, 0) and len(rows) < most:
                at_ms = message.timestamp()[1]
                rows.append((at_ms, number, offset, message.key(), message.value()))
            if offset + 1 >= ends.get(number, 0):
                ends.pop(number, None)
        progress(len(rows))
        if time.monotonic() - heard_s > WITHIN_S:
            break  # what is left are markers of transactions, or records that expired
    names = ["timestamp", "partition", "offset", "key", "value"]
    kinds = [pa.timestamp("ms", tz="UTC"), pa.int32(), pa.int64(), pa.binary(), pa.binary()]
    columns = zip(*rows, strict=True) if rows else [()] * len(names)
    arrays = [pa.array(list(c), kind) for c, kind in zip(columns, kinds, strict=True)]
    return pa.table(arrays, names=names)


def settings_of(file: Path | None) -> Mapping[str, str]:
    """Return the settings of a client in a file with lines ``name=value``.

    A Java client's login with a name and a password is understood, too."""
    if file is None:
        return {}
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error}", remedy="name a file") from None
    pairs = [line.partition("=") for line in lines if line.strip() and not line.startswith("#")]
    settings = {name.strip(): value.strip() for name, _, value in pairs}
    found = dict(_LOGIN.findall(settings.get(JAAS, "")))
    if found.keys() >= {"username", "password"}:
        del settings[JAAS]
        for name in ("username", "password"):
            settings.setdefault(f"sasl.{name}", _ESCAPED.sub(r"\1", found[name]))
    return settings
