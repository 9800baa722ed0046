"""A child process that exchanges JSON with the harness: one object a line, orders in, events out.

`Child` is the harness's side. `orders`, `speaker` and `end_with_parent` are the child's. Passwords
come as orders, so that they are neither on a command line nor in an environment; the end of the
child's standard input means that the harness has ended, for whatever reason."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, TextIO

import psutil

from harness.errors import EnvironmentFailure, UsageError

DIED = "died"
"""The last event of every child: its own report of an error, or the end of its output. With a
``remedy`` it is a `UsageError`."""
_ENDED = "its output ended"
_LOG_LINES = 15
MOST_WAITING = 200_000
"""Events that wait for a harness that does not read them; further ones are dropped."""

Event = Mapping[str, Any]
Emit = Callable[[Event], None]


class Child:
    """A process that runs a module of ours. `events` has its events in order, until `forget`."""

    def __init__(
        self,
        program: str | Path,
        *,
        name: str,
        log: Path,
        remedy: str,
        environment: Mapping[str, str] | None = None,
        python: Path | None = None,
    ) -> None:
        """Start a module by its name, or a file by its path, with ``python``, ours if None.

        ``name`` and ``remedy`` are for error messages, ``log`` gets its standard error, and
        ``environment`` is its whole environment, ours if None."""
        self.name, self.log = name, log
        self.events: list[Event] = []
        self._forgotten = 0
        self._remedy = remedy
        self._changed = threading.Condition()
        target = ["-P", str(program)] if isinstance(program, Path) else ["-m", program]
        with log.open("ab") as file:
            self._process = subprocess.Popen(
                [str(python or sys.executable), *target],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                text=True,
                env=None if environment is None else dict(environment),
                start_new_session=True,  # Ctrl-C is for the harness, which then ends this
            )
        self._reader = threading.Thread(target=self._read, name=f"read {name}", daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        """The pid of the started process."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """None while it lives."""
        return self._process.poll()

    def send(self, order: Mapping[str, Any]) -> None:
        """Send an order; `wait_for` finds its answer."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(order) + "\n")
            self._process.stdin.flush()
        except (BrokenPipeError, ValueError):  # ValueError: `hang_up` closed it
            raise self.failure(f"{self.name} is gone and takes no order") from None

    def mark(self) -> int:
        """Return the number of events so far, from which `wait_for` and `since` can begin."""
        with self._changed:
            return self._forgotten + len(self.events)

    def since(self, mark: int, kind: str | None = None) -> list[Event]:
        """Return the events from ``mark`` on, of one kind if one is given."""
        with self._changed:
            found = self.events[max(0, mark - self._forgotten) :]
        return found if kind is None else [event for event in found if event["event"] == kind]

    def forget(self, mark: int) -> None:
        """Drop the events before ``mark``, but not its end: a child of many runs has many."""
        with self._changed:
            count = min(len(self.events), max(0, mark - self._forgotten))
            ends = (n for n, event in enumerate(self.events[:count]) if event["event"] == DIED)
            count = next(ends, count)
            del self.events[:count]
            self._forgotten += count

    @property
    def error(self) -> str | None:
        """The error that the child has reported as its end; None if it was killed, or lives."""
        with self._changed:
            died = (event["error"] for event in self.events if event["event"] == DIED)
            return next((error for error in died if error != _ENDED), None)

    def newest(self, kind: str) -> Event | None:
        """Return the last event of one kind."""
        with self._changed:
            return next((e for e in reversed(self.events) if e["event"] == kind), None)

    def wait_for(
        self, what: str, found: Callable[[Event], bool], *, within_s: float, since: int = 0
    ) -> Event:
        """Return the first event from ``since`` on that ``found`` accepts; wait for it.

        Raises `EnvironmentFailure` with ``what`` when the deadline passes or the process dies."""
        return self._find(what, found, within_s=within_s, since=since)[1]

    def _find(
        self, what: str, found: Callable[[Event], bool], *, within_s: float, since: int
    ) -> tuple[int, Event]:
        """Return what `wait_for` does, with its number."""
        deadline = time.monotonic() + within_s
        with self._changed:
            checked = since
            while True:
                at = max(0, checked - self._forgotten)
                for number, event in enumerate(self.events[at:], self._forgotten + at):
                    if found(event):
                        return number, event
                    if event["event"] == DIED:
                        _blame(event)
                        raise self.failure(
                            f"{self.name}: waiting for {what}: it gave up: {event['error']}"
                        )
                checked = self._forgotten + len(self.events)
                left = deadline - time.monotonic()
                if left <= 0:
                    raise self.failure(
                        f"{self.name}: waiting for {what}: nothing came within {within_s:.0f} s"
                    )
                self._changed.wait(left)

    def blame_user(self) -> None:
        """Raise `UsageError` if the child ended because of what the user gave."""
        died = next((event for event in self.events if event["event"] == DIED), None)
        if died is not None:
            _blame(died)

    def each(self, what: str, kind: str, *, within_s: float) -> Iterator[Event]:
        """Yield the events of one kind from the first on, as they come, without an end.

        Raises as `wait_for` does, where ``within_s`` passes between two of them."""
        mark = 0
        while True:
            number, event = self._find(
                what, lambda event: event["event"] == kind, within_s=within_s, since=mark
            )
            mark = number + 1
            yield event

    def wait(self, timeout_s: float) -> bool:
        """Wait until the process has ended and its output was read; False after the timeout."""
        try:
            self._process.wait(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            return False
        self._reader.join(timeout=5)
        return True

    def used(self) -> tuple[float, int] | None:
        """Return CPU seconds and resident bytes of the process and its descendants.

        None once it is gone, and when one of them ended during the count."""
        try:
            root = psutil.Process(self.pid)
            processes = [root, *root.children(recursive=True)]
            times = [process.cpu_times() for process in processes]
            resident = sum(process.memory_info().rss for process in processes)
        except psutil.NoSuchProcess:
            return None
        return sum(t.user + t.system for t in times), resident

    def hang_up(self) -> None:
        """End its standard input, so that it ends by itself."""
        if self._process.stdin is not None and not self._process.stdin.closed:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()

    def stop(self, *, within_s: float) -> None:
        """Let it end by itself, then kill it with its descendants. May be called twice."""
        self.hang_up()
        if not self.wait(within_s):
            self._kill()
        self._reader.join(timeout=5)
        if self._process.stdout is not None:
            self._process.stdout.close()

    def failure(self, what: str) -> EnvironmentFailure:
        """Return an error: ``what`` happened, the process's state, its last log lines."""
        code = self.exit_code
        alive = "its process lives" if code is None else f"its process ended with exit code {code}"
        lines = self.log.read_text(errors="replace").splitlines()[-_LOG_LINES:]
        shown = "\n    ".join(["", *lines]) if lines else " (it is empty)"
        return EnvironmentFailure(
            f"{what}; {alive}. Last lines of {self.log}:{shown}", remedy=self._remedy
        )

    def _kill(self) -> None:
        try:
            children = psutil.Process(self.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            children = []
        self._process.kill()
        for child in children:
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()
        self._process.wait()

    def _read(self) -> None:
        assert self._process.stdout is not None
        error = _ENDED
        try:
            for event in _documents(self._process.stdout):
                self._keep(event)
        except ValueError as bad:
            error = f"a line of its output is no event: {bad}"
        self._keep({"event": DIED, "error": error})

    def _keep(self, event: Event) -> None:
        with self._changed:
            self.events.append(event)
            self._changed.notify_all()


def _blame(died: Event) -> None:
    if "remedy" in died:
        raise UsageError(died["error"], remedy=died["remedy"])


def _documents(stream: IO[str]) -> Iterator[dict[str, Any]]:
    """Yield what each line of a stream holds; one that was killed as it wrote leaves half a line.

    Raises `ValueError` for any other line that is no JSON."""
    for line in iter(stream.readline, ""):
        if line.endswith("\n"):
            yield json.loads(line)


def orders() -> Iterator[dict[str, Any]]:
    """Yield a child's orders, until the harness closes its standard input."""
    return _documents(sys.stdin)


def speaker() -> Emit:
    """Return the function with which a child sends events, from any thread. Call it once, first.

    Afterwards only events go to the harness, and all other output goes to the log."""
    stream = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return emit_to(stream)


def emit_to(stream: TextIO) -> Emit:
    """Return a function that writes events as lines of a stream.

    A closed stream is not an error: the end of the standard input ends the child."""
    lock = threading.Lock()

    def emit(event: Event) -> None:
        with lock, contextlib.suppress(BrokenPipeError):
            stream.write(json.dumps(event) + "\n")
            stream.flush()

    return emit


def aside(emit: Emit, most: int = MOST_WAITING) -> Emit:
    """Return a function that sends events in a thread, so that its caller never waits.

    A harness that does not read (it is stopped, or its machine swaps) fills the pipe. Beyond
    ``most`` waiting events further ones are dropped, and their number is sent as an event."""
    waiting: queue.Queue[Event] = queue.Queue(most)
    dropped = reported = 0

    def send() -> None:
        nonlocal reported
        while True:
            emit(waiting.get())
            if (lost := dropped) > reported:
                emit({"event": "dropped", "count": lost - reported})
                reported = lost

    def put(event: Event) -> None:
        nonlocal dropped
        try:
            waiting.put_nowait(event)
        except queue.Full:
            dropped += 1

    threading.Thread(target=send, name="tell the harness", daemon=True).start()
    return put


def end_with_parent() -> None:
    """End a child that takes no more orders with exit code 1 when the harness is gone."""

    def watch() -> None:
        sys.stdin.read()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
