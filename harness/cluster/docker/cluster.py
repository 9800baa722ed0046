"""The Docker backend: the same servers as the local one, each in a container of its own.

Each cluster has a bridge network, on which every container has a fixed address; the harness and its
drivers run on the daemon's machine, at the gateway's address. Configuration, passwords included, is
copied into each container before it starts; it is in no environment and on no command line.
Checkpoints and the directories of launched programs are in the run directory, at the same paths for
the workers."""

from __future__ import annotations

import secrets
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path, PurePath, PurePosixPath

from harness.cluster.base import Action, ClusterSpec
from harness.cluster.configuration import (
    HEAP,
    KAFKA_LOG4J,
    STARTED,
    BrokerIdentity,
    redis_configuration,
)
from harness.cluster.docker import daemon
from harness.cluster.docker.containers import CONFIGURATION, Containers, ContainerSpec, states
from harness.cluster.docker.daemon import ensure_image
from harness.cluster.docker.workers import START_LIMIT_S, DockerWorkers, start_failure
from harness.cluster.endpoints import KafkaEndpoint, RedisEndpoint
from harness.cluster.owned import find_programs
from harness.cluster.ownership import ClusterRecord, Remove
from harness.cluster.processes import WORKER_VARIABLE
from harness.cluster.spark import (
    DAEMON_JAVA,
    LOG4J,
    MASTER_PROPERTIES,
    MasterLog,
    SparkAccess,
    daemon_properties,
    new_ui_key,
    rack_resources,
    worker_address,
    worker_properties,
)
from harness.cluster.workers import PROGRAMS, ClusterOfWorkers, nodes_of
from harness.errors import EnvironmentFailure, UsageError
from harness.text import Notify

CAPABILITIES = frozenset(Action)
_PYTHON = "/opt/venv/bin/python"
_KAFKA, _REDIS, _MASTER, _FIRST_WORKER = 2, 3, 4, 10
"""Last numbers of the servers' addresses."""
_MOST_WORKERS = 240
_REACHED_WITHIN_S = 60
"""A broker on a busy machine reports that it is up some time before it answers."""
_POLL_S = 0.05

_CONFIGURATION = PurePosixPath(CONFIGURATION)
_REDIS_READY = "Ready to accept connections"


class DockerCluster(ClusterOfWorkers):
    """Kafka, Redis, a Spark master and its workers in containers."""

    backend = "docker"

    def __init__(
        self,
        spec: ClusterSpec,
        run_directory: Path | None = None,
        *,
        remove: Remove,
        keep: bool = False,
    ) -> None:
        if spec.racks * spec.workers_per_rack > _MOST_WORKERS:
            raise UsageError(
                f"a cluster in containers has at most {_MOST_WORKERS} workers",
                remedy="use fewer racks or fewer workers in each",
            )
        super().__init__(spec, run_directory, remove=remove, keep=keep)
        self._shapes: frozenset[str] | None = None

    def find_parts(self, report: Notify) -> None:
        self._client = daemon.connect()
        self.programs = find_programs(report)
        self._image = ensure_image(self._client, report)

    def bring_up(self, report: Notify) -> None:
        self._shared = [self.run_directory / name for name in ("checkpoints", PROGRAMS)]
        for directory in self._shared:
            directory.mkdir(mode=0o700)
        self._containers = Containers(self._client, self.run, self._image, self.run_directory)
        self._containers.make_network()
        self._choose()
        report("starting Kafka, Redis and the Spark master")
        self._start_servers()
        self._await_servers(report)
        workers = DockerWorkers(
            self._containers,
            self._nodes,
            self.run_directory,
            self._start_worker,
            self._is_registered,
        )
        self._workers = workers
        workers.begin(report)
        self.write_credentials()

    def ended(self) -> None:
        if hasattr(self, "_containers"):
            self._containers.forget()
        self._client.close()

    @property
    def kafka(self) -> KafkaEndpoint:
        self.demand_started()
        return self._kafka

    @property
    def redis(self) -> RedisEndpoint:
        self.demand_started()
        return self._redis

    def spark_access(self) -> SparkAccess:
        return SparkAccess(
            master_url=self._master_url,
            driver_host=self._containers.gateway,
            executor_python=_PYTHON,
            secret=self._secret,
        )

    def health(self) -> None:
        self.demand_started()
        found = self._containers.states()
        for role, title in _TITLES.items():
            if found.get(role) != "running":
                raise start_failure(title, found.get(role, "gone"), self._containers, role)

    def capabilities(self) -> frozenset[Action]:
        return CAPABILITIES

    def shapes(self) -> frozenset[str]:
        self.demand_started()
        if self._shapes is None:
            self._shapes = self._containers.shapes()
        return self._shapes

    def _choose(self) -> None:
        place = self._containers.address
        self._broker = BrokerIdentity()
        self._kafka = self._broker.endpoint(f"{place(_KAFKA)}:{KAFKA_PORT}")
        self._redis = RedisEndpoint(
            host=place(_REDIS), port=REDIS_PORT, password=secrets.token_urlsafe(24)
        )
        self._secret, self._key = secrets.token_urlsafe(32), new_ui_key()
        self._master_url = f"spark://{place(_MASTER)}:{MASTER_PORT}"
        self._master_log = MasterLog()
        self._worker_addresses: dict[str, str] = {}
        in_rack = self.spec.workers_per_rack
        self._nodes = nodes_of(
            self.spec, lambda rack, worker: place(_FIRST_WORKER + (rack - 1) * in_rack + worker - 1)
        )

    def _start_servers(self) -> None:
        place, password = self._containers.address, str(self._redis.password)
        files = {
            "kafka": (_KAFKA, kafka_files(self._broker, place(_KAFKA), _CONFIGURATION)),
            "redis": (
                _REDIS,
                redis_files(place(_REDIS), password, append_only=self.spec.append_only),
            ),
            "master": (_MASTER, master_files(self._secret, self._key)),
        }
        plans = [
            ContainerSpec(role=role, command=(role,), address=place(number), files=texts)
            for role, (number, texts) in files.items()
        ]
        with ThreadPoolExecutor(len(plans)) as pool:
            list(pool.map(self._start_container, plans))

    def _start_worker(self, name: str, log_name: str) -> None:
        node = next(node for node in self._nodes if node.worker == name)
        cores = self.spec.cores_per_worker
        plan = ContainerSpec(
            role=name,
            command=("worker",),
            address=node.host,
            files=worker_files(self._secret, self._key, node.rack, cores, _CONFIGURATION),
            environment={
                WORKER_VARIABLE: name,
                "FAULTLINE_CORES": str(cores),
                "FAULTLINE_MEMORY_MB": str(self.spec.memory_mb_per_worker),
                "FAULTLINE_MASTER": self._master_url,
            },
            log_name=log_name,
        )
        self._start_container(plan)

    def _start_container(self, plan: ContainerSpec) -> None:
        self._containers.start(plan, shared=self._shared)

    def _await_servers(self, report: Notify) -> None:
        words = {"kafka": STARTED, "redis": _REDIS_READY, "master": "elected leader"}
        deadline = time.monotonic() + START_LIMIT_S
        waiting = dict(words)
        while waiting:
            found = self._containers.states()
            for role, word in list(waiting.items()):
                if word in self._containers.log(role).read_text(errors="replace"):
                    del waiting[role]
                    report(f"{_TITLES[role]} answers")
                elif found.get(role) != "running" or time.monotonic() > deadline:
                    state = found.get(role, "gone")
                    raise start_failure(_TITLES[role], state, self._containers, role)
            time.sleep(_POLL_S)
        self._check_reachable()

    def _check_reachable(self) -> None:
        """Connect as a client: that the servers are up does not mean that they can be reached."""
        from confluent_kafka import KafkaException

        try:
            self._kafka.admin().list_topics(timeout=_REACHED_WITHIN_S)
        except KafkaException as error:
            raise EnvironmentFailure(
                f"Kafka runs in a container but cannot be reached at {self._kafka.bootstrap}: "
                f"{error}",
                remedy="the harness must stand on the daemon's own Linux machine, or in a "
                "container with its network; Docker Desktop keeps its networks to itself",
            ) from error

    def _is_registered(self, log_name: str) -> bool:
        address = self._worker_addresses.get(log_name, "")
        if not address:
            own = self._containers.log(log_name)
            address = worker_address(own.read_text(errors="replace")) if own.exists() else ""
            self._worker_addresses[log_name] = address
        return address in self._master_log.read(self._containers.log("master"))


