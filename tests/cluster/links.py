"""What a backend that can lay links under its workers must show: bytes come no faster."""

from __future__ import annotations

import pytest

from harness.cluster.base import Cluster
from harness.cluster.links import LATENCY, RATE, Link
from harness.errors import UsageError
from tests.cluster.helpers import transfer_s

SIZE = 1_000_000
SLOW, QUICK = 500_000.0, 4_000_000.0
SPARED = 200_000
"""Of bytes that a bucket and the sockets' buffers let through at once."""


def check_rate(cluster: Cluster, node: str, host: str) -> None:
    """A `PEER` runs on ``host``, which is ``node``'s. Lower bounds hold on a busy machine, too: a
    link can only be slower than declared."""
    if RATE not in cluster.shapes():
        pytest.skip("this kernel has no token bucket")
    free = {up: transfer_s(host, SIZE, up=up) for up in (True, False)}
    for rate in (SLOW, QUICK):
        cluster.shape(node, Link(bytes_per_s=rate))
        for up in (True, False):
            assert transfer_s(host, SIZE, up=up) >= (SIZE - SPARED) / rate
    cluster.shape(node, Link(bytes_per_s=SLOW))
    slow = {up: transfer_s(host, SIZE, up=up) for up in (True, False)}
    cluster.shape(node, None)
    again = {up: transfer_s(host, SIZE, up=up) for up in (True, False)}
    for up in (True, False):
        assert slow[up] > 2 * max(free[up], again[up]), (slow, free, again)


def check_latency(cluster: Cluster, node: str, host: str) -> None:
    """One byte there, one byte back."""
    if LATENCY not in cluster.shapes():
        with pytest.raises(UsageError, match="cannot give a worker's link a latency here"):
            cluster.shape(node, Link(latency_s=0.05))
        pytest.skip("this kernel has no netem")
    cluster.shape(node, Link(latency_s=0.05, bytes_per_s=QUICK))
    assert transfer_s(host, 1, up=True) >= 2 * 0.05
    cluster.shape(node, None)
