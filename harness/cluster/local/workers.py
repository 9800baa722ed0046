"""The workers of a local cluster and the nodes on them: breaking, mending and counting.

Where a node is a worker, its processes are the worker's JVM, its executors, their Python daemons
and workers, and launched programs: all that have the worker's name in their environment. The
daemons put their children into sessions of their own and these can outlive their executor, so
neither a process group nor parentage alone would find them."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.cluster.base import Action, Node, Prepared, Usage, Victim
from harness.cluster.links import WorkerLink
from harness.cluster.local.launching import LaunchedProcess, Launcher, Server, wait_for
from harness.cluster.local.network import LocalNetwork
from harness.cluster.local.servers import Worker
from harness.cluster.processes import (
    PROGRAM_VARIABLE,
    HostProcess,
    ProcessIdentity,
    ProcessStat,
    ended_cpu_s,
    hold,
    is_alive,
    members,
    send_signal,
    signal_all,
    signal_held,
    tree,
    wait_until_gone,
)
from harness.cluster.workers import Program, Share, Slot, Workers
from harness.text import Notify

_RESUMED_LIMIT_S = 12.0
"""A worker that was frozen longer than the master's patience registers again with its next
heartbeat, at most 15 / 4 s after it resumes; after this time it is started anew."""
_KILLED_LIMIT_S = 10.0
_POLL_S = 0.02

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

_SIGNALS = {
    Action.KILL: signal.SIGKILL,
    Action.PAUSE: signal.SIGSTOP,
    Action.RESUME: signal.SIGCONT,
}


@dataclass(slots=True)
class LocalSlot(Slot):
    """A worker that is a process."""

    worker: Worker | None = None


class LocalProgram:
    """A launched program's process."""

    def __init__(self, run: str, share: Share, child: LaunchedProcess) -> None:
        """Take over ``child``, whose CPU time goes to ``share`` when it ends."""
        self._run, self._share, self._child = run, share, child
        self._counted = False
        self._lock = threading.Lock()

    @property
    def pid(self) -> int:
        return self._child.process.pid

    def exit_code(self) -> int | None:
        process = self._child.process
        with self._lock:
            # The kernel forgets the CPU time of an ended child with `poll`, so it is read before.
            if process.returncode is None and (cpu_s := ended_cpu_s(process.pid)) is not None:
                code = process.poll()
                if code is not None and not self._counted:
                    self._counted = True
                    self._share.spent_cpu_s += cpu_s
            return process.returncode

    @property
    def identity(self) -> ProcessIdentity | None:
        """None when it ended before it could be looked at."""
        return self._child.identity

    def reap(self, killed: Collection[ProcessIdentity]) -> None:
        """Take the exit status; the CPU time of ``killed`` processes is counted already."""
        self._counted = self._counted or self.identity in killed
        while self.exit_code() is None:
            time.sleep(_POLL_S)

    def end(self, within_s: float) -> int:
        identity = self._child.identity
        name = self._child.name
        if self.exit_code() is None and identity is not None:
            send_signal(identity, signal.SIGTERM)
            deadline = time.monotonic() + within_s
            while self.exit_code() is None and time.monotonic() < deadline:
                time.sleep(_POLL_S)
            # Its children may need a moment to notice.
            while self._is_survived(name) and time.monotonic() < deadline:
                time.sleep(_POLL_S)
        done = signal_all(
            lambda: members(self._run, PROGRAM_VARIABLE).get(name, ()), signal.SIGKILL
        )
        killed = [stat.identity for stat in done.processes]
        wait_until_gone(killed, limit_s=_KILLED_LIMIT_S)
        self._share.spent_cpu_s += _cpu_s(done.processes)
        self.reap(killed)
        return 0 if identity in killed else len(killed)

    def _is_survived(self, name: str) -> bool:
        return self.exit_code() is not None and bool(members(self._run, PROGRAM_VARIABLE).get(name))


