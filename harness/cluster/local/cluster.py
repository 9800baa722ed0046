"""The local backend: real servers as child processes on the loopback interface (Linux).

A run directory (mode 0700) holds everything of one cluster::

    processes.jsonl   every process ever started: name, pid, start time
    logs/             one file per process
    secrets/          properties of the Spark daemons, client credentials (mode 0600)
    conf/             SPARK_CONF_DIR of daemons and executors (no secret)
    driver-conf/      SPARK_CONF_DIR of drivers, with the secret (mode 0600)
    kafka/ redis/     data and configuration of the servers
    work/             one directory per worker incarnation, with its executors' logs
    programs/         one directory per incarnation of a launched program
    spark-local/ tmp/ scratch space

Worker n of rack r listens on 127.0.r.n, so Spark sees as many hosts as there are workers."""

from __future__ import annotations

import secrets
import shutil
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from harness.cluster.agent.launching import Server, wait_for
from harness.cluster.agent.place import Launcher, Place
from harness.cluster.agent.programs import PROGRAMS
from harness.cluster.agent.workers import Workers
from harness.cluster.base import (
    STORE,
    Action,
    ClusterSpec,
    Node,
    Prepared,
    RunningProgram,
    Usage,
    Victim,
    nodes_of,
)
from harness.cluster.configuration import BrokerIdentity
from harness.cluster.endpoints import KafkaEndpoint, RedisEndpoint
from harness.cluster.killing import broker_names
from harness.cluster.links import Loopback, WorkerLink
from harness.cluster.local import breaking
from harness.cluster.local.network import Namespaces
from harness.cluster.local.spark_servers import Master, SparkDaemons, Worker
from harness.cluster.local.stores import KafkaBroker, RedisDaemon, quorum_of
from harness.cluster.owned import OwnedCluster, Programs, find_programs
from harness.cluster.ownership import ClusterRecord, Remove
from harness.cluster.processes import HostProcess, Machine, is_alive
from harness.cluster.run_directory import read_journal
from harness.cluster.spark import SparkAccess, server_environment
from harness.errors import EnvironmentFailure, UsageError
from harness.text import Notify

_LEAST_MEMORY_MB = 512
"""Spark refuses executors under 450 MiB."""


Site = tuple[Launcher, Programs]
"""A machine for servers: what starts them there, and their programs."""


