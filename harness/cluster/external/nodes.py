"""Nodes of a cluster that exists already: broken, mended and examined by the user's commands.

Where several nodes share a worker, they are processes, told apart by their pids: the engine
registers each node's process, and the commands ``kill_process`` and ``up_process`` reach it on its
worker. Racks, and all actions other than kills, go to whole workers, by the workers' commands."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from harness.cluster.base import Action, Node, Usage, Victim, demand_near
from harness.cluster.clocks import Clock, Sample
from harness.cluster.external.settings import Command, ExternalSettings
from harness.cluster.processes import HostProcess
from harness.errors import EnvironmentFailure, UsageError
from harness.text import Notify, format_duration

EFFECT_LIMIT_S = 20.0
"""Limit between a command's end and its effect."""
RETURN_LIMIT_S = 180.0
"""Limit of a node's return."""
_POLL_S = 0.2
_CLOCK_ROUNDS = 3

NOT_COUNTED = "not counted: the description of this cluster has no command `usage`"
COUNTED = "whatever the command `usage` of this cluster's description counts"
NOT_TOLD_APART = "not counted: the nodes of a worker share what its command `usage` counts"


class _Counts(msgspec.Struct):
    """The output of the command `usage`."""

    cpu_s: float | None = None
    resident_bytes: int | None = None
    received_bytes: int | None = None
    sent_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Target:
    """A whole worker, or one node's process on it."""

    name: str
    worker: Node
    alone: bool = False
    """True for a node that shares its worker."""
    host: HostProcess | None = None
    """Its registered process; None where it has none."""


