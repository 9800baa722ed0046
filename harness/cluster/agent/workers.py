"""The workers of a cluster and the nodes on them, in the hands of agents: breaking and counting.

Where a node is a worker, its processes are the worker's JVM, its executors, their Python daemons
and workers, and launched programs: all that have the worker's name in their environment. The
daemons put their children into sessions of their own and these can outlive their executor, so
neither a process group nor parentage alone would find them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.cluster.agent.finding import Part, Processes
from harness.cluster.agent.launching import Server, wait_for
from harness.cluster.agent.place import Launcher, Place
from harness.cluster.agent.programs import Program, Share
from harness.cluster.agent.striking import strike
from harness.cluster.base import Action, Node, Prepared, Usage, Victim
from harness.cluster.links import Loopback, WorkerLink
from harness.cluster.processes import HostProcess
from harness.errors import UsageError
from harness.text import Notify

_RESUMED_LIMIT_S = 12.0
"""A worker that was frozen longer than the master's patience registers again with its next
heartbeat, at most 15 / 4 s after it resumes; after this time it is started anew."""

METHOD = (
    "CPU: user and system time from /proc/<pid>/stat over the node's process tree, children that "
    "their parent waited for included, each incarnation sampled just before it is killed; the last "
    "moments of a process whose parent died before it are lost. Memory: resident set sizes added "
    "up, so pages that forked processes share count once for each."
)
WITH_THE_FIRST = "Network: None, because the worker's bytes stand with its first node."


@dataclass(slots=True, kw_only=True)
class Slot:
    """One worker, over all its incarnations."""

    name: str
    launcher: Launcher
    """Starts what has the worker's environment."""
    shares: list[Share] = field(default_factory=list)
    incarnation: int = 0
    cut: bool = False
    link: WorkerLink | None = None
    """The link that was declared for it."""
    worker: Server | None = None

    @property
    def place(self) -> Place:
        """Its machine."""
        return self.launcher.place


