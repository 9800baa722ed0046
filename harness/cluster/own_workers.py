"""A cluster whose workers are of its own making, processes or containers: what they are asked and
told is the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from harness.cluster.base import Action, ClusterSpec, Node, Usage, Victim
from harness.cluster.links import WorkerLink
from harness.cluster.owned import OwnedCluster
from harness.cluster.processes import HostProcess
from harness.text import Notify


class OwnWorkers(Protocol):
    """The workers and the nodes on them. Safe to use from several threads."""

    def alive(self) -> Mapping[str, bool]:
        """As `Cluster.alive`."""

    def usage(self) -> Mapping[str, Usage]:
        """As `Cluster.usage`."""

    def register_host(self, node: str, host: HostProcess) -> None:
        """As `Cluster.register_host`."""

    def apply(self, action: Action, nodes: Sequence[Node], *, rack: bool) -> Sequence[Victim]:
        """As `Cluster.apply`. ``rack``: workers that carry several nodes go as a whole."""

    def shape(self, workers: Iterable[str], link: WorkerLink | None) -> None:
        """As `Cluster.shape`, by the workers' names."""

    def restore(self, report: Notify) -> None:
        """As `Cluster.restore`."""


class ClusterOfOwn(OwnedCluster):
    """Answers whatever is about workers; a backend makes them when it brings the cluster up."""

    _workers: OwnWorkers | None = None

    def alive(self) -> Mapping[str, bool]:
        return self.workers.alive()

    def usage(self) -> Mapping[str, Usage]:
        return self.workers.usage()

    def register_host(self, node: str, host: HostProcess) -> None:
        self.workers.register_host(node, host)

    def apply(self, action: Action, target: str) -> Sequence[Victim]:
        return self.workers.apply(action, self.resolve(target), rack=self.is_rack(target))

    def shape(self, target: str, link: WorkerLink | None) -> None:
        super().shape(target, link)
        self.workers.shape({node.worker for node in self.resolve(target)}, link)

    def restore(self, report: Notify) -> None:
        workers = self.workers
        self.health()
        workers.restore(report)

    @property
    def workers(self) -> OwnWorkers:
        """Raises `UsageError` if the cluster is not running."""
        self.demand_started()
        assert self._workers is not None
        return self._workers


def nodes_of(spec: ClusterSpec, host: Callable[[int, int], str]) -> tuple[Node, ...]:
    """Every node of that shape; ``host(rack, worker)``, both from 1, is a worker's address."""
    return tuple(
        Node(
            name=f"r{rack}n{(worker - 1) * spec.nodes_per_worker + number}",
            rack=f"r{rack}",
            worker=f"r{rack}w{worker}",
            host=host(rack, worker),
        )
        for rack in range(1, spec.racks + 1)
        for worker in range(1, spec.workers_per_rack + 1)
        for number in range(1, spec.nodes_per_worker + 1)
    )
