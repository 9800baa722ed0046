"""One real Redis server, with a password, loopback only, in memory only."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import redis

from harness.cluster.endpoints import RedisEndpoint
from harness.cluster.local.launching import LaunchedProcess, Launcher, Server, free_port
from harness.cluster.run_directory import write_private

_CONFIGURATION = """\
bind {host}
port {port}
protected-mode yes
requirepass {password}
daemonize no
save ""
appendonly no
maxmemory {most_mb}mb
maxmemory-policy noeviction
dir "{directory}"
"""

MOST_MB = 1024
"""More is an answer (checkpoints are refused), never a machine without memory; and nothing that is
there may vanish for something new."""

_READY = "Ready to accept connections"


class RedisDaemon(Server):
    """Checkpoints and heartbeats live as long as the cluster, so nothing goes to the disk."""

    title = "Redis"

    def __init__(self, launcher: Launcher, *, program: Path, password: str) -> None:
        super().__init__(launcher)
        self._program = program
        self._home = launcher.directory / "redis"
        self._home.mkdir(mode=0o700)
        self.endpoint = RedisEndpoint(host=launcher.host, port=0, password=password)

    def launch(self) -> LaunchedProcess:
        host = self.launcher.host
        self.endpoint = replace(self.endpoint, port=free_port(host))
        configuration = write_private(
            self._home / "redis.conf",
            _CONFIGURATION.format(
                host=host,
                port=self.endpoint.port,
                password=self.endpoint.password,
                directory=self._home,
                most_mb=MOST_MB,
            ),
        )
        return self.launcher.spawn("redis", [str(self._program), str(configuration)])

    def answers(self) -> bool:
        # The password goes to the port only once our own process says that it has it: whoever
        # else bound it first would be told the password otherwise.
        assert self.child is not None
        if _READY not in self.child.log_text():
            return False
        with self.endpoint.client(socket_timeout=5) as client:
            try:
                return bool(client.ping())
            except redis.RedisError:
                return False
