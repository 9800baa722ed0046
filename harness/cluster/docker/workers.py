"""The workers of a Docker cluster and the nodes on them: breaking, mending and counting.

A worker is a container. Where a node is a worker, Docker carries out every action: SIGKILL to its
first process ends all of them, the freezer stops them at one instant, the network is taken away
and given back with the same address. Where several nodes share a worker, they are told apart by
their process trees (`harness.cluster.docker.inside`)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from harness.cluster.base import Action, Node, Usage, Victim
from harness.cluster.docker import inside
from harness.cluster.docker.containers import Containers, Counted, Used
from harness.cluster.docker.daemon import failing
from harness.cluster.docker.inside import Tree
from harness.cluster.links import WorkerLink
from harness.cluster.processes import HostProcess, parse_stat
from harness.cluster.workers import Program, Share, Slot, Workers
from harness.errors import EnvironmentFailure
from harness.text import Notify, format_duration

START_LIMIT_S = 180.0
_REREGISTERED_LIMIT_S = 20.0
"""A worker that was frozen or cut off registers again with its next heartbeat, or after up to 15 s
if the master had given it up; after this time it is started anew."""
_POLL_S = 0.05
_PROGRAM_LIMIT_S = 20.0
"""Limit of a program's start: one shell in a running container."""
_PROCESS = ".process"
"""A file in a program's directory with the line of its process in ``/proc``."""

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
class DockerSlot(Slot):
    """A worker that is a container."""

    address: str = ""
    spent: Used = field(default_factory=Used)
    """Usage of earlier incarnations, and of earlier connections to the network."""

    def fits(self, action: Action, state: str) -> bool:
        """Return True if the action has an effect while its container is in that state."""
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
        """Add up counters that are about to start again from zero."""
        if not only_network:
            self.spent.cpu_s += counted.used.cpu_s
        self.spent.received_bytes += counted.used.received_bytes
        self.spent.sent_bytes += counted.used.sent_bytes

    def usage(self, counted: Counted) -> Usage:
        """Return the usage of a node that is a container; ``counted``: of the present one."""
        return Usage(
            cpu_s=self.spent.cpu_s + counted.used.cpu_s,
            resident_bytes=counted.resident_bytes,
            received_bytes=self.spent.received_bytes + counted.used.received_bytes,
            sent_bytes=self.spent.sent_bytes + counted.used.sent_bytes,
            method=METHOD,
        )

    def usages(self, seen: Mapping[str, Tree]) -> dict[str, Usage]:
        """Return the usage of nodes that share it; ``seen``: the processes of the living ones."""
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


class DockerProgram:
    """A launched program's process in a container."""

    def __init__(
        self, containers: Containers, share: Share, command: str, host: HostProcess
    ) -> None:
        """Keep the running program's command, as the daemon names it, and its process."""
        self._containers, self._share, self._command = containers, share, command
        self.host = host
        self._code: int | None = None

    @property
    def pid(self) -> int:
        return self.host.pid

    def exit_code(self) -> int | None:
        if self._code is None:
            self._code = self._containers.executed(self._command)
        return self._code

    def end(self, within_s: float) -> int:
        """End it; processes that it leaves behind are killed, and not counted: 0."""
        if self.exit_code() is not None:
            return 0
        worker = self.host.worker
        with failing(f"program {self.pid} in {worker} could not be ended"):
            self._containers.of(worker).exec_run(["sh", "-c", f"kill -TERM {self.pid}"])
        deadline = time.monotonic() + within_s
        while self.exit_code() is None and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        (tree,) = inside.order(self._containers, worker, "kill", [self.host])
        self._share.spent_cpu_s += tree.cpu_s
        while self.exit_code() is None:
            time.sleep(_POLL_S)
        return 0


