"""The systems that exist: what their default settings mean for an outage, each with its source.

Only defaults that decide an outage are here. `System.detect` is the time until a failure is
noticed: of a killed process, whose connections end and whose port is closed, or of a lost machine,
which is silent. `System.wait` is what settings let pass before a task starts again. The time of the
start itself is no setting: it comes from runs, or `START` is assumed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from harness.errors import UsageError
from harness.intervals.recovery import NOTHING, Span, exactly, failed_calls, silence
from harness.text import did_you_mean

START = Span(best_s=2.0, mean_s=5.0, worst_s=10.0)
"""Chosen: time until a task runs again, without its state, where no run says it."""
CONNECTION = Span(best_s=0.0, mean_s=0.25, worst_s=1.0)
"""Chosen: time until the end of a killed process's connections is noticed, which has no setting."""
_BATCH_S = 0.5
_BATCH_WHY = "a batch without input takes 0.3 to 0.6 s in the records"
_COMMIT_S = 0.1
_COMMIT_WHY = "its changelog is written all the time, a commit ends it"
_TRANSACTIONS = "output is in a transaction, which others read when its checkpoint is done"


class Failure(StrEnum):
    """What becomes of the node that fails."""

    PROCESS = "process"
    """Its processes die; the machine's kernel ends their connections."""
    MACHINE = "machine"
    """Power or network is gone: nothing says so."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A default, and where it is documented."""

    name: str
    value: str
    source: str
    """Address of the documentation or of the source code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """One system with its default settings."""

    key: str
    title: str
    detect: Mapping[Failure, Span]
    why: Mapping[Failure, str]
    """What decides the detection, in a few words."""
    wait: Span = NOTHING
    wait_why: str = ""
    settled: Span | None = None
    """End of the lost tasks' open transactions under exactly-once output, from the failure on."""
    settled_why: str = ""
    interval: str
    """The setting whose interval decides how much is read again."""
    waits: str = ""
    """Reason why a result also waits for that interval; empty if it does not."""
    waits_exactly_once: str = ""
    """The same, where output is written in transactions."""
    arrives: str = "a result comes"
    """What is over at the end of that wait."""
    in_batches: bool = False
    """True if the input of an interval is processed after it, as a batch."""
    least_interval_s: float = 0.0
    """The shortest interval that it allows."""
    checkpoint_s: float | None = None
    """Chosen: what a checkpoint takes from work; None where a node's state is written each time."""
    checkpoint_why: str = ""
    engine: str = ""
    """The engine of this repository that runs it; empty for none."""
    replicas: bool = False
    """True if it has replicas of tasks that take over, and plans of which tasks have one."""
    settings: Sequence[Setting]
    notes: Sequence[str] = ()

    def waiting(self, *, exactly_once: bool) -> str:
        """Return the reason why a result waits for the interval; empty if it does not."""
        return self.waits or (self.waits_exactly_once if exactly_once else "")


_FLINK = "https://nightlies.apache.org/flink/flink-docs-release-"
_FLINK_SOURCE = (
    "https://github.com/apache/flink/blob/master/flink-core/src/main/java/org/apache/flink/"
    "configuration/"
)
_SPARK = "https://spark.apache.org/docs/latest/"
_KAFKA = "https://kafka.apache.org/documentation/"
_KAFKA_SOURCE = "https://github.com/apache/kafka/blob/trunk/"
_CWIKI = "https://cwiki.apache.org/confluence/display/KAFKA/"