class ExternalNodes:
    """The nodes of a description, ``per_worker`` of them to each worker.

    Safe to use from several threads: the injector acts while others look."""

    def __init__(self, settings: ExternalSettings, per_worker: int = 1) -> None:
        """Raise `UsageError` where no command acts on one node of a worker alone."""
        if per_worker > 1 and "kill_process" not in settings.commands:
            raise UsageError(
                f"{per_worker} nodes to a worker were asked for, and the nodes of {settings.path} "
                "are whole workers",
                remedy="give it the commands kill_process and up_process, or use --cluster local "
                "or docker for what breaks parts of a worker",
            )
        self._settings = settings
        self._lock = threading.RLock()
        self._silent: dict[str, Action] = {}
        """Workers that were paused or cut, and by which action."""
        self._shared = per_worker > 1
        self._workers = {
            node.worker: _Target(name=node.name, worker=node) for node in settings.nodes
        }
        self._hosts: dict[str, HostProcess] = {}
        self._clocks: dict[str, Sample] = {}
        self.nodes = tuple(
            replace(worker, name=f"{worker.rack}n{(_place(worker) - 1) * per_worker + number}")
            for worker in settings.nodes
            for number in range(1, per_worker + 1)
        )

    def register(self, node: Node, host: HostProcess) -> None:
        """Register the process of ``node`` on its worker."""
        if not self._shared:
            raise UsageError(
                f"node {node.name} of the cluster of {self._settings.path} is a whole worker, so "
                "no process can be registered for it",
                remedy="use one node to a worker here",
            )
        if host.worker not in ("", node.worker) or not self._is_up(self._alone(node, host)):
            raise UsageError(
                f"process {host.pid} cannot host node {node.name}: by the command `up_process` it "
                f"is no living process of worker {node.worker}",
                remedy="register what `HostProcess.here()` says in the node's own task, while it "
                "runs",
            )
        self._hosts[node.name] = host

    def alive(self) -> dict[str, bool]:
        """See `Cluster.alive`."""
        up = self._on_all(self._workers.values(), self._is_up)
        return {
            node.name: up[name] and name not in self._silent and self._hosted(node)
            for node in self.nodes
            for name in [self._workers[node.worker].name]
        }

    def demand_up(self) -> None:
        """Raise `EnvironmentFailure` unless every worker is up."""
        up = self._on_all(self._workers.values(), self._is_up)
        if down := [name for name, lives in up.items() if not lives]:
            raise EnvironmentFailure(
                f"{', '.join(down)} of {self._settings.path} {'is' if len(down) == 1 else 'are'} "
                "down by the command `up`",
                remedy="start what is down, or correct the command: it must end with 0 for a node "
                "that is up",
            )

    def apply(
        self, action: Action, nodes: Sequence[Node], *, rack: bool = False
    ) -> Sequence[Victim]:
        """Do an action in one sweep, after a look at which nodes are up.

        ``rack``: the target is a rack, so its workers are affected as a whole."""
        alone = self._shared and not rack and action is not Action.RESTART
        if alone and action is not Action.KILL:
            raise UsageError(
                f"the cluster of {self._settings.path} cannot {action} {nodes[0].name} alone: the "
                f"nodes of worker {nodes[0].worker} share it",
                remedy=f"{action} its rack, or start a cluster with one node to a worker",
            )
        with self._lock:
            targets = {
                node.name: self._alone(node) if alone else self._workers[node.worker]
                for node in nodes
            }
            distinct = {target.name: target for target in targets.values()}.values()
            up = self._on_all(distinct, self._is_up)
            done = self._on_all(distinct, lambda target: self._act(action, target, up[target.name]))
            if action is Action.KILL and not alone:
                for node in nodes:
                    self._hosts.pop(node.name, None)
        return [replace(done[targets[node.name].name], node=node.name) for node in nodes]

    def restore(self, report: Notify) -> None:
        """Mend broken workers, start dead ones, and wait."""
        workers = self._workers.values()
        with self._lock:
            for worker in workers:
                if action := self._silent.get(worker.name):
                    mend = Action.RESUME if action is Action.PAUSE else Action.HEAL
                    self._act(mend, worker, True)
            up = self._on_all(workers, self._is_up)
            for worker in workers:
                if not up[worker.name]:
                    report(f"starting node {worker.name} again")
                    self._run(self._settings.commands[Action.RESTART], worker)
            for worker in workers:
                if not self._becomes(worker, up=True, within_s=RETURN_LIMIT_S):
                    raise EnvironmentFailure(
                        f"node {worker.name} is not up {format_duration(RETURN_LIMIT_S)} after it "
                        "was started again",
                        remedy="look at it; its command `restart` may do nothing",
                    )
            self.check_clocks()
            for node in self.nodes:  # the engine starts killed nodes again, as other processes
                if not self._hosted(node):
                    del self._hosts[node.name]

    def clocks(self) -> dict[str, Sample | None]:
        """Return the last comparison of each clock; None without a command `clock`."""
        return {node.name: self._clocks.get(self._workers[node.worker].name) for node in self.nodes}

    def check_clocks(self) -> None:
        """Compare all clocks. Raises `EnvironmentFailure` for one that would decide latencies.

        The bound is half of what the command takes."""
        if (command := self._settings.commands.get("clock")) is None:
            return

        def compared(worker: _Target) -> Sample:
            return Clock().compare(lambda: self._clock(command, worker), rounds=_CLOCK_ROUNDS)

        self._clocks = self._on_all(self._workers.values(), compared)
        for name, sample in self._clocks.items():
            demand_near(f"of node {name}", sample)

    def _clock(self, command: Command, worker: _Target) -> float:
        said = self._run(command, worker).strip()
        try:
            return float(said)
        except ValueError as error:
            raise EnvironmentFailure(
                f"the command `clock` of node {worker.name} said {said[:80]!r}",
                remedy="it must print seconds since 1970, as `date +%s.%N` does",
            ) from error

    def usage(self) -> dict[str, Usage]:
        """See `Cluster.usage`."""
        command = self._settings.commands.get("usage")
        if command is None or self._shared:
            method = NOT_TOLD_APART if self._shared else NOT_COUNTED
            nothing = Usage(**msgspec.structs.asdict(_Counts()), method=method)
            return dict.fromkeys((node.name for node in self.nodes), nothing)
        return self._on_all(self._workers.values(), lambda worker: self._usage(command, worker))

    def _usage(self, command: Command, worker: _Target) -> Usage:
        said = self._run(command, worker)
        try:
            counts = msgspec.json.decode(said, type=_Counts)
        except msgspec.MsgspecError as error:
            raise EnvironmentFailure(
                f"the command `usage` of node {worker.name} said {said[:80]!r}",
                remedy="it must print a JSON object with cpu_s, resident_bytes, received_bytes and "
                "sent_bytes, or some of them",
            ) from error
        return Usage(**msgspec.structs.asdict(counts), method=COUNTED)

    def _act(self, action: Action, target: _Target, was_up: bool) -> Victim:
        kill, up = ("kill_process", "up_process") if target.alone else ("kill", "up")
        fits = {Action.RESTART: not was_up, Action.RESUME: True, Action.HEAL: True}
        if not fits.get(action, was_up):
            return Victim(
                node=target.name,
                reached=False,
                executors=0 if target.alone else None,
                at_unix_s=time.time(),
            )
        command = kill if action is Action.KILL else action
        began_unix_s = time.time()
        done = self._started(self._settings.commands[command], target)
        at_unix_s = time.time()
        demand_success(done)
        if action is Action.KILL and not self._becomes(target, up=False):
            raise EnvironmentFailure(
                f"node {target.name} is up {format_duration(EFFECT_LIMIT_S)} after its command "
                f"`{kill}` ended well",
                remedy=f"the command does not kill it, or `{up}` asks something else that lives: "
                "try both by hand",
            )
        if action in (Action.PAUSE, Action.CUT):
            self._silent[target.name] = action
        elif not target.alone:
            self._silent.pop(target.name, None)
        return Victim(
            node=target.name,
            reached=True,
            executors=1 if target.alone else None,
            began_unix_s=began_unix_s,
            at_unix_s=at_unix_s,
        )

    def _becomes(self, target: _Target, *, up: bool, within_s: float | None = None) -> bool:
        deadline = time.monotonic() + (EFFECT_LIMIT_S if within_s is None else within_s)
        while self._is_up(target) != up:
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_S)
        return True

    def _alone(self, node: Node, host: HostProcess | None = None) -> _Target:
        """Return a node as one process of its worker, by default the registered one."""
        worker = self._workers[node.worker].worker
        host = host or self._hosts.get(node.name)
        return _Target(name=node.name, worker=worker, alone=True, host=host)

    def _hosted(self, node: Node) -> bool:
        """Return True unless the node's registered process is gone."""
        return node.name not in self._hosts or self._is_up(self._alone(node))

    def _is_up(self, target: _Target) -> bool:
        if target.alone and target.host is None:
            return False
        command = self._settings.commands["up_process" if target.alone else "up"]
        return self._started(command, target).returncode == 0

    def _run(self, command: Command, target: _Target) -> str:
        return demand_success(self._started(command, target))

    def _started(self, command: Command, target: _Target) -> subprocess.CompletedProcess[str]:
        values = dict(self._settings.variables[target.worker.name])
        if target.host is not None:
            values["pid"] = str(target.host.pid)
        return run_command(command.filled(values), self._settings)

    def _on_all(self, targets: Collection[_Target], do: Callable[[_Target], Any]) -> dict[str, Any]:
        with ThreadPoolExecutor(max(1, len(targets))) as pool:
            return dict(
                zip((target.name for target in targets), pool.map(do, targets), strict=True)
            )


