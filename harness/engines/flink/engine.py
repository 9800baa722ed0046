"""Flink behind the contract: a JobManager outside of the nodes, and a TaskManager on each."""

from __future__ import annotations

import base64
import os
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from secrets import token_urlsafe
from typing import Any, ClassVar

from harness.cache import to_stderr
from harness.child import DIED, Child
from harness.cluster.base import Cluster, ClusterSpec, Prepared, Usage
from harness.cluster.killing import prepare_kill
from harness.cluster.processes import tree
from harness.cluster.run_directory import write_private
from harness.engines.base import ClusterNeeds, Event, Setup, Work, used_by
from harness.engines.flink import reported
from harness.engines.flink.parameters import TUNED, FlinkParameters
from harness.engines.flink.reported import MASTER, checkpoints, recoveries
from harness.engines.flink.settings import (
    CONF_FILE,
    DIRECT_MB,
    KEYS_FILE,
    LOG4J,
    LOG_FILE,
    Configuration,
    Keys,
    Master,
    conf_text,
    configuration,
    java_command,
)
from harness.engines.flink.sql import FORM, statements
from harness.engines.programs.engine import ProgramKind, json_lines
from harness.engines.programs.start import Beside, Job, Line, Start
from harness.engines.settings import DRIVER_MB, Setting, java_options
from harness.environment.jars import ensure_sets
from harness.environment.java import Java, find_java
from harness.environment.wheels import unpacked_wheel
from harness.errors import EnvironmentFailure
from workloads.base import Workload

NAME = "flink"
HERE = Path(__file__).parent
WHEEL, LOCK = HERE / "flink.lock", HERE / "jars.lock.json"
CLASSES, SOURCES = HERE / "classes", HERE / "java"
STANDBY = "standby"
JAVAS = (17, 21)
"""What its documentation supports."""
READY_WITHIN_S = 120.0
_ANSWERS_WITHIN_S = 6 * READY_WITHIN_S
"""For a start, each statement and the job's start, which have their own time within that."""
_MASTER_DIRECT_MB = 256
_KEYS_TEXT, _PASSWORD = "internal.base64", "FAULTLINE_KEYS"
_REGISTERED = re.compile(r"\{.*Successful registration at resource manager.*\}")
JOB_MANAGER = "jobmanager"
"""The part that a schedule can kill."""
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

    def parts(self, spec: ClusterSpec) -> Sequence[str]:
        return [JOB_MANAGER]

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
        return JobManager(work, setup, cluster)

    def start(self, job: Job, cluster: Cluster) -> Start:
        assert isinstance(job.beside, JobManager)
        settings = job.beside.settings(host=job.node.host)
        command = java_command(
            the_java().executable, the_jars(), _TASK_MANAGER, "--configDir", ".",
            heap_mb=cluster.spec.memory_mb_per_node, direct_mb=DIRECT_MB, brief=job.setup.brief,
        )  # fmt: skip
        # Its name is its node's and tells its incarnations apart. Files are texts.
        named = (
            f"base64 -d {_KEYS_TEXT} > {KEYS_FILE} && "
            f'exec "$@" -D "taskmanager.resource-id={job.node.name}-$$"'
        )
        return Start(
            command=["sh", "-c", named, "flink", *command],
            files={
                CONF_FILE: conf_text(settings),
                LOG_FILE: LOG4J,
                _KEYS_TEXT: job.beside.keys_text,
            },
            ready=_REGISTERED,
            ready_within_s=READY_WITHIN_S,
        )

    def read_back(
        self, jobs: Sequence[Job], lines: Sequence[Line], cluster: Cluster
    ) -> Sequence[Setting]:
        master = jobs[0].beside
        assert isinstance(master, JobManager)
        return master.read_back(lines)

    def events_in(self, lines: Sequence[Line]) -> Sequence[Event]:
        return [*recoveries(lines), *checkpoints(lines)]


