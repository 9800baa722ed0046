"""A worker of a Docker cluster over all of its containers, and the nodes on it: what is known of
them beside what the daemon says, and what they have used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.cluster.base import Action, Node, Usage
from harness.cluster.docker.counters import Counted, Used
from harness.cluster.docker.trees import Tree
from harness.cluster.links import WorkerLink
from harness.cluster.processes import HostProcess

METHOD = (
    "CPU: of the container's control group, each incarnation sampled just before it is killed. "
    "Memory: of the control group without inactive file pages. Network: bytes of the container's "
    "interfaces, each connection to the network sampled before it is cut."
)
SHARED_METHOD = (
    "CPU and memory: user and system time and resident sets of the node's process tree inside its "
    "container, earlier incarnations sampled just before they were killed. Network: None, because "
    "the nodes of a worker share its interface."
)


@dataclass(slots=True)
class Share:
    """One node of a worker."""

    node: Node
    host: HostProcess | None = None
    """The process that it lives in, once that has said so; None where the node is the worker."""
    paused: bool = False
    spent_cpu_s: float = 0.0
    """Of its earlier incarnations."""


@dataclass(slots=True)
class Slot:
    """One worker, over all its incarnations."""

    name: str
    address: str
    shares: list[Share] = field(default_factory=list)
    incarnation: int = 0
    cut: bool = False
    link: WorkerLink | None = None
    """What was declared to lie under it."""
    spent: Used = field(default_factory=Used)
    """Of earlier incarnations, and of earlier connections to the network."""

    @property
    def log_name(self) -> str:
        """Of its present container: each has a log of its own."""
        return f"{self.name}.{self.incarnation}"

    def fits(self, action: Action, state: str) -> bool:
        """Whether there is something to do to it while its container is in that state."""
        there = state in ("running", "paused")
        match action:
            case Action.RESTART:
                return not there
            case Action.KILL:
                return there
            case Action.PAUSE:
                return state == "running"
            case Action.RESUME:
                return state == "paused"
            case Action.CUT:
                return there and not self.cut
            case Action.HEAL:
                return self.cut

    def bank(self, counted: Counted, *, only_network: bool = False) -> None:
        """Keep what counters say that are about to start again from zero."""
        if not only_network:
            self.spent.cpu_s += counted.used.cpu_s
        self.spent.received_bytes += counted.used.received_bytes
        self.spent.sent_bytes += counted.used.sent_bytes

    def usage(self, counted: Counted) -> Usage:
        """Of a node that is a container; ``counted`` of the present one."""
        return Usage(
            cpu_s=self.spent.cpu_s + counted.used.cpu_s,
            resident_bytes=counted.resident_bytes,
            received_bytes=self.spent.received_bytes + counted.used.received_bytes,
            sent_bytes=self.spent.sent_bytes + counted.used.sent_bytes,
            method=METHOD,
        )

    def usages(self, seen: Mapping[str, Tree]) -> dict[str, Usage]:
        """Of nodes that share it; ``seen``: the processes of those that live."""
        usages = {}
        for share in self.shares:
            tree = seen.get(share.node.name, Tree())
            usages[share.node.name] = Usage(
                cpu_s=share.spent_cpu_s + tree.cpu_s,
                resident_bytes=tree.resident_bytes,
                received_bytes=None,
                sent_bytes=None,
                method=SHARED_METHOD,
            )
        return usages
