"""The harness's side of one application: its process, its orders, and what it reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.child import Child


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationSpec:
    """One application before it is started."""

    name: str
    conf: Mapping[str, str]
    """Spark's configuration, without the secret."""
    environment: Mapping[str, str]
    """What its driver needs on top of this process's environment; leads to the secret."""
    kafka: Mapping[str, str]
    """Options of the source and the sink. Holds a password."""
    executors: int
    """How many it waits for before it counts as ready."""
    log: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverUsage:
    """What the driver's processes (Python and JVM) have used so far."""

    cpu_s: float
    resident_bytes: int


class Application(Child):
    """A driver process."""

    def __init__(self, spec: ApplicationSpec) -> None:
        super().__init__(
            "harness.engines.structured.driver",
            name=f"application {spec.name}",
            log=spec.log,
            environment=spec.environment,
            remedy="look for the first error in that log; too little memory or too few free "
            "slots on the cluster are the usual causes",
        )
        self.spec = spec
        self.send({"conf": dict(spec.conf), "kafka": dict(spec.kafka)})

    def order(self, command: str, **parameters: Any) -> None:
        """Send a command; `wait_for` tells when it is done."""
        self.send({"command": command, **parameters})

    def wait_until_ready(self, *, within_s: float = 180) -> None:
        """Until the session is up and every executor is registered, by the newest count."""
        counts = [i for i, e in enumerate(self.events) if e["event"] == "executors"]
        self.wait_for(
            f"its session and {self.spec.executors} executors",
            lambda e: e["event"] == "executors" and e["count"] >= self.spec.executors,
            within_s=within_s,
            since=counts[-1] if counts else 0,
        )

    def usage(self) -> DriverUsage:
        """Of the driver's Python process and everything below it."""
        cpu_s, resident_bytes = self.used()
        return DriverUsage(cpu_s=cpu_s, resident_bytes=resident_bytes)
