"""The processes of one machine and one run: started, watched, signalled on time, counted, ended.

Every method takes and returns plain values, so that the same call works here and over a wire
(`harness.cluster.agent.wire`). Times are this machine's clock."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.cluster.agent.files import Files
from harness.cluster.agent.finding import Finder, Part, Processes
from harness.cluster.agent.instants import ahead_of_others, wait_until
from harness.cluster.agent.network import DataNetwork
from harness.cluster.agent.ports import free_port
from harness.cluster.processes import (
    PROGRAM_VARIABLE,
    RUN_VARIABLE,
    HeldProcess,
    HostProcess,
    ProcessIdentity,
    ProcessStat,
    belongs,
    ended_cpu_s,
    hold,
    identify,
    is_alive,
    marked,
    members,
    read_stat,
    send_signal,
    signal_all,
    signal_held,
    wait_until_gone,
)
from harness.cluster.run_directory import end_processes, remove_run_directory, write_journal
from harness.errors import EnvironmentFailure, UsageError

KILLED_LIMIT_S = 10.0
"""Longest wait for the end of killed processes."""
_POLL_S = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Struck:
    """The processes that a signal reached, by node, and when."""

    groups: Mapping[str, Processes]
    began_unix_s: float
    """Just before the first signal."""
    at_unix_s: float
    """Just after the last signal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """A process that was started."""

    number: int
    """Its number among all that this agent has started; a pid may be reused."""
    pid: int
    identity: ProcessIdentity | None
    """None when it ended before it could be looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """The end of a started process."""

    exit_code: int
    cpu_s: float = 0.0
    """What it has used and no `Struck` holds."""
    left_behind: int = 0
    """Processes that lived on when its own one had ended by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """A machine as it is."""

    memory_bytes: int
    free_disk_bytes: int
    """Where the run's directory is."""


@dataclass(slots=True)
class _Child:
    name: str
    process: subprocess.Popen[bytes]
    identity: ProcessIdentity | None
    is_program: bool
    ended: Ended | None = None
    counted: bool = False
    """True if its usage was read by a signal that reached it."""
    lock: threading.Lock = field(default_factory=threading.Lock)


@dataclass(slots=True)
class _Armed:
    held: list[HeldProcess]
    groups: Finder
    dropped: threading.Event = field(default_factory=threading.Event)