_TITLES = {"kafka": "the Kafka broker", "redis": "Redis", "master": "the Spark master"}


def servers(record: ClusterRecord) -> dict[str, bool]:
    """Return the containers of a cluster on record: True if it runs."""
    with closing(daemon.connect()) as client:
        found = states(client, record.run)
    return {role: state == "running" for role, state in sorted(found.items())}


def remove(record: ClusterRecord) -> None:
    """Remove the containers and the network of a cluster on record."""
    with closing(daemon.connect()) as client:
        daemon.remove_run(client, record.run)


KAFKA_PORT, CONTROLLER_PORT, REDIS_PORT, MASTER_PORT = 9092, 9093, 6379, 7077

_DAEMON = {"daemon.options": " ".join(DAEMON_JAVA), "log4j2.properties": LOG4J}


def kafka_files(broker: BrokerIdentity, host: str, place: PurePath) -> dict[str, str]:
    """Return the texts of the broker's container, by file name; ``place`` is their directory."""
    return {
        "server.properties": broker.properties(
            client=f"{host}:{KAFKA_PORT}",
            controller=f"{host}:{CONTROLLER_PORT}",
            data="/tmp/kafka/data",
        ),
        "format.arguments": broker.format_arguments(str(place / "server.properties")),
        "broker.options": " ".join(HEAP),
        "kafka-log4j2.properties": KAFKA_LOG4J,
    }


def redis_files(host: str, password: str, *, append_only: bool = False) -> dict[str, str]:
    """Return the texts of a Redis container, by file name."""
    text = redis_configuration(
        host=host,
        port=REDIS_PORT,
        password=password,
        directory=PurePath("/tmp"),
        append_only=append_only,
    )
    return {"redis.conf": text}


def master_files(secret: str, key: str) -> dict[str, str]:
    """Return the texts of the master's container, by file name."""
    return {"master.properties": daemon_properties(secret, key, MASTER_PROPERTIES), **_DAEMON}


def worker_files(secret: str, key: str, rack: str, cores: int, place: PurePath) -> dict[str, str]:
    """Return the texts of the container of a worker in ``rack``, by file name."""
    properties = worker_properties(rack, cores, str(place / "resources.json"))
    return {
        "worker.properties": daemon_properties(secret, key, properties),
        "resources.json": rack_resources(rack, cores),
        **_DAEMON,
    }
