"""The Docker backend: a container for each worker, with an agent in it.

Each cluster has a bridge network, on which every container has a fixed address. Kafka, Redis, the
Spark master and drivers run on the daemon's machine, at the gateway's address. Secrets go to a
container through its agent: they are in no environment and on no command line. Checkpoints are in
the run directory, at the same path in the containers."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from contextlib import closing

from harness.cluster.base import ClusterSpec, nodes_of
from harness.cluster.docker import daemon
from harness.cluster.docker.containers import ContainerPlace, Containers, workers_of
from harness.cluster.far import FarCluster
from harness.cluster.local.cluster import servers as local_servers
from harness.cluster.ownership import ClusterRecord, Remove
from harness.errors import EnvironmentFailure, UsageError
from harness.text import Notify

_MOST_WORKERS = 240


class DockerCluster(FarCluster[ContainerPlace]):
    """Workers in containers."""

    backend = "docker"
    kind_of_place = "the container of"

    def __init__(self, spec: ClusterSpec, *, remove: Remove, keep: bool = False) -> None:
        if spec.racks * spec.workers_per_rack > _MOST_WORKERS:
            raise UsageError(
                f"a cluster in containers has at most {_MOST_WORKERS} workers",
                remedy="use fewer racks or fewer workers in each",
            )
        self.containers = Containers(spec.workers_per_rack)
        self._places: dict[str, ContainerPlace] = {}
        super().__init__(spec, remove=remove, keep=keep, network=self.containers)

    @property
    def places(self) -> Sequence[ContainerPlace]:
        return tuple(self._places.values())

    def place_of(self, worker: str) -> ContainerPlace:
        return self._places[worker]

    def find_parts(self, report: Notify) -> None:
        super().find_parts(report)
        self._client = daemon.connect()
        self._image = daemon.ensure_image(self._client, report)

    def bring_up(self, report: Notify) -> None:
        self.containers.make(self._client, self.run, self._image)
        _demand_own_network(self.containers.host)
        self._nodes = nodes_of(self.spec, self.containers.worker_host)
        hosts = {node.worker: node.host for node in self._nodes}
        self._places = {w: ContainerPlace(w, host, self.run) for w, host in hosts.items()}
        checkpoints = self.run_directory / "checkpoints"
        checkpoints.mkdir(mode=0o700)
        report("starting a container for each worker")
        self.at_once(lambda place: place.open(self.containers, self.run_directory, [checkpoints]))
        super().bring_up(report)

    def reshape(self, spec: ClusterSpec, report: Notify) -> bool:
        """Change nothing: another shape needs other containers."""
        return False

    def ended(self) -> None:
        for place in self.places:  # they are removed: the ends of their streams are near
            place.close()
        super().ended()
        self._client.close()


def _demand_own_network(gateway: str) -> None:
    """Raise `EnvironmentFailure` where the daemon's networks are not this machine's."""
    try:
        socket.create_server((gateway, 0)).close()
    except OSError as error:
        raise EnvironmentFailure(
            f"no server can listen at {gateway}, the gateway of the containers: {error.strerror}",
            remedy="the harness must stand on the daemon's own Linux machine, or in a container "
            "with its network; Docker Desktop keeps its networks to itself",
        ) from error


def servers(record: ClusterRecord) -> dict[str, bool]:
    """Return the servers and containers of a cluster on record: True if it lives."""
    with closing(daemon.connect()) as client:
        return {**local_servers(record), **workers_of(client, record.run)}


def remove(record: ClusterRecord) -> None:
    """Remove the containers and the network of a cluster on record."""
    with closing(daemon.connect()) as client:
        daemon.remove_run(client, record.run)
