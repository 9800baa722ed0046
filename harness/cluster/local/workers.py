"""The workers of a local cluster and the nodes on them: breaking, mending and counting.

Where a node is a worker, its processes are the worker's JVM, its executors, their Python daemons
and workers: all that carry the worker's name in their environment. The daemons put their children
into sessions of their own and these can outlive their executor, so neither a process group nor
parentage alone would find them.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.cluster.base import Action, Node, Usage, Victim
from harness.cluster.links import WorkerLink
from harness.cluster.local.launching import Server, wait_for
from harness.cluster.local.network import LocalNetwork
from harness.cluster.local.spark_standalone import Worker
from harness.cluster.processes import (
    HostProcess,
    ProcessIdentity,
    ProcessStat,
    is_alive,
    members,
    signal_all,
    tree,
    wait_until_gone,
)
from harness.errors import UsageError
from harness.text import Notify

_RESUMED_LIMIT_S = 12.0
"""A worker that was frozen longer than the master's patience registers again with its next
heartbeat, at most 15 / 4 s after it resumes; after this long it is started anew."""

METHOD = (
    "CPU: user and system time from /proc/<pid>/stat over the node's process tree, children that "
    "their parent waited for included, each incarnation sampled just before it is killed; the last "
    "moments of a process whose parent died before it are lost. Memory: resident set sizes added "
    "up, so pages that forked processes share count once for each."
)
COUNTED = "Network: bytes that crossed the worker's virtual cable, from /proc/net/dev."
NOT_COUNTED = (
    "Network: None, because Linux keeps no per-process byte counter that can be read without root."
)

WITH_THE_FIRST = "Network: None, because the worker's bytes stand with its first node."


@dataclass(slots=True)
class _Share:
    """What is remembered of one node beyond its present processes."""

    node: Node
    host_process: ProcessIdentity | None = None
    """Where several nodes share a worker: the root of this one's process tree."""
    paused: bool = False
    spent_cpu_s: float = 0.0
    """Of earlier incarnations."""


@dataclass(slots=True)
class _Slot:
    """One worker, over all its incarnations."""

    name: str
    shares: list[_Share] = field(default_factory=list)
    worker: Worker | None = None
    incarnation: int = 0
    cut: bool = False
    link: WorkerLink | None = None
    """What was declared to lie under it."""


