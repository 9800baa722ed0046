"""The harness's side of one application: its configuration, its process, and what it reports."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.child import DIED, Child, Event
from harness.cluster.base import Cluster
from harness.cluster.spark import FIXED
from harness.engines.settings import (
    DRIVER_MB,
    FIRST_COMPILER,
    JAVA,
    Setting,
    read_back,
    speed_of,
)


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
    slots: int
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

    def order(self, command: str, **parameters: Any) -> None:
        """Send a command; `wait_for` returns when it is done."""
        self.send({"command": command, **parameters})

    def ask(
        self, command: str, answer: str, what: str, *, within_s: float, **parameters: Any
    ) -> Event:
        """Send a command; return the next event of the kind ``answer``, as `wait_for` does."""
        mark = self.mark()
        self.order(command, **parameters)
        return self.wait_for(what, lambda e: e["event"] == answer, within_s=within_s, since=mark)

    def raise_end(self) -> None:
        """Raise if the driver's process has ended, or reports nothing more."""
        self.blame_user()
        if self.exit_code is not None or self.newest(DIED) is not None:
            raise self.failure(f"{self.name} has ended")

    def wait_until_ready(self, *, within_s: float) -> None:
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
    brief: bool,
    own: Mapping[str, str],
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
        slots = len(workers) * cluster.spec.cores_per_worker
        conf = application_conf(
            cluster.spark_conf(racks=group), name=name, cores=slots, brief=brief, own=own
        )
        specs.append(
            ApplicationSpec(
                name=name,
                conf=conf,
                environment=cluster.driver_environment(),
                kafka=cluster.kafka.spark(),
                executors=len(workers),
                slots=slots,
                log=directory / f"{name}.log",
            )
        )
    return specs


FILE_MANAGER = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)

BRIEF_SETTINGS = {"spark.locality.wait": "0s"}
"""Settings of the smoke profile, which measures no times: after a kill no task waits seconds for a
place near its state."""
SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
_READ_BACK = (
    "spark.executor.cores", "spark.executor.memory", "spark.network.timeout",
    "spark.executor.heartbeatInterval", "spark.task.maxFailures", "spark.locality.wait",
    "spark.shuffle.io.retryWait", "spark.sql.streaming.stateStore.providerClass",
    SHUFFLE_PARTITIONS,
)  # fmt: skip
"""Settings that a row rests on, besides those that are its own; their values are in
`application_conf`."""
_LEFT_OUT = re.compile(FIXED["spark.redaction.regex"] + r"|^spark\.eventLog\.")
"""Secrets, and the place of a log, which is another one in each run."""


def read_back_names(own: Iterable[str]) -> list[str]:
    """Return the names of settings that an application is to report; ``own`` are the row's."""
    names = dict.fromkeys([*_READ_BACK, *own])
    return [name for name in names if not _LEFT_OUT.search(name)]


def read_back_of(
    conf: Mapping[str, str], own: Iterable[str], said: Mapping[str, Any], driver: str
) -> Iterator[Setting]:
    """Yield what an application reports, for which ``conf`` was asked; no secret is among it.

    ``own``: names of the row's own settings. ``said``: a report of its ``driver``."""
    asked = {name: conf.get(name) for name in read_back_names(own)}
    yield from read_back(driver, asked, said["values"])
    options = [f"-Xmx{DRIVER_MB}m", *conf.get("spark.driver.extraJavaOptions", "").split()]
    java = {JAVA: speed_of(options)} if "spark.driver.memory" not in own else {}
    yield from read_back(driver, java, {JAVA: speed_of(said["java"])})
    tasks = {"numShufflePartitions": None}
    counts = " ".join(map(str, said["state_tasks"])) or None
    yield from read_back("state operators", tasks, {"numShufflePartitions": counts})


def application_conf(
    cluster_conf: Mapping[str, str],
    *,
    name: str,
    cores: int,
    brief: bool = False,
    own: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return the whole configuration of an application; ``cores`` are the slots it will have.

    ``own`` are the user's settings, which override all of ours; ``brief`` is for the smoke profile,
    whose figures show only that everything runs.

    All other settings keep Spark's own default, as a user's job would; the state store is Spark's
    default too, in memory with a file of changes per batch. docs/stock-settings.md has the measured
    cost of each choice."""
    java_options = {
        option: f"{value} {FIRST_COMPILER}" if brief else value
        for option, value in cluster_conf.items()
        if option.endswith(".extraJavaOptions")
    }
    return {
        **cluster_conf,
        **java_options,
        "spark.app.name": name,
        "spark.driver.memory": f"{DRIVER_MB}m",
        "spark.sql.session.timeZone": "UTC",
        # A task per slot: more would only add scheduling to batches of a second.
        SHUFFLE_PARTITIONS: str(cores),
        # Every failure here is deliberate; a task that was hit several times must not end the job.
        "spark.task.maxFailures": "8",
        # On a local disk the default one starts a `chmod` for every file that it writes, which
        # HDFS and object stores do not: 55 ms a file, and 11 ms with this one.
        "spark.sql.streaming.checkpointFileManagerClass": FILE_MANAGER,
        # Progress is read from the query; nobody scrapes Spark's own metrics.
        "spark.sql.streaming.metricsEnabled": "false",
        **(BRIEF_SETTINGS if brief else {}),
        **(own or {}),
    }
