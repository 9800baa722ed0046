"""The nodes of a worker and the programs that are launched on them, over all incarnations."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.cluster.agent.agent import Ended
from harness.cluster.agent.place import LaunchedProcess, Launcher
from harness.cluster.base import Node, RunningProgram
from harness.cluster.links import Loopback
from harness.cluster.processes import PROGRAM_VARIABLE, WORKER_VARIABLE, HostProcess
from harness.cluster.run_directory import check_name

PROGRAMS = "programs"
"""The subdirectory of a run directory with the working directories of launched programs."""


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


class Program(RunningProgram):
    """A program on a worker of our own, whose files are its machine's."""

    def __init__(
        self,
        share: Share,
        launcher: Launcher,
        name: str,
        argv: Sequence[str],
        env: Mapping[str, str],
        files: Mapping[str, str],
    ) -> None:
        """Start nothing yet."""
        self.share, self.node, self.name = share, share.node.name, name
        self.argv, self.files = tuple(argv), dict(files)
        marks = {WORKER_VARIABLE: share.node.worker, PROGRAM_VARIABLE: name}
        self.environment = {**env, **marks}
        self._launcher = launcher
        self.incarnation = 0
        self.stopped = False
        self._counted_cpu_s = 0.0
        self._lock = threading.Lock()

    @property
    def pid(self) -> int:
        return self._started.pid

    @property
    def exit_code(self) -> int | None:
        code = self._started.poll()
        if (ended := self._started.ended) is not None:
            self._count(ended)
        return code

    @property
    def title(self) -> str:
        """The name of the present incarnation, of its log and of its directory."""
        return f"{self.name}.{self.incarnation}"

    @property
    def log(self) -> Path:
        return self._launcher.place.log(self.title)

    @property
    def directory(self) -> Path:
        return self._launcher.place.copied_directory(f"{PROGRAMS}/{self.title}")

    def start(self, network: Loopback) -> None:
        """Begin the next incarnation, in an empty directory with its files."""
        self.incarnation += 1
        check_name(self.title)
        place, directory = self._launcher.place, f"{PROGRAMS}/{self.title}"
        place.agent.remove(directory)
        place.agent.make(directory)
        for name, text in self.files.items():
            place.agent.write(f"{directory}/{name}", text)
        self._counted_cpu_s = 0.0
        self._started: LaunchedProcess = self._launcher.spawn(
            self.name,
            network.within(self.share.node.worker, self.argv),
            environment=self.environment,
            log_name=self.title,
            directory=place.directory / directory,
        )

    def stop(self, *, within_s: float = 10.0) -> None:
        self.stopped = True
        _ = self.exit_code
        ended = self._started.end(within_s)
        self._count(ended)
        self.left_behind = ended.left_behind

    def _count(self, ended: Ended) -> None:
        """Add what it has used, and no earlier count of the same, to its node's."""
        with self._lock:
            self.share.spent_cpu_s += ended.cpu_s - self._counted_cpu_s
            self._counted_cpu_s = ended.cpu_s
