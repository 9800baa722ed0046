"""The cost of a worker's own network: round trips and bytes, compared with loopback addresses.

::

    .venv/bin/python -P -m benchmarks.network_study

It restarts itself inside namespaces, where both ways exist: the loopback device, and a virtual
cable over a bridge as in ``--network namespaces``. Rounds of both alternate; each
line is the median over the rounds, with the smallest and the largest."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from time import perf_counter, process_time

from harness.cluster.local import network
from harness.cluster.local.network import (
    INSIDE_VARIABLE,
    NAMESPACES,
    LocalNetwork,
    Loopback,
    Namespaces,
)
from harness.results.provenance import ROOT

PORT, WORKER = 4713, "r1w1"
TRIPS, MEGABYTES, ROUNDS = 3_000, 200, 7
_PEER = f"""
import socket
with socket.create_server(("0.0.0.0", {PORT})) as server:
    while True:
        connection, _ = server.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with connection:
            if connection.recv(1) == b"p":
                while connection.recv(1):
                    connection.sendall(b"x")
            else:
                while connection.recv(1 << 18):
                    pass
"""


@contextmanager
def peer(laid: LocalNetwork, host: str) -> Iterator[None]:
    """Run a program at the worker that answers or takes bytes."""
    command = laid.within(WORKER, [sys.executable, "-S", "-c", _PEER])
    with subprocess.Popen(command) as process:
        try:
            while True:
                try:
                    socket.create_connection((host, PORT), timeout=5).close()
                    break
                except ConnectionRefusedError:
                    continue
            yield
        finally:
            process.kill()


def trip_us(host: str) -> float:
    """Return the median of many round trips of one byte."""
    took: list[float] = []
    with socket.create_connection((host, PORT)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(b"p")
        for _ in range(TRIPS):
            began = perf_counter()
            connection.sendall(b"x")
            connection.recv(1)
            took.append(perf_counter() - began)
    return median(took) * 1e6


def bytes_cost(host: str) -> tuple[float, float]:
    """Return megabytes per second of one connection, and the sender's CPU ms per megabyte."""
    block = bytes(1 << 18)
    with socket.create_connection((host, PORT)) as connection:
        connection.sendall(b"b")
        began, cpu = perf_counter(), process_time()
        for _ in range(MEGABYTES * 4):
            connection.sendall(block)
        connection.shutdown(socket.SHUT_WR)
        connection.recv(1)
        took, used = perf_counter() - began, process_time() - cpu
    return MEGABYTES / took, used * 1e3 / MEGABYTES


def study() -> Iterator[dict[str, object]]:
    """Print a line per network and quantity."""
    found: dict[tuple[str, str], list[float]] = {}
    cable = Namespaces()
    with tempfile.TemporaryDirectory() as directory:
        (Path(directory) / "processes.jsonl").touch()
        cable.open("network-study", Path(directory), {WORKER: cable.worker_host(1, 1)})
        try:
            ways: Sequence[tuple[str, LocalNetwork]] = (
                ("loopback", Loopback()),
                (NAMESPACES, cable),
            )
            for _ in range(ROUNDS):
                for name, laid in ways:
                    host = laid.worker_host(1, 1)
                    with peer(laid, host):
                        found.setdefault((name, "trip_us"), []).append(trip_us(host))
                        rate, cost = bytes_cost(host)
                        found.setdefault((name, "megabytes_per_s"), []).append(rate)
                        found.setdefault((name, "cpu_ms_per_megabyte"), []).append(cost)
        finally:
            cable.close()
    for (name, quantity), values in found.items():
        yield {
            "network": name,
            "quantity": quantity,
            "median": round(median(values), 3),
            "from": round(min(values), 3),
            "to": round(max(values), 3),
            "rounds": len(values),
        }


def main() -> None:
    if not network.inside():
        command = [*network._ENTER, sys.executable, "-P", "-m", "benchmarks.network_study"]
        environment = {**os.environ, INSIDE_VARIABLE: NAMESPACES, "PYTHONPATH": str(ROOT)}
        sys.exit(subprocess.run(command, env=environment, check=False).returncode)
    for line in study():
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
