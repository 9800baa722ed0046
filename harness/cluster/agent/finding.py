"""The processes of nodes on a machine, found by their marks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.cluster.processes import (
    PROGRAM_VARIABLE,
    HostProcess,
    ProcessIdentity,
    ProcessStat,
    children_of,
    members,
    snapshot,
    tree,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """The marks of one node's processes on this machine."""

    node: str
    worker: str
    shared: bool = False
    """True if several nodes share the worker: then its host and programs are the node's alone."""
    host: HostProcess | None = None
    programs: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Processes:
    """The living processes of one node."""

    processes: Sequence[ProcessStat] = ()
    engines: int = 0
    """Number of executors, registered hosts and launched programs among them."""

    @property
    def cpu_s(self) -> float:
        """CPU time of all of them."""
        return sum(stat.cpu_s for stat in self.processes)

    @property
    def resident_bytes(self) -> int:
        """Memory of all of them."""
        return sum(stat.resident_bytes for stat in self.processes)


class Finder:
    """The processes of several nodes, as they are found, also after some are gone."""

    def __init__(
        self,
        run: str,
        parts: Sequence[Part],
        programs: Callable[[], set[ProcessIdentity]],
        *,
        whole: bool,
    ) -> None:
        """``programs``: finds the launched programs, those that have come since included."""
        self._run, self._parts, self._whole = run, parts, whole
        self._programs = programs
        self._hosts = {part.host.identity for part in parts if part.host is not None}
        self._owner: dict[ProcessIdentity, str] = {}
        self._newest: dict[ProcessIdentity, ProcessStat] = {}
        self._engines: set[ProcessIdentity] = set()

    def find(self) -> list[ProcessStat]:
        """Return the living processes."""
        found = _by_node(self._run, self._parts, whole=self._whole)
        roots = self._hosts | self._programs()
        for node, stats in found.items():
            for stat in stats:
                if stat.identity not in self._owner and (
                    stat.identity in roots or is_executor(stat.pid)
                ):
                    self._engines.add(stat.identity)
                self._owner[stat.identity] = node
                self._newest[stat.identity] = stat
        return [stat for stats in found.values() for stat in stats]

    def made(self, only: Mapping[ProcessIdentity, ProcessStat] | None) -> dict[str, Processes]:
        """Return all that were found by node, or ``only`` some of them."""
        kept: dict[str, list[ProcessStat]] = {part.node: [] for part in self._parts}
        for identity, stat in (self._newest if only is None else only).items():
            kept[self._owner[identity]].append(stat)
        return {
            node: Processes(
                processes=stats, engines=sum(stat.identity in self._engines for stat in stats)
            )
            for node, stats in kept.items()
        }


def _by_node(run: str, parts: Sequence[Part], *, whole: bool) -> dict[str, list[ProcessStat]]:
    """Return the living processes by node; with ``whole``, the rest of its worker's, too."""
    found: dict[str, list[ProcessStat]] = {}
    if any(part.shared for part in parts):
        launched = any(part.programs for part in parts)
        programs = members(run, PROGRAM_VARIABLE) if launched else {}
        everyone = snapshot()
        children = children_of(everyone)
        for part in parts:
            own = [stat for name in part.programs for stat in programs.get(name, ())]
            host = part.host
            stat = None if host is None else everyone.get(host.pid)
            if host is not None and stat is not None and stat.identity == host.identity:
                own = [*tree([host.pid], everyone, children), *own]
            found[part.node] = own
        if not whole:
            return found
    by_worker = members(run)
    taken = {stat.pid for stats in found.values() for stat in stats}
    for part in parts:  # the rest of a worker belongs to its first node
        rest = [stat for stat in by_worker.pop(part.worker, ()) if stat.pid not in taken]
        found[part.node] = [*found.get(part.node, ()), *rest]
    return found


def is_executor(pid: int) -> bool:
    """Return True for the virtual machine of a Spark executor."""
    try:
        command_line = (Path("/proc") / str(pid) / "cmdline").read_bytes()
    except OSError:  # it ended meanwhile
        return False
    return b"CoarseGrainedExecutorBackend" in command_line
