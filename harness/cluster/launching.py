"""Start of servers as child processes, and waits for them with a deadline.

Every server is in a session of its own (Ctrl-C in the terminal reaches the harness, which then
stops the servers in order), has the run in its environment, writes into one log file, and is in
the journal before anything relies on it. The error of a failed wait has the process's name and
state, its last log lines, and a remedy."""

from __future__ import annotations

import random
import shutil
import signal
import socket
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from harness.cluster.processes import RUN_VARIABLE, ProcessIdentity, identify, is_alive
from harness.cluster.run_directory import write_journal, write_private
from harness.errors import EnvironmentFailure
from harness.text import Notify, format_duration

_POLL_S = 0.02
_PORT_TAKEN = ("address already in use", "bindexception")
_DISK_FULL = ("no space left on device", "disk quota exceeded")
_FULL_BYTES = 16 << 20
_LAST_LINES = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Launcher:
    """The common part of all processes of one cluster."""

    run: str
    directory: Path
    environment: Mapping[str, str]
    """The whole environment of a server; nothing else is inherited."""
    host: str = "127.0.0.1"
    """The address that Kafka, Redis, the Spark master and drivers listen on."""

    def spawn(
        self,
        name: str,
        command: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        log_name: str | None = None,
        directory: Path | None = None,
    ) -> LaunchedProcess:
        """Start ``command``, which must hold no secret, as the process called ``name``.

        It works in ``directory``, by default the run directory."""
        log = self.directory / "logs" / f"{log_name or name}.log"
        write_journal(self.directory, name, None)
        with log.open("ab") as output:
            try:
                process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env={**self.environment, **(environment or {}), RUN_VARIABLE: self.run},
                    cwd=directory or self.directory,
                    start_new_session=True,
                    umask=0o077,
                )
            except OSError as error:
                raise EnvironmentFailure(
                    f"{command[0]} cannot be started: {error.strerror}",
                    remedy="run `faultline doctor`: it says which program is missing or broken",
                ) from error
        identity = identify(process.pid)
        if identity is not None:
            write_journal(self.directory, name, identity)
        return LaunchedProcess(name=name, process=process, identity=identity, log=log)

    def free_port(self) -> int:
        """Return a TCP port of `host` on which nothing listens now."""
        return free_port(self.host)

    def make(self, directory: Path) -> None:
        """Make a directory below the run directory, for its owner only."""
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)

    def write(self, path: Path, text: str) -> Path:
        """Write a file that only its owner can read."""
        return write_private(path, text)


class Child(Protocol):
    """The part of `subprocess.Popen` that servers need."""

    pid: int

    @property
    def returncode(self) -> Any:
        """Its exit code; None until `poll` or `wait` has seen its end."""

    def poll(self) -> int | None:
        """Return its exit code; None while it lives."""

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end."""

    def kill(self) -> None:
        """SIGKILL it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchedProcess:
    """One process that was started here."""

    name: str
    process: Child
    identity: ProcessIdentity | None
    """None when it ended before it could be looked at."""
    log: Path

    def renewed_log(self) -> Path:
        """Return its log, as long as it is now."""
        return self.log

    def running(self) -> bool:
        """Return True if it lives; a killed JVM that is not reaped yet does not."""
        if self.process.poll() is not None:
            return False
        if self.identity is not None and not is_alive(self.identity):
            # A killed JVM is a zombie at once, but can be reaped only when its last thread is
            # gone, some milliseconds later.
            self.process.wait()
            return False
        return True

    def state(self) -> str:
        """Return a text: ``is running as process 12``, ``exited with code 1``, ..."""
        code = self.process.poll()
        if code is None:
            return f"is running as process {self.process.pid}"
        if code < 0:
            return f"was killed by {signal.Signals(-code).name}"
        return f"exited with code {code}"

    def log_text(self) -> str:
        """Return all of its output."""
        return self.renewed_log().read_text(errors="replace")


