"""Configuration of a run's Redis: bounded memory, nothing evicted, no port without a password."""

from __future__ import annotations

from pathlib import PurePath

MOST_MB = 1024
"""Limit of Redis's memory. Beyond it, checkpoints are refused, so that the machine keeps some;
nothing that is stored is evicted."""

_CONFIGURATION = """\
bind {host}
port {port}
protected-mode yes
requirepass {password}
daemonize no
save ""
appendonly {append_only}
appendfsync everysec
maxmemory {most_mb}mb
maxmemory-policy noeviction
dir "{directory}"
"""


def redis_configuration(
    *, host: str, port: int, password: str, directory: PurePath, append_only: bool = False
) -> str:
    """Return the text of redis.conf, which holds the password.

    ``append_only``: writes go to a file, too, so that a restart loses a second at most."""
    return _CONFIGURATION.format(
        host=host,
        port=port,
        password=password,
        append_only="yes" if append_only else "no",
        most_mb=MOST_MB,
        directory=directory,
    )
