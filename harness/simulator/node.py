"""A simulated node: it can crash, freeze, slow down, and have a wrong clock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from harness.protocol.node import NodeMachine


class SimulatedNode:
    """One node with its faults, its clock and its protocol machine."""

    __slots__ = (
        "alive", "boot", "clock_base", "cut", "deferred", "disturbed", "drift", "free_at",
        "machine", "number", "paused", "raises", "slowness", "true_base",
    )  # fmt: skip

    def __init__(self, number: int, lanes: int) -> None:
        self.number = number
        self.boot = 0
        self.alive = False
        self.machine: NodeMachine | None = None
        self.free_at = [0] * lanes
        self.paused = False
        self.cut = False
        self.slowness = 1
        self.raises = False
        self.drift = 0
        self.clock_base = self.true_base = 0
        self.disturbed = -1
        """The time, by its clock, at which a pause last ended or its drift changed."""
        self.deferred: list[tuple[Callable[..., None], tuple[Any, ...]]] = []

    def clock(self, now: int) -> int:
        """Return the time as this node's clock shows it."""
        passed = now - self.true_base
        if not self.drift:
            return self.clock_base + passed
        return self.clock_base + passed + passed * self.drift // 1000

    def true_time(self, clock: int) -> int:
        """Return the time at which this node's clock will show ``clock``."""
        ahead = clock - self.clock_base
        if not self.drift:
            return self.true_base + ahead
        return self.true_base + -(-ahead * 1000 // (1000 + self.drift))

    def set_drift(self, drift: int, now: int) -> None:
        """Make its clock gain or lose ``drift`` thousandths from now on."""
        self.clock_base, self.true_base, self.drift = self.clock(now), now, drift
        self.disturbed = self.clock_base
