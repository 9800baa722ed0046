"""The harness's side of one application: its process, its orders, and what it reports."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from harness.errors import EnvironmentFailure

_LOG_LINES = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationSpec:
    """One application before it is started."""

    name: str
    conf: Mapping[str, str]
    """Spark's configuration, without the secret."""
    environment: Mapping[str, str]
    """What its driver needs on top of this process's environment; leads to the secret."""
    kafka: Mapping[str, str]
    """Options of the source and the sink. Holds a password."""
    executors: int
    """How many it waits for before it counts as ready."""
    log: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverUsage:
    """What the driver's processes (Python and JVM) have used so far."""

    cpu_s: float
    resident_bytes: int


class Application:
    """A driver process. Everything it says is kept in `events`, in order."""

    def __init__(self, spec: ApplicationSpec) -> None:
        self.spec = spec
        self.events: list[dict[str, Any]] = []
        self._changed = threading.Condition()
        with spec.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "harness.engines.structured.driver"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**os.environ, **spec.environment},
                start_new_session=True,  # Ctrl-C is for the harness, which then ends this
            )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._send(
            {
                "conf": dict(spec.conf),
                "kafka": dict(spec.kafka),
            }
        )

    def order(self, command: str, **parameters: Any) -> None:
        """Send a command; `wait_for` tells when it is done."""
        self._send({"command": command, **parameters})

    def mark(self) -> int:
        """The number of events so far: where `wait_for` and `since` may begin."""
        with self._changed:
            return len(self.events)

    def since(self, mark: int, kind: str) -> list[dict[str, Any]]:
        """The events of one kind from ``mark`` on."""
        with self._changed:
            return [event for event in self.events[mark:] if event["event"] == kind]

    def wait_for(
        self,
        what: str,
        found: Callable[[dict[str, Any]], bool],
        *,
        within_s: float,
        since: int = 0,
    ) -> dict[str, Any]:
        """The first event from ``since`` on that ``found`` accepts.

        Raises `EnvironmentFailure`, naming ``what`` was waited for, when the deadline passes or
        the driver dies.
        """
        deadline = time.monotonic() + within_s
        with self._changed:
            checked = since
            while True:
                for event in self.events[checked:]:
                    if event["event"] == "died":
                        raise self._failure(f"its driver gave up: {event['error']}", what)
                    if found(event):
                        return event
                checked = len(self.events)
                left = deadline - time.monotonic()
                if left <= 0:
                    raise self._failure(f"nothing came within {within_s:.0f} s", what)
                self._changed.wait(left)

    def wait_until_ready(self, *, within_s: float = 180) -> None:
        """Until the session is up and every executor is registered, by the newest count."""
        with self._changed:
            counts = [i for i, event in enumerate(self.events) if event["event"] == "executors"]
        self.wait_for(
            f"its session and {self.spec.executors} executors",
            lambda e: e["event"] == "executors" and e["count"] >= self.spec.executors,
            within_s=within_s,
            since=counts[-1] if counts else 0,
        )

    def usage(self) -> DriverUsage:
        """Of the driver's Python process and everything below it."""
        try:
            root = psutil.Process(self._process.pid)
            processes = [root, *root.children(recursive=True)]
            times = [process.cpu_times() for process in processes]
            resident = sum(process.memory_info().rss for process in processes)
        except psutil.NoSuchProcess:
            return DriverUsage(cpu_s=0.0, resident_bytes=0)
        return DriverUsage(cpu_s=sum(t.user + t.system for t in times), resident_bytes=resident)

    def hang_up(self) -> None:
        """Tell the driver that nothing more comes, so that it ends by itself."""
        if self._process.stdin is not None and not self._process.stdin.closed:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()

    def stop(self, *, within_s: float = 20) -> None:
        """Let the driver end by itself, then make it. May be called twice."""
        self.hang_up()
        try:
            self._process.wait(timeout=within_s)
        except subprocess.TimeoutExpired:
            self._kill()
        self._reader.join(timeout=5)
        if self._process.stdout is not None:
            self._process.stdout.close()

    def _kill(self) -> None:
        try:
            children = psutil.Process(self._process.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            children = []
        self._process.kill()
        for child in children:
            try:
                child.kill()
            except psutil.NoSuchProcess:
                continue
        self._process.wait()

    def _send(self, message: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(message) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._failure("its driver is gone", "an order") from None

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._keep(json.loads(line))
        self._keep({"event": "died", "error": "its output ended"})

    def _keep(self, event: dict[str, Any]) -> None:
        with self._changed:
            self.events.append(event)
            self._changed.notify_all()

    def _failure(self, state: str, waited_for: str) -> EnvironmentFailure:
        code = self._process.poll()
        alive = "its process lives" if code is None else f"its process ended with code {code}"
        lines = self.spec.log.read_text(errors="replace").splitlines()[-_LOG_LINES:]
        tail = "\n    ".join(lines) if lines else "(its log is empty)"
        return EnvironmentFailure(
            f"application {self.spec.name}: waiting for {waited_for}: {state}; {alive}. "
            f"Last lines of {self.spec.log}:\n    {tail}",
            remedy="look for the first error in that log; too little memory or too few free "
            "slots on the cluster are the usual causes",
        )
