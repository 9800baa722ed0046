"""A node's declared speed and a link's delay, by timers, never by burning CPU.

The operators are so fast that at the papers' rates every scheme recovers in milliseconds. Where
a figure needs the papers' slow machines, a node declares a speed: what it has computed is held
back until a machine of that speed would have had it. A declared speed slows a node down, it
cannot make one faster than it is.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from harness.errors import UsageError

US_PER_S = 1_000_000


def now_us() -> int:
    """This process's clock: monotonic, so that a wall clock that jumps changes nothing."""
    return time.monotonic_ns() // 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """How fast a node is declared to be; 0: as fast as it is."""

    tuples_per_s: float = 0.0
    """Of input, and of state that is copied."""
    checkpoint_bytes_per_s: float = 0.0
    """What it writes to the store and reads back."""
    restart_s: float = 0.0
    """Between a node's death and its next life."""

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if getattr(self, name) < 0:
                raise UsageError(
                    f"a node's {name} of {getattr(self, name)}", remedy="give 0 (no limit) or more"
                )

    def tuples_us(self, tuples: int) -> int:
        """How long so many tuples take at least."""
        return round(tuples * US_PER_S / self.tuples_per_s) if self.tuples_per_s else 0

    def bytes_us(self, size: int) -> int:
        """How long so many bytes take to or from the store, at least."""
        rate = self.checkpoint_bytes_per_s
        return round(size * US_PER_S / rate) if rate else 0


class Lane:
    """One thing after another: what a node computes at most one of at a time."""

    __slots__ = ("free_at",)

    def __init__(self) -> None:
        self.free_at = 0

    def occupy(self, now_us: int, cost_us: int) -> int:
        """When something that takes ``cost_us`` is done, if it begins as soon as it can."""
        self.free_at = max(now_us, self.free_at) + cost_us
        return self.free_at


@dataclass(frozen=True, slots=True, kw_only=True)
class Links:
    """Delay and bandwidth between nodes, by the group (rack, tier) that each belongs to.

    The receiver holds a message until send time + latency + size / bandwidth. Send times are the
    sender's monotonic clock, which all processes of one machine share; between machines there is
    a real network, and nothing is held.
    """

    group_of: tuple[str, ...] = ()
    """Node to its group; empty: no link is limited."""
    latency_us: Mapping[str, int] | None = None
    """"from>to" to the latency between two groups; left out: none."""
    bytes_per_s: Mapping[str, float] | None = None

    def due_us(self, sent_us: int, sender: int, receiver: int, size: int) -> int:
        """When a message may be handed over; its send time where the link is not limited."""
        if not self.group_of or sender == receiver:
            return sent_us
        link = f"{self.group_of[sender]}>{self.group_of[receiver]}"
        due = sent_us + (self.latency_us or {}).get(link, 0)
        rate = (self.bytes_per_s or {}).get(link, 0.0)
        return due + (round(size * US_PER_S / rate) if rate else 0)

    def to_json(self) -> dict[str, Any]:
        return {
            "group_of": list(self.group_of),
            "latency_us": dict(self.latency_us or {}),
            "bytes_per_s": dict(self.bytes_per_s or {}),
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        groups: Sequence[str] = document["group_of"]
        return cls(
            group_of=tuple(groups),
            latency_us=document["latency_us"],
            bytes_per_s=document["bytes_per_s"],
        )
