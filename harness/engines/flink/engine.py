"""Flink behind the contract: a JobManager outside of the nodes, and a TaskManager on each."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from harness.child import DIED, Child
from harness.cluster.base import Cluster, ClusterSpec, Usage
from harness.cluster.local.launching import free_port
from harness.cluster.run_directory import write_private
from harness.engines.base import ClusterNeeds, Event, Setup, Work
from harness.engines.children import used_by
from harness.engines.flink.events import MASTER, checkpoints, noticed
from harness.engines.flink.parameters import TUNED, FlinkParameters
from harness.engines.flink.settings import (
    CONF_FILE,
    LOG4J,
    LOG_FILE,
    MASTER_HEAP_MB,
    TASK_DIRECT_MB,
    TASK_HEAP_OF_JVM_MB,
    Master,
    conf_text,
    configuration,
    java_command,
)
from harness.engines.flink.sql import FORM, statements
from harness.engines.programs.engine import ProgramKind, json_lines
from harness.engines.programs.start import Beside, Job, Line, Start
from harness.environment.cache import to_stderr
from harness.environment.jars import ensure_sets
from harness.environment.java import Java, find_java
from harness.environment.wheels import unpacked_wheel
from harness.errors import EnvironmentFailure
from workloads.base import Workload

NAME = "flink"
HERE = Path(__file__).parent
WHEEL, LOCK, CLASSES = HERE / "flink.lock", HERE / "jars.lock.json", HERE / "classes"
STANDBY = "standby"
JAVAS = (17, 21)
"""What its documentation supports."""
READY_WITHIN_S = 120.0
_REGISTERED = re.compile(r"\{.*Successful registration at resource manager.*\}")
_TASK_MANAGER = "org.apache.flink.runtime.taskexecutor.TaskManagerRunner"
_JOB_MANAGER = "org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint"
_GATEWAY = "org.apache.flink.table.gateway.SqlGateway"


def parameters_of(setup: Setup) -> FlinkParameters:
    """Return the setup's parameters, by default those of its scheme."""
    given = setup.parameters or (TUNED if setup.scheme == STANDBY else FlinkParameters())
    assert isinstance(given, FlinkParameters), given
    return given


def the_jars() -> list[Path]:
    """Return the class path, fetched when first asked for.

    Raises `EnvironmentFailure` if it cannot come."""
    wheel = unpacked_wheel(str(WHEEL), what="Flink (330 MB)", report=to_stderr)
    own = sorted((wheel / "pyflink" / "lib").glob("*.jar"))
    return [CLASSES, *own, *ensure_sets(lock=LOCK)["flink"]]


def the_java(found: Java | None = None) -> Java:
    """Return a Java that Flink supports; raises `EnvironmentFailure` for another one."""
    java = found or find_java()
    if java.version not in JAVAS:
        raise EnvironmentFailure(
            f"Flink supports Java {' and '.join(map(str, JAVAS))}, and {java.source} has "
            f"Java {java.version} ({java.home})",
            remedy="set FAULTLINE_JAVA_HOME to a Java 17 or 21",
        )
    return java


class FlinkKind(ProgramKind):
    """Flink as a choice."""

    name = NAME
    summary = "the workload as Flink SQL, a TaskManager on each node; fetched on demand (340 MB)"
    form = FORM
    parameters = FlinkParameters
    schemes: ClassVar[Mapping[str, ClusterNeeds]] = {
        "checkpoint": ClusterNeeds(
            summary="its defaults, with a checkpoint every 10 s: state comes from the last one",
            nodes=2,
        ),
        STANDBY: ClusterNeeds(
            summary="as many free slots as used ones; exactly once, a checkpoint every second",
            racks=2,
            nodes=2,
        ),
    }

    def lacks(self, setup: Setup, workload: Workload, spec: ClusterSpec) -> str | None:
        if (reason := super().lacks(setup, workload, spec)) is not None:
            return reason
        given, nodes = parameters_of(setup), len(spec.node_names)
        slots, wanted = given.slots_per_node * nodes, given.parallelism or nodes
        if wanted > slots:
            return f"Flink needs {wanted} slots, and {nodes} nodes have {slots}"
        return None

    def beside(self, work: Work, setup: Setup, cluster: Cluster) -> Beside:
        """Start the JobManager; fetch the jars with the first start."""
        host = cluster.harness_host
        master = Master(
            host=host,
            rpc_port=free_port(host),
            blob_port=free_port(host),
            rest_port=free_port(),
            gateway_port=free_port(),
        )
        return JobManager(self, work, setup, cluster, master)

    def start(self, job: Job, cluster: Cluster) -> Start:
        assert isinstance(job.beside, JobManager)
        settings = job.beside.settings(host=job.node.host)
        command = java_command(
            the_java().executable, the_jars(), _TASK_MANAGER, "--configDir", ".",
            heap_mb=TASK_HEAP_OF_JVM_MB, direct_mb=TASK_DIRECT_MB,
        )  # fmt: skip
        # Its name is its node's and tells its incarnations apart.
        named = f'exec "$@" -D "taskmanager.resource-id={job.node.name}-$$"'
        return Start(
            command=["sh", "-c", named, "flink", *command],
            files={CONF_FILE: conf_text(settings), LOG_FILE: LOG4J},
            ready=_REGISTERED,
            ready_within_s=READY_WITHIN_S,
        )

    def transactional(self, setup: Setup) -> bool:
        return parameters_of(setup).transactional

    def noticed(self, lines: Sequence[Line]) -> Sequence[Event]:
        return [*noticed(lines), *checkpoints(lines)]


