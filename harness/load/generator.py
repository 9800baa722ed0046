"""The harness's side of the load generator: its start, its progress, and its punctuality."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from harness.child import Child
from harness.cluster.endpoints import KafkaEndpoint
from harness.errors import EnvironmentFailure
from harness.load.lag import LATE_S, LATE_SHARE
from harness.load.plan import LoadPlan, whole_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The generator's latest report."""

    sent: int = 0
    acknowledged: int = 0
    """Records that the broker has taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadResult:
    """The result of a load."""

    records: int
    """Sent and acknowledged, over all streams."""
    lag: Mapping[str, float]
    """Quantiles of actual minus intended send time, of the worst stream, in seconds."""
    delivery: Mapping[str, float]
    """Quantiles of acknowledgement minus intended send time, sampled, of the worst stream."""
    cpu_s: float
    """CPU time of all threads of the generator."""
    nice: int
    """Its nice value: below 0 where the system allows a priority above the engine's."""
    invalid: str | None
    """The reason why the schedule was not kept, or None."""


class LoadGenerator:
    """A generator process. Make it, `start` it, `wait` for it; use it as a context manager."""

    def __init__(
        self,
        plan: LoadPlan,
        kafka: KafkaEndpoint,
        *,
        log: Path,
        environment: Mapping[str, str] | None = None,
        delivery_timeout_s: float = 30,
        practice_topic: str | None = None,
    ) -> None:
        """Start the process, which builds its records.

        ``environment`` replaces that of this process; a record that the broker has not taken after
        ``delivery_timeout_s`` is lost. Records that do not count go to ``practice_topic`` first."""
        self.plan = plan
        self._child = Child(
            "harness.load.child",
            name="the load generator",
            log=log,
            environment=environment,
            remedy="see whether the broker is alive (its log is beside this one) and run it again",
        )
        self._child.send(
            {
                "client": kafka.confluent(),
                "delivery_timeout_s": delivery_timeout_s,
                "plan": msgspec.to_builtins(plan, str_keys=True),
                "practice_topic": practice_topic,
            }
        )

    def __enter__(self) -> LoadGenerator:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def progress(self) -> Progress:
        said = self._child.newest("progress")
        if said is None:
            return Progress()
        return Progress(sent=said["sent"], acknowledged=said["acknowledged"])

    def start(self, start_unix_s: float) -> None:
        """Begin sending at that instant, which should lie a moment ahead.

        Raises `EnvironmentFailure` when the process does not get ready."""
        self.wait_ready()
        self._child.send({"start_unix_s": start_unix_s})

    def wait_ready(self) -> None:
        """Wait until it can start at once."""
        self._child.wait_for("its records", lambda e: e["event"] == "ready", within_s=60)

    def wait(self, timeout_s: float) -> bool:
        """Wait until everything was sent and acknowledged; False if the time ran out first."""
        return self._child.wait(timeout_s)

    def result(self) -> LoadResult:
        """Return the result. Raises `EnvironmentFailure` if records were lost."""
        done = self._child.newest("done")
        if done is None:
            progress = self.progress
            raise self._child.failure(
                f"the load generator ended early: it had sent {progress.sent} of "
                f"{self.plan.records} records, and {progress.acknowledged} had been taken"
            )
        acknowledged = sum(stream["acknowledged"] for stream in done["streams"])
        if acknowledged < self.plan.records:
            lost = [reason for stream in done["streams"] for reason in stream["lost"]]
            reasons = "; ".join(sorted({*lost, *done["errors"]})) or "no error was reported"
            raise self._child.failure(
                f"the broker took {acknowledged} of {self.plan.records} records ({reasons})"
            )
        lag, delivery = (_worst(done["streams"], which) for which in ("lag", "delivery"))
        return LoadResult(
            records=acknowledged,
            lag=lag,
            delivery=delivery,
            cpu_s=done["cpu_s"],
            nice=done["nice"],
            invalid=_too_late(lag, delivery),
        )

    def stop(self) -> None:
        """End the process, wherever it is. May be called twice."""
        self._child.stop(within_s=2)


def _worst(streams: Sequence[Mapping[str, Any]], which: str) -> dict[str, float]:
    keys = streams[0][which]
    return {key: max(float(stream[which][key]) for stream in streams) for key in keys}


def _too_late(lag: Mapping[str, float], delivery: Mapping[str, float]) -> str | None:
    if lag["late_share"] <= LATE_SHARE:
        return None
    return (
        f"the load generator sent {lag['late_share']:.1%} of the records more than "
        f"{LATE_S * 1000:.0f} ms late (at most {LATE_SHARE:.0%} may be), and the broker took half "
        f"of them within {delivery['p50_s']:.2g} s: the machine is too busy or the rate too high"
    )


def send_markers(
    kafka: KafkaEndpoint, topic: str, partitions: int, *, payload: bytes, at_unix_s: float
) -> None:
    """Append to every partition one record whose event time is ``at_unix_s``.

    That moves a query's watermark on and closes the windows behind it."""
    from confluent_kafka import Producer

    producer = Producer({**kafka.confluent(), "linger.ms": 0})
    stamp_ms = int(whole_ms(np.array([at_unix_s]))[0])
    for partition in range(partitions):
        producer.produce(topic, payload, partition=partition, timestamp=stamp_ms)
    if producer.flush(20):
        raise EnvironmentFailure(
            f"the broker did not take the markers of {topic}",
            remedy="look at the broker's log in the run directory",
        )
