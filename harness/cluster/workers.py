"""Workers that a backend starts itself, as processes or containers, and the nodes on them."""

from __future__ import annotations

import shutil
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from harness.cluster.base import Action, ClusterSpec, Node, Prepared, RunningProgram, Usage, Victim
from harness.cluster.links import WorkerLink
from harness.cluster.owned import OwnedCluster
from harness.cluster.processes import PROGRAM_VARIABLE, WORKER_VARIABLE, HostProcess
from harness.cluster.run_directory import make_place, write_private
from harness.errors import UsageError
from harness.text import Notify

PROGRAMS = "programs"
"""The subdirectory of a run directory with the working directories of launched programs."""


class ProgramProcess(Protocol):
    """One incarnation of a launched program."""

    @property
    def pid(self) -> int:
        """Its pid as the node numbers it."""

    def exit_code(self) -> int | None:
        """Return None while it lives."""

    def end(self, within_s: float) -> int:
        """Send SIGTERM, and after ``within_s`` SIGKILL to all of its processes; wait.

        Return the number of processes that its own one left behind."""


class Program(RunningProgram):
    """A program on a worker of our own."""

    process: ProgramProcess

    def __init__(
        self,
        share: Share,
        name: str,
        argv: Sequence[str],
        env: Mapping[str, str],
        files: Mapping[str, str],
        run_directory: Path,
    ) -> None:
        """Start nothing yet."""
        self.share, self.node, self.name = share, share.node.name, name
        self.argv, self._env, self.files = tuple(argv), dict(env), dict(files)
        self._run_directory = run_directory
        self.incarnation = 0
        self.stopped = False

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def exit_code(self) -> int | None:
        return self.process.exit_code()

    @property
    def title(self) -> str:
        """The name of the present incarnation, of its log and of its directory."""
        return f"{self.name}.{self.incarnation}"

    @property
    def log(self) -> Path:
        return self._run_directory / "logs" / f"{self.title}.log"

    @property
    def directory(self) -> Path:
        return self._run_directory / PROGRAMS / self.title

    @property
    def environment(self) -> dict[str, str]:
        """Variables that are set in addition to those of its worker."""
        marks = {WORKER_VARIABLE: self.share.node.worker, PROGRAM_VARIABLE: self.name}
        return {**self._env, **marks}

    def renew(self) -> None:
        """Begin the next incarnation: an empty directory with its files."""
        self.incarnation += 1
        shutil.rmtree(self.directory, ignore_errors=True)
        make_place(self._run_directory / PROGRAMS, self.title)
        for name, text in self.files.items():
            write_private(self.directory / name, text)

    def stop(self, *, within_s: float = 10.0) -> None:
        self.stopped = True
        self.left_behind = self.process.end(within_s)


@dataclass(slots=True)
class Share:
    """One node of a worker, over all its incarnations."""

    node: Node
    host: HostProcess | None = None
    """Its registered process, where several nodes share a worker."""
    paused: bool = False
    killed: bool = False
    """True from a kill until the node is started again."""
    spent_cpu_s: float = 0.0
    """CPU time of earlier incarnations."""
    programs: dict[str, Program] = field(default_factory=dict)


@dataclass(slots=True)
class Slot:
    """One worker, over all its incarnations."""

    name: str
    shares: list[Share] = field(default_factory=list)
    incarnation: int = 0
    cut: bool = False
    link: WorkerLink | None = None
    """The link that was declared for it."""

    @property
    def log_name(self) -> str:
        """The name of the present incarnation's log."""
        return f"{self.name}.{self.incarnation}"


S = TypeVar("S", bound=Slot)


