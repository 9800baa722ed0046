"""TCP ports of a machine."""

from __future__ import annotations

import random
import socket
from pathlib import Path

from harness.errors import EnvironmentFailure


def free_port(host: str = "127.0.0.1") -> int:
    """Return a TCP port of a local address on which nothing listens now.

    It is below the kernel's range for outgoing connections, where a port can be lost to any client
    at any moment. Another process may still bind it first: a server that finds it taken is started
    again on another one.
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
