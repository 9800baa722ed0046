"""The harness's side of one application: its process, its orders, and what it reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.child import DIED, Child
from harness.cluster.base import Cluster
from harness.engines.structured.settings import application_conf


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationSpec:
    """One application before it is started."""

    name: str
    conf: Mapping[str, str]
    """Spark's configuration, without the secret."""
    environment: Mapping[str, str]
    """Its driver's whole environment; leads to the secret."""
    kafka: Mapping[str, str]
    """Options of the source and the sink. Holds a password."""
    executors: int
    """The number of executors with which it counts as ready."""
    slots: int = 1
    """Slots of all of them together."""
    log: Path


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

    @property
    def slots(self) -> int:
        """Slots of all of its executors."""
        return self.spec.slots

    def order(self, command: str, **parameters: Any) -> None:
        """Send a command; `wait_for` returns when it is done."""
        self.send({"command": command, **parameters})

    def raise_end(self) -> None:
        """Raise if the driver's process has ended, or reports nothing more."""
        self.blame_user()
        if self.exit_code is not None or self.newest(DIED) is not None:
            raise self.failure(f"{self.name} has ended")

    def wait_until_ready(self, *, within_s: float = 180) -> None:
        """Until the session is up and every executor is registered, by the newest count."""
        counts = [i for i, e in enumerate(self.events) if e["event"] == "executors"]
        self.wait_for(
            f"its session and {self.spec.executors} executors",
            lambda e: e["event"] == "executors" and e["count"] >= self.spec.executors,
            within_s=within_s,
            since=counts[-1] if counts else 0,
        )


def application_specs(
    cluster: Cluster,
    scheme: str,
    directory: Path,
    *,
    brief: bool = False,
    own: Mapping[str, str] | None = None,
) -> list[ApplicationSpec]:
    """Return the applications of a scheme on a cluster; copy i is the i-th.

    ``checkpoint``: one application over all racks. ``active``: one per rack, each with its own
    checkpoints and all of the input; the reader takes the first copy of each result. ``ppa``: one
    per rack, too, the second over a part of the input (`standby`). ``brief``, ``own``: see
    `application_conf`."""
    racks = sorted({node.rack for node in cluster.nodes()})
    groups: list[list[str] | None] = [None] if scheme == "checkpoint" else [[r] for r in racks[:2]]
    specs = []
    for copy, group in enumerate(groups):
        name = f"{scheme}-{copy}"
        workers = {n.worker for n in cluster.nodes() if group is None or n.rack in group}
        conf = application_conf(
            cluster.spark_conf(racks=group),
            name=name,
            cores=len(workers) * cluster.spec.cores_per_worker,
            brief=brief,
            own=own,
        )
        specs.append(
            ApplicationSpec(
                name=name,
                conf=conf,
                environment=cluster.driver_environment(),
                kafka=cluster.kafka.spark(),
                executors=len(workers),
                slots=len(workers) * cluster.spec.cores_per_worker,
                log=directory / f"{name}.log",
            )
        )
    return specs