class Workers:
    """The workers of one cluster, on one or several machines.

    Safe to use from several threads: the injector acts while others look."""

    def __init__(
        self,
        launchers: Mapping[str, Launcher],
        nodes: Sequence[Node],
        make: Callable[[Node, int], Server],
        network: Loopback,
        *,
        before: int = 0,
    ) -> None:
        """Start nothing yet.

        ``launchers`` start what belongs to a worker, by its name. ``make(node, incarnation)``
        builds, without starting it, the worker under a node. ``before``: number of incarnations of
        earlier workers and programs with the same names, whose logs are still there."""
        self._slots = {
            name: Slot(name=name, incarnation=before, launcher=launcher)
            for name, launcher in launchers.items()
        }
        self._before = before
        self._lock = threading.RLock()
        for node in nodes:
            self._slots[node.worker].shares.append(Share(node=node))
        self._places = {
            share.node.name: (slot, share) for slot in self._slots.values() for share in slot.shares
        }
        self._shared = any(len(slot.shares) > 1 for slot in self._slots.values())
        self._make = make
        self._network = network

    def begin(self) -> list[Server]:
        """Start every worker; the caller waits for them."""
        with self._lock:
            return [self._begin(slot) for slot in self._slots.values()]

    def end(self) -> int:
        """Kill every worker, with all that runs on it.

        Returns the highest incarnation of a worker or of a program."""
        with self._lock:
            with self._strike(Action.KILL, self._everyone(), whole=True) as strike:
                strike.apply()
            workers = (slot.incarnation for slot in self._slots.values())
            return max(*workers, *(program.incarnation for program in self.programs()))

    def alive(self) -> dict[str, bool]:
        """See `Cluster.alive`."""
        with self._lock:
            return {
                share.node.name: self._lives(slot, share)
                for slot in self._slots.values()
                for share in slot.shares
            }

    def usage(self) -> dict[str, Usage]:
        """See `Cluster.usage`."""
        with self._lock:
            for program in self.programs():
                _ = program.exit_code  # counts those that have ended
            found = self._look(self._everyone(), whole=False)
            return {
                share.node.name: self._usage(share, found[share.node.name])
                for share in self._everyone()
            }

    def _usage(self, share: Share, found: Processes) -> Usage:
        first = share is self._slots[share.node.worker].shares[0]
        crossed = self._network.counted(share.node.worker) if first else None
        how = self._network.method if first else WITH_THE_FIRST
        return Usage(
            cpu_s=share.spent_cpu_s + found.cpu_s,
            resident_bytes=found.resident_bytes,
            received_bytes=crossed.received if crossed else None,
            sent_bytes=crossed.sent if crossed else None,
            method=f"{METHOD} {how}",
        )

    def prepare(self, action: Action, nodes: Sequence[Node], *, rack: bool) -> Prepared:
        """See `Cluster.prepare`. ``rack``: workers that carry several nodes go as a whole."""
        shares = [self._find(node.name)[1] for node in nodes]
        whole = rack or not self._shared
        with self._lock:
            match action:
                case Action.RESTART:
                    return Prepared(lambda: self._restart(shares))
                case Action.CUT | Action.HEAL:
                    if not whole:
                        node = shares[0].node
                        raise UsageError(
                            f"node {node.name} cannot be cut off alone: the nodes of worker "
                            f"{node.worker} share its network",
                            remedy="cut its rack, or start a cluster with one node to a worker",
                        )
                    living = self._look(shares, whole=True)
                    return Prepared(lambda: self._wire(action, shares, living))
                case _:
                    return self._strike(action, shares, whole=whole)

    def shape(self, workers: Iterable[str], link: WorkerLink | None) -> None:
        """See `Cluster.shape`; takes the workers' names."""
        with self._lock:
            for worker in sorted(workers):
                if link is not None or self._slots[worker].link is not None:
                    self._network.shape(worker, link)
                self._slots[worker].link = link

    def restore(self, report: Notify) -> None:
        """Resume or start anew every worker, until all are registered with the master."""
        with self._lock:
            self.shape(self._slots, None)
            everyone = self._everyone()
            self._wire(Action.HEAL, everyone, {})
            if frozen := [share for share in everyone if share.paused]:
                with self._strike(Action.RESUME, frozen, whole=True) as strike:
                    strike.apply()
            self._wait_for_reregistration([s for s in self._slots.values() if self._runs(s)])
            missing = [slot for slot in self._slots.values() if not self._registered(slot)]
            if missing:
                shares = [share for slot in missing for share in slot.shares]
                with self._strike(Action.KILL, shares, whole=True) as strike:
                    strike.apply()
            wait_for([self._begin(slot) for slot in missing], report)
            self._start_again(
                share
                for slot in self._slots.values()
                for share in slot.shares
                if share.killed or slot in missing
            )

    def reap(self) -> None:
        """End every process and take its exit status, so that none stays a zombie."""
        for place in {id(slot.place): slot.place for slot in self._slots.values()}.values():
            if place.lost is None:
                place.agent.end_all()

    def register_host(self, node: str, host: HostProcess) -> None:
        """See `Cluster.register_host`."""
        slot, share = self._find(node)
        if not self._shared:
            raise UsageError(
                f"node {node} is a whole worker, so no process can be registered for it",
                remedy="start the cluster with nodes_per_worker of 2 or more",
            )
        if not slot.place.agent.hosts(slot.name, host):
            raise UsageError(
                f"process {host.pid} of worker {host.worker!r} cannot host node {node}: it is no "
                f"living process of worker {slot.name}",
                remedy="register what `HostProcess.here()` says in the node's own task, while it "
                "runs",
            )
        with self._lock:
            if share.host is not None and share.host.identity != host.identity:
                part = Part(node=node, worker=slot.name, shared=True, host=share.host)
                share.spent_cpu_s += slot.place.agent.look([part])[node].cpu_s
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
        program = Program(share, slot.launcher, f"{node}-{name}", argv, env, files)
        if wrong := [file for file in files if Path(file).name != file]:
            raise UsageError(
                f"{wrong[0]!r} cannot name a file of a program", remedy="leave out directories"
            )
        with self._lock:
            if not self._runs(slot):
                raise UsageError(
                    f"{argv[0]} cannot be started on {node}, which is dead",
                    remedy="restart the node first",
                )
            program.incarnation = self._before
            if before := share.programs.get(program.name):
                if not before.stopped:
                    raise UsageError(
                        f"node {node} has a program {name!r} already",
                        remedy="stop it first, or give this one another name",
                    )
                program.incarnation = before.incarnation
            program.start(self._network)
            share.programs[program.name] = program
        return program

    def programs(self) -> list[Program]:
        """Return the launched programs of all nodes."""
        return [program for share in self._everyone() for program in share.programs.values()]

    def _start_again(self, shares: Iterable[Share]) -> list[Program]:
        """Start the programs of restarted nodes again; those that still live are left alone."""
        started = []
        for share in shares:
            share.killed = False
            for program in share.programs.values():
                if not program.stopped and not program.alive:
                    program.start(self._network)
                    started.append(program)
        return started

    def _runs(self, slot: Slot) -> bool:
        worker = slot.worker
        return worker is not None and worker.child is not None and worker.child.poll() is None

    def _begin(self, slot: Slot) -> Server:
        slot.incarnation += 1
        slot.worker = self._make(slot.shares[0].node, slot.incarnation)
        slot.worker.begin()
        return slot.worker

    def _restart(self, shares: Sequence[Share]) -> list[Victim]:
        started: dict[str, tuple[int, ...]] = {}
        with self._lock:
            for share in shares:
                slot = self._slots[share.node.worker]
                was_dead = not self._runs(slot)
                pids: list[int] = []
                if was_dead:
                    worker = self._begin(slot)
                    assert worker.child is not None
                    pids.append(worker.child.pid)
                if was_dead or share.killed:
                    pids.extend(program.pid for program in self._start_again([share]))
                if pids:
                    started[share.node.name] = tuple(pids)
        return [
            Victim(
                node=share.node.name,
                reached=share.node.name in started,
                processes=started.get(share.node.name, ()),
                at_unix_s=time.time(),
            )
            for share in shares
        ]

    def _wire(
        self, action: Action, shares: Sequence[Share], living: Mapping[str, Processes]
    ) -> list[Victim]:
        """Cut or heal the workers under these nodes; ``living``: the processes of the nodes."""
        wanted = action is Action.CUT
        changed: dict[str, float] = {}
        began_unix_s = time.time()
        with self._lock:
            for worker in dict.fromkeys(share.node.worker for share in shares):
                slot = self._slots[worker]
                if slot.cut != wanted:
                    (self._network.cut if wanted else self._network.heal)(worker)
                    slot.cut = wanted
                    changed[worker] = time.time()
        lived: dict[str, list[Processes]] = {}
        for share in shares:
            found = living.get(share.node.name, Processes())
            lived.setdefault(share.node.worker, []).append(found)
        return [
            Victim(
                node=share.node.name,
                reached=share.node.worker in changed
                and any(found.processes for found in lived[share.node.worker]),
                executors=sum(found.engines for found in lived[share.node.worker]),
                began_unix_s=began_unix_s if changed else None,
                at_unix_s=max(changed.values(), default=time.time()),
            )
            for share in shares
        ]

    def _strike(self, action: Action, shares: Sequence[Share], *, whole: bool) -> Prepared:
        """Let the agents find the processes of these nodes and hold them for a signal."""

        def after(reached: Mapping[str, Processes]) -> None:
            with self._lock:
                for share in shares:
                    group = reached[share.node.name]
                    if action is Action.KILL:
                        share.spent_cpu_s += group.cpu_s
                        share.killed = share.killed or bool(group.processes)
                    share.paused = action is Action.PAUSE and bool(group.processes)

        return strike(action, self._parts(shares), whole=whole, after=after)

    def _parts(self, shares: Sequence[Share]) -> list[tuple[Place, list[Part]]]:
        """Return the marks of the nodes' processes, by machine."""
        found: dict[int, tuple[Place, list[Part]]] = {}
        for share in shares:
            place = self._slots[share.node.worker].place
            part = Part(
                node=share.node.name,
                worker=share.node.worker,
                shared=self._shared,
                host=share.host,
                programs=list(share.programs),
            )
            found.setdefault(id(place), (place, []))[1].append(part)
        return list(found.values())

    def _look(self, shares: Sequence[Share], *, whole: bool) -> dict[str, Processes]:
        return {
            node: found
            for place, parts in self._parts(shares)
            for node, found in place.agent.look(parts, whole=whole).items()
        }

    def _everyone(self) -> list[Share]:
        return [share for slot in self._slots.values() for share in slot.shares]

    def _find(self, node: str) -> tuple[Slot, Share]:
        if node in self._places:
            return self._places[node]
        raise UsageError(
            f"this cluster has no node {node!r}",
            remedy=f"use one of {', '.join(share.node.name for share in self._everyone())}",
        )

    def _lives(self, slot: Slot, share: Share) -> bool:
        if slot.place.lost is not None or share.paused or slot.cut or not self._registered(slot):
            return False
        return share.host is None or slot.place.agent.lives(share.host.identity)

    def _registered(self, slot: Slot) -> bool:
        return self._runs(slot) and slot.worker is not None and slot.worker.answers()

    def _wait_for_reregistration(self, slots: Sequence[Slot]) -> None:
        deadline = time.monotonic() + _RESUMED_LIMIT_S
        while time.monotonic() < deadline and not all(map(self._registered, slots)):
            time.sleep(0.05)
