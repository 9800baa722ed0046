"""Topics of one pass: made before it, deleted after it.

Tests: ``tests/engines/test_contract.py``."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from harness.cluster.endpoints import KafkaEndpoint
from harness.errors import EnvironmentFailure

_WITHIN_S = 30.0
FOR_EVER: Mapping[str, float | None] = {}
_SEGMENTS = 6
"""Segments that a retention is divided into: the broker deletes whole ones."""


@contextmanager
def topics(
    kafka: KafkaEndpoint,
    wanted: Mapping[str, int],
    *,
    appended: Sequence[str] = (),
    retention_s: Mapping[str, float | None] = FOR_EVER,
) -> Iterator[None]:
    """Topics with these numbers of partitions, while the context lasts.

    Records of those in ``appended`` carry the broker's append time, the others' their sender's.
    The broker deletes those that are older than ``retention_s``, by topic; None is for ever, and
    so is a topic that is not there."""
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({**kafka.confluent(), "log_level": 2})
    new = [
        NewTopic(
            name,
            partitions,
            kafka.replication,
            config={
                "message.timestamp.type": "LogAppendTime" if name in appended else "CreateTime",
                **_retention(retention_s.get(name)),
            },
        )
        for name, partitions in wanted.items()
    ]
    for topic, future in admin.create_topics(new, operation_timeout=_WITHIN_S).items():
        try:
            future.result(timeout=_WITHIN_S)
        except Exception as error:
            raise EnvironmentFailure(
                f"topic {topic} was not created: {error}",
                remedy="look at the broker's log in the run directory",
            ) from error
    try:
        yield
    finally:
        # One that is still there would cost the next pass disk space and file handles.
        for future in admin.delete_topics(list(wanted), operation_timeout=_WITHIN_S).values():
            # A broker that died has its own error on the way, and a topic that stays is
            # removed with everything else of the run.
            with contextlib.suppress(Exception):
                future.result(timeout=_WITHIN_S)


def _retention(kept_s: float | None) -> Mapping[str, str]:
    """Return a topic's settings for this retention.

    None is for ever: the event time of a recording may be years ago. A broker's own limit of bytes
    would delete input that nobody has read, and compaction all but the last of a key."""
    kept = {"cleanup.policy": "delete", "retention.bytes": "-1", "retention.ms": "-1"}
    if kept_s is None:
        return kept
    kept_ms = round(1000 * kept_s)
    return {**kept, "retention.ms": str(kept_ms), "segment.ms": str(kept_ms // _SEGMENTS)}
