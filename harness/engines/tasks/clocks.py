"""Instants of other machines by one clock.

Every process counts time by its monotonic clock, which all processes of a machine share, those in
containers too. Between machines only wall clocks can be compared: backends see to it that they
agree within `harness.cluster.base.CLOCK_LIMIT_S`, and no better than that are such instants."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from harness.engines.tasks.pacing import now_us

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_NAMESPACE = Path("/proc/self/ns/time")


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """The monotonic clock of a machine and its current boot."""

    machine: str
    """The same for processes that share it."""
    ahead_us: int
    """The difference to its wall clock, which is ahead."""

    @classmethod
    def here(cls) -> Clock:
        """Return this process's clock; raise `OSError` where there is no Linux /proc."""
        # A container may be given a monotonic clock of its own, by a time namespace.
        namespace = os.readlink(_NAMESPACE) if _NAMESPACE.exists() else ""
        machine = f"{_BOOT.read_text().strip()} {namespace}"
        return cls(machine=machine, ahead_us=time.time_ns() // 1000 - now_us())

    def shift_us(self, other: Clock) -> int:
        """Return the difference to add to an instant of ``other``'s for this clock."""
        return 0 if other.machine == self.machine else other.ahead_us - self.ahead_us

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Clock:
        return cls(**document)
