"""Processes by identity: who they are, who they belong to, and signals that reach only them.

A pid alone names nobody: the kernel gives it to the next process once its owner is gone. Here a
process is (pid, start time in clock ticks since boot), which is never given twice before the next
boot, and every process of a cluster carries the cluster's run in its environment, which all
children inherit, also those that moved to a session of their own or lost their parent.

``/proc`` is read directly rather than through psutil for two reasons: psutil's creation time is
wall-clock time and shifts when the clock is set, so it cannot be compared with what an earlier
process wrote down; and one pass over all processes must be cheap, because it stands between the
planned and the real instant of a kill. Linux only, as the local backend is.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

RUN_VARIABLE = "FAULTLINE_RUN"
"""In the environment of every process that belongs to a cluster: the run's identifier."""
WORKER_VARIABLE = "FAULTLINE_WORKER"
"""Beside it in a Spark worker and everything it starts: the worker's name."""

_PROC = Path("/proc")
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessIdentity:
    """One process, and never another one that was given its pid later."""

    pid: int
    started_ticks: int
    """Clock ticks between the boot of the machine and the start of the process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostProcess:
    """The process that a node lives in, as that process sees itself.

    Inside a container its pid is another one than outside, so it means something only together
    with the worker; its start time shows that the pid has not changed hands.
    """

    worker: str
    pid: int
    started_ticks: int

    @classmethod
    def here(cls) -> HostProcess:
        """Of the calling process, which must be one of a worker's (a Spark task's Python)."""
        own = identify(os.getpid())
        assert own is not None, "a process that runs this has a pid"
        return cls(
            worker=os.environ.get(WORKER_VARIABLE, ""), pid=own.pid, started_ticks=own.started_ticks
        )

    @property
    def identity(self) -> ProcessIdentity:
        """By which it is told from a later process with its pid."""
        return ProcessIdentity(pid=self.pid, started_ticks=self.started_ticks)

    def to_json(self) -> dict[str, str | int]:
        return asdict(self)

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> HostProcess:
        return cls(**document)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessStat:
    """One line of ``/proc/<pid>/stat``."""

    identity: ProcessIdentity
    parent: int
    state: str
    """R, S, D, T (stopped), Z (a zombie: dead, not yet reaped), ..."""
    cpu_s: float
    """Used by the process and by those children of it that it has waited for."""
    resident_bytes: int

    @property
    def pid(self) -> int:
        """Its number, which another may have once it is gone."""
        return self.identity.pid


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Where a pid means something: one boot of one kernel, and one pid namespace in it."""

    hostname: str
    boot: str
    pid_namespace: str

    @classmethod
    def here(cls) -> Machine:
        """The one that this process runs on."""
        return cls(
            hostname=os.uname().nodename,
            boot=(_PROC / "sys/kernel/random/boot_id").read_text().strip(),
            pid_namespace=os.readlink(_PROC / "self/ns/pid"),
        )


