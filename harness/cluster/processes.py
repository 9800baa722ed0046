"""Processes by identity: their cluster, their worker, and signals that reach only them.

A pid alone identifies nothing: the kernel reuses it once its process is gone. Here a process is
(pid, start time in clock ticks since boot), which is unique until the next boot. Every process of
a cluster has the cluster's run in its environment, which all children inherit, also those that
moved to a session of their own or lost their parent.

``/proc`` is read directly rather than through psutil for two reasons: psutil's creation time is
wall-clock time and shifts when the clock is set, so it cannot be compared with one that an earlier
process wrote down; and one pass over all processes must be cheap, because it delays a kill. Linux
only, like the local backend."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

RUN_VARIABLE = "FAULTLINE_RUN"
"""In the environment of every process of a cluster: the run's identifier."""
WORKER_VARIABLE = "FAULTLINE_WORKER"
"""In the environment of a Spark worker and its descendants, too: the worker's name."""
PROGRAM_VARIABLE = "FAULTLINE_PROGRAM"
"""In the environment of a launched program and its descendants, too: the program's name."""

_PROC = Path("/proc")
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessIdentity:
    """One process, distinct from every later one with its pid."""

    pid: int
    started_ticks: int
    """Clock ticks between the boot of the machine and the start of the process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostProcess:
    """The process of a node, as that process sees itself.

    Its pid inside a container differs from the one outside, so it is valid only together with the
    worker; the start time shows that the pid has not been reused."""

    worker: str
    pid: int
    started_ticks: int

    @classmethod
    def here(cls) -> HostProcess:
        """Return the calling process, which must be a worker's (a Spark task's Python)."""
        own = identify(os.getpid())
        assert own is not None, "a process that runs this has a pid"
        return cls(
            worker=os.environ.get(WORKER_VARIABLE, ""), pid=own.pid, started_ticks=own.started_ticks
        )

    @property
    def identity(self) -> ProcessIdentity:
        """Its identity, which no later process with its pid has."""
        return ProcessIdentity(pid=self.pid, started_ticks=self.started_ticks)


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
        """Its number, which is reused once it is gone."""
        return self.identity.pid


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """The scope of a pid: one boot of one kernel, and one pid namespace in it."""

    hostname: str
    boot: str
    pid_namespace: str

    @classmethod
    def here(cls) -> Machine:
        """Return the machine of this process."""
        return cls(
            hostname=os.uname().nodename,
            boot=(_PROC / "sys/kernel/random/boot_id").read_text().strip(),
            pid_namespace=os.readlink(_PROC / "self/ns/pid"),
        )


def read_stat(pid: int) -> ProcessStat | None:
    """Return the state of the living process ``pid``; None if it is gone or a zombie."""
    stat = _read_stat(pid)
    return None if stat is None or stat.state in "ZX" else stat


def ended_cpu_s(pid: int) -> float | None:
    """Return the CPU time of an ended child that is not reaped yet; None for any other process."""
    stat = _read_stat(pid)
    return stat.cpu_s if stat is not None and stat.state == "Z" else None


def parse_stat(text: str) -> ProcessStat:
    """Parse a line of ``/proc/<pid>/stat``."""
    # The second field is the program's name in parentheses and may hold spaces and parentheses.
    fields = text[text.rindex(")") + 2 :].split()
    return ProcessStat(
        identity=ProcessIdentity(pid=int(text.split()[0]), started_ticks=int(fields[19])),
        parent=int(fields[1]),
        state=fields[0],
        cpu_s=sum(int(ticks) for ticks in fields[11:15]) / _TICKS_PER_S,
        resident_bytes=int(fields[21]) * _PAGE_BYTES,
    )


def _read_stat(pid: int) -> ProcessStat | None:
    try:
        return parse_stat((_PROC / str(pid) / "stat").read_text(errors="replace"))
    except (FileNotFoundError, ProcessLookupError):
        return None


def identify(pid: int) -> ProcessIdentity | None:
    """Return the identity of the living process ``pid``; None if it is gone or a zombie."""
    stat = read_stat(pid)
    return None if stat is None else stat.identity


def is_alive(identity: ProcessIdentity) -> bool:
    """Return True if that very process lives: its pid may have been reused."""
    return identify(identity.pid) == identity


def snapshot() -> dict[int, ProcessStat]:
    """Return every living process of the machine by pid."""
    found = (read_stat(int(name)) for name in os.listdir(_PROC) if name.isdecimal())
    return {stat.pid: stat for stat in found if stat is not None}


def members(run: str, by: str = WORKER_VARIABLE) -> dict[str, list[ProcessStat]]:
    """Return the living processes of ``run`` and all their descendants, by worker.

    ``by`` is the variable to group them by; those without it are under "". This process and its
    ancestors are left out, whatever their environment."""
    everyone = snapshot()
    spared = _with_ancestors(os.getpid(), everyone)
    roots: dict[str, list[int]] = {}
    for pid in everyone:
        environment = _environment(pid)
        if f"\0{RUN_VARIABLE}={run}\0".encode() in environment:
            roots.setdefault(_value_in(environment, by), []).append(pid)
    found: dict[str, list[ProcessStat]] = {}
    taken = set(spared)
    for name in sorted(roots, reverse=True):  # "" last: the rest
        group = [stat for stat in tree(roots[name], everyone) if stat.pid not in taken]
        taken.update(stat.pid for stat in group)
        found[name] = group
    return found


def belongs(identity: ProcessIdentity, run: str, worker: str) -> bool:
    """Return True if that very process lives and has the marks of a worker of a run.

    It costs the same however many processes there are."""
    environment = _environment(identity.pid)
    marks = {RUN_VARIABLE: run, WORKER_VARIABLE: worker}
    marked = all(_value_in(environment, name) == value for name, value in marks.items())
    return marked and is_alive(identity)


def marked(run: str) -> list[ProcessStat]:
    """Return all living processes of ``run``, found as `members` does."""
    return [stat for group in members(run).values() for stat in group]


def tree(
    roots: Iterable[int],
    everyone: Mapping[int, ProcessStat] | None = None,
    children: Mapping[int, Sequence[int]] | None = None,
) -> list[ProcessStat]:
    """Return the living processes among ``roots`` and all their descendants.

    ``children``: `children_of` everyone, for who wants many trees."""
    everyone = snapshot() if everyone is None else everyone
    children = children_of(everyone) if children is None else children
    found: dict[int, ProcessStat] = {}
    queue = [pid for pid in roots if pid in everyone]
    while queue:
        pid = queue.pop()
        if pid not in found:
            found[pid] = everyone[pid]
            queue.extend(children.get(pid, []))
    return list(found.values())


def children_of(everyone: Mapping[int, ProcessStat]) -> dict[int, list[int]]:
    """Return the children of each process that has any."""
    children: dict[int, list[int]] = {}
    for stat in everyone.values():
        children.setdefault(stat.parent, []).append(stat.pid)
    return children


def _environment(pid: int) -> bytes:
    try:
        return b"\0" + (_PROC / str(pid) / "environ").read_bytes()
    except OSError:  # gone, or another user's: not ours in either case
        return b""


def _value_in(environment: bytes, variable: str) -> str:
    prefix = f"{variable}=".encode()
    entries = (entry for entry in environment.split(b"\0") if entry.startswith(prefix))
    return next(entries, prefix).removeprefix(prefix).decode(errors="replace")


def _with_ancestors(pid: int, everyone: Mapping[int, ProcessStat]) -> set[int]:
    line = {pid}
    while pid in everyone and (pid := everyone[pid].parent) not in line:
        line.add(pid)
    return line


def open_handle(pid: int) -> int | None:
    """Return a pid file descriptor, which stays with its process when the pid is reused.

    None on kernels before 5.3, in sandboxes, and for Pythons that were built against older headers
    (some standalone builds). Raises `ProcessLookupError` when there is no such process."""
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        raise
    except (AttributeError, OSError):
        return None


class HeldProcess:
    """A process found ahead of a signal, which reaches it and no later process with its pid."""

    def __init__(self, stat: ProcessStat) -> None:
        """Raise `ProcessLookupError` if it is gone."""
        self.stat = stat
        self._handle = open_handle(stat.pid)
        if not is_alive(stat.identity):
            self.close()
            raise ProcessLookupError(stat.pid)

    def sample(self) -> bool:
        """Read its usage again; False if it is gone or a zombie, which takes signals, too."""
        newest = read_stat(self.stat.pid)
        if newest is None or newest.identity != self.stat.identity:
            return False
        self.stat = newest
        return True

    def signal(self, number: signal.Signals) -> bool:
        """Send a signal; False if the process is gone."""
        try:
            if self._handle is not None:
                signal.pidfd_send_signal(self._handle, number)
            elif is_alive(self.stat.identity):  # microseconds remain in which the pid can be reused
                os.kill(self.stat.pid, number)
            else:
                return False
        except ProcessLookupError:
            return False
        return True

    def close(self) -> None:
        """Give up its descriptor. May be called twice."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