def run_command(
    words: Sequence[str], settings: ExternalSettings
) -> subprocess.CompletedProcess[str]:
    """Run a command of the description to its end, however that ends.

    Raises `EnvironmentFailure` where it cannot be started or does not end in time."""
    try:
        return subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=settings.timeout_s,
            check=False,
        )
    except OSError as error:
        raise EnvironmentFailure(
            f"`{words[0]}` cannot be started: {error.strerror}",
            remedy=f"install it, or correct the commands in {settings.path}",
        ) from error
    except subprocess.TimeoutExpired as error:
        raise EnvironmentFailure(
            f"`{' '.join(words)}` did not end within {settings.timeout_s:g} s",
            remedy=f"raise commands.timeout_s in {settings.path}, or mend the command",
        ) from error


def demand_success(done: subprocess.CompletedProcess[str]) -> str:
    """Return what a command printed; raise `EnvironmentFailure` for an exit code other than 0."""
    if done.returncode != 0:
        raise EnvironmentFailure(
            f"`{' '.join(done.args)}` ended with exit code {done.returncode}: "
            f"{done.stderr.strip()[-500:]}",
            remedy="try the command by hand",
        )
    return done.stdout


def _place(worker: Node) -> int:
    """Return a worker's number in its rack, from 1."""
    return int(worker.worker.partition("w")[2])