_SPARK_DETECT = {
    Failure.PROCESS: CONNECTION,
    # An executor's last heartbeat was up to 10 s before; the driver looks every 60 s.
    Failure.MACHINE: Span(best_s=110.0, mean_s=145.0, worst_s=180.0),
}
_SPARK_WHY = {
    Failure.PROCESS: "the driver loses its connection to the executor",
    Failure.MACHINE: "spark.network.timeout 120s, looked at every 60s",
}
_SPARK_SETTINGS = (
    Setting("spark.network.timeout", "120s", f"{_SPARK}configuration.html#networking"),
    Setting(
        "spark.executor.heartbeatInterval", "10s", f"{_SPARK}configuration.html#execution-behavior"
    ),
    Setting(
        "spark.network.timeoutInterval",
        "60s",
        "https://github.com/apache/spark/blob/master/core/src/main/scala/org/apache/spark/"
        "internal/config/Network.scala",
    ),
)
_LOCALITY = Setting("spark.locality.wait", "3s", f"{_SPARK}configuration.html#scheduling")
_HEARTBEATS = Setting(
    "heartbeat.timeout, heartbeat.interval",
    "50 s, 10 s",
    f"{_FLINK}2.0/docs/deployment/config/#heartbeat-timeout",
)
_THRESHOLD = Setting(
    "heartbeat.rpc-failure-threshold",
    "2",
    f"{_FLINK}1.14/release-notes/flink-1.14/ (FLINK-23209), "
    "https://github.com/apache/flink/pull/16357",
)
_BACKOFF = Setting(
    "restart-strategy.exponential-delay.initial-backoff",
    "1 s",
    f"{_FLINK_SOURCE}RestartStrategyOptions.java",
)
_DELAY = Setting(
    "restart-strategy.fixed-delay.delay", "1 s", f"{_FLINK_SOURCE}RestartStrategyOptions.java"
)
_CALLS = {Failure.PROCESS: failed_calls(2, 10.0), Failure.MACHINE: silence(50.0, 10.0)}
_CALLS_WHY = {
    Failure.PROCESS: "2 failed heartbeats (heartbeat.rpc-failure-threshold), one every 10 s",
    Failure.MACHINE: "heartbeat.timeout 50 s, a heartbeat every 10 s",
}
_SESSION = Setting(
    "session.timeout.ms",
    "45000 (10000 before Kafka 3.0)",
    f"{_CWIKI}KIP-735%3A+Increase+default+consumer+session+timeout",
)
_BEAT = Setting("heartbeat.interval.ms", "3000", f"{_KAFKA}#consumerconfigs_heartbeat.interval.ms")
_REBALANCE = Span(best_s=0.0, mean_s=1.5, worst_s=3.0)
_REBALANCE_WHY = "the others learn of the rebalance by their next heartbeat, one every 3 s"
_TRANSACTION = (
    Setting(
        "transaction.timeout.ms of Kafka Streams",
        "10000",
        "https://github.com/apache/kafka/pull/8407 (KAFKA-9809), "
        "https://github.com/apache/kafka/pull/22067",
    ),
    Setting(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms of the broker",
        "10000",
        f"{_KAFKA_SOURCE}transaction-coordinator/src/main/java/org/apache/kafka/coordinator/"
        "transaction/TransactionStateManagerConfig.java",
    ),
)
_COMMITS = Setting(
    "commit.interval.ms",
    "30000, exactly once 100",
    f"{_KAFKA_SOURCE}streams/src/main/java/org/apache/kafka/streams/StreamsConfig.java",
)

