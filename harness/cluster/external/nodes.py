"""Nodes of a cluster that exists already: broken, mended and examined by the user's commands.

Where several nodes share a worker, they are processes, told apart by their pids: the engine
registers each node's process, and the commands ``kill_process`` and ``up_process`` reach it on its
worker. Racks, and all actions other than kills, go to whole workers, by the workers' commands."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any

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


class ExternalNodes:
    """The nodes of a description, ``per_worker`` of them to each worker.

    Safe to use from several threads: the injector acts while others look."""

    def __init__(
        self, settings: ExternalSettings, environment: Mapping[str, str], per_worker: int = 1
    ) -> None:
        """Run the commands with ``environment``.

        Raises `UsageError` where no command tells the nodes of a worker apart."""
        if per_worker > 1 and settings.kill_process is None:
            raise UsageError(
                f"{per_worker} nodes to a worker were asked for, and the nodes of {settings.path} "
                "are whole workers",
                remedy="give it the commands kill_process and up_process, or use --cluster local "
                "or docker for what breaks parts of a worker",
            )
        self._settings, self._environment = settings, environment
        self._lock = threading.RLock()
        self._silent: dict[str, Action] = {}
        """Workers that were paused or cut, and by which action."""
        self._shared = per_worker > 1
        self._workers = {worker.worker: worker for worker in settings.nodes}
        self._hosts: dict[str, HostProcess] = {}
        self._hosts_lock = threading.Lock()
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
        if not self._process_is_up(node, host):
            raise UsageError(
                f"process {host.pid} cannot host node {node.name}: by the command `up_process` it "
                f"is no living process of worker {node.worker}",
                remedy="register what `HostProcess.here()` says in the node's own task, while it "
                "runs",
            )
        with self._hosts_lock:
            self._hosts[node.name] = host

    def alive(self) -> dict[str, bool]:
        up = self._on_all(self._settings.nodes, self._is_up)
        return {
            node.name: up[name] and name not in self._silent and self._hosted(node)
            for node in self.nodes
            for name in [self._workers[node.worker].name]
        }

    def demand_up(self) -> None:
        """Raise `EnvironmentFailure` unless every worker is up."""
        up = self._on_all(self._settings.nodes, self._is_up)
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
        if self._shared and not rack and action is not Action.RESTART:
            if action is Action.KILL:
                return self._kill_processes(nodes)
            raise UsageError(
                f"the cluster of {self._settings.path} cannot {action} {nodes[0].name} alone: the "
                f"nodes of worker {nodes[0].worker} share it",
                remedy=f"{action} its rack, or start a cluster with one node to a worker",
            )
        with self._lock:
            workers = [self._workers[name] for name in dict.fromkeys(n.worker for n in nodes)]
            up = self._on_all(workers, self._is_up)
            done = self._on_all(workers, lambda w: self._act(action, w, was_up=up[w.name]))
        if action is Action.KILL:
            with self._hosts_lock:
                for node in nodes:
                    self._hosts.pop(node.name, None)
        return [replace(done[self._workers[node.worker].name], node=node.name) for node in nodes]

    def restore(self, report: Notify) -> None:
        """Mend broken workers, start dead ones, and wait."""
        workers = self._settings.nodes
        with self._lock:
            for worker in workers:
                if action := self._silent.get(worker.name):
                    mend = Action.RESUME if action is Action.PAUSE else Action.HEAL
                    self._act(mend, worker, was_up=True)
            up = self._on_all(workers, self._is_up)
            for worker in workers:
                if not up[worker.name]:
                    report(f"starting node {worker.name} again")
                    self._run(self._settings.actions[Action.RESTART], worker)
            for worker in workers:
                if not self._becomes(partial(self._is_up, worker), RETURN_LIMIT_S):
                    raise EnvironmentFailure(
                        f"node {worker.name} is not up {format_duration(RETURN_LIMIT_S)} after it "
                        "was started again",
                        remedy="look at it; its command `restart` may do nothing",
                    )
            self.check_clocks()
        with self._hosts_lock:  # the engine starts killed nodes again, as other processes
            self._hosts = {
                node.name: host
                for node in self.nodes
                if (host := self._hosts.get(node.name)) and self._process_is_up(node, host)
            }

    def clocks(self) -> dict[str, Sample | None]:
        """Return the last comparison of each clock; None without a command `clock`."""
        return {node.name: self._clocks.get(self._workers[node.worker].name) for node in self.nodes}

    def check_clocks(self) -> None:
        """Compare all clocks. Raises `EnvironmentFailure` for one that would decide latencies.

        The bound is half of what the command takes."""
        if (command := self._settings.clock) is None:
            return

        def compared(node: Node) -> Sample:
            return Clock().compare(lambda: self._clock(command, node), rounds=_CLOCK_ROUNDS)

        self._clocks = self._on_all(self._settings.nodes, compared)
        for name, sample in self._clocks.items():
            demand_near(f"of node {name}", sample)

    def _clock(self, command: Command, node: Node) -> float:
        said = self._run(command, node).strip()
        try:
            return float(said)
        except ValueError as error:
            raise EnvironmentFailure(
                f"the command `clock` of node {node.name} said {said[:80]!r}",
                remedy="it must print seconds since 1970, as `date +%s.%N` does",
            ) from error

    def usage(self) -> dict[str, Usage]:
        command = self._settings.usage
        if command is None or self._shared:
            nothing = Usage(
                cpu_s=None,
                resident_bytes=None,
                received_bytes=None,
                sent_bytes=None,
                method=NOT_TOLD_APART if self._shared else NOT_COUNTED,
            )
            return dict.fromkeys((node.name for node in self.nodes), nothing)
        return dict(self._on_all(self._settings.nodes, lambda node: self._usage(command, node)))

    def _usage(self, command: Command, node: Node) -> Usage:
        said = self._run(command, node)
        try:
            counts: dict[str, Any] = json.loads(said)
            return Usage(
                cpu_s=counts.get("cpu_s"),
                resident_bytes=counts.get("resident_bytes"),
                received_bytes=counts.get("received_bytes"),
                sent_bytes=counts.get("sent_bytes"),
                method=COUNTED,
            )
        except (ValueError, AttributeError) as error:
            raise EnvironmentFailure(
                f"the command `usage` of node {node.name} said {said[:80]!r}",
                remedy="it must print a JSON object with cpu_s, resident_bytes, received_bytes and "
                "sent_bytes, or some of them",
            ) from error

    def _act(self, action: Action, node: Node, *, was_up: bool) -> Victim:
        victim_if = {Action.RESTART: not was_up, Action.RESUME: True, Action.HEAL: True}
        if not victim_if.get(action, was_up):
            return Victim(node=node.name, reached=False, at_unix_s=time.time())
        began_unix_s = time.time()
        self._run(self._settings.actions[action], node)
        at_unix_s = time.time()
        gone = action is not Action.KILL or self._becomes(lambda: not self._is_up(node))
        if not gone:
            raise EnvironmentFailure(
                f"node {node.name} is up {format_duration(EFFECT_LIMIT_S)} after its command `kill`"
                " ended well",
                remedy="the command does not kill it, or `up` asks something else that lives: try "
                "both by hand",
            )
        if action in (Action.PAUSE, Action.CUT):
            self._silent[node.name] = action
        else:
            self._silent.pop(node.name, None)
        return Victim(node=node.name, reached=True, began_unix_s=began_unix_s, at_unix_s=at_unix_s)

    def _becomes(self, condition: Callable[[], bool], within_s: float = EFFECT_LIMIT_S) -> bool:
        deadline = time.monotonic() + within_s
        while not condition():
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_S)
        return True

    def _kill_processes(self, nodes: Sequence[Node]) -> list[Victim]:
        """Kill all in one sweep, after a look at which of them live."""
        up = self._on_all(nodes, self._lives_here)
        victims = self._on_all(
            nodes, lambda node: self._kill_process(node) if up[node.name] else _missed(node)
        )
        return [victims[node.name] for node in nodes]

    def _kill_process(self, node: Node) -> Victim:
        assert self._settings.kill_process is not None
        host, worker = self._hosts[node.name], self._workers[node.worker]
        began_unix_s = time.time()
        done = self._started(self._settings.kill_process, worker, pid=str(host.pid))
        at_unix_s = time.time()
        demand_success(done)
        if not self._becomes(lambda: not self._process_is_up(node, host)):
            raise EnvironmentFailure(
                f"process {host.pid} of node {node.name} is up {format_duration(EFFECT_LIMIT_S)} "
                "after the command `kill_process` ended well",
                remedy="try it and `up_process` by hand, where the worker is",
            )
        return Victim(
            node=node.name,
            reached=True,
            executors=1,
            began_unix_s=began_unix_s,
            at_unix_s=at_unix_s,
        )

    def _lives_here(self, node: Node) -> bool:
        host = self._hosts.get(node.name)
        return host is not None and self._process_is_up(node, host)

    def _hosted(self, node: Node) -> bool:
        host = self._hosts.get(node.name)
        return host is None or self._process_is_up(node, host)

    def _process_is_up(self, node: Node, host: HostProcess) -> bool:
        command = self._settings.up_process
        assert command is not None, "given together with kill_process"
        if host.worker not in ("", node.worker):
            return False
        worker = self._workers[node.worker]
        return self._started(command, worker, pid=str(host.pid)).returncode == 0

    def _is_up(self, node: Node) -> bool:
        return self._started(self._settings.up, node).returncode == 0

    def _run(self, command: Command, node: Node) -> str:
        return demand_success(self._started(command, node))

    def _started(
        self, command: Command, node: Node, **more: str
    ) -> subprocess.CompletedProcess[str]:
        values = {**self._settings.variables[node.name], **more}
        return run_command(command.filled(values), self._settings, self._environment)

    def _on_all(self, nodes: Sequence[Node], do: Callable[[Node], Any]) -> dict[str, Any]:
        with ThreadPoolExecutor(max(1, len(nodes))) as pool:
            return dict(zip((node.name for node in nodes), pool.map(do, nodes), strict=True))


def run_command(
    words: Sequence[str], settings: ExternalSettings, environment: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run a command of the description to its end, however that ends.

    Raises `EnvironmentFailure` where it cannot be started or does not end in time."""
    try:
        return subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env=dict(environment),
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


def _missed(node: Node) -> Victim:
    return Victim(node=node.name, reached=False, executors=0, at_unix_s=time.time())


def _place(worker: Node) -> int:
    """Return a worker's number in its rack, from 1."""
    return int(worker.worker.partition("w")[2])
