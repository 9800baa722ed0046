"""A machine in the hands of an agent, as the harness sees it: its clock, its processes, its files.

The agent is in this process or behind a wire. Then its clock differs, and what people and engines
read of it (logs, files of programs) is copied to the harness's run directory when it is read."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from harness.cluster.agent.agent import Agent, Ended, Started
from harness.cluster.agent.wire import Caller, FarAgent
from harness.cluster.clocks import Clock
from harness.cluster.run_directory import PYTHON
from harness.cluster.spark import spark_environment
from harness.errors import EnvironmentFailure

_COMPARE_S = 2.0
"""Interval of comparisons of clocks, which also tell the agent that the harness lives."""
_END_LIMIT_S = 30.0


class Place:
    """One machine of a cluster, or this one."""

    def __init__(
        self, name: str, agent: Agent, directory: Path, *, mirror: Path | None = None
    ) -> None:
        """``directory``: the run's on that machine. ``mirror``: the harness's own, if another."""
        self.name, self.agent, self.directory = name, agent, directory
        self.mirror = mirror
        self.clock = Clock()
        self._lock = threading.Lock()

    @classmethod
    def here(cls, run: str, directory: Path, environment: Mapping[str, str]) -> Place:
        """Return this machine, with an agent in this process."""
        return cls("this machine", Agent(run, directory, environment), directory)

    def launcher(self, environment: Mapping[str, str], host: str = "127.0.0.1") -> Launcher:
        """Return what starts processes of the run on this machine."""
        return Launcher(place=self, directory=self.directory, environment=environment, host=host)

    @property
    def lost(self) -> str | None:
        """Why the agent cannot be reached any more; None while it can."""
        return None

    def here_unix_s(self, there: float) -> float:
        """Return an instant of the machine's clock by the harness's."""
        return there - self.clock.best().offset_s

    def there_unix_s(self, here: float) -> float:
        """Return an instant of the harness's clock by the machine's."""
        return here + self.clock.best().offset_s

    def log(self, name: str) -> Path:
        """Return the harness's copy of a process's log, as long as it is now."""
        return self.copied(f"logs/{name}.log")

    def copied(self, path: str) -> Path:
        """Return the harness's copy of a file that only grows; the file itself on this machine."""
        if self.mirror is None:
            return self.directory / path
        copy = self.mirror / path
        with self._lock:
            copy.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            copy.touch()
            try:
                while data := self.agent.read(path, copy.stat().st_size):
                    with copy.open("ab") as file:
                        file.write(data)
            except EnvironmentFailure:  # a machine that is lost: what came before is there
                if self.lost is None:
                    raise
        return copy

    def copied_directory(self, path: str) -> Path:
        """Return the harness's copy of a directory, its files renewed where their size differs."""
        if self.mirror is None:
            return self.directory / path
        copy = self.mirror / path
        try:
            sizes = self.agent.files(path)
        except EnvironmentFailure:
            if self.lost is None:
                raise
            return copy
        for name, size in sizes.items():
            known = copy / name
            if known.exists() and known.stat().st_size > size:
                known.unlink()
            self.copied(f"{path}/{name}")
        return copy


class Stream(Protocol):
    """The input of an agent that is a program elsewhere."""

    def write(self, data: bytes) -> None:
        """Send bytes. Raises `OSError` after the end."""

    def finish(self, within_s: float) -> bool:
        """End the input and wait for the agent's end; return False if it does not come."""


