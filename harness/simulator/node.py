"""A simulated node: it can crash, freeze, slow down, and have a wrong clock."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from harness.protocol.node import NodeMachine


@dataclass(slots=True, eq=False)
class SimulatedNode:
    """One node with its faults, its clock and its protocol machine."""

    number: int
    free_at: list[int]
    """The time at which each of its lanes has computed all that it was given."""
    boot: int = 0
    alive: bool = False
    machine: NodeMachine | None = None
    paused: bool = False
    cut: bool = False
    slowness: int = 1
    raises: bool = False
    drift: int = 0
    clock_base: int = 0
    true_base: int = 0
    disturbed: int = -1
    """The time, by its clock, at which a pause last ended or its drift changed."""
    deferred: list[tuple[Callable[..., None], tuple[Any, ...]]] = field(default_factory=list)

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
