"""One machine of a cluster: its connection, what was sent there, and its agent."""

from __future__ import annotations

import shlex
import sys
import threading
from dataclasses import dataclass, replace
from pathlib import Path

from harness.cache import cache_directory
from harness.cluster.agent.place import Place
from harness.cluster.agent.wire import Caller, FarAgent
from harness.cluster.machines import sending
from harness.cluster.machines.sending import Bundle
from harness.cluster.machines.settings import Host
from harness.cluster.machines.ssh import Connection, Loop, Talking
from harness.cluster.owned import Programs
from harness.cluster.run_directory import PYTHON
from harness.cluster.spark import REPOSITORY, spark_environment
from harness.errors import EnvironmentFailure
from harness.text import Notify

_COMPARE_S = 2.0
"""Interval of comparisons of clocks, which also tell the agent that the harness lives."""
_END_LIMIT_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """What is on a machine, with its place there and here."""

    directory: Path
    code: Path
    packages: Path
    java_home: Path
    python: Path | None
    """Our own interpreter; None where the machine's is used."""

    @property
    def spark_home(self) -> Path:
        """PySpark's directory."""
        return self.packages / "pyspark"

    @property
    def python_path(self) -> str:
        """PYTHONPATH of what is started there."""
        return f"{self.code}:{self.packages}"


class Machine(Place):
    """A machine with an agent, from `open` to `close`."""

    def __init__(self, host: Host, loop: Loop, *, directory: str, config: Path | None) -> None:
        """Connect and look at it. Raises `EnvironmentFailure` where it cannot be used."""
        self.host = host
        self.connection = Connection(host.ssh, loop, config=config)
        try:
            self.found = sending.look(self.connection, directory)
            sending.demand_like(host.ssh, self.found)
        except BaseException:
            self.connection.close()
            raise
        self.sent_bytes = 0
        self._talking: Talking | None = None
        self._closed = threading.Event()
        self._caller = Caller(host.ssh, self._write)
        super().__init__(host.ssh, FarAgent(self._caller), Path(self.found.directory))

    @property
    def lost(self) -> str | None:
        return self._caller.lost

    def send(self, programs: Programs, report: Notify) -> None:
        """Send what it lacks."""
        wanted = [sending.code(), sending.packages(), sending.java(programs)]
        if self.found.python is None:
            wanted.append(sending.python())
        self.titles = {bundle.name: self._send(bundle, report) for bundle in wanted}

    def _send(self, bundle: Bundle, report: Notify) -> str:
        self.sent_bytes += sending.send(self.connection, self.found, bundle, report)
        return bundle.title

    @property
    def sent(self) -> Sent:
        """The places of what was sent."""
        root = Path(self.found.directory)
        python = self.titles.get("python")
        return Sent(
            directory=root,
            code=root / self.titles["code"],
            packages=root / self.titles["packages"],
            java_home=root / self.titles["jre"],
            python=None if python is None else root / python,
        )

    def environment(self) -> dict[str, str]:
        """Return the variables of everything that is started there."""
        sent = self.sent
        return {
            **spark_environment(sent.java_home, sent.spark_home, sent.python_path),
            "PYTHONNOUSERSITE": "1",
            "PYSPARK_PYTHON": PYTHON,
        }

    def open(self, run: str, mirror: Path) -> None:
        """Start the agent, with a directory of the run. Raises `EnvironmentFailure`."""
        self.mirror = mirror
        self.directory = Path(self.found.directory) / "runs" / run
        log = mirror / "logs" / f"agent-{self.host.ssh.replace('/', '_')}.log"
        sent = self.sent
        first = f"{sent.python}/bin/python" if sent.python else str(self.found.python)
        libraries = f"LD_LIBRARY_PATH={shlex.quote(f'{sent.python}/lib')} " if sent.python else ""
        command = (
            f"PYTHONPATH={shlex.quote(sent.python_path)} {libraries}"
            f"PYTHONNOUSERSITE=1 exec {shlex.quote(first)} -m harness.cluster.agent "
            f"{shlex.quote(str(self.directory))} {shlex.quote(run)}"
        )

        def note(data: bytes) -> None:
            with log.open("ab") as file:
                file.write(data)

        log.touch()
        self._talking = self.connection.talk(
            command, self._caller.feed, note, lambda why: self._caller.lose(why)
        )
        try:
            self.clock.compare(self.agent.clock_unix_s)
        except EnvironmentFailure as error:
            last = log.read_text(errors="replace").strip().splitlines()[-8:]
            raise EnvironmentFailure(
                f"{self.host.ssh}: the agent did not start; its last words:\n"
                + "\n".join(f"    {line}" for line in last),
                remedy="if it is a library that the machine lacks, install it there; a wrong "
                f"bundle is sent again after `rm -r` in {self.found.directory}",
            ) from error
        threading.Thread(target=self._compare, name=f"clock-{self.name}", daemon=True).start()

    def close(self) -> None:
        """End everything on it, then the connection."""
        self._closed.set()
        if self._talking is not None and self.lost is None:
            self._talking.finish(_END_LIMIT_S)
        self._caller.lose("the cluster has ended")
        self.connection.close()

    def server_programs(self, here: Programs, report: Notify) -> Programs:
        """Return the places of the servers' programs on it; send what it lacks."""

        def there(path: Path) -> Path:
            return Path(self.translated(str(path), here, report))

        return replace(
            here,
            java_home=self.sent.java_home,
            spark_home=self.sent.spark_home,
            broker_jars=there(here.broker_jars),
            redis_server=there(here.redis_server),
        )

    def translated(self, text: str, programs: Programs, report: Notify) -> str:
        """Return a text in which paths of this machine are those of the other, and send them."""
        sent = self.sent
        for here, there in (
            (programs.java_home, sent.java_home),
            (programs.spark_home, sent.spark_home),
            (REPOSITORY, sent.code),
        ):
            text = text.replace(f"{here}/", f"{there}/")
        if text == sys.executable:
            return PYTHON
        return self._translated_cache(text, report)

    def _translated_cache(self, text: str, report: Notify) -> str:
        root = f"{cache_directory()}/"
        at = 0
        while (at := text.find(root, at)) >= 0:
            word = text[at:].split(":", 1)[0].split("\n", 1)[0].split('"', 1)[0]
            part = sending.cached(Path(word))
            if part is None:
                at += len(root)
                continue
            path, bundle = part
            title = self.titles.get(str(path)) or self._send(bundle, report)
            self.titles[str(path)] = title
            text = text.replace(str(path), f"{self.found.directory}/{title}")
        return text

    def _compare(self) -> None:
        while not self._closed.wait(_COMPARE_S) and self.lost is None:
            try:
                self.clock.compare(self.agent.clock_unix_s, rounds=2)
            except EnvironmentFailure:  # lost, which others see, or busy
                continue

    def _write(self, data: bytes) -> None:
        if self._talking is None:
            raise BrokenPipeError("it was not started")
        self._talking.write(data)
