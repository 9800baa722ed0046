"""The parameters of Kafka Streams."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.errors import UsageError

AT_LEAST_ONCE, EXACTLY_ONCE = "at_least_once", "exactly_once_v2"
CLASSIC, STREAMS = "classic", "streams"


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaStreamsParameters:
    """The factors, in Kafka Streams' own words; the defaults are its own. Plain values only."""

    standbys: int = 0
    """``num.standby.replicas``. Under the protocol "streams" the client's setting is ignored, and
    the group's ``streams.num.standby.replicas`` is set instead."""
    rack_aware: bool = False
    """Standbys on another rack than their active task: ``rack.aware.assignment.tags`` (KIP-708).
    Under "streams" there is no such setting."""
    guarantee: str = AT_LEAST_ONCE
    session_timeout_s: float | None = None
    """Time without a heartbeat after which a member counts as dead; None: 45 s, the default of the
    consumer and of the streams group."""
    in_memory: bool = False
    """Window stores in memory instead of RocksDB."""
    protocol: str = CLASSIC
    """``group.protocol``: "classic", or "streams" (KIP-1071)."""
    idle_s: float = 0.0
    """``max.task.idle.ms``: how long a task waits for input of a partition that has none, before it
    takes a later record of another one. By default it does not wait, and a window may close while a
    slower partition still has records for it. A task has one partition of each topic that it reads,
    so to wait for the slower input partition it needs a repartition topic for each; without waiting
    the query has one, as ``groupBy`` makes it."""
    transaction_timeout_s: float | None = None
    """``transaction.timeout.ms`` of exactly-once; None: 10 s, the default of Kafka Streams."""
    commit_interval_s: float | None = None
    """None: 30 s at least once, 0.1 s exactly once, the defaults."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Any further settings of Kafka Streams; it judges them."""

    def __post_init__(self) -> None:
        for name, known in (
            ("guarantee", (AT_LEAST_ONCE, EXACTLY_ONCE)), ("protocol", (CLASSIC, STREAMS)),
        ):  # fmt: skip
            if getattr(self, name) not in known:
                raise UsageError(
                    f"Kafka Streams has no {name} {getattr(self, name)!r}",
                    remedy=f"use one of {', '.join(known)}",
                )

        if self.protocol == STREAMS and self.session_timeout_s is not None:
            raise UsageError(
                "under the protocol streams the broker sets the session timeout, at least 45 s",
                remedy="leave session_timeout_s out, or use the protocol classic",
            )


TUNED = KafkaStreamsParameters(
    standbys=1, rack_aware=True, guarantee=EXACTLY_ONCE, session_timeout_s=6.0, in_memory=False,
    idle_s=120.0, transaction_timeout_s=4.0,
)  # fmt: skip
"""Its documentation's advice for recovery, and a wait for the slower partition.

The death of a member is noticed 4 to 6 s after it: the session's 6 s count from its last heartbeat,
one every 2 s. Nothing that it left open holds up the others for longer: the broker ends its
transactions after 4 s, and looks for such ones twice a second (`harness.cluster.configuration`).
A member that lives commits ten times a second."""
