"""The network of a cluster of machines: their addresses, and what their agents do to it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from harness.cluster.agent.place import Place
from harness.cluster.base import Node
from harness.cluster.links import Bytes, Loopback, WorkerLink
from harness.cluster.machines.settings import Machines
from harness.errors import UsageError

_COUNTED = (
    "Network: bytes of IP packets between the machine and the other addresses of the run, SSH left "
    "out, counted by nftables for the whole machine; they stand with its first worker."
)
_NOT_COUNTED = (
    "Network: None, because bytes between the run's addresses are counted by nftables, and the "
    "file of machines does not say `cuts: true`."
)


class MachineNetwork(Loopback):
    """Addresses that are known once the machines are connected, and what their agents do to it."""

    def __init__(self, machines: Machines, places: Callable[[], Mapping[str, Place]]) -> None:
        """``places``: returns the machine of each worker that there is."""
        self._machines, self._places = machines, places
        self.of: dict[str, str] = {}
        self.here = ""
        """The address of the harness's machine; `host` is that of the services."""
        self.cuts = machines.cuts
        self.method = _COUNTED if self.cuts else _NOT_COUNTED

    def worker_host(self, rack: int, number: int) -> str:
        """Return the address of the worker's machine; its SSH name until that is known."""
        ssh = self._machines.host_of(rack, number).ssh
        return self.of.get(ssh, ssh)

    def open_on(self, place: Place) -> None:
        """Let its agent count and cut. Raises `EnvironmentFailure` with what to grant."""
        if self.cuts:
            others = {self.host, self.here, *self.of.values()}
            place.agent.open_network(self.of[place.name], sorted(others))

    def cut(self, worker: str) -> None:
        self._places()[worker].agent.cut_off()

    def heal(self, worker: str) -> None:
        self._places()[worker].agent.heal()

    def shapes(self) -> frozenset[str]:
        if not self.cuts:
            return frozenset()
        found = {place.name: place for place in self._places().values()}
        return frozenset.intersection(*(place.agent.shapes() for place in found.values()))

    def shape(self, worker: str, link: WorkerLink | None) -> None:
        self._places()[worker].agent.shape(link)

    def counted(self, worker: str) -> Bytes | None:
        places = self._places()
        first = next(name for name, place in places.items() if place is places[worker])
        return places[worker].agent.crossed() if self.cuts and worker == first else None

    def demand_whole(self, what: str, nodes: Iterable[Node]) -> None:
        """Raise `UsageError` if ``nodes`` are on some, but not all, workers of a machine."""
        places, workers = self._places(), {node.worker for node in nodes}
        for worker in workers:
            beside = [name for name, place in places.items() if place is places[worker]]
            if left := [name for name in beside if name not in workers]:
                raise UsageError(
                    f"{what} would reach {', '.join(left)}, too: they share the machine "
                    f"{places[worker].name} and its address with {worker}",
                    remedy="name a rack whose machines have no other workers, or give each "
                    "machine `workers: 1`",
                )