class Agent(Files, DataNetwork):
    """The processes of one run on this machine.

    Each is in a session of its own (Ctrl-C in the terminal reaches the harness, which then stops
    them in order), has the run in its environment, writes into one log file, and is in the journal
    before anything relies on it."""

    def __init__(self, run: str, directory: Path, environment: Mapping[str, str]) -> None:
        """``environment``: of everything that is started; nothing else is inherited."""
        Files.__init__(self, directory)
        DataNetwork.__init__(self, run)
        self._run, self._environment = run, environment
        self._children: dict[int, _Child] = {}
        self._armed: dict[int, _Armed] = {}
        self._numbers = itertools.count(1)

    def facts(self) -> Facts:
        """Return what the machine has."""
        return Facts(
            memory_bytes=os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
            free_disk_bytes=shutil.disk_usage(self._directory).free,
        )

    def clock_unix_s(self) -> float:
        """Return this machine's wall clock."""
        return time.time()

    def start(
        self,
        name: str,
        argv: Sequence[str],
        *,
        environment: Mapping[str, str],
        log_name: str,
        directory: str | None = None,
    ) -> Started:
        """Start a process, which must have no secret on its command line.

        It works in ``directory``, by default the run's."""
        write_journal(self._directory, name, None)
        with (self._directory / "logs" / f"{log_name}.log").open("ab") as output:
            try:
                process = subprocess.Popen(
                    argv,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env={**self._environment, **environment, RUN_VARIABLE: self._run},
                    cwd=directory or self._directory,
                    start_new_session=True,
                    umask=0o077,
                )
            except OSError as error:
                raise EnvironmentFailure(
                    f"{argv[0]} cannot be started: {error.strerror}",
                    remedy="run `faultline doctor`: it says which program is missing or broken",
                ) from error
        identity = identify(process.pid)
        if identity is not None:
            write_journal(self._directory, name, identity)
        number = next(self._numbers)
        self._children[number] = _Child(name, process, identity, PROGRAM_VARIABLE in environment)
        return Started(number=number, pid=process.pid, identity=identity)

    def ended(self, number: int) -> Ended | None:
        """Return the end of a started process; None while it lives, frozen or not."""
        child = self._children[number]
        process = child.process
        with child.lock:
            if child.ended is None:
                # The kernel forgets the time of an ended child with `poll`, so it is read before.
                cpu_s = ended_cpu_s(process.pid) or 0.0
                identity = child.identity
                if cpu_s or (identity is not None and not is_alive(identity)):
                    process.wait()  # a killed JVM can be reaped only when its last thread is gone
                if (code := process.poll()) is not None:
                    child.ended = Ended(exit_code=code, cpu_s=0.0 if child.counted else cpu_s)
            return child.ended

    def end(self, number: int, within_s: float) -> Ended:
        """Send SIGTERM, and after ``within_s`` SIGKILL to a process, and to all of a program's."""
        child = self._children[number]
        identity, name = child.identity, child.name

        def family() -> Sequence[ProcessStat]:
            return members(self._run, PROGRAM_VARIABLE).get(name, ()) if child.is_program else ()

        def everyone() -> Sequence[ProcessStat]:
            own = read_stat(identity.pid) if identity is not None else None
            alone = [own] if own is not None and own.identity == identity else []
            return [*alone, *(stat for stat in family() if stat.identity != identity)]

        if self.ended(number) is None and identity is not None:
            send_signal(identity, signal.SIGTERM)
            deadline = time.monotonic() + within_s
            while self.ended(number) is None and time.monotonic() < deadline:
                time.sleep(_POLL_S)
            while family() and time.monotonic() < deadline:  # they may need a moment to notice
                time.sleep(_POLL_S)
        done = signal_all(everyone, signal.SIGKILL)
        killed = [stat.identity for stat in done.processes]
        wait_until_gone(killed, limit_s=KILLED_LIMIT_S)
        child.counted = child.counted or identity in killed
        ended = self._reaped(number)
        return Ended(
            exit_code=ended.exit_code,
            cpu_s=ended.cpu_s + sum(stat.cpu_s for stat in done.processes),
            left_behind=0 if identity in killed else len(killed),
        )

    def _reaped(self, number: int) -> Ended:
        while (ended := self.ended(number)) is None:
            time.sleep(_POLL_S)
        return ended

    def hosts(self, worker: str, host: HostProcess) -> bool:
        """Return True if ``host`` is a living process of a worker."""
        if belongs(host.identity, self._run, worker):
            return True
        return host.identity in {stat.identity for stat in members(self._run).get(worker, ())}

    def lives(self, identity: ProcessIdentity) -> bool:
        """Return True if that very process lives."""
        return is_alive(identity)

    def look(self, parts: Sequence[Part], *, whole: bool = False) -> dict[str, Processes]:
        """Return the living processes of nodes; with ``whole``, of all that is on their workers."""
        groups = Finder(self._run, parts, self._programs, whole=whole)
        groups.find()
        return groups.made(None)

    def arm(self, parts: Sequence[Part], *, whole: bool) -> int:
        """Find the processes of nodes and hold them for a signal; return a number for `strike`."""
        groups = Finder(self._run, parts, self._programs, whole=whole)
        number = next(self._numbers)
        self._armed[number] = _Armed(hold(groups.find()), groups)
        return number

    def strike(self, number: int, signal_number: int, due_unix_s: float | None = None) -> Struck:
        """Signal armed processes at ``due_unix_s``, and those that have come since, at once after.

        After SIGKILL it returns once they are gone. May be called once."""
        armed = self._armed.get(number)
        if armed is None:
            raise UsageError(f"action {number} was dropped or done", remedy="arm it again")
        wanted = signal.Signals(signal_number)
        try:
            with ahead_of_others():
                if due_unix_s is not None:
                    wait_until(due_unix_s, armed.dropped.wait)
                if self._armed.pop(number, None) is None:
                    raise UsageError(f"action {number} was dropped", remedy="arm it again")
                done = signal_held(armed.held, wanted)
        finally:
            for process in armed.held:
                process.close()
        done = signal_all(armed.groups.find, wanted, done=done)
        if wanted is signal.SIGKILL:
            self._bury({stat.identity for stat in done.processes})
        return Struck(
            groups=armed.groups.made({stat.identity: stat for stat in done.processes}),
            began_unix_s=done.began_unix_s,
            at_unix_s=done.at_unix_s,
        )

    def drop(self, number: int) -> None:
        """Give up an armed action. May be called twice, and after `strike`."""
        armed = self._armed.pop(number, None)
        if armed is not None:
            armed.dropped.set()
            for process in armed.held:
                process.close()

    def end_all(self) -> None:
        """SIGKILL everything that was started, with all that it started."""
        end_processes(self._run, self._directory)
        for number in list(self._children):
            self._reaped(number)

    def _bury(self, killed: set[ProcessIdentity]) -> None:
        wait_until_gone(killed, limit_s=KILLED_LIMIT_S)
        for number, child in list(self._children.items()):
            if child.identity in killed:
                child.counted = True
                self._reaped(number)

    def _programs(self) -> set[ProcessIdentity]:
        children = list(self._children.values())
        return {one.identity for one in children if one.is_program and one.identity is not None}

    def free_port(self, host: str) -> int:
        """Return a TCP port of an address of this machine on which nothing listens now."""
        return free_port(host)

    def address_towards(self, host: str) -> str:
        """Return this machine's own address on the way to another one."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((host, 9))  # sends nothing
            return str(probe.getsockname()[0])

    def tidy(self) -> None:
        """Remove the work and spill directories of executors of which no process lives.

        A living worker does this itself when an application ends; a killed one, or one whose
        executors were killed, leaves them."""
        used: set[str] = set()
        for stat in marked(self._run):
            used |= _directories_of(stat.pid)
        root = self._directory
        for place in (
            *(root / "work").glob("*/app-*/*"),
            *(root / "spark-local").glob("spark-*/executor-*"),
        ):
            if str(place) not in used:
                shutil.rmtree(place, ignore_errors=True)


def _directories_of(pid: int) -> set[str]:
    """Return an executor's working directory and its directories for spilled data."""
    proc = Path("/proc") / str(pid)
    try:
        environment = (proc / "environ").read_bytes().split(b"\0")
        given = [v for v in environment if v.startswith(b"SPARK_EXECUTOR_DIRS=")]
        spill = given[0].split(b"=", 1)[1].decode(errors="replace").split(":") if given else []
        return {str((proc / "cwd").readlink()), *spill}
    except OSError:  # it ended meanwhile
        return set()


def end_run(run: str, directory: Path) -> None:
    """End every process of a run on this machine and remove its directory."""
    end_processes(run, directory)
    remove_run_directory(directory)