class JobManager(Beside):
    """Flink's JobManager and its SQL gateway, on the harness's machine, for one pass.

    It is outside of the nodes that are killed, as Spark's driver and the task engine's coordinator
    are."""

    def __init__(
        self, kind: FlinkKind, work: Work, setup: Setup, cluster: Cluster, master: Master
    ) -> None:
        """Return when the JobManager answers."""
        self._work, self._cluster, self._master = work, cluster, master
        self._given = parameters_of(setup)
        self._jars, java = the_jars(), the_java()
        self._java = java.executable
        self._checkpoints = cluster.checkpoint_location(f"{work.name}-flink")
        self._remedy = f"look for the first error in {work.directory}/*/out.log"
        self._child = Child(
            "harness.engines.flink.master",
            name="Flink's JobManager",
            log=work.directory / "flink.log",
            remedy=self._remedy,
            environment=cluster.driver_environment(),
        )
        try:
            self._order("jobmanager", _JOB_MANAGER, "--configDir", ".", rest=master.rest_port)
            self._wait("jobmanager")
        except BaseException:
            self.stop()
            raise

    def settings(self, host: str | None = None) -> dict[str, str | int | float | bool]:
        """Return Flink's configuration; ``host`` is a TaskManager's own address."""
        return configuration(
            self._given, self._master, nodes=len(self._cluster.nodes()),
            checkpoints=self._checkpoints, host=host,
        )  # fmt: skip

    def begun(self) -> None:
        """Submit the job; return when every task runs."""
        work, kafka = self._work, self._cluster.kafka
        client = {
            "bootstrap.servers": str(kafka.confluent(on_executor=True)["bootstrap.servers"]),
            **kafka.java_properties(),
        }
        made = statements(work.workload.form(FORM), work, client, self._given)
        self._order("submit", _GATEWAY, rest=self._master.gateway_port, statements=made)
        self._wait("runs")

    def raise_problems(self) -> None:
        for died in self._child.since(0, DIED):
            if "way_out" not in died:
                raise self._child.failure("the process above Flink's JobManager has ended")
            raise EnvironmentFailure(
                f"Flink: {died['error']}", remedy=died["way_out"] or self._remedy
            )

    def lines(self) -> Iterator[Line]:
        return json_lines(MASTER, self._place("jobmanager") / "out.log")

    def usage(self) -> Mapping[str, Usage]:
        return {MASTER: used_by([self._child], "psutil: the JobManager and what is above it")}

    def stop(self) -> None:
        self._child.stop(within_s=10.0)

    def _order(self, order: str, main: str, *arguments: str, rest: int, **more: object) -> None:
        place = self._place(order)
        place.mkdir(mode=0o700, parents=True)
        write_private(place / CONF_FILE, conf_text(self.settings()))
        write_private(place / LOG_FILE, LOG4J)
        command = java_command(
            self._java, self._jars, main, *arguments,
            heap_mb=MASTER_HEAP_MB, direct_mb=MASTER_HEAP_MB,
        )  # fmt: skip
        self._child.send(
            {
                "order": order,
                "name": main.rpartition(".")[2],
                "command": command,
                "directory": str(place),
                "rest": f"http://127.0.0.1:{rest}",
                "within_s": READY_WITHIN_S,
                **more,
            }
        )

    def _place(self, order: str) -> Path:
        return self._work.directory / order

    def _wait(self, event: str) -> None:
        def come(said: Mapping[str, Any]) -> bool:
            return said["event"] in (event, DIED)

        self._child.wait_for(event, come, within_s=2 * READY_WITHIN_S)
        self.raise_problems()