class LocalCluster(OwnedCluster):
    """Kafka, Redis, a Spark master and its workers as children of this process."""

    backend = "local"
    _workers: Workers | None = None
    daemon_settings: Mapping[str, str] = MappingProxyType({})
    """Further settings of the Spark master and its workers."""

    def __init__(
        self,
        spec: ClusterSpec,
        run_directory: Path | None = None,
        *,
        remove: Remove,
        keep: bool = False,
        programs: Programs | None = None,
        network: Loopback | None = None,
    ) -> None:
        """Start nothing yet; ``network`` is by default made of loopback addresses."""
        _check(spec)
        super().__init__(spec, run_directory, remove=remove, keep=keep)
        self._given_programs = programs
        self._network = network or Loopback()
        if isinstance(self._network, Namespaces):
            self.backend = "local-namespaces"
        self._nodes = nodes_of(spec, self._network.worker_host)

    @property
    def workers(self) -> Workers:
        """The workers. Raises `UsageError` if the cluster is not running."""
        self.demand_started()
        assert self._workers is not None
        return self._workers

    def find_parts(self, report: Notify) -> None:
        self.programs = self._given_programs or find_programs(report)

    @property
    def kafka(self) -> KafkaEndpoint:
        self.demand_started()
        return self._brokers[0].endpoint

    @property
    def redis(self) -> RedisEndpoint:
        self.demand_started()
        return self._redis.endpoint

    def spark_access(self) -> SparkAccess:
        return SparkAccess(
            master_url=self._master.url,
            driver_host=self._network.host,
            executor_python=sys.executable,
            java_options=f'-XX:-UsePerfData "-Djava.io.tmpdir={self.run_directory / "tmp"}"',
            secret=self._secret,
        )

    def nodes(self) -> Sequence[Node]:
        return self._nodes

    def alive(self) -> Mapping[str, bool]:
        return self.workers.alive()

    def usage(self) -> Mapping[str, Usage]:
        return self.workers.usage()

    def register_host(self, node: str, host: HostProcess) -> None:
        self.workers.register_host(node, host)

    def launch(
        self,
        node: str,
        argv: Sequence[str],
        *,
        name: str = "program",
        env: Mapping[str, str] | None = None,
        files: Mapping[str, str] | None = None,
    ) -> RunningProgram:
        return self.workers.launch(node, argv, name=name, env=env or {}, files=files or {})

    def health(self) -> None:
        self.demand_started()
        for server in (*self._brokers, *self._stores, self._master):
            server.check()

    def capabilities(self) -> frozenset[Action]:
        cut = (Action.CUT, Action.HEAL) if self._network.cuts else ()
        return frozenset((*breaking.ACTIONS, *cut))

    def breakable(self) -> Collection[str]:
        return self._servers()

    def _servers(self) -> Mapping[str, Server]:
        brokers = zip(broker_names(len(self._brokers)), self._brokers, strict=True)
        return {**dict(brokers), STORE: self._redis}

    def restore(self, report: Notify) -> None:
        self.demand_started()
        servers = self._servers()
        started = [server for name, server in servers.items() if breaking.revive(server, name)]
        wait_for(started, report)
        self.health()
        self.workers.restore(report)

    def prepare(self, action: Action, target: str) -> Prepared:
        if target in self.breakable():
            return breaking.prepare(self._servers()[target], target, action)
        if action not in self.capabilities():
            raise UsageError(
                f"the local cluster cannot {action} {target}: taking a process off the loopback "
                "interface needs root and a network namespace of its own",
                remedy="use pause and resume (the node falls silent, its connections stay open), "
                "or nodes with a network of their own: --network namespaces, or --cluster docker",
            )
        return self.workers.prepare(action, self.resolve(target), rack=self.is_rack(target))

    def apply(self, action: Action, target: str) -> Sequence[Victim]:
        with self.prepare(action, target) as prepared:
            return prepared.apply()

    def shape(self, target: str, link: WorkerLink | None) -> None:
        super().shape(target, link)
        self.workers.shape({node.worker for node in self.resolve(target)}, link)

    def shapes(self) -> frozenset[str]:
        self.demand_started()
        return self._network.shapes()

    def tidy(self) -> None:
        super().tidy()
        used = {program.directory for program in self.workers.programs() if program.alive}
        for directory in (self.run_directory / PROGRAMS).glob("*"):
            if directory not in used:
                shutil.rmtree(directory, ignore_errors=True)
        self._launcher.place.agent.tidy()

    def _build(self) -> None:
        self._secret = secrets.token_urlsafe(32)
        (self.run_directory / "work").mkdir(mode=0o700)
        environment = {
            **server_environment(self.programs.java_home, self.programs.spark_home),
            "PYSPARK_PYTHON": sys.executable,
            "TMPDIR": str(self.run_directory / "tmp"),
        }
        here = Place.here(self.run, self.run_directory, environment)
        self._site = self._main_site(here.launcher(environment, self._network.host))
        self._launcher, programs = self._site
        self._network.open(
            self.run, self.run_directory, {node.worker: node.host for node in self._nodes}
        )
        identity = self._broker_identity()
        self._brokers = quorum_of(
            [
                KafkaBroker(
                    there, java=its.java, jars=its.broker_jars, identity=identity, number=number
                )
                for number, (there, its) in enumerate(self._broker_sites(), start=1)
            ]
        )
        self._stores = self._make_stores(programs.redis_server, secrets.token_urlsafe(24))
        self._daemons = SparkDaemons(
            launcher=self._launcher,
            java=programs.java,
            spark_home=programs.spark_home,
            secret=self._secret,
            extra=self.daemon_settings,
        )
        self._daemons.prepare()
        self._master = Master(self._daemons)
        self._workers = self._new_workers()

    def _main_site(self, here: Launcher) -> Site:
        """Return where Kafka, Redis and the master are started."""
        return here, self.programs

    def _broker_sites(self) -> Sequence[Site]:
        """Return where each broker is started."""
        return [self._site]

    def _make_stores(self, program: Path, password: str) -> Sequence[Server]:
        """Make Redis, and what goes with it."""
        self._redis = RedisDaemon(
            self._launcher, program=program, password=password, append_only=self.spec.append_only
        )
        return [self._redis]

    def _broker_identity(self) -> BrokerIdentity:
        """Return the broker's identity; on loopback addresses nothing is encrypted."""
        return BrokerIdentity()

    def _new_workers(self, *, before: int = 0) -> Workers:
        return Workers(
            self._launchers(),
            self._nodes,
            lambda node, incarnation: Worker(
                self._daemons_of(node.worker),
                self._master,
                node,
                self.spec,
                self._network,
                incarnation=incarnation,
            ),
            self._network,
            before=before,
        )

    def _launchers(self) -> Mapping[str, Launcher]:
        """Return what starts the processes of each worker, by its name."""
        return {node.worker: self._launcher for node in self._nodes}

    def _daemons_of(self, worker: str) -> SparkDaemons:
        """Return what a worker has in common with others on its machine."""
        return self._daemons

    def reshape(self, spec: ClusterSpec, report: Notify) -> bool:
        """See `Cluster.reshape`. Networks of workers would have to be laid anew, so they stay."""
        self.demand_started()
        _check(spec)
        if isinstance(self._network, Namespaces):
            return False
        self.health()
        report("starting Spark workers of another shape")
        before = self.workers.end()
        self.spec, self._nodes = spec, nodes_of(spec, self._network.worker_host)
        self._workers = self._new_workers(before=before)
        wait_for(self._workers.begin(), report)
        self.write_credentials()
        self.tidy()
        return True

    def bring_up(self, report: Notify) -> None:
        self._build()
        report("starting Kafka, Redis and the Spark master")
        first: list[Server] = [*self._brokers, *self._stores, self._master]
        for server in first:
            server.begin()
        # A worker without a master retries after 5 to 15 s, so they come after it.
        wait_for(
            first,
            report,
            then=lambda server: self.workers.begin() if server is self._master else (),
        )
        self.write_credentials()

    def ended(self) -> None:
        self._network.close()
        if self._workers is not None:
            self._workers.reap()
            if self._launcher.place.mirror is None:  # another machine's agent ends them itself
                self._launcher.place.agent.end_all()