class DockerWorkers(Workers[DockerSlot]):
    """Workers that are containers."""

    def __init__(
        self,
        containers: Containers,
        nodes: Sequence[Node],
        run_directory: Path,
        start: Callable[[str, str], None],
        registered: Callable[[str], bool],
    ) -> None:
        """Start nothing yet.

        ``start(worker, log name)`` starts its container, ``registered(log name)`` is True when the
        master has registered that incarnation."""
        slots = {node.worker: DockerSlot(name=node.worker, address=node.host) for node in nodes}
        super().__init__(slots, nodes, run_directory)
        self._containers = containers
        self._start_container = start
        self._registered = registered

    def begin(self, report: Notify) -> None:
        """Start every worker and wait until the master has them all."""
        with self._lock:
            everyone = list(self._slots.values())
            self._begin_all(everyone)
            self._wait(everyone, report)

    def alive(self) -> dict[str, bool]:
        with self._lock:
            states = self._containers.states()
            lives: dict[str, bool] = {}
            for slot in self._slots.values():
                up = states.get(slot.name) == "running" and not slot.cut and self._has(slot)
                hosts = {s.node.name: s.host for s in slot.shares if up and s.host is not None}
                seen = dict(zip(hosts, self._look(slot, list(hosts.values())), strict=True))
                for share in slot.shares:
                    name = share.node.name
                    hosted = share.host is None or (name in seen and seen[name].reached)
                    lives[name] = up and hosted and not share.paused
            return lives

    def usage(self) -> dict[str, Usage]:
        with self._lock:
            if not self._shared:
                return {
                    slot.shares[0].node.name: slot.usage(self._containers.counted(slot.name))
                    for slot in self._slots.values()
                }
            states = self._containers.states()
            return {
                name: usage
                for slot in self._slots.values()
                for name, usage in slot.usages(
                    self._seen(slot) if states.get(slot.name) == "running" else {}
                ).items()
            }

    def apply(self, action: Action, nodes: Sequence[Node], *, rack: bool) -> list[Victim]:
        with self._lock, failing(f"{action} of {', '.join(node.name for node in nodes)} failed"):
            whole = rack or not self._shared
            shares = [self._find(node.name)[1] for node in nodes]
            if action in (Action.CUT, Action.HEAL):
                worker = nodes[0].worker
                why = (
                    f"taken off the network alone: the nodes of worker {worker} share its interface"
                )
                self._demand_whole(shares, whole, why)
            if whole or action in (Action.RESTART, Action.CUT, Action.HEAL):
                victims = self._to_containers(action, shares)
            else:
                victims = self._to_trees(action, shares)
            return self._restarted(shares, victims) if action is Action.RESTART else victims

    def shape(self, workers: Iterable[str], link: WorkerLink | None) -> None:
        with self._lock, failing("a link could not be laid"):
            for worker in sorted(workers):
                slot = self._slots[worker]
                changed, slot.link = slot.link != link, link
                if changed and not slot.cut and self._containers.states().get(worker) == "running":
                    self._containers.shape(worker, link)

    def restore(self, report: Notify) -> None:
        """Bring every worker onto the network and to life, and wait for the master."""
        with self._lock, failing("the cluster could not be restored"):
            everyone = self._everyone()
            self.shape(self._slots, None)
            self._to_containers(Action.HEAL, everyone)
            self._to_containers(Action.RESUME, everyone)
            frozen = [share for share in everyone if share.paused]
            if self._shared and frozen:
                self._to_trees(Action.RESUME, frozen)
            living = [slot for slot in self._slots.values() if self.runs(slot)]
            deadline = time.monotonic() + _REREGISTERED_LIMIT_S
            while time.monotonic() < deadline and not all(map(self._has, living)):
                time.sleep(_POLL_S)
            missing = [s for s in self._slots.values() if s not in living or not self._has(s)]
            self._begin_all(missing)
            self._wait(missing, report)
            self._start_again(
                share
                for slot in self._slots.values()
                for share in slot.shares
                if share.killed or slot in missing
            )

    def runs(self, slot: DockerSlot) -> bool:
        return self._containers.states().get(slot.name) == "running"

    def hosts(self, slot: DockerSlot, host: HostProcess) -> bool:
        return host.worker == slot.name and self._look(slot, [host])[0].reached

    def tree_cpu_s(self, slot: DockerSlot, host: HostProcess) -> float:
        return self._look(slot, [host])[0].cpu_s

    def spawn(self, slot: DockerSlot, program: Program) -> DockerProgram:
        keep = f'cat /proc/$$/stat > {_PROCESS} && exec "$@"'
        with failing(f"{program.argv[0]} could not be started on {program.node}"):
            command, output = self._containers.execute(
                slot.name,
                ["sh", "-c", keep, "sh", *program.argv],
                program.environment,
                program.directory,
            )
            self._containers.follow(output, program.log)
            path, deadline = program.directory / _PROCESS, time.monotonic() + _PROGRAM_LIMIT_S
            while not path.exists() or not (line := path.read_text()).endswith("\n"):
                if time.monotonic() > deadline:
                    raise EnvironmentFailure(
                        f"{program.argv[0]} did not start on {program.node} within "
                        f"{format_duration(_PROGRAM_LIMIT_S)}",
                        remedy=f"see {program.log} and `docker logs` of the container",
                    )
                time.sleep(_POLL_S)
        own = parse_stat(line).identity
        host = HostProcess(worker=slot.name, pid=own.pid, started_ticks=own.started_ticks)
        return DockerProgram(self._containers, program.share, command, host)

    def _begin_all(self, slots: Sequence[DockerSlot]) -> None:
        with ThreadPoolExecutor(max(1, len(slots))) as pool:
            list(pool.map(self._begin, slots))

    def _begin(self, slot: DockerSlot) -> None:
        slot.bank(self._containers.counted(slot.name))
        slot.incarnation += 1
        slot.cut = False
        for share in slot.shares:
            share.paused = False
        self._start_container(slot.name, slot.log_name)
        self._lay_again(slot)

    def _restarted(self, shares: Sequence[Share], victims: Sequence[Victim]) -> list[Victim]:
        """Start the programs of restarted nodes again."""
        done = []
        for share, victim in zip(shares, victims, strict=True):
            due = victim.reached or share.killed
            started = self._start_again([share]) if due else []
            done.append(replace(victim, reached=victim.reached or bool(started)))
        return done

    def _lay_again(self, slot: DockerSlot) -> None:
        """Lay the declared link on a new cable: of a new container, or after a cut."""
        if slot.link is not None:
            self._containers.shape(slot.name, slot.link)

    def _wait(self, slots: Sequence[DockerSlot], report: Notify) -> None:
        deadline = time.monotonic() + START_LIMIT_S
        waiting = list(slots)
        while waiting:
            states = self._containers.states()
            for slot in list(waiting):
                if self._has(slot):
                    waiting.remove(slot)
                    report(f"Spark worker {slot.name} answers")
                elif states.get(slot.name) != "running" or time.monotonic() > deadline:
                    raise self._not_up(slot, states.get(slot.name, "gone"))
            time.sleep(_POLL_S)

    def _not_up(self, slot: Slot, state: str) -> EnvironmentFailure:
        return start_failure(f"Spark worker {slot.name}", state, self._containers, slot.log_name)

    def _has(self, slot: DockerSlot) -> bool:
        return self._registered(slot.log_name)

    def _to_containers(self, action: Action, shares: Sequence[Share]) -> list[Victim]:
        """Do an action to the workers under these nodes, all in one sweep.

        Their usage is read before it, and their ends are awaited after it."""
        slots = [self._slots[name] for name in dict.fromkeys(s.node.worker for s in shares)]
        states = self._containers.states()
        reached = [slot for slot in slots if slot.fits(action, states.get(slot.name, "gone"))]
        executors = {slot.name: self._executors(slot) for slot in slots if action in _ENDS_OR_STOPS}
        with ThreadPoolExecutor(len(slots)) as pool:
            if action in (Action.KILL, Action.CUT):
                names = [slot.name for slot in reached]
                counts = pool.map(self._containers.counted, names)
                for slot, used in zip(reached, counts, strict=True):
                    slot.bank(used, only_network=action is Action.CUT)
            began_unix_s = time.time()
            list(pool.map(partial(self._to_container, action), reached))
            at_unix_s = time.time()
            list(pool.map(partial(self._settle, action), reached))
        hit = {slot.name for slot in reached}
        return [
            Victim(
                node=share.node.name,
                reached=share.node.worker in hit,
                executors=executors.get(share.node.worker),
                began_unix_s=began_unix_s if share.node.worker in hit else None,
                at_unix_s=at_unix_s,
            )
            for share in shares
        ]

    def _to_container(self, action: Action, slot: DockerSlot) -> None:
        match action:
            case Action.RESTART:
                self._begin(slot)
            case Action.KILL:
                self._containers.of(slot.name).kill("SIGKILL")
            case Action.PAUSE:
                self._containers.of(slot.name).pause()
            case Action.RESUME:
                self._containers.of(slot.name).unpause()
            case Action.CUT:
                self._containers.cut(slot.name)
            case Action.HEAL:
                self._containers.heal(slot.name, slot.address)

    def _settle(self, action: Action, slot: DockerSlot) -> None:
        if action is Action.KILL:
            self._containers.of(slot.name).wait(timeout=60)
            for share in slot.shares:
                share.paused, share.killed = False, True
        if action in (Action.CUT, Action.HEAL, Action.KILL):
            slot.cut = action is Action.CUT
        if action is Action.HEAL and self._containers.states().get(slot.name) == "running":
            self._lay_again(slot)

    def _to_trees(self, action: Action, shares: Sequence[Share]) -> list[Victim]:
        """Do an action to nodes that share containers: in one sweep in each, in all at once."""
        states = self._containers.states()
        by_worker: dict[str, list[Share]] = {}
        for share in shares:
            by_worker.setdefault(share.node.worker, []).append(share)

        def act(item: tuple[str, list[Share]]) -> list[Victim]:
            worker, together = item
            running = states.get(worker) == "running"
            trees = self._order(self._slots[worker], action.value, together) if running else {}
            return [self._victim(action, share, trees.get(share.node.name)) for share in together]

        with ThreadPoolExecutor(len(by_worker)) as pool:
            return [victim for victims in pool.map(act, by_worker.items()) for victim in victims]

    def _victim(self, action: Action, share: Share, tree: Tree | None) -> Victim:
        tree = tree or Tree()
        if tree.reached:
            share.paused = action is Action.PAUSE
        if action is Action.KILL:
            share.spent_cpu_s += tree.cpu_s
            share.killed = share.killed or tree.reached
        return Victim(
            node=share.node.name,
            reached=tree.reached,
            executors=int(tree.reached),
            began_unix_s=tree.began_unix_s,
            at_unix_s=tree.at_unix_s or time.time(),
        )

    def _look(self, slot: DockerSlot, hosts: Sequence[HostProcess]) -> list[Tree]:
        return inside.order(self._containers, slot.name, "look", hosts)

    def _seen(self, slot: DockerSlot) -> dict[str, Tree]:
        return self._order(slot, "look", slot.shares)

    def _order(self, slot: DockerSlot, do: str, shares: Sequence[Share]) -> dict[str, Tree]:
        """Do something to the registered processes and programs of nodes, in one sweep."""
        roots = [
            (share.node.name, host)
            for share in shares
            for host in [share.host, *(_host_of(p) for p in share.programs.values())]
            if host is not None
        ]
        done = inside.order(self._containers, slot.name, do, [host for _, host in roots])
        found = {share.node.name: Tree() for share in shares}
        for (name, _), tree in zip(roots, done, strict=True):
            found[name] = found[name].joined(tree)
        return found

    def _executors(self, slot: DockerSlot) -> int | None:
        from docker.errors import APIError, NotFound

        try:
            rows = self._containers.of(slot.name).top()["Processes"]
        except (APIError, NotFound):  # it does not run
            return 0
        programs = sum(p.alive for share in slot.shares for p in share.programs.values())
        return programs + sum("CoarseGrainedExecutorBackend" in " ".join(row) for row in rows or ())


def _host_of(program: Program) -> HostProcess:
    assert isinstance(program.process, DockerProgram)
    return program.process.host


_ENDS_OR_STOPS = (Action.KILL, Action.PAUSE, Action.CUT)


def start_failure(
    title: str, state: str, containers: Containers, log_name: str
) -> EnvironmentFailure:
    """Return the error for a server that ended or did not answer in time, with its last lines."""
    log = containers.log(log_name)
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    shown = "\n".join(f"    {line}" for line in lines[-12:]) or "    (it wrote nothing)"
    limit = format_duration(START_LIMIT_S)
    how = f"did not answer within {limit}" if state == "running" else "did not start"
    return EnvironmentFailure(
        f"{title} {how}; its container is {state}. The last lines of {log}:\n{shown}",
        remedy="read the whole log; if the container was killed, the daemon's machine may be short "
        "of memory",
    )