class Workers(ABC, Generic[S]):
    """The workers of one cluster.

    Safe to use from several threads: the injector acts while others look."""

    def __init__(self, slots: Mapping[str, S], nodes: Iterable[Node], run_directory: Path) -> None:
        """Keep the workers, by name, and the nodes on them; start nothing."""
        self._slots = slots
        self._run_directory = run_directory
        self._lock = threading.RLock()
        for node in nodes:
            slots[node.worker].shares.append(Share(node=node))
        self._shared = any(len(slot.shares) > 1 for slot in slots.values())

    @abstractmethod
    def alive(self) -> Mapping[str, bool]:
        """See `Cluster.alive`."""

    @abstractmethod
    def usage(self) -> Mapping[str, Usage]:
        """See `Cluster.usage`."""

    @abstractmethod
    def apply(self, action: Action, nodes: Sequence[Node], *, rack: bool) -> Sequence[Victim]:
        """See `Cluster.apply`. ``rack``: workers that carry several nodes go as a whole."""

    def prepare(self, action: Action, nodes: Sequence[Node], *, rack: bool) -> Prepared:
        """See `Cluster.prepare`."""
        return Prepared(lambda: self.apply(action, nodes, rack=rack))

    @abstractmethod
    def shape(self, workers: Iterable[str], link: WorkerLink | None) -> None:
        """See `Cluster.shape`; takes the workers' names."""

    @abstractmethod
    def restore(self, report: Notify) -> None:
        """See `Cluster.restore`."""

    @abstractmethod
    def runs(self, slot: S) -> bool:
        """Return True if the worker's process or container lives."""

    @abstractmethod
    def hosts(self, slot: S, host: HostProcess) -> bool:
        """Return True if ``host`` is a living process of the worker."""

    @abstractmethod
    def tree_cpu_s(self, slot: S, host: HostProcess) -> float:
        """Return the CPU time of a registered process with its descendants."""

    @abstractmethod
    def spawn(self, slot: S, program: Program) -> ProgramProcess:
        """Start the present incarnation of a program on a living worker."""

    def register_host(self, node: str, host: HostProcess) -> None:
        """See `Cluster.register_host`."""
        slot, share = self._find(node)
        if not self._shared:
            raise UsageError(
                f"node {node} is a whole worker, so no process can be registered for it",
                remedy="start the cluster with nodes_per_worker of 2 or more",
            )
        if not self.hosts(slot, host):
            raise UsageError(
                f"process {host.pid} of worker {host.worker!r} cannot host node {node}: it is no "
                f"living process of worker {slot.name}",
                remedy="register what `HostProcess.here()` says in the node's own task, while it "
                "runs",
            )
        with self._lock:
            if share.host is not None and share.host.identity != host.identity:
                share.spent_cpu_s += self.tree_cpu_s(slot, share.host)
                share.paused = False
            share.host = host

    def launch(
        self,
        node: str,
        argv: Sequence[str],
        *,
        name: str,
        env: Mapping[str, str],
        files: Mapping[str, str],
    ) -> Program:
        """See `Cluster.launch`."""
        slot, share = self._find(node)
        program = self.new_program(share, f"{node}-{name}", argv, env, files)
        if wrong := [file for file in files if Path(file).name != file]:
            raise UsageError(
                f"{wrong[0]!r} cannot name a file of a program", remedy="leave out directories"
            )
        with self._lock:
            if not self.runs(slot):
                raise UsageError(
                    f"{argv[0]} cannot be started on {node}, which is dead",
                    remedy="restart the node first",
                )
            if before := share.programs.get(program.name):
                if not before.stopped:
                    raise UsageError(
                        f"node {node} has a program {name!r} already",
                        remedy="stop it first, or give this one another name",
                    )
                program.incarnation = before.incarnation
            self._start(program)
            share.programs[program.name] = program
        return program

    def new_program(
        self,
        share: Share,
        name: str,
        argv: Sequence[str],
        env: Mapping[str, str],
        files: Mapping[str, str],
    ) -> Program:
        """Return a program that is not started yet."""
        return Program(share, name, argv, env, files, self._run_directory)

    def programs(self) -> list[Program]:
        """Return the launched programs of all nodes."""
        return [program for share in self._everyone() for program in share.programs.values()]

    def _start(self, program: Program) -> None:
        program.renew()
        program.process = self.spawn(self._slots[program.share.node.worker], program)

    def _start_again(self, shares: Iterable[Share]) -> list[Program]:
        """Start the programs of restarted nodes again; those that still live are left alone."""
        started = []
        for share in shares:
            share.killed = False
            for program in share.programs.values():
                if not program.stopped and not program.alive:
                    self._start(program)
                    started.append(program)
        return started

    def _demand_whole(self, shares: Sequence[Share], whole: bool, why: str) -> None:
        """Raise `UsageError` for a cut of one of several nodes on a worker."""
        if not whole:
            node = shares[0].node
            raise UsageError(
                f"node {node.name} cannot be {why}",
                remedy="cut its rack, or start a cluster with one node to a worker",
            )

    def _everyone(self) -> list[Share]:
        return [share for slot in self._slots.values() for share in slot.shares]

    def _find(self, node: str) -> tuple[S, Share]:
        for slot in self._slots.values():
            for share in slot.shares:
                if share.node.name == node:
                    return slot, share
        raise UsageError(
            f"this cluster has no node {node!r}",
            remedy=f"use one of {', '.join(share.node.name for share in self._everyone())}",
        )


class ClusterOfWorkers(OwnedCluster):
    """A cluster of workers that a backend starts itself, in `OwnedCluster.bring_up`."""

    _nodes: Sequence[Node]
    _workers: Workers | None = None  # type: ignore[type-arg]

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

    def prepare(self, action: Action, target: str) -> Prepared:
        return self.workers.prepare(action, self.resolve(target), rack=self.is_rack(target))

    def apply(self, action: Action, target: str) -> Sequence[Victim]:
        with self.prepare(action, target) as prepared:
            return prepared.apply()

    def shape(self, target: str, link: WorkerLink | None) -> None:
        super().shape(target, link)
        self.workers.shape({node.worker for node in self.resolve(target)}, link)

    def restore(self, report: Notify) -> None:
        workers = self.workers
        self.health()
        workers.restore(report)

    def tidy(self) -> None:
        super().tidy()
        used = {program.directory for program in self.workers.programs() if program.alive}
        for directory in (self.run_directory / PROGRAMS).glob("*"):
            if directory not in used:
                shutil.rmtree(directory, ignore_errors=True)

    @property
    def workers(self) -> Workers:  # type: ignore[type-arg]
        """The workers. Raises `UsageError` if the cluster is not running."""
        self.demand_started()
        assert self._workers is not None
        return self._workers


def nodes_of(spec: ClusterSpec, host: Callable[[int, int], str]) -> tuple[Node, ...]:
    """Return every node of that shape; ``host(rack, worker)``, both from 1, is an address."""
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
