"""The contract of declared links, for every backend that can lay them: bytes come no faster."""

from __future__ import annotations

from collections.abc import Callable, Set
from typing import NamedTuple

import pytest

from harness.cluster.links import LATENCY, RATE, WorkerLink
from harness.errors import EnvironmentFailure
from tests.cluster.helpers import transfer_s

SIZE = 1_000_000
SLOW, QUICK = 500_000.0, 4_000_000.0
SPARED = 200_000
"""Bytes that a bucket and the sockets' buffers let through at once."""


class Laid(NamedTuple):
    """A `PEER`, and the way to lay links under it."""

    shapes: Set[str]
    shape: Callable[[WorkerLink | None], None]
    host: str


class LinkContract:
    """Inherit it, and give the fixture `laid`.

    Lower bounds hold on a busy machine, too: a link can only be slower than declared."""

    def test_bytes_pass_a_declared_link_no_faster(self, laid: Laid) -> None:
        if RATE not in laid.shapes:
            pytest.skip("this kernel has no token bucket")
        free = {up: transfer_s(laid.host, SIZE, up=up) for up in (True, False)}
        slow: dict[bool, float] = {}
        for rate in (QUICK, SLOW):
            laid.shape(WorkerLink(bytes_per_s=rate))
            for up in (True, False):
                slow[up] = transfer_s(laid.host, SIZE, up=up)
                assert slow[up] >= (SIZE - SPARED) / rate, (rate, up)
        laid.shape(None)
        again = {up: transfer_s(laid.host, SIZE, up=up) for up in (True, False)}
        for up in (True, False):
            assert slow[up] > 2 * min(free[up], again[up]), (slow, free, again)

    def test_bytes_pass_a_declared_link_no_sooner(self, laid: Laid) -> None:
        if LATENCY not in laid.shapes:
            with pytest.raises(EnvironmentFailure, match="could not be laid"):
                laid.shape(WorkerLink(latency_s=0.05))
            pytest.skip("this kernel has no netem")
        laid.shape(WorkerLink(latency_s=0.05, bytes_per_s=QUICK))
        assert transfer_s(laid.host, 1, up=True) >= 2 * 0.05
        laid.shape(None)
