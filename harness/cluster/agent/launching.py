"""Start of servers, and waits for them with a deadline.

The error of a failed wait has the process's name and state, its last log lines, and a remedy."""

from __future__ import annotations

import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable

from harness.cluster.agent.place import LaunchedProcess, Launcher
from harness.errors import EnvironmentFailure
from harness.text import Notify, format_duration

_POLL_S = 0.02
_PORT_TAKEN = ("address already in use", "bindexception")
_DISK_FULL = ("no space left on device", "disk quota exceeded")
_FULL_BYTES = 16 << 20
_SEARCHED_LINES = 200
_SHOWN_LINES = 12


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

    @property
    def process(self) -> LaunchedProcess:
        """Its process, which `begin` has started."""
        assert self.child is not None, "begin() comes first"
        return self.child

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
        self.process.wait()
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
        if self.process.poll() is None and self.answers():
            return True
        if _mentions(_PORT_TAKEN, _last_lines(self.process)):  # it may take a minute to die
            self.try_other_ports()
        elif self.process.poll() is not None:
            raise failure(f"{self.title} did not start", self.process)
        self.check_deadline()
        return False

    def check_deadline(self) -> None:
        """Raise `EnvironmentFailure` when the start has taken too long."""
        if time.monotonic() - self._begun_s > self.limit_s:
            limit = format_duration(self.limit_s)
            raise failure(f"{self.title} did not answer within {limit}", self.process)

    def try_other_ports(self) -> None:
        """Start again. Raises `EnvironmentFailure` after `port_attempts` starts."""
        process = self.process
        process.end()
        process.wait()
        if self._attempts >= self.port_attempts:
            raise failure(f"{self.title} found its ports taken", process)
        process.log.rename(process.log.with_suffix(f".attempt{self._attempts}.log"))
        self._attempts += 1
        self._begun_s = time.monotonic()
        self.child = self.launch()

    def check(self) -> None:
        """Raise `EnvironmentFailure` if the process that should be running has ended."""
        if self.child is None:
            raise EnvironmentFailure(
                f"{self.title} was never started", remedy="start the cluster first"
            )
        if not self.down and self.child.poll() is not None:
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
    lines = _last_lines(child)
    last = [line for line in lines if not line.startswith("\tat ")][-_SHOWN_LINES:]
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


def _last_lines(child: LaunchedProcess) -> list[str]:
    lines = child.log_text().splitlines()
    return [line.rstrip() for line in lines if line.strip()][-_SEARCHED_LINES:]