class Workers:
    """Safe to use from several threads: the injector acts while others look."""

    def __init__(
        self,
        run: str,
        nodes: Sequence[Node],
        make: Callable[[Node, int], Worker],
        network: LocalNetwork,
        *,
        before: int = 0,
    ) -> None:
        """``make(node, incarnation)`` builds, without starting it, the worker under a node.
        ``before``: how many incarnations there have been of workers that had the same names."""
        self._run = run
        self._make = make
        self._network = network
        self._lock = threading.RLock()
        self._slots: dict[str, _Slot] = {}
        for node in nodes:
            slot = self._slots.setdefault(node.worker, _Slot(name=node.worker, incarnation=before))
            slot.shares.append(_Share(node=node))
        self._shared = any(len(slot.shares) > 1 for slot in self._slots.values())

    def begin(self) -> list[Server]:
        """Start every worker; the caller waits for them."""
        with self._lock:
            return [self._begin(slot) for slot in self._slots.values()]

    def end(self) -> int:
        """Kill every worker, with all that runs on it; the highest incarnation that there was."""
        with self._lock:
            self._kill(self._everyone(), whole=True)
            return max(slot.incarnation for slot in self._slots.values())

    def register_host(self, node: str, host: HostProcess) -> None:
        share = self._share(node)
        if not self._shared:
            raise UsageError(
                f"node {node} is a whole worker, so no process can be registered for it",
                remedy="start the cluster with nodes_per_worker of 2 or more",
            )
        identity = host.identity
        ours = {stat.identity for stat in members(self._run).get(share.node.worker, ())}
        if identity not in ours:
            raise UsageError(
                f"process {host.pid} of worker {host.worker!r} cannot host node {node}: it is no "
                f"living process of worker {share.node.worker}",
                remedy="register what `HostProcess.here()` says in the node's own task, while it "
                "runs",
            )
        with self._lock:
            if share.host_process is not None and share.host_process != identity:
                share.spent_cpu_s += _cpu_s(tree_of(share.host_process))
                share.paused = False
            share.host_process = identity

    def alive(self) -> dict[str, bool]:
        with self._lock:
            return {
                share.node.name: self._lives(slot, share)
                for slot in self._slots.values()
                for share in slot.shares
            }

    def usage(self) -> dict[str, Usage]:
        with self._lock:
            found = self._processes(self._everyone())
            return {
                share.node.name: self._usage(share, found[share.node.name])
                for share in self._everyone()
            }

    def _usage(self, share: _Share, processes: Sequence[ProcessStat]) -> Usage:
        counts = share is self._slots[share.node.worker].shares[0]
        crossed = self._network.counted(share.node.worker) if counts else None
        return Usage(
            cpu_s=share.spent_cpu_s + _cpu_s(processes),
            resident_bytes=sum(stat.resident_bytes for stat in processes),
            received_bytes=crossed.received if crossed else None,
            sent_bytes=crossed.sent if crossed else None,
            method=f"{METHOD} {_how(crossed is not None, counts)}",
        )

    def apply(self, action: Action, nodes: Sequence[Node], *, rack: bool) -> list[Victim]:
        """``rack``: the target is a rack, so workers that carry several nodes go as a whole."""
        shares = [self._share(node.name) for node in nodes]
        with self._lock:
            match action:
                case Action.KILL:
                    return self._kill(shares, whole=rack or not self._shared)
                case Action.PAUSE:
                    return self._freeze(shares, signal.SIGSTOP, whole=rack)
                case Action.RESUME:
                    return self._freeze(shares, signal.SIGCONT, whole=rack)
                case Action.RESTART:
                    return self._restart(shares)
                case Action.CUT | Action.HEAL:
                    return self._wire(action, shares, whole=rack or not self._shared)

    def shape(self, workers: Iterable[str], link: WorkerLink | None) -> None:
        with self._lock:
            for worker in sorted(workers):
                if link is not None or self._slots[worker].link is not None:
                    self._network.shape(worker, link)
                self._slots[worker].link = link

    def restore(self, report: Notify) -> None:
        """Every worker resumed or started anew, and registered with the master."""
        with self._lock:
            self.shape(self._slots, None)
            self._wire(Action.HEAL, self._everyone(), whole=True)
            frozen = [share for share in self._everyone() if share.paused]
            if frozen:
                self._freeze(frozen, signal.SIGCONT, whole=True)
            living = [slot for slot in self._slots.values() if _runs(slot)]
            self._wait_for_reregistration(living)
            missing = [slot for slot in self._slots.values() if not _registered(slot)]
            for slot in missing:
                self._kill(slot.shares, whole=True)
            wait_for([self._begin(slot) for slot in missing], report)

    def reap(self) -> None:
        """Take the exit status of every worker, so that none stays a zombie."""
        for slot in self._slots.values():
            if slot.worker is not None and slot.worker.child is not None:
                slot.worker.child.process.wait()

    def _begin(self, slot: _Slot) -> Worker:
        slot.incarnation += 1
        slot.worker = self._make(slot.shares[0].node, slot.incarnation)
        slot.worker.begin()
        return slot.worker

    def _kill(self, shares: Sequence[_Share], *, whole: bool) -> list[Victim]:
        victims = self._signal(shares, signal.SIGKILL, whole=whole, spend=True)
        for share in shares:
            share.paused = False
        if whole:
            for worker in {share.node.worker for share in shares}:
                server = self._slots[worker].worker
                if server is not None and server.child is not None:
                    server.child.process.wait()
        return victims

    def _freeze(
        self, shares: Sequence[_Share], number: signal.Signals, *, whole: bool
    ) -> list[Victim]:
        victims = self._signal(shares, number, whole=whole)
        for share, victim in zip(shares, victims, strict=True):
            share.paused = number == signal.SIGSTOP and victim.reached
        return victims

    def _wire(self, action: Action, shares: Sequence[_Share], *, whole: bool) -> list[Victim]:
        """Cut or heal the workers under these nodes."""
        if not whole:
            raise UsageError(
                f"node {shares[0].node.name} cannot be cut off alone: the nodes of worker "
                f"{shares[0].node.worker} share its network",
                remedy="cut its rack, or start a cluster with one node to a worker",
            )
        living = members(self._run)
        wanted = action is Action.CUT
        changed: dict[str, float] = {}
        for slot in {
            share.node.worker: self._slots[share.node.worker] for share in shares
        }.values():
            if slot.cut != wanted:
                (self._network.cut if wanted else self._network.heal)(slot.name)
                slot.cut = wanted
                changed[slot.name] = time.time()
        return [
            Victim(
                node=share.node.name,
                reached=share.node.worker in changed and bool(living.get(share.node.worker)),
                executors=sum(is_executor(s.pid) for s in living.get(share.node.worker, ())),
                at_unix_s=max(changed.values(), default=time.time()),
            )
            for share in shares
        ]

    def _restart(self, shares: Sequence[_Share]) -> list[Victim]:
        started: dict[str, tuple[int, ...]] = {}
        for share in shares:
            slot = self._slots[share.node.worker]
            if not _runs(slot):
                worker = self._begin(slot)
                assert worker.child is not None
                started[share.node.name] = (worker.child.process.pid,)
        return [
            Victim(
                node=share.node.name,
                reached=share.node.name in started,
                processes=started.get(share.node.name, ()),
                at_unix_s=time.time(),
            )
            for share in shares
        ]

    def _signal(
        self,
        shares: Sequence[_Share],
        number: signal.Signals,
        *,
        whole: bool,
        spend: bool = False,
    ) -> list[Victim]:
        owner: dict[ProcessIdentity, str] = {}
        hosts = {share.host_process for share in shares}
        engines: set[ProcessIdentity] = set()

        def find() -> Iterable[ProcessStat]:
            for name, stats in self._processes(shares, whole=whole).items():
                for stat in stats:
                    if stat.identity not in owner and (
                        stat.identity in hosts or is_executor(stat.pid)
                    ):
                        engines.add(stat.identity)
                    owner[stat.identity] = name
                    yield stat

        done = signal_all(find, number)
        reached: dict[str, list[ProcessStat]] = {share.node.name: [] for share in shares}
        for stat in done.processes:
            reached[owner[stat.identity]].append(stat)
        if spend:
            wait_until_gone([stat.identity for stat in done.processes], limit_s=10.0)
            for share in shares:
                share.spent_cpu_s += _cpu_s(reached[share.node.name])
        return [
            Victim(
                node=share.node.name,
                reached=bool(reached[share.node.name]),
                executors=sum(stat.identity in engines for stat in reached[share.node.name]),
                processes=tuple(sorted(stat.pid for stat in reached[share.node.name])),
                at_unix_s=done.at_unix_s,
                began_unix_s=done.began_unix_s,
            )
            for share in shares
        ]

    def _processes(
        self, shares: Sequence[_Share], *, whole: bool = False
    ) -> dict[str, list[ProcessStat]]:
        """Per node its living processes; with ``whole``, the rest of its worker's too."""
        found: dict[str, list[ProcessStat]] = {}
        if self._shared:
            for share in shares:
                found[share.node.name] = tree_of(share.host_process)
            if not whole:
                return found
        by_worker = members(self._run)
        taken = {stat.pid for stats in found.values() for stat in stats}
        for share in shares:  # what no node claims goes to the first one on the worker
            rest = [s for s in by_worker.pop(share.node.worker, ()) if s.pid not in taken]
            found[share.node.name] = [*found.get(share.node.name, ()), *rest]
        return found

    def _lives(self, slot: _Slot, share: _Share) -> bool:
        hosted = share.host_process is None or is_alive(share.host_process)
        return hosted and not share.paused and not slot.cut and _registered(slot)

    def _wait_for_reregistration(self, slots: Sequence[_Slot]) -> None:
        deadline = time.monotonic() + _RESUMED_LIMIT_S
        while time.monotonic() < deadline and not all(_registered(slot) for slot in slots):
            time.sleep(0.05)

    def _everyone(self) -> list[_Share]:
        return [share for slot in self._slots.values() for share in slot.shares]

    def _share(self, node: str) -> _Share:
        for share in self._everyone():
            if share.node.name == node:
                return share
        raise UsageError(
            f"this cluster has no node {node!r}",
            remedy=f"use one of {', '.join(share.node.name for share in self._everyone())}",
        )


def tree_of(root: ProcessIdentity | None) -> list[ProcessStat]:
    """``root`` and its living descendants; empty when it is None or gone."""
    return tree([root.pid]) if root is not None and is_alive(root) else []


def is_executor(pid: int) -> bool:
    """Whether this is the virtual machine of a Spark executor."""
    try:
        return (
            b"CoarseGrainedExecutorBackend" in (Path("/proc") / str(pid) / "cmdline").read_bytes()
        )
    except OSError:  # it ended meanwhile
        return False


def _runs(slot: _Slot) -> bool:
    worker = slot.worker
    return worker is not None and worker.child is not None and worker.child.running()


def _registered(slot: _Slot) -> bool:
    return _runs(slot) and slot.worker is not None and slot.worker.answers()


def _how(counted: bool, first: bool) -> str:
    """About a node's bytes."""
    if counted:
        return COUNTED
    return NOT_COUNTED if first else WITH_THE_FIRST


def _cpu_s(stats: Iterable[ProcessStat]) -> float:
    return sum(stat.cpu_s for stat in stats)