class Server(ABC):
    """One server of the cluster, from its start until it answers."""

    title: str
    """Its name in messages: "the Kafka broker"."""
    limit_s: float = 180.0
    """Limit of a start: it takes 2 to 6 s on two idle cores, and took a minute on two cores with
    fifteen other busy processes."""

    port_attempts: int = 5
    """Most starts while its ports are taken."""
    down: bool = False
    """True while a failure that was planned keeps it dead: that is no error."""

    def __init__(self, launcher: Launcher) -> None:
        self.launcher = launcher
        self.child: LaunchedProcess | None = None
        self.lives = 1
        self._begun_s = 0.0
        self._attempts = 0

    def begin(self) -> None:
        """Start the process; `ready` becomes True when it answers."""
        self._begun_s = time.monotonic()
        self._attempts = 1
        self.child = self.launch()

    @abstractmethod
    def launch(self) -> LaunchedProcess:
        """Start the process on freshly chosen ports."""

    def begin_again(self) -> None:
        """Start a killed server again, at its addresses and with what it had stored."""
        assert self.child is not None, "it was started"
        self.child.process.wait()
        self._begun_s, self.down = time.monotonic(), False
        self.lives += 1
        self.child = self.launch_again()

    def launch_again(self) -> LaunchedProcess:
        """Start the process on the ports that it had."""
        raise NotImplementedError(f"{self.title} cannot be started again")

    @abstractmethod
    def answers(self) -> bool:
        """Return True if it serves a client with credentials."""

    def ready(self) -> bool:
        """Return True if it answers; start it again on other ports if one was taken meanwhile.

        Raises `EnvironmentFailure` when the process has ended or the time is up."""
        assert self.child is not None, "begin() comes first"
        if self.child.running() and self.answers():
            return True
        if self.lost_a_port():
            self.try_other_ports()
        elif not self.child.running():
            raise failure(f"{self.title} did not start", self.child)
        self.check_deadline()
        return False

    def check_deadline(self) -> None:
        """Raise `EnvironmentFailure` when the start has taken too long."""
        if time.monotonic() - self._begun_s > self.limit_s:
            assert self.child is not None
            limit = format_duration(self.limit_s)
            raise failure(f"{self.title} did not answer within {limit}", self.child)

    def lost_a_port(self) -> bool:
        """Return True if another process bound a port first.

        Such a server may take a minute to die."""
        assert self.child is not None
        return _mentions(_PORT_TAKEN, _last_lines(self.child.log_text(), 200))

    def try_other_ports(self) -> None:
        """Start again. Raises `EnvironmentFailure` after `port_attempts` starts."""
        assert self.child is not None
        self.child.process.kill()
        self.child.process.wait()
        if self._attempts >= self.port_attempts:
            raise failure(f"{self.title} found its ports taken", self.child)
        self.child.log.rename(self.child.log.with_suffix(f".attempt{self._attempts}.log"))
        self._attempts += 1
        self._begun_s = time.monotonic()
        self.child = self.launch()

    def check(self) -> None:
        """Raise `EnvironmentFailure` if the process that should be running has ended."""
        if self.child is None:
            raise EnvironmentFailure(
                f"{self.title} was never started", remedy="start the cluster first"
            )
        if not self.down and not self.child.running():
            raise failure(f"{self.title} is dead", self.child)


def wait_for(
    servers: Iterable[Server],
    report: Notify,
    *,
    then: Callable[[Server], Iterable[Server]] = lambda server: (),
) -> None:
    """Wait until all of ``servers`` answer, and those that ``then`` starts after each of them.

    One thread and no fixed order. Raises `EnvironmentFailure` for the first server that does not
    come up, or that dies while others are still starting."""
    pending = list(servers)
    answering: list[Server] = []
    while pending:
        for server in answering:
            server.check()
        for server in list(pending):
            if server.ready():
                pending.remove(server)
                answering.append(server)
                report(f"{server.title} answers")
                pending.extend(then(server))
        if pending:
            time.sleep(_POLL_S)


def failure(what: str, child: LaunchedProcess) -> EnvironmentFailure:
    """Return an error with the process's state, its last log lines and a remedy."""
    lines = _last_lines(child.log_text(), 200)
    last = [line for line in lines if not line.startswith("\tat ")][-_LAST_LINES:]
    shown = "\n".join(f"    {line}" for line in last) or "    (it wrote nothing)"
    return EnvironmentFailure(
        f"{what}; it {child.state()}. The last lines of {child.log}:\n{shown}",
        remedy=_remedy(lines, shutil.disk_usage(child.log.parent).free),
    )


def _remedy(lines: list[str], free_bytes: int) -> str:
    # On a full disk the log may have no room for the reason either.
    if _mentions(_DISK_FULL, lines) or free_bytes < _FULL_BYTES:
        return "free some disk space, or set XDG_STATE_HOME to a directory on a larger disk"
    if _mentions(_PORT_TAKEN, lines):
        return "other programs keep taking the ports that were free a moment ago: try again"
    if _mentions(("outofmemoryerror", "insufficient memory", "cannot allocate memory"), lines):
        return "the machine is short of memory: close other programs or use fewer workers"
    if _mentions(("unsupportedclassversionerror", "unrecognized vm option"), lines):
        return "this Java is too old or of another kind: run `faultline doctor`"
    return "read the whole log; if nothing explains it, run `faultline doctor` and try again"


def _mentions(needles: Iterable[str], lines: list[str]) -> bool:
    text = "\n".join(lines).lower()
    return any(needle in text for needle in needles)


def _last_lines(text: str, count: int) -> list[str]:
    return [line.rstrip() for line in text.splitlines() if line.strip()][-count:]


def free_port(host: str = "127.0.0.1") -> int:
    """Return a TCP port of a local address on which nothing listens now.

    It is below the kernel's range for outgoing connections, where a port can be lost to any client
    at any moment. Another process may still bind it first: `Server.ready` then tries another one.
    """
    low = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    choice = random.SystemRandom()
    span = (10_000, low - 1) if low > 12_000 else (1_024, 65_535)
    for _ in range(200):
        port = choice.randint(*span)
        with socket.socket() as probe:
            try:
                probe.bind((host, port))
            except OSError:
                continue
            return port
    raise EnvironmentFailure(
        f"no free TCP port between {span[0]} and {span[1]} in 200 attempts",
        remedy="`ss -ltn` shows who listens; end what you do not need",
    )
