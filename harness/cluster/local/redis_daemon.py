"""One real Redis server, with a password, loopback only, in memory only."""

from __future__ import annotations

from pathlib import Path

import redis

from harness.cluster.endpoints import RedisEndpoint
from harness.cluster.local.launching import Child, Launcher, Server, free_port
from harness.cluster.run_directory import write_private

_CONFIGURATION = """\
bind 127.0.0.1
port {port}
protected-mode yes
requirepass {password}
daemonize no
save ""
appendonly no
dir "{directory}"
"""


class RedisDaemon(Server):
    """Checkpoints and heartbeats live as long as the cluster, so nothing goes to the disk."""

    title = "Redis"

    def __init__(self, launcher: Launcher, *, program: Path, password: str) -> None:
        super().__init__(launcher)
        self._program = program
        self._home = launcher.directory / "redis"
        self._home.mkdir(mode=0o700)
        self.endpoint = RedisEndpoint(host="127.0.0.1", port=0, password=password)

    def launch(self) -> Child:
        self.endpoint = RedisEndpoint(
            host="127.0.0.1", port=free_port(), password=self.endpoint.password
        )
        configuration = write_private(
            self._home / "redis.conf",
            _CONFIGURATION.format(
                port=self.endpoint.port,
                password=self.endpoint.password,
                directory=self._home,
            ),
        )
        return self.launcher.spawn("redis", [str(self._program), str(configuration)])

    def answers(self) -> bool:
        # With our password: whoever else got the port would refuse it.
        client = redis.Redis(
            host=self.endpoint.host,
            port=self.endpoint.port,
            password=self.endpoint.password,
            socket_timeout=5,
        )
        try:
            return bool(client.ping())
        except redis.RedisError:
            return False
        finally:
            client.close()