def hold(stats: Iterable[ProcessStat]) -> list[HeldProcess]:
    """Return those processes that still live, held for a signal."""
    held = []
    for stat in stats:
        with suppress(ProcessLookupError):
            held.append(HeldProcess(stat))
    return held


def send_signal(identity: ProcessIdentity, number: signal.Signals) -> bool:
    """Signal exactly this process; False if it is gone."""
    stat = read_stat(identity.pid)
    held = hold([stat] if stat is not None and stat.identity == identity else [])
    try:
        return any(process.signal(number) for process in held)
    finally:
        for process in held:
            process.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Signalled:
    """The processes that a signal reached, and when."""

    processes: tuple[ProcessStat, ...]
    """Their states just before."""
    began_unix_s: float
    """Just before the first signal."""
    at_unix_s: float
    """Just after the last signal."""


def signal_held(held: Sequence[HeldProcess], number: signal.Signals) -> Signalled:
    """Signal processes that were found before; their usage is read first."""
    living = [process for process in held if process.sample()]
    began_unix_s = time.time()
    reached = tuple(process.stat for process in living if process.signal(number))
    return Signalled(processes=reached, began_unix_s=began_unix_s, at_unix_s=time.time())


def signal_all(
    find: Callable[[], Iterable[ProcessStat]],
    number: signal.Signals,
    *,
    done: Signalled | None = None,
) -> Signalled:
    """Signal all processes that ``find`` finds, again and again until it finds no new one.

    One pass is not enough: a process may fork between being found and being signalled. ``done``
    counts as the first pass."""
    seen = set() if done is None else {stat.identity for stat in done.processes}
    while fresh := [stat for stat in find() if stat.identity not in seen]:
        seen.update(stat.identity for stat in fresh)
        held = hold(fresh)
        more = signal_held(held, number)
        for process in held:
            process.close()
        if more.processes:
            if done is not None and done.processes:
                processes = done.processes + more.processes
                more = replace(more, processes=processes, began_unix_s=done.began_unix_s)
            done = more
    if done is None:
        now = time.time()
        return Signalled(processes=(), began_unix_s=now, at_unix_s=now)
    return done


def wait_until_gone(identities: Iterable[ProcessIdentity], *, limit_s: float) -> bool:
    """Wait; True when all are gone or zombies, which hold nothing; False when the time is up."""
    deadline = time.monotonic() + limit_s
    left = list(identities)
    while left := [identity for identity in left if is_alive(identity)]:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True