class LocalWorkers(Workers[LocalSlot]):
    """Workers that are child processes."""

    def __init__(
        self,
        launcher: Launcher,
        nodes: Sequence[Node],
        make: Callable[[Node, int], Worker],
        network: LocalNetwork,
        *,
        before: int = 0,
    ) -> None:
        """Start nothing yet.

        ``make(node, incarnation)`` builds, without starting it, the worker under a node.
        ``before``: number of incarnations of earlier workers with the same names."""
        names = dict.fromkeys(node.worker for node in nodes)
        slots = {name: LocalSlot(name=name, incarnation=before) for name in names}
        super().__init__(slots, nodes, launcher.directory)
        self._launcher, self._run = launcher, launcher.run
        self._make = make
        self._network = network

    def begin(self) -> list[Server]:
        """Start every worker; the caller waits for them."""
        with self._lock:
            return [self._begin(slot) for slot in self._slots.values()]

    def end(self) -> int:
        """Kill every worker, with all that runs on it, and return the highest incarnation."""
        with self._lock:
            with self._strike(Action.KILL, self._everyone(), whole=True) as strike:
                strike.apply()
            return max(slot.incarnation for slot in self._slots.values())

    def alive(self) -> dict[str, bool]:
        with self._lock:
            return {
                share.node.name: self._lives(slot, share)
                for slot in self._slots.values()
                for share in slot.shares
            }

    def usage(self) -> dict[str, Usage]:
        with self._lock:
            for program in self.programs():
                _ = program.exit_code  # counts those that have ended
            found = self._processes(self._everyone())
            return {
                share.node.name: self._usage(share, found[share.node.name])
                for share in self._everyone()
            }

    def _usage(self, share: Share, processes: Sequence[ProcessStat]) -> Usage:
        first = share is self._slots[share.node.worker].shares[0]
        crossed = self._network.counted(share.node.worker) if first else None
        how = COUNTED if crossed else NOT_COUNTED if first else WITH_THE_FIRST
        return Usage(
            cpu_s=share.spent_cpu_s + _cpu_s(processes),
            resident_bytes=sum(stat.resident_bytes for stat in processes),
            received_bytes=crossed.received if crossed else None,
            sent_bytes=crossed.sent if crossed else None,
            method=f"{METHOD} {how}",
        )

    def apply(self, action: Action, nodes: Sequence[Node], *, rack: bool) -> Sequence[Victim]:
        with self.prepare(action, nodes, rack=rack) as prepared:
            return prepared.apply()

    def prepare(self, action: Action, nodes: Sequence[Node], *, rack: bool) -> Prepared:
        shares = [self._find(node.name)[1] for node in nodes]
        whole = rack or not self._shared
        with self._lock:
            match action:
                case Action.RESTART:
                    return Prepared(lambda: self._restart(shares))
                case Action.CUT | Action.HEAL:
                    worker = shares[0].node.worker
                    why = f"cut off alone: the nodes of worker {worker} share its network"
                    self._demand_whole(shares, whole, why)
                    living = members(self._run)
                    return Prepared(lambda: self._wire(action, shares, living))
                case _:
                    return self._strike(action, shares, whole=whole)

    def shape(self, workers: Iterable[str], link: WorkerLink | None) -> None:
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
            self._wait_for_reregistration([s for s in self._slots.values() if self.runs(s)])
            missing = [slot for slot in self._slots.values() if not self._registered(slot)]
            for slot in missing:
                with self._strike(Action.KILL, slot.shares, whole=True) as strike:
                    strike.apply()
            wait_for([self._begin(slot) for slot in missing], report)
            self._start_again(
                share
                for slot in self._slots.values()
                for share in slot.shares
                if share.killed or slot in missing
            )

    def reap(self) -> None:
        """Take the exit status of every worker and program, so that none stays a zombie."""
        self._reap(self._slots, self._everyone())

    def runs(self, slot: LocalSlot) -> bool:
        worker = slot.worker
        return worker is not None and worker.child is not None and worker.child.running()

    def hosts(self, slot: LocalSlot, host: HostProcess) -> bool:
        return host.identity in {stat.identity for stat in members(self._run).get(slot.name, ())}

    def tree_cpu_s(self, slot: LocalSlot, host: HostProcess) -> float:
        return _cpu_s(tree_of(host))

    def spawn(self, slot: LocalSlot, program: Program) -> LocalProgram:
        child = self._launcher.spawn(
            program.name,
            self._network.within(slot.name, program.argv),
            environment=program.environment,
            log_name=program.title,
            directory=program.directory,
        )
        return LocalProgram(self._run, program.share, child)

    def _begin(self, slot: LocalSlot) -> Worker:
        slot.incarnation += 1
        slot.worker = self._make(slot.shares[0].node, slot.incarnation)
        slot.worker.begin()
        return slot.worker

    def _restart(self, shares: Sequence[Share]) -> list[Victim]:
        started: dict[str, tuple[int, ...]] = {}
        with self._lock:
            for share in shares:
                slot = self._slots[share.node.worker]
                was_dead = not self.runs(slot)
                pids: list[int] = []
                if was_dead:
                    worker = self._begin(slot)
                    assert worker.child is not None
                    pids.append(worker.child.process.pid)
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
        self, action: Action, shares: Sequence[Share], living: dict[str, list[ProcessStat]]
    ) -> list[Victim]:
        """Cut or heal the workers under these nodes; ``living``: their processes."""
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
        roots = self._roots(shares)
        return [
            Victim(
                node=share.node.name,
                reached=share.node.worker in changed and bool(living.get(share.node.worker)),
                executors=sum(
                    stat.identity in roots or is_executor(stat.pid)
                    for stat in living.get(share.node.worker, ())
                ),
                began_unix_s=began_unix_s if changed else None,
                at_unix_s=max(changed.values(), default=time.time()),
            )
            for share in shares
        ]

    def _strike(self, action: Action, shares: Sequence[Share], *, whole: bool) -> Prepared:
        """Find the processes of these nodes and hold them for a signal."""
        owner: dict[ProcessIdentity, str] = {}
        engines: set[ProcessIdentity] = set()

        def find() -> list[ProcessStat]:
            roots = self._roots(shares)
            found = self._processes(shares, whole=whole)
            for name, stats in found.items():
                for stat in stats:
                    known = stat.identity in owner
                    if not known and (stat.identity in roots or is_executor(stat.pid)):
                        engines.add(stat.identity)
                    owner[stat.identity] = name
            return [stat for stats in found.values() for stat in stats]

        held = hold(find())

        def apply() -> list[Victim]:
            number = _SIGNALS[action]
            done = signal_held(held, number)  # before the lock, which others may hold for a while
            with self._lock:
                done = signal_all(find, number, done=done)
                reached: dict[str, list[ProcessStat]] = {share.node.name: [] for share in shares}
                for stat in done.processes:
                    reached[owner[stat.identity]].append(stat)
                if action is Action.KILL:
                    self._bury(shares, reached, whole=whole)
                for share in shares:
                    share.paused = action is Action.PAUSE and bool(reached[share.node.name])
            return [
                Victim(
                    node=name,
                    reached=bool(stats),
                    executors=sum(stat.identity in engines for stat in stats),
                    processes=tuple(sorted(stat.pid for stat in stats)),
                    at_unix_s=done.at_unix_s,
                    began_unix_s=done.began_unix_s,
                )
                for name, stats in reached.items()
            ]

        def close() -> None:
            for process in held:
                process.close()

        return Prepared(apply, close)

    def _bury(
        self, shares: Sequence[Share], reached: dict[str, list[ProcessStat]], *, whole: bool
    ) -> None:
        """Wait for the end of killed processes and keep what they have used."""
        killed = [stat.identity for stats in reached.values() for stat in stats]
        wait_until_gone(killed, limit_s=_KILLED_LIMIT_S)
        for share in shares:
            share.spent_cpu_s += _cpu_s(reached[share.node.name])
            share.killed = share.killed or bool(reached[share.node.name])
        self._reap({share.node.worker for share in shares} if whole else (), shares, killed)

    def _reap(
        self,
        workers: Iterable[str],
        shares: Iterable[Share],
        killed: Collection[ProcessIdentity] = (),
    ) -> None:
        for name in workers:
            worker = self._slots[name].worker
            if worker is not None and worker.child is not None:
                worker.child.process.wait()
        for share in shares:
            for program in share.programs.values():
                assert isinstance(program.process, LocalProgram)
                program.process.reap(killed)

    def _processes(
        self, shares: Sequence[Share], *, whole: bool = False
    ) -> dict[str, list[ProcessStat]]:
        """Return the living processes by node; with ``whole``, the rest of its worker's, too."""
        found: dict[str, list[ProcessStat]] = {}
        if self._shared:
            launched = any(share.programs for share in shares)
            programs = members(self._run, PROGRAM_VARIABLE) if launched else {}
            for share in shares:
                own = [stat for name in share.programs for stat in programs.get(name, ())]
                found[share.node.name] = [*tree_of(share.host), *own]
            if not whole:
                return found
        by_worker = members(self._run)
        taken = {stat.pid for stats in found.values() for stat in stats}
        for share in shares:  # the rest of a worker belongs to its first node
            rest = [s for s in by_worker.pop(share.node.worker, ()) if s.pid not in taken]
            found[share.node.name] = [*found.get(share.node.name, ()), *rest]
        return found

    def _roots(self, shares: Sequence[Share]) -> set[ProcessIdentity]:
        """Return the processes of an engine that are not executors."""
        hosts = {share.host.identity for share in shares if share.host is not None}
        children = (
            program.process.identity
            for share in shares
            for program in share.programs.values()
            if isinstance(program.process, LocalProgram)
        )
        return hosts | {identity for identity in children if identity is not None}

    def _lives(self, slot: LocalSlot, share: Share) -> bool:
        hosted = share.host is None or is_alive(share.host.identity)
        return hosted and not share.paused and not slot.cut and self._registered(slot)

    def _registered(self, slot: LocalSlot) -> bool:
        return self.runs(slot) and slot.worker is not None and slot.worker.answers()

    def _wait_for_reregistration(self, slots: Sequence[LocalSlot]) -> None:
        deadline = time.monotonic() + _RESUMED_LIMIT_S
        while time.monotonic() < deadline and not all(map(self._registered, slots)):
            time.sleep(0.05)


def tree_of(host: HostProcess | None) -> list[ProcessStat]:
    """Return a process and its living descendants; empty when it is None or gone."""
    return tree([host.pid]) if host is not None and is_alive(host.identity) else []


def is_executor(pid: int) -> bool:
    """Return True for the virtual machine of a Spark executor."""
    try:
        return (
            b"CoarseGrainedExecutorBackend" in (Path("/proc") / str(pid) / "cmdline").read_bytes()
        )
    except OSError:  # it ended meanwhile
        return False


def _cpu_s(stats: Iterable[ProcessStat]) -> float:
    return sum(stat.cpu_s for stat in stats)
