"""The applications that a scheme runs, as one.

``checkpoint``: one application over all racks. ``active``: one per rack, each with checkpoints
of its own and all of the input; the reader takes whichever copy of a result comes first.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from harness.cluster.base import Cluster
from harness.engines.structured.application import Application, ApplicationSpec, DriverUsage
from harness.engines.structured.settings import application_conf
from harness.errors import EnvironmentFailure, UsageError
from harness.experiment import Context
from harness.results.record import Profile
from harness.text import did_you_mean
from workloads.base import Workload

SCHEMES = ("checkpoint", "active")
REVIVAL_S = 60.0
"""How long an application that was kept may take to get all of its executors back."""


def application_specs(
    cluster: Cluster, scheme: str, directory: Path, *, brief: bool = False
) -> list[ApplicationSpec]:
    """What a scheme starts on a cluster; copy i is the i-th. ``brief``: see `application_conf`."""
    if scheme not in SCHEMES:
        raise UsageError(
            f"the stock engine has no scheme {scheme!r}", remedy=did_you_mean(scheme, SCHEMES)
        )
    racks = sorted({node.rack for node in cluster.nodes()})
    if scheme == "active" and len(racks) < 2:
        raise UsageError(
            "active replication needs racks to keep the copies apart, and this cluster has one",
            remedy="use a ClusterSpec with at least 2 racks",
        )
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
        )
        specs.append(
            ApplicationSpec(
                name=name,
                conf=conf,
                environment=cluster.driver_environment(),
                kafka=cluster.kafka.spark(),
                executors=len(workers),
                log=directory / f"{name}.log",
            )
        )
    return specs


class Fleet:
    """Running applications. Orders go to all of them, answers are waited for from all."""

    def __init__(self, applications: Sequence[Application]) -> None:
        self.applications = applications
        self.used = False
        """Whether a query ever began."""
        self._marks = [0] * len(applications)

    def wait_until_ready(self, *, within_s: float = 180) -> None:
        """Until every application has all of its executors."""
        for application in self.applications:
            application.wait_until_ready(within_s=within_s)

    def begin(
        self,
        workload: Workload,
        topics: Mapping[str, str],
        out_topic: str,
        *,
        checkpoints: Path,
        trigger_s: float,
    ) -> None:
        """Start every application's query, with a checkpoint directory that is new."""
        assert workload.reference is not None, workload.name
        self.used = True
        self._marks = [application.mark() for application in self.applications]
        for copy, application in enumerate(self.applications):
            application.order(
                "begin",
                workload=workload.reference.to_json(),
                topics=dict(topics),
                out_topic=out_topic,
                copy=copy,
                checkpoint=str(checkpoints / str(copy)),
                trigger_s=trigger_s,
            )

    def wait_for_first_batch(self, *, within_s: float = 300) -> None:
        """Until every query has committed a batch with records in it."""
        for mark, application in zip(self._marks, self.applications, strict=True):
            application.wait_for(
                "its first committed batch",
                lambda e: e["event"] == "progress" and e["rows"] > 0,
                within_s=within_s,
                since=mark,
            )

    def wait_for_watermark(self, until_unix_s: float, *, within_s: float) -> bool:
        """Until every query has committed a batch at that watermark: False if one did not."""
        drained = True
        for mark, application in zip(self._marks, self.applications, strict=True):
            try:
                application.wait_for(
                    "the batch that closes the last window",
                    lambda e: e["event"] == "progress" and _watermark_s(e) >= until_unix_s,
                    within_s=within_s,
                    since=mark,
                )
            except EnvironmentFailure:
                drained = False
        return drained

    def end(self) -> None:
        """Stop every query; the applications stay."""
        for application in self.applications:
            mark = application.mark()
            application.order("end")
            application.wait_for("the end of its query", _is("ended"), within_s=60, since=mark)

    def truth(self, topics: Mapping[str, str], path: Path) -> None:
        """Let the first application write the batch query's results to ``path``."""
        application = self.applications[0]
        mark = application.mark()
        application.order("truth", topics=dict(topics), path=str(path))
        application.wait_for("the ground truth", _is("truth"), within_s=180, since=mark)

    def score(self, **files: Path) -> None:
        """Let the first application score one file of results against another
        (`accuracy.score_files`), by the workload that was begun last."""
        application = self.applications[0]
        mark = application.mark()
        application.order("score", **{name: str(path) for name, path in files.items()})
        application.wait_for("the accuracy", _is("scored"), within_s=180, since=mark)

    def events(self, *kinds: str) -> list[dict[str, Any]]:
        """What the applications said since `begin`, with the ``copy`` that said it."""
        return [
            {"copy": copy, **event}
            for copy, (mark, application) in enumerate(
                zip(self._marks, self.applications, strict=True)
            )
            for kind in kinds
            for event in application.since(mark, kind)
        ]

    def usage(self) -> DriverUsage:
        """Of all drivers together."""
        each = [application.usage() for application in self.applications]
        return DriverUsage(
            cpu_s=sum(usage.cpu_s for usage in each),
            resident_bytes=sum(usage.resident_bytes for usage in each),
        )


@contextmanager
def running_fleet(cluster: Cluster, scheme: str, *, brief: bool = False) -> Iterator[Fleet]:
    """The scheme's applications, ready; they end with the context, however it ends."""
    directory = cluster.run_directory / f"applications-{secrets.token_hex(4)}"
    directory.mkdir(mode=0o700)
    applications: list[Application] = []
    try:
        specs = application_specs(cluster, scheme, directory, brief=brief)
        applications.extend(Application(spec) for spec in specs)
        fleet = Fleet(applications)
        fleet.wait_until_ready()
        yield fleet
    finally:
        for application in applications:
            application.hang_up()
        for application in applications:
            application.stop(within_s=20)


def warm_fleet(cluster: Cluster, scheme: str, context: Context) -> Fleet:
    """The scheme's applications, with every executor there. They stay between runs of the same
    scheme, whatever their workloads, because a driver and its executors take half a minute to
    start and to compile."""

    def start() -> AbstractContextManager[Fleet]:
        context.progress(f"starting the applications ({scheme})")
        return running_fleet(cluster, scheme, brief=context.profile is Profile.SMOKE)

    return context.keep(
        f"applications of scheme {scheme}",
        start,
        check=lambda fleet: fleet.wait_until_ready(within_s=REVIVAL_S),
    )


def _is(kind: str) -> Any:
    return lambda event: event["event"] == kind


def _watermark_s(event: Mapping[str, Any]) -> float:
    text = event["watermark"]
    return datetime.fromisoformat(text).timestamp() if text else float("-inf")
