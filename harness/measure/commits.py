"""The time from which a reader could have each record of a log, by the broker's clock.

A record outside of transactions can be read as soon as the broker has appended it. In a transaction
it may never become a result: whoever reads committed records gets it once the broker has appended
the marker that ends the transaction, and those of all that began before it in the same partition.
That marker has an append time like every record. Clients do not show markers to their users, so the
log is read once more as it is."""

from __future__ import annotations

import math
import ssl
import tempfile
from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from harness.errors import EnvironmentFailure

_WITHIN_S = 30.0
_FRAME_BYTES = 64 << 20
_FETCH_BYTES = 4 << 20
_NAMES = {
    "bootstrap.servers": "bootstrap_servers",
    "security.protocol": "security_protocol",
    "sasl.mechanism": "sasl_mechanism",
    "sasl.username": "sasl_plain_username",
    "sasl.password": "sasl_plain_password",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Records that the broker appended together, or the marker that ends a transaction."""

    first: int
    last: int
    """Offsets."""
    append_ms: int
    producer: int = -1
    transactional: bool = False
    marker: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Readable:
    """The times of one partition."""

    lasts: Sequence[int]
    """The last offset of each batch, ascending."""
    at_ms: Sequence[int]

    def of(self, offset: int) -> int:
        """Return the time of a record that has been read."""
        return self.at_ms[bisect_left(self.lasts, offset)]


def readable(batches: Iterable[Batch]) -> Readable:
    """Return the times of a partition's batches, given in the order of the log."""
    began: dict[int, int] = {}
    waiting: deque[Batch] = deque()
    lasts, at_ms = [], []
    for batch in batches:
        if batch.marker:
            began.pop(batch.producer, None)
        else:
            waiting.append(batch)
            if batch.transactional:
                began.setdefault(batch.producer, batch.first)
        stable = min(began.values(), default=math.inf)
        while waiting and waiting[0].last < stable:
            one = waiting.popleft()
            lasts.append(one.last)
            at_ms.append(max(one.append_ms, batch.append_ms))
    return Readable(lasts=lasts, at_ms=at_ms)


def read_log(
    client: Mapping[str, Any], topic: str, ends: Sequence[int]
) -> Mapping[int, Sequence[Batch]]:
    """Return the batches of each partition up to its end, markers and all.

    ``client`` is a confluent-kafka configuration; it holds a password."""
    from confluent_kafka.admin import AdminClient
    from kafka.errors import KafkaError
    from kafka.net.compat import KafkaNetClient

    about = AdminClient({**client, "log_level": 2}).list_topics(topic, timeout=_WITHIN_S)
    leaders = {number: each.leader for number, each in about.topics[topic].partitions.items()}
    settings = _settings(client)
    try:
        with closing(KafkaNetClient(**settings, receive_message_max_bytes=_FRAME_BYTES)) as net:
            net.check_version(timeout_ms=_WITHIN_S * 1000)
            return {
                partition: list(_batches(net, leaders[partition], topic, partition, end))
                for partition, end in enumerate(ends)
            }
    except KafkaError as error:
        raise EnvironmentFailure(
            f"the transactions in topic {topic} cannot be read: {error}",
            remedy="look at the broker's log in the run directory",
        ) from error


def _batches(net: Any, leader: int, topic: str, partition: int, end: int) -> Iterator[Batch]:
    from kafka.errors import for_code
    from kafka.protocol.consumer import FetchRequest
    from kafka.record import MemoryRecords

    Topic = FetchRequest.FetchTopic  # noqa: N806  # its own name
    offset = 0
    while offset < end:
        wanted = Topic.FetchPartition(
            partition=partition, fetch_offset=offset, partition_max_bytes=_FETCH_BYTES,
            current_leader_epoch=-1, last_fetched_epoch=-1, log_start_offset=-1,
        )  # fmt: skip
        request = FetchRequest(
            replica_id=-1, max_wait_ms=500, min_bytes=1, max_bytes=_FETCH_BYTES, isolation_level=0,
            session_id=0, session_epoch=-1, topics=[Topic(topic=topic, partitions=[wanted])],
            forgotten_topics_data=[], rack_id="", max_version=12,
        )  # fmt: skip
        answer = net.send_and_receive(leader, request, timeout_ms=_WITHIN_S * 1000)
        (found,) = answer.responses[0].partitions
        if found.error_code:
            raise for_code(found.error_code)(f"partition {partition} at offset {offset}")
        before = offset
        for batch in MemoryRecords(found.records or b""):
            offset = batch.next_offset
            yield Batch(
                first=batch.base_offset, last=batch.last_offset, append_ms=batch.max_timestamp,
                producer=batch.producer_id, transactional=batch.is_transactional,
                marker=batch.is_control_batch,
            )  # fmt: skip
        if offset == before:
            raise EnvironmentFailure(
                f"topic {topic} has no record at offset {offset} of partition {partition}, and "
                f"should reach {end}",
                remedy="look at the broker's log in the run directory",
            )


def _settings(client: Mapping[str, Any]) -> dict[str, Any]:
    """Return the same configuration for kafka-python."""
    given = {ours: client[name] for name, ours in _NAMES.items() if name in client}
    if "SSL" not in str(given.get("security_protocol")):
        return given
    context = ssl.create_default_context(cadata=client.get("ssl.ca.pem"))
    if "ssl.key.pem" in client:
        with tempfile.NamedTemporaryFile() as file:  # the library reads files only
            file.write(f"{client['ssl.certificate.pem']}\n{client['ssl.key.pem']}\n".encode())
            file.flush()
            context.load_cert_chain(file.name)
    return {**given, "ssl_context": context}
