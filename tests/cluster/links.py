"""Tests of declared links, for every backend that can lay them: bytes come no faster."""

from __future__ import annotations

from collections.abc import Callable

from harness.cluster.links import WorkerLink
from tests.cluster.helpers import transfer_s

Shape = Callable[[WorkerLink | None], None]

SIZE = 1_000_000
SLOW, QUICK = 500_000.0, 4_000_000.0
SPARED = 200_000
"""Bytes that a bucket and the sockets' buffers let through at once."""


def check_rate(shape: Shape, host: str) -> None:
    """Check bandwidths to a `PEER` on ``host``, under which ``shape`` lays links.

    Lower bounds hold on a busy machine, too: a link can only be slower than declared."""
    free = {up: transfer_s(host, SIZE, up=up) for up in (True, False)}
    slow: dict[bool, float] = {}
    for rate in (QUICK, SLOW):
        shape(WorkerLink(bytes_per_s=rate))
        for up in (True, False):
            slow[up] = transfer_s(host, SIZE, up=up)
            assert slow[up] >= (SIZE - SPARED) / rate, (rate, up)
    shape(None)
    again = {up: transfer_s(host, SIZE, up=up) for up in (True, False)}
    for up in (True, False):
        assert slow[up] > 2 * min(free[up], again[up]), (slow, free, again)


def check_latency(shape: Shape, host: str) -> None:
    """Check the time of one byte there and one byte back."""
    shape(WorkerLink(latency_s=0.05, bytes_per_s=QUICK))
    assert transfer_s(host, 1, up=True) >= 2 * 0.05
    shape(None)