class JobManager(Beside):
    """Flink's JobManager and its SQL gateway, on the harness's machine, for one pass.

    It is outside of the nodes that are killed, as Spark's driver and the task engine's coordinator
    are."""

    def __init__(self, work: Work, setup: Setup, cluster: Cluster) -> None:
        """Return when the JobManager answers."""
        self._work, self._cluster, self._brief = work, cluster, setup.brief
        self._master = Master(host=cluster.harness_host)
        self._given = parameters_of(setup)
        self._jars, java = the_jars(), the_java()
        self._java = java.executable
        self._keys = new_keys(java, work.directory / KEYS_FILE)
        self._places: list[Path] = []
        self._struck = False
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
            self._start()
            said = self._wait("jobmanager")
            self._pid = int(said["pid"])
            self._master = replace(
                self._master, rpc_port=said["rpc_port"], rest_port=said["rest_port"]
            )
        except BaseException:
            self.stop()
            raise

    def _start(self) -> None:
        """Order a JobManager; a second one listens where the first one did."""
        port = {"rest.bind-port": str(self._master.rest_port)}
        self._places.append(
            self._order(
                "jobmanager", _JOB_MANAGER, "--configDir", ".",
                settings={**self._settings(self._keys), **port},
            )
        )  # fmt: skip

    def prepare(self, part: str) -> Prepared:
        """Find the JobManager; without high availability its job ends with it.

        `raise_problems` then starts both again, the job from its newest checkpoint, as an operator
        of Flink does after a loss of the JobManager."""
        if said := self._child.newest("jobmanager"):
            self._pid = int(said["pid"])

        def before() -> None:
            self._child.send({"order": "expect_end"})
            self._struck = True

        return prepare_kill(part, tree([self._pid]), before)

    @property
    def keys_text(self) -> str:
        """The file of `Keys`, as a text."""
        return base64.b64encode(Path(self._keys.path).read_bytes()).decode()

    def settings(self, host: str) -> Configuration:
        """Return the configuration of a TaskManager on ``host``, its own address."""
        return self._settings(replace(self._keys, path=KEYS_FILE), host=host)

    def _settings(self, keys: Keys | None, host: str | None = None) -> Configuration:
        return configuration(
            self._given, self._master, nodes=len(self._cluster.nodes()),
            checkpoints=self._checkpoints, heap_mb=self._cluster.spec.memory_mb_per_node,
            keys=keys, host=host,
        )  # fmt: skip

    def begun(self) -> None:
        """Submit the job; return when every task runs."""
        work, kafka = self._work, self._cluster.kafka
        client = {
            "bootstrap.servers": str(kafka.confluent(on_executor=True)["bootstrap.servers"]),
            **kafka.java_properties(),
        }
        made = statements(work.workload.form(FORM), work, client, self._given)
        self._statements = made
        self._submit()
        self._said = self._wait("runs")["said"]

    def _submit(self, **more: object) -> None:
        self._order(
            "submit", _GATEWAY, settings=self._settings(None), statements=self._statements,
            ask=reported.ASKED, **more,
        )  # fmt: skip

    def read_back(self, lines: Sequence[Line]) -> list[Setting]:
        """Return what it and the TaskManagers report of their settings."""
        return reported.settings(
            self._given, self._settings(None), self._said, [*self.lines(), *lines],
            java=java_options(self._cluster.spec.memory_mb_per_node, brief=self._brief),
        )  # fmt: skip

    def raise_problems(self) -> None:
        if self._struck:
            self._struck = False
            self._start()
            self._submit(checkpoints=self._checkpoints)
        for died in self._child.since(0, DIED):
            if "way_out" not in died:
                raise self._child.failure("the process above Flink's JobManager has ended")
            raise EnvironmentFailure(
                f"Flink: {died['error']}", remedy=died["way_out"] or self._remedy
            )

    def lines(self) -> Iterator[Line]:
        for place in self._places:
            yield from json_lines(MASTER, place / "out.log")

    def usage(self) -> Mapping[str, Usage]:
        return {MASTER: used_by([self._child], "psutil: the JobManager and what is above it")}

    def stop(self) -> None:
        self._child.stop(within_s=10.0)

    def _order(
        self,
        order: str,
        main: str,
        *arguments: str,
        settings: Configuration,
        **more: object,
    ) -> Path:
        place = self._work.directory / order
        while place.exists():  # that of an earlier life
            place = place.with_name(f"{place.name}-again")
        place.mkdir(mode=0o700, parents=True)
        write_private(place / CONF_FILE, conf_text(settings))
        write_private(place / LOG_FILE, LOG4J)
        command = java_command(
            self._java, self._jars, main, *arguments,
            heap_mb=DRIVER_MB, direct_mb=_MASTER_DIRECT_MB, brief=self._brief,
        )  # fmt: skip
        self._child.send(
            {
                "order": order,
                "name": main.rpartition(".")[2],
                "command": command,
                "directory": str(place),
                "within_s": READY_WITHIN_S,
                **more,
            }
        )
        return place

    def _wait(self, event: str) -> Mapping[str, Any]:
        said = self._child.wait_for(
            event, lambda e: e["event"] in (event, DIED), within_s=_ANSWERS_WITHIN_S
        )
        self.raise_problems()
        return said


def new_keys(java: Java, path: Path) -> Keys:
    """Make a key and its certificate in a file of Java's, for one pass.

    Flink's own choice of ciphers asks for an RSA key."""
    password = token_urlsafe(24)
    command = [
        str(java.home / "bin" / "keytool"), "-genkeypair", "-keystore", str(path),
        "-storetype", "PKCS12", "-storepass:env", _PASSWORD, "-alias", "flink",
        "-keyalg", "RSA", "-keysize", "2048", "-dname", "CN=faultline", "-validity", "30",
    ]  # fmt: skip
    done = subprocess.run(
        command, env={**os.environ, _PASSWORD: password}, capture_output=True, text=True,
        timeout=READY_WITHIN_S, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise EnvironmentFailure(
            f"{command[0]} made no key for Flink: {(done.stdout + done.stderr).strip()}",
            remedy="set FAULTLINE_JAVA_HOME to a whole Java 17 or 21",
        )
    path.chmod(0o600)
    return Keys(path=str(path), password=password)