class FarPlace(Place):
    """A place whose agent is a program behind a stream, from `connect` to `close`."""

    java_home: Path
    spark_home: Path
    python_path: str
    """PYTHONPATH of what is started there."""

    def __init__(self, name: str, directory: Path) -> None:
        self._caller = Caller(name, self._write)
        self._stream: Stream | None = None
        self._closed = threading.Event()
        super().__init__(name, FarAgent(self._caller), directory)

    @property
    def lost(self) -> str | None:
        return self._caller.lost

    def environment(self) -> dict[str, str]:
        """Return the variables of everything that is started there."""
        return {
            **spark_environment(self.java_home, self.spark_home, self.python_path),
            "PYTHONNOUSERSITE": "1",
            "PYSPARK_PYTHON": PYTHON,
        }

    def connect(
        self,
        mirror: Path,
        talk: Callable[[Callable[[bytes], None], Callable[[bytes], None]], Stream],
        remedy: str,
    ) -> None:
        """Start the agent. ``talk`` starts its stream: output and errors go to the two functions.

        Raises `EnvironmentFailure` with its last words and ``remedy`` when it does not answer."""
        self.mirror = mirror
        log = mirror / "logs" / f"agent-{self.name.replace('/', '_')}.log"
        log.touch()

        def note(data: bytes) -> None:
            # A cluster that has ended removes the log, and then the agents.
            with suppress(FileNotFoundError), log.open("ab") as file:
                file.write(data)

        self._stream = talk(self._caller.feed, note)
        try:
            self.clock.compare(self.agent.clock_unix_s)
        except EnvironmentFailure as error:
            last = log.read_text(errors="replace").strip().splitlines()[-8:]
            raise EnvironmentFailure(
                f"{self.name}: the agent did not start; its last words:\n"
                + "\n".join(f"    {line}" for line in last),
                remedy=remedy,
            ) from error
        threading.Thread(target=self._compare, name=f"clock-{self.name}", daemon=True).start()

    def close(self) -> None:
        """End everything on it. May be called twice."""
        self._closed.set()
        if self._stream is not None and self.lost is None:
            self._stream.finish(_END_LIMIT_S)
        self._caller.lose("the cluster has ended")

    def _compare(self) -> None:
        while not self._closed.wait(_COMPARE_S) and self.lost is None:
            try:
                self.clock.compare(self.agent.clock_unix_s, rounds=2)
            except EnvironmentFailure:  # lost, which others see, or busy
                continue

    def _write(self, data: bytes) -> None:
        if self._stream is None:
            raise BrokenPipeError("it was not started")
        self._stream.write(data)


class LaunchedProcess:
    """One process that was started through an agent."""

    def __init__(self, place: Place, started: Started, log_name: str) -> None:
        self.pid, self.identity = started.pid, started.identity
        self.ended: Ended | None = None
        self._place, self._number, self._log_name = place, started.number, log_name

    def poll(self) -> int | None:
        """Return the exit code; None while it lives."""
        if self.ended is None:
            try:
                self.ended = self._place.agent.ended(self._number)
            except EnvironmentFailure:
                if self._place.lost is None:
                    raise
                self.ended = Ended(exit_code=-9)  # it ends with its agent's connection
        return None if self.ended is None else self.ended.exit_code

    def wait(self) -> int:
        """Wait for its end."""
        while (code := self.poll()) is None:
            time.sleep(0.02)
        return code

    def end(self, within_s: float = 0.0) -> Ended:
        """See `Agent.end`; by default it is killed at once."""
        self.ended = self._place.agent.end(self._number, within_s)
        return self.ended

    @property
    def log(self) -> Path:
        """The harness's copy of its log, as long as it is now."""
        return self._place.log(self._log_name)

    def log_text(self) -> str:
        """Return all of its output."""
        return self.log.read_text(errors="replace")

    def state(self) -> str:
        """Return a text: ``is running as process 12``, ``exited with code 1``, ..."""
        code = self.poll()
        if code is None:
            return f"is running as process {self.pid}"
        if code < 0:
            return f"was killed by {signal.Signals(-code).name}"
        return f"exited with code {code}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Launcher:
    """Starts the processes of a cluster through an agent."""

    place: Place
    directory: Path
    """The run's there, or one below it."""
    environment: Mapping[str, str]
    host: str = "127.0.0.1"
    """The address that servers listen on."""

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

        It works in ``directory``, by default the run's."""
        title = log_name or name
        started = self.place.agent.start(
            name,
            command,
            environment={**self.environment, **(environment or {})},
            log_name=title,
            directory=None if directory is None else str(directory),
        )
        return LaunchedProcess(self.place, started, title)

    def free_port(self) -> int:
        """Return a TCP port of `host` on which nothing listens now."""
        return self.place.agent.free_port(self.host)

    def make(self, directory: Path) -> None:
        """Make a directory below the run's, for its owner only."""
        self.place.agent.make(str(directory))

    def write(self, path: Path, text: str) -> Path:
        """Write a file that only its owner can read."""
        self.place.agent.write(str(path), text)
        return path
