"""Several nodes to a worker of a cluster that exists already: processes, told apart by their pids.

The engine says which process a node lives in (`register`); the description's commands
``kill_process`` and ``up_process`` reach it by that pid, where the worker is. A rack, and whatever
is not a kill, goes to whole workers, by the commands that they have anyway.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from harness.cluster.base import Action, Node, Usage, Victim
from harness.cluster.external.nodes import EFFECT_LIMIT_S, ExternalNodes, ended_badly
from harness.cluster.external.settings import ExternalSettings
from harness.cluster.processes import HostProcess
from harness.errors import EnvironmentFailure, UsageError
from harness.text import Notify, format_duration

NOT_TOLD_APART = "not counted: the nodes of a worker share what its command `usage` counts"


class SharedNodes(ExternalNodes):
    """So many nodes to each worker of a description."""

    def __init__(
        self, settings: ExternalSettings, environment: Mapping[str, str], per_worker: int
    ) -> None:
        """Raises `UsageError` where no command tells nodes of a worker apart."""
        if per_worker > 1 and settings.kill_process is None:
            raise UsageError(
                f"{per_worker} nodes to a worker were asked for, and the nodes of {settings.path} "
                "are whole workers",
                remedy="give it the commands kill_process and up_process, or use --cluster local "
                "or docker for what breaks parts of a worker",
            )
        super().__init__(settings, environment)
        self.nodes = tuple(
            replace(worker, name=f"{worker.rack}n{(_place(worker) - 1) * per_worker + number}")
            for worker in settings.nodes
            for number in range(1, per_worker + 1)
        )
        self._shared = per_worker > 1
        self._workers = {worker.worker: worker for worker in settings.nodes}
        self._hosts: dict[str, HostProcess] = {}
        self._hosts_lock = threading.Lock()

    def register(self, node: Node, host: HostProcess) -> None:
        """``node`` lives in that process of its worker."""
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
        workers = super().alive()
        if not self._shared:
            return workers
        return {
            node.name: workers[self._workers[node.worker].name] and self._hosted(node)
            for node in self.nodes
        }

    def apply_to(self, action: Action, nodes: Sequence[Node], *, rack: bool) -> list[Victim]:
        """``rack``: the target is a rack, so its workers go as a whole."""
        if not self._shared:
            return self.apply(action, nodes)
        if action is Action.KILL and not rack:
            return self._kill_processes(nodes)
        if action is not Action.RESTART and not rack:
            raise UsageError(
                f"the cluster of {self._settings.path} cannot {action} {nodes[0].name} alone: the "
                f"nodes of worker {nodes[0].worker} share it",
                remedy=f"{action} its rack, or start a cluster with one node to a worker",
            )
        workers = {node.worker: self._workers[node.worker] for node in nodes}
        done = dict(zip(workers, self.apply(action, list(workers.values())), strict=True))
        if action is Action.KILL:
            with self._hosts_lock:
                for node in nodes:
                    self._hosts.pop(node.name, None)
        return [replace(done[node.worker], node=node.name) for node in nodes]

    def usage(self) -> dict[str, Usage]:
        if not self._shared:
            return super().usage()
        nothing = Usage(
            cpu_s=None,
            resident_bytes=None,
            received_bytes=None,
            sent_bytes=None,
            method=NOT_TOLD_APART,
        )
        return dict.fromkeys((node.name for node in self.nodes), nothing)

    def clock_offset_s(self) -> dict[str, float | None]:
        offsets = super().clock_offset_s()
        return {node.name: offsets[self._workers[node.worker].name] for node in self.nodes}

    def restore(self, report: Notify) -> None:
        super().restore(report)
        with self._hosts_lock:  # what was killed alone comes back by the engine, under another pid
            gone = [name for name, host in self._hosts.items() if not self._known(name, host)]
            for name in gone:
                del self._hosts[name]

    def _kill_processes(self, nodes: Sequence[Node]) -> list[Victim]:
        """One sweep: who lives is asked of all of them first, then all are killed at once."""
        up = self._on_all(nodes, self._lives_here)
        victims = self._on_all(
            nodes, lambda node: self._kill_process(node) if up[node.name] else _missed(node)
        )
        return [victims[node.name] for node in nodes]

    def _kill_process(self, node: Node) -> Victim:
        """Of a node that was up just now."""
        assert self._settings.kill_process is not None
        host, worker = self._hosts[node.name], self._workers[node.worker]
        began_unix_s = time.time()
        done = self._started(self._settings.kill_process, worker, pid=str(host.pid))
        at_unix_s = time.time()
        if done.returncode != 0:
            raise ended_badly(self._settings.kill_process, self._values(worker, host), done)
        if not self._becomes_so(lambda: not self._process_is_up(node, host)):
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
        """Whether it lives, in a process that was registered."""
        host = self._hosts.get(node.name)
        return host is not None and self._process_is_up(node, host)

    def _becomes_so(self, condition: Callable[[], bool]) -> bool:
        deadline = time.monotonic() + EFFECT_LIMIT_S
        while not condition():
            if time.monotonic() > deadline:
                return False
        return True

    def _hosted(self, node: Node) -> bool:
        host = self._hosts.get(node.name)
        return host is None or self._process_is_up(node, host)

    def _known(self, name: str, host: HostProcess) -> bool:
        return self._process_is_up(next(n for n in self.nodes if n.name == name), host)

    def _process_is_up(self, node: Node, host: HostProcess) -> bool:
        command = self._settings.up_process
        assert command is not None, "given together with kill_process"
        if host.worker not in ("", node.worker):
            return False
        worker = self._workers[node.worker]
        return self._started(command, worker, pid=str(host.pid)).returncode == 0

    def _values(self, worker: Node, host: HostProcess) -> Mapping[str, str]:
        return {**self._settings.variables[worker.name], "pid": str(host.pid)}


def _missed(node: Node) -> Victim:
    return Victim(node=node.name, reached=False, executors=0, at_unix_s=time.time())


def _place(worker: Node) -> int:
    """A worker's number in its rack, from 1."""
    return int(worker.worker.partition("w")[2])
