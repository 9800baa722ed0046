"""The harness's side of the load generator: start it, watch it, and judge how it kept time."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.cluster.endpoints import KafkaEndpoint
from harness.errors import EnvironmentFailure
from harness.load.lag import LATE_S, LATE_SHARE
from harness.load.plan import LoadPlan

_LOG_LINES = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """What the generator said last."""

    sent: int = 0
    lag_s: float = 0.0
    """The 99th percentile of the lag so far."""
    acknowledged: int = 0
    """Records the broker has taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadResult:
    """How the load went."""

    records: int
    """Sent and acknowledged, over all streams."""
    lag: Mapping[str, float]
    """Quantiles of actual minus intended send time, of the worst stream, in seconds."""
    delivery: Mapping[str, float]
    """Quantiles of acknowledgement minus intended send time, sampled, of the worst stream."""
    cpu_s: float
    """CPU time the generator used for it, all of its threads."""
    nice: int
    """The priority it ran at: below 0 where the system let it come before what is measured."""
    invalid: str | None
    """Why the schedule was not kept, or None."""


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
    ) -> None:
        """Starts the process and lets it build its records. ``environment`` is added to ours; a
        record that the broker has not taken after ``delivery_timeout_s`` is lost."""
        self.plan = plan
        self._log = log
        self._progress = Progress()
        self._done: dict[str, Any] | None = None
        self._ready = threading.Event()
        with log.open("ab") as file:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "harness.load.child"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                text=True,
                env={**os.environ, **(environment or {})},
                start_new_session=True,  # Ctrl-C is for the harness, which then ends this
            )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        streams = [stream.to_json() for stream in plan.streams]
        self._send(
            {
                "client": kafka.confluent(),
                "delivery_timeout_s": delivery_timeout_s,
                "streams": streams,
            }
        )

    def __enter__(self) -> LoadGenerator:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def progress(self) -> Progress:
        return self._progress

    def start(self, start_unix_s: float, *, ready_within_s: float = 60) -> None:
        """Begin sending at that instant, which should lie a moment ahead.

        Raises `EnvironmentFailure` when the process does not get ready.
        """
        self.wait_ready(within_s=ready_within_s)
        self._send({"start_unix_s": start_unix_s})

    def wait_ready(self, *, within_s: float = 60) -> None:
        """Return when it could start at once."""
        if not self._ready.wait(within_s) or self._process.poll() is not None:
            raise self._failure(f"the load generator was not ready after {within_s:.0f} s")

    def wait(self, timeout_s: float) -> bool:
        """Wait until everything was sent and acknowledged; False if the time ran out first."""
        try:
            self._process.wait(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            return False
        self._reader.join(timeout=5)
        return True

    def result(self) -> LoadResult:
        """How the load went. Raises `EnvironmentFailure` if records were lost."""
        done = self._done
        if done is None:
            raise self._failure(
                f"the load generator ended early: it had sent {self._progress.sent} of "
                f"{self.plan.records} records, and {self._progress.acknowledged} had been taken"
            )
        acknowledged = sum(stream["acknowledged"] for stream in done["streams"])
        if acknowledged < self.plan.records:
            lost = [reason for stream in done["streams"] for reason in stream["lost"]]
            reasons = "; ".join(sorted({*lost, *done["errors"]})) or "no error was reported"
            raise self._failure(
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
        if self._process.stdin is not None and not self._process.stdin.closed:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()
        try:
            self._process.wait(timeout=2)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join(timeout=5)
        if self._process.stdout is not None:
            self._process.stdout.close()

    def _send(self, document: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(document) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise self._failure("the load generator ended before it began") from error

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            event = json.loads(line)
            if event["event"] == "ready":
                self._ready.set()
            elif event["event"] == "progress":
                self._progress = Progress(
                    sent=event["sent"],
                    lag_s=event["lag_s"],
                    acknowledged=event["acknowledged"],
                )
            else:
                self._done = event
        self._ready.set()

    def _failure(self, what: str) -> EnvironmentFailure:
        lines = self._log.read_text(errors="replace").splitlines()[-_LOG_LINES:]
        said = "\n    ".join(["", *lines]) if lines else " (it logged nothing)"
        return EnvironmentFailure(
            f"{what}; exit code {self._process.poll()}; the last lines of {self._log}:{said}",
            remedy="see whether the broker is alive (its log is beside this one) and run it again",
        )


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

    That moves a query's watermark on and closes the windows behind it.
    """
    from confluent_kafka import Producer

    producer = Producer({**kafka.confluent(), "linger.ms": 0})
    for partition in range(partitions):
        producer.produce(topic, payload, partition=partition, timestamp=int(at_unix_s * 1000))
    if producer.flush(20):
        raise EnvironmentFailure(
            f"the broker did not take the markers of {topic}",
            remedy="look at the broker's log in the run directory",
        )
