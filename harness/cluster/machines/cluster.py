"""The backend of several machines: workers there, drivers and the load generator on this one.

Kafka, Redis and the Spark master run on this machine or on one of their own, and listen on the
address that the machines reach. Each machine has an agent (`harness.cluster.agent`) that
starts its workers and ends them with the connection, so that nothing is left of a run."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

from harness.cluster.agent.launching import Server
from harness.cluster.agent.place import Launcher
from harness.cluster.base import (
    Action,
    ClusterSpec,
    Prepared,
    RunningProgram,
    demand_near,
    nodes_of,
)
from harness.cluster.clocks import Sample
from harness.cluster.configuration import REDIS_SOCKET, BrokerIdentity
from harness.cluster.far import FarCluster
from harness.cluster.impossible import Impossible
from harness.cluster.links import WorkerLink
from harness.cluster.local.cluster import Site
from harness.cluster.local.cluster import remove as remove
from harness.cluster.local.cluster import servers as servers
from harness.cluster.local.stores import RedisDaemon, RedisReplica, Tunnel
from harness.cluster.machines.certificates import run_certificate
from harness.cluster.machines.machine import Machine
from harness.cluster.machines.network import MachineNetwork
from harness.cluster.machines.settings import Host, Machines
from harness.cluster.machines.ssh import Loop
from harness.cluster.owned import MINIMUM_FREE_BYTES
from harness.cluster.ownership import Remove
from harness.cluster.run_directory import make_place
from harness.cluster.spark import SparkAccess
from harness.errors import EnvironmentFailure, UsageError
from harness.text import Notify

_ENCRYPTED = {
    "spark.network.crypto.enabled": "true",
    "spark.network.crypto.authEngineVersion": "2",
}
"""Settings of every Spark process: what they send to each other is encrypted with the secret."""


class MachinesCluster(FarCluster[Machine]):
    """Workers on machines that are reached by SSH."""

    daemon_settings = _ENCRYPTED

    def __init__(
        self, machines: Machines, spec: ClusterSpec, *, remove: Remove, keep: bool = False
    ) -> None:
        self._file = machines
        self._demand_within(spec)
        self._addresses = MachineNetwork(machines, self._places)
        self._machines: dict[str, Machine] = {}
        self._loop: Loop | None = None
        super().__init__(spec, remove=remove, keep=keep, network=self._addresses)
        self.backend = machines.name

    @property
    def places(self) -> Sequence[Machine]:
        """The machines that are connected."""
        return tuple(self._machines.values())

    def find_parts(self, report: Notify) -> None:
        super().find_parts(report)
        try:
            self._connect(report)
            self.at_once(lambda machine: machine.send(self.programs, report))
        except BaseException:
            self._disconnect()
            raise

    def bring_up(self, report: Notify) -> None:
        report("starting an agent on each machine")
        self._report = report
        self.at_once(lambda machine: machine.open(self.run, self.run_directory))
        for machine in self.places:
            self._demand_room(machine)
            if machine.host.address is None:
                towards = machine.agent.address_towards(self._addresses.here)
                self._addresses.of[machine.name] = towards
        services = self._file.services
        if services.ssh is not None:
            self._addresses.host = services.address or self._addresses.of[services.ssh]
        self._nodes = nodes_of(self.spec, self._addresses.worker_host)
        self.at_once(self._addresses.open_on)
        self.demand_clocks()
        super().bring_up(report)

    def ended(self) -> None:
        super().ended()
        self._disconnect()
        self._remove_checkpoints()

    def spark_access(self) -> SparkAccess:
        return replace(super().spark_access(), driver_host=self._addresses.here)

    def spark_conf(self, *, racks: Sequence[str] | None = None) -> dict[str, str]:
        return {**super().spark_conf(racks=racks), **_ENCRYPTED}

    def prepare(self, action: Action, target: str) -> Prepared:
        if action in (Action.CUT, Action.HEAL):
            if not self._addresses.cuts:
                raise UsageError(
                    f"this cluster cannot {action} {target}: {self._file.path} leaves the "
                    "machines' networks alone",
                    remedy="give it `cuts: true`, with root or passwordless sudo on the machines; "
                    "or use pause and resume (the node falls silent, its connections stay open)",
                )
            self._addresses.demand_whole(f"{action} {target}", self.resolve(target))
        return super().prepare(action, target)

    def shape(self, target: str, link: WorkerLink | None) -> None:
        if link is not None:
            self._addresses.demand_whole(f"a link of {target}", self.resolve(target))
        super().shape(target, link)

    def reshape(self, spec: ClusterSpec, report: Notify) -> bool:
        try:
            self._demand_within(spec)
        except UsageError:
            return False  # a new cluster says what is missing
        return super().reshape(spec, report)

    def _demand_within(self, spec: ClusterSpec) -> None:
        sizes = [len(places) for places in self._file.racks.values()]
        spec.demand_within(sizes, self._file.path)

    def restore(self, report: Notify) -> None:
        self.demand_clocks()
        super().restore(report)

    @property
    def clock_limit_s(self) -> float:
        return self._file.clock_limit_ms / 1000

    def clocks(self) -> Mapping[str, Sample | None]:
        return {node.name: self.place_of(node.worker).clock.best() for node in self._nodes}

    def demand_clocks(self) -> None:
        """Compare all clocks. Raises `EnvironmentFailure` for one that would decide latencies."""
        for machine in self.places:
            demand_near(f"of {machine.name}", machine.clock.compare(machine.agent.clock_unix_s))

    def checkpoint_location(self, name: str) -> str:
        shared = self._file.checkpoints
        if shared is None:
            raise Impossible(
                f"{self._file.path} names no place that all machines can write to, and this engine "
                "keeps its state in files",
                remedy="give `checkpoints:` (file:// of a shared directory, hdfs://, s3a://), or "
                "use the engine `tasks`, which keeps its state in Redis",
            )
        place = make_place(self.run_directory / "checkpoints", name)
        return f"{self._checkpoints_of(shared)}/{place.name}"

    def _checkpoints_of(self, shared: str) -> str:
        """Return the URI of this run's checkpoints."""
        return f"{shared.rstrip('/')}/faultline-{self.run}"

    def _remove_checkpoints(self) -> None:
        """Remove the run's checkpoints where they are in a directory that is mounted here."""
        shared = self._file.checkpoints
        if shared is not None and shared.startswith("file://"):
            place = url2pathname(urlsplit(self._checkpoints_of(shared)).path)
            shutil.rmtree(place, ignore_errors=True)

    def launch(
        self,
        node: str,
        argv: Sequence[str],
        *,
        name: str = "program",
        env: Mapping[str, str] | None = None,
        files: Mapping[str, str] | None = None,
    ) -> RunningProgram:
        """See `Cluster.launch`; paths of this machine become those of the node's."""
        self.demand_started()
        (found,) = (each for each in self.resolve(node) if each.name == node)
        machine = self.place_of(found.worker)

        def there(text: str) -> str:
            return machine.translated(text, self.programs, lambda text: None)

        return super().launch(
            node,
            [there(word) for word in argv],
            name=name,
            env={key: there(value) for key, value in (env or {}).items()},
            files={key: there(text) for key, text in (files or {}).items()},
        )

    def tidy(self) -> None:
        super().tidy()
        self._remove_checkpoints()

    def _broker_identity(self) -> BrokerIdentity:
        addresses = {self._addresses.here, *(there.host for there, _ in self._broker_sites())}
        self._certificate = run_certificate(sorted(addresses))
        return BrokerIdentity(tls=self._certificate)

    def _main_site(self, here: Launcher) -> Site:
        own, ssh = super()._main_site(here), self._file.services.ssh
        return own if ssh is None else self._site_on(ssh, self._addresses.host)

    def _site_on(self, ssh: str, address: str) -> Site:
        """Return a machine for servers at one of its addresses, and send what they need."""
        machine = self._machines[ssh]
        launcher = replace(self.launcher_on(machine), host=address)
        return launcher, machine.server_programs(self.programs, self._report)

    def _broker_sites(self) -> Sequence[Site]:
        others = self._file.beside[: self._file.brokers - 1]
        return [self._site, *(self._site_on(ssh, self._addresses.of[ssh]) for ssh in others)]

    def _make_stores(self, program: Path, password: str) -> Sequence[Server]:
        """Make Redis behind a tunnel, as it has no encryption of its own, and its replicas."""
        tls, others = self._certificate, self._file.beside[: self._file.replicas]
        front = Tunnel(self._launcher, "into-redis", to=REDIS_SOCKET, tls=tls, encrypted="in")
        self._redis = RedisDaemon(
            self._launcher,
            program=program,
            password=password,
            append_only=self.spec.append_only or bool(others),
            front=front,
        )
        servers: list[Server] = [front, self._redis]
        primary = f"{self._redis.endpoint.host}:{front.port}"
        for number, ssh in enumerate(others, start=1):
            there, programs = self._site_on(ssh, "127.0.0.1")
            way = Tunnel(there, "to-the-primary", to=primary, tls=tls, encrypted="out")
            servers += [
                way,
                RedisReplica(there, self._redis, way, program=programs.redis_server, number=number),
            ]
        self._redis.endpoint = replace(self._redis.endpoint, replicas=len(others))
        return servers

    def _places(self) -> Mapping[str, Machine]:
        return {node.worker: self.place_of(node.worker) for node in self._nodes}

    def place_of(self, worker: str) -> Machine:
        rack, _, number = worker.removeprefix("r").partition("w")
        return self._machines[self._file.host_of(int(rack), int(number)).ssh]

    def _connect(self, report: Notify) -> None:
        hosts = self._file.everyone
        report(f"connecting to {len(hosts)} machines")
        self._loop = Loop()

        def connect(host: Host) -> Machine:
            assert self._loop is not None
            return Machine(
                host, self._loop, directory=self._file.directory, config=self._file.config
            )

        with ThreadPoolExecutor(len(hosts)) as pool:
            tried = [(host, pool.submit(connect, host)) for host in hosts]
        failures = []
        for host, future in tried:
            if (error := future.exception()) is not None:
                failures.append(error)
            else:
                self._machines[host.ssh] = future.result()
                self._addresses.of[host.ssh] = host.address or host.ssh
        if failures:
            raise failures[0]
        services = self._file.services
        given = services.address if services.ssh is None else None
        self._addresses.here = given or self.places[0].connection.own_address
        self._addresses.host = self._addresses.here

    def _demand_room(self, machine: Machine) -> None:
        facts = machine.agent.facts()
        workers = sum(self.place_of(node.worker) is machine for node in self._nodes)
        needed = workers * self.spec.memory_mb_per_worker << 20
        if facts.memory_bytes < needed:
            raise EnvironmentFailure(
                f"{machine.name} has {facts.memory_bytes >> 20:,} MB of memory, and its {workers} "
                f"worker(s) need {needed >> 20:,} MB",
                remedy="give it fewer `workers` in the file of machines",
            )
        if facts.free_disk_bytes < MINIMUM_FREE_BYTES:
            raise EnvironmentFailure(
                f"only {facts.free_disk_bytes >> 20:,} MB are free on {machine.name} at "
                f"{machine.directory}",
                remedy="free some disk space there, or give another `directory`",
            )

    def _disconnect(self) -> None:
        machines, self._machines = self._machines, {}
        if machines:
            with ThreadPoolExecutor(len(machines)) as pool:
                list(pool.map(Machine.close, machines.values()))
        if self._loop is not None:
            self._loop.close()
            self._loop = None