def read_stat(pid: int) -> ProcessStat | None:
    """What the kernel knows of ``pid``; None if there is no such process (or a zombie)."""
    try:
        text = (_PROC / str(pid) / "stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The second field is the program's name in parentheses and may hold spaces and parentheses.
    fields = text[text.rindex(")") + 2 :].split()
    if fields[0] in "ZX":
        return None
    return ProcessStat(
        identity=ProcessIdentity(pid=pid, started_ticks=int(fields[19])),
        parent=int(fields[1]),
        state=fields[0],
        cpu_s=sum(int(ticks) for ticks in fields[11:15]) / _TICKS_PER_S,
        resident_bytes=int(fields[21]) * _PAGE_BYTES,
    )


def identify(pid: int) -> ProcessIdentity | None:
    """The identity of the living process ``pid``; None if it is gone or a zombie."""
    stat = read_stat(pid)
    return None if stat is None else stat.identity


def is_alive(identity: ProcessIdentity) -> bool:
    """Whether that very process lives: its pid may be another's by now."""
    return identify(identity.pid) == identity


def snapshot() -> dict[int, ProcessStat]:
    """Every living process of the machine by pid."""
    found = (read_stat(int(name)) for name in os.listdir(_PROC) if name.isdecimal())
    return {stat.pid: stat for stat in found if stat is not None}


def members(run: str) -> dict[str, list[ProcessStat]]:
    """The living processes of ``run`` and all their descendants, by worker.

    Those that belong to no worker stand under "". Never this process or one of its ancestors,
    whatever their environment says.
    """
    everyone = snapshot()
    spared = _with_ancestors(os.getpid(), everyone)
    roots: dict[str, list[int]] = {}
    for pid in everyone:
        environment = _environment(pid)
        if f"\0{RUN_VARIABLE}={run}\0".encode() in environment:
            roots.setdefault(_worker_in(environment), []).append(pid)
    found: dict[str, list[ProcessStat]] = {}
    taken = set(spared)
    for worker in sorted(roots, reverse=True):  # "" last: what no worker claims
        group = [stat for stat in tree(roots[worker], everyone) if stat.pid not in taken]
        taken.update(stat.pid for stat in group)
        found[worker] = group
    return found


def marked(run: str) -> list[ProcessStat]:
    """All living processes of ``run``, as `members` finds them."""
    return [stat for group in members(run).values() for stat in group]


def tree(
    roots: Iterable[int], everyone: Mapping[int, ProcessStat] | None = None
) -> list[ProcessStat]:
    """The living processes among ``roots`` and all their descendants."""
    everyone = snapshot() if everyone is None else everyone
    children: dict[int, list[int]] = {}
    for stat in everyone.values():
        children.setdefault(stat.parent, []).append(stat.pid)
    found: dict[int, ProcessStat] = {}
    queue = [pid for pid in roots if pid in everyone]
    while queue:
        pid = queue.pop()
        if pid not in found:
            found[pid] = everyone[pid]
            queue.extend(children.get(pid, []))
    return list(found.values())


def _environment(pid: int) -> bytes:
    try:
        return b"\0" + (_PROC / str(pid) / "environ").read_bytes()
    except OSError:  # gone, or another user's: not ours in either case
        return b""


def _worker_in(environment: bytes) -> str:
    prefix = f"{WORKER_VARIABLE}=".encode()
    entries = (entry for entry in environment.split(b"\0") if entry.startswith(prefix))
    return next(entries, prefix).removeprefix(prefix).decode(errors="replace")


def _with_ancestors(pid: int, everyone: Mapping[int, ProcessStat]) -> set[int]:
    line = {pid}
    while pid in everyone and (pid := everyone[pid].parent) not in line:
        line.add(pid)
    return line


def open_handle(pid: int) -> int | None:
    """A pid file descriptor, which stays with its process when the pid changes hands.

    None where there is none to be had: kernels before 5.3, sandboxes, and Pythons that were built
    against older headers (some standalone builds). Raises `ProcessLookupError` for no process.
    """
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        raise
    except (AttributeError, OSError):
        return None


def send_signal(identity: ProcessIdentity, number: signal.Signals) -> bool:
    """Signal exactly this process; False if it is gone."""
    try:
        handle = open_handle(identity.pid)
    except ProcessLookupError:
        return False
    try:
        if not is_alive(identity):
            return False
        if handle is None:  # microseconds remain in which the pid could change hands
            os.kill(identity.pid, number)
        else:
            signal.pidfd_send_signal(handle, number)
    except ProcessLookupError:
        return False
    finally:
        if handle is not None:
            os.close(handle)
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Signalled:
    """What one signal reached."""

    processes: tuple[ProcessStat, ...]
    """As they were just before."""
    began_unix_s: float
    """Just before the first of them was signalled."""
    at_unix_s: float
    """When the last of them had been signalled."""


def signal_all(find: Callable[[], Iterable[ProcessStat]], number: signal.Signals) -> Signalled:
    """Signal all that ``find`` finds, again and again until it finds nobody new.

    One pass is not enough: a process may fork between being found and being signalled.
    """
    seen: set[ProcessIdentity] = set()
    reached: list[ProcessStat] = []
    began_unix_s = at_unix_s = time.time()
    while fresh := [stat for stat in find() if stat.identity not in seen]:
        if not seen:
            began_unix_s = time.time()
        reached.extend(stat for stat in fresh if send_signal(stat.identity, number))
        seen.update(stat.identity for stat in fresh)
        at_unix_s = time.time()
    return Signalled(processes=tuple(reached), began_unix_s=began_unix_s, at_unix_s=at_unix_s)


def wait_until_gone(identities: Iterable[ProcessIdentity], *, limit_s: float) -> bool:
    """True when all are gone (or zombies, which hold nothing); False when the time is up."""
    deadline = time.monotonic() + limit_s
    left = list(identities)
    while left := [identity for identity in left if is_alive(identity)]:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True
