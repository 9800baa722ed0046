"""One machine of a cluster: its connection, what was sent there, and its agent."""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace
from pathlib import Path

from harness.cache import cache_directory
from harness.cluster.agent.place import FarPlace
from harness.cluster.machines import sending
from harness.cluster.machines.sending import Bundle
from harness.cluster.machines.settings import Host
from harness.cluster.machines.ssh import Connection, Loop
from harness.cluster.owned import Programs
from harness.cluster.run_directory import PYTHON
from harness.cluster.spark import REPOSITORY
from harness.text import Notify


class Machine(FarPlace):
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
        super().__init__(host.ssh, Path(self.found.directory))

    def send(self, programs: Programs, report: Notify) -> None:
        """Send what it lacks."""
        wanted = [sending.code(), sending.packages(), sending.java(programs)]
        if self.found.python is None:
            wanted.append(sending.python())
        self.titles = {bundle.name: self._send(bundle, report) for bundle in wanted}
        self.code, packages, self.java_home = (
            Path(self.found.directory) / self.titles[name] for name in ("code", "packages", "jre")
        )
        self.spark_home, self.python_path = packages / "pyspark", f"{self.code}:{packages}"

    def _send(self, bundle: Bundle, report: Notify) -> str:
        self.sent_bytes += sending.send(self.connection, self.found, bundle, report)
        return bundle.title

    def open(self, run: str, mirror: Path) -> None:
        """Start the agent, with a directory of the run. Raises `EnvironmentFailure`."""
        self.directory = Path(self.found.directory) / "runs" / run
        python = self.titles.get("python")
        root = f"{self.found.directory}/{python}"
        first = str(self.found.python) if python is None else f"{root}/bin/python"
        libraries = "" if python is None else f"LD_LIBRARY_PATH={shlex.quote(f'{root}/lib')} "
        command = (
            f"PYTHONPATH={shlex.quote(self.python_path)} {libraries}"
            f"PYTHONNOUSERSITE=1 exec {shlex.quote(first)} -m harness.cluster.agent "
            f"{shlex.quote(str(self.directory))} {shlex.quote(run)}"
        )
        self.connect(
            mirror,
            lambda hear, log: self.connection.talk(command, hear, log, self._caller.lose),
            "if it is a library that the machine lacks, install it there; a wrong bundle is sent "
            f"again after `rm -r` in {self.found.directory}",
        )

    def close(self) -> None:
        super().close()
        self.connection.close()

    def server_programs(self, here: Programs, report: Notify) -> Programs:
        """Return the places of the servers' programs on it; send what it lacks."""

        def there(path: Path) -> Path:
            return Path(self.translated(str(path), here, report))

        return replace(
            here,
            java_home=self.java_home,
            spark_home=self.spark_home,
            broker_jars=there(here.broker_jars),
            redis_server=there(here.redis_server),
        )

    def translated(self, text: str, programs: Programs, report: Notify) -> str:
        """Return a text in which paths of this machine are those of the other, and send them."""
        for here, there in (
            (programs.java_home, self.java_home),
            (programs.spark_home, self.spark_home),
            (REPOSITORY, self.code),
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