_ALL_RESTART = (
    "every task of the pipeline restarts; without a free slot a new process must start",
)
_ALL = (
    System(
        key="spark",
        engine="structured",
        title="Spark Structured Streaming, micro-batches",
        detect=_SPARK_DETECT,
        why=_SPARK_WHY,
        wait=Span(best_s=0.0, mean_s=3.0, worst_s=6.0),
        wait_why="spark.locality.wait 3s, for each level of nearness to the lost state",
        interval="trigger interval",
        waits="a record waits for the next trigger, then for the end of its batch",
        in_batches=True,
        checkpoint_s=_BATCH_S,
        checkpoint_why=_BATCH_WHY,
        settings=(*_SPARK_SETTINGS, _LOCALITY),
        notes=(
            "a batch writes what it changed in the state, not all of it: --checkpoint-cost is the "
            "time of a batch without input",
            "replicas would be a second query on other workers",
        ),
    ),
    System(
        key="spark-real-time",
        title="Spark Structured Streaming, real-time mode",
        detect=_SPARK_DETECT,
        why=_SPARK_WHY,
        interval="checkpoint interval",
        waits="results come at once, and are final when their checkpoint is done",
        arrives="a result is final",
        least_interval_s=5.0,
        checkpoint_s=_BATCH_S,
        checkpoint_why=_BATCH_WHY,
        settings=_SPARK_SETTINGS,
        notes=(
            "the checkpoint interval is the duration of the trigger, 5 s or more",
            "a lost task ends the query (tasks are not retried): something of yours starts it "
            "again, and that belongs to --restart",
        ),
    ),
    System(
        key="flink-2",
        engine="flink",
        title="Flink 2",
        detect=_CALLS,
        why=_CALLS_WHY,
        wait=exactly(1.0),
        wait_why="restart-strategy exponential-delay, initial-backoff 1 s",
        interval="checkpoint interval",
        waits_exactly_once=_TRANSACTIONS,
        settings=(_THRESHOLD, _HEARTBEATS, _BACKOFF),
        notes=_ALL_RESTART,
    ),
    System(
        key="flink-1.14",
        title="Flink 1.14 to 1.18",
        detect=_CALLS,
        why=_CALLS_WHY,
        wait=exactly(1.0),
        wait_why="restart-strategy fixed-delay, delay 1 s",
        interval="checkpoint interval",
        waits_exactly_once=_TRANSACTIONS,
        settings=(_THRESHOLD, _HEARTBEATS, _DELAY),
        notes=_ALL_RESTART,
    ),
    System(
        key="flink-1.13",
        title="Flink up to 1.13",
        detect=dict.fromkeys(Failure, silence(50.0, 10.0)),
        why=dict.fromkeys(Failure, _CALLS_WHY[Failure.MACHINE]),
        wait=exactly(1.0),
        wait_why="restart-strategy fixed-delay, delay 1 s",
        interval="checkpoint interval",
        waits_exactly_once=_TRANSACTIONS,
        settings=(_HEARTBEATS, _DELAY),
        notes=_ALL_RESTART,
    ),
    System(
        key="kafka-streams",
        engine="kafka-streams",
        title="Kafka Streams since 3.0",
        detect=dict.fromkeys(Failure, silence(45.0, 3.0)),
        why=dict.fromkeys(Failure, "session.timeout.ms 45000, a heartbeat every 3 s"),
        wait=_REBALANCE,
        wait_why=_REBALANCE_WHY,
        settled=Span(best_s=10.0, mean_s=15.0, worst_s=20.0),
        settled_why="transaction.timeout.ms 10000, then the broker's next look, one every 10 s",
        interval="commit interval",
        waits_exactly_once=_TRANSACTIONS,
        checkpoint_s=_COMMIT_S,
        checkpoint_why=_COMMIT_WHY,
        settings=(_SESSION, _BEAT, *_TRANSACTION, _COMMITS),
        notes=("with standbys (num.standby.replicas) --state is what a standby still lacks",),
    ),
    System(
        key="kafka-streams-2",
        title="Kafka Streams up to 2.8",
        detect=dict.fromkeys(Failure, silence(10.0, 3.0)),
        why=dict.fromkeys(Failure, "session.timeout.ms 10000, a heartbeat every 3 s"),
        wait=_REBALANCE,
        wait_why=_REBALANCE_WHY,
        interval="commit interval",
        waits_exactly_once=_TRANSACTIONS,
        checkpoint_s=_COMMIT_S,
        checkpoint_why=_COMMIT_WHY,
        settings=(_SESSION, _BEAT, _COMMITS),
        notes=("a task's new producer ends its transaction at once, so there is no wait for it",),
    ),
    System(
        key="tasks",
        engine="tasks",
        title="the task engine of this repository",
        detect={Failure.PROCESS: CONNECTION, Failure.MACHINE: silence(1.0, 0.25)},
        why={
            Failure.PROCESS: "the coordinator loses its connection to the node",
            Failure.MACHINE: "suspect_s 1 s, a heartbeat every 0.25 s",
        },
        interval="checkpoint interval",
        replicas=True,
        settings=(
            Setting("suspect_s, heartbeat_s", "1 s, 0.25 s", "harness/engines/tasks/parameters.py"),
        ),
    ),
)
SYSTEMS: Mapping[str, System] = {system.key: system for system in _ALL}


def system_named(key: str) -> System:
    """Return a system; raise `UsageError` with the nearest name for one that is not listed."""
    if key not in SYSTEMS:
        raise UsageError(f"no system is called {key!r}", remedy=did_you_mean(key, SYSTEMS))
    return SYSTEMS[key]