def _check(spec: ClusterSpec) -> None:
    if not sys.platform.startswith("linux"):
        raise EnvironmentFailure(
            f"the local cluster needs Linux (loopback addresses of their own, /proc), not "
            f"{sys.platform}",
            remedy="run Faultline in a Linux container or virtual machine",
        )
    for name, value, limit in (
        ("racks", spec.racks, 255),
        ("workers_per_rack", spec.workers_per_rack, 254),
    ):
        if value > limit:
            raise UsageError(
                f"a local cluster has at most {limit} {name}, not {value}",
                remedy="worker n of rack r lives on the address 127.0.r.n: use fewer",
            )
    if spec.memory_mb_per_worker < _LEAST_MEMORY_MB:
        raise UsageError(
            f"a worker with {spec.memory_mb_per_worker} MB cannot run a Spark executor",
            remedy=f"use memory_mb_per_worker of at least {_LEAST_MEMORY_MB}",
        )


def servers(record: ClusterRecord) -> dict[str, bool]:
    """Return the servers of a cluster on record, in the order of their start: True if it lives."""
    here = record.machine == Machine.here()
    newest = dict(read_journal(record.directory))
    return {
        name: here and is_alive(identity)
        for name, identity in newest.items()
        if name not in ("keeper", "kafka-format") and not name.startswith("network of ")
    }


def remove(record: ClusterRecord) -> None:
    """Do nothing: a local cluster consists of processes and a directory."""
