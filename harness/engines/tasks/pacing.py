"""A node's declared speed and a link's delay, by timers, never by burning CPU.

The operators are so fast that at the papers' rates every scheme recovers in milliseconds. Where
a figure needs the papers' slow machines, a node declares a speed: what it has computed is held
back until a machine of that speed would have had it. A declared speed slows a node down, it
cannot make one faster than it is."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Self

from harness.errors import UsageError

US_PER_S = 1_000_000

_read: Callable[[], int] | None = None
"""Another clock, of a process in virtual time."""


def now_us() -> int:
    """Read this process's monotonic clock, which no change of the wall clock moves."""
    return time.monotonic_ns() // 1000 if _read is None else _read()


@contextmanager
def clock(read: Callable[[], int]) -> Iterator[None]:
    """Let `now_us` read another clock meanwhile."""
    global _read
    before, _read = _read, read
    try:
        yield
    finally:
        _read = before


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """The declared speed of a node; 0: no limit."""

    tuples_per_s: float = 0.0
    """Tuples of input."""
    copied_tuples_per_s: float = 0.0
    """Tuples of state that are copied before the first tentative batch, or rebuilt from it; 0:
    ``tuples_per_s``."""
    checkpoint_bytes_per_s: float = 0.0
    """Bytes written to the store and read back."""
    restart_s: tuple[float, ...] = ()
    """Node to how long the coordinator keeps it waiting when it comes back after its death; empty:
    not at all."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "restart_s", tuple(self.restart_s))  # a list in JSON
        given = {**asdict(self), "restart_s": min(self.restart_s, default=0.0)}
        for name, value in given.items():
            if value < 0:
                raise UsageError(f"a node's {name} of {value}", remedy="give 0 (no limit) or more")

    def restart_us(self, node: int) -> int:
        """Return the shortest absence of a node after a death."""
        return round(self.restart_s[node] * US_PER_S) if self.restart_s else 0

    def tuples_us(self, tuples: int) -> int:
        """Return the shortest time for these tuples of input."""
        return _duration_us(tuples, self.tuples_per_s)

    def copies_us(self, tuples: int) -> int:
        """Return the shortest time for copying these tuples of state."""
        return _duration_us(tuples, self.copied_tuples_per_s or self.tuples_per_s)

    def bytes_us(self, size: int) -> int:
        """Return the shortest time for these bytes to or from the store."""
        return _duration_us(size, self.checkpoint_bytes_per_s)


def _duration_us(amount: int, per_s: float) -> int:
    return round(amount * US_PER_S / per_s) if per_s else 0


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
    """Delay and bandwidth between nodes; without arguments: as they are.

    The receiver holds a message until send time + delay + size / bandwidth, one message after
    the other on each pair's way, so that a way fills up. Send times are the sender's monotonic
    clock, which all processes of one machine share; between machines there is a real network, and
    none should be declared. What stands for the outside of the cluster is not held: records that
    a source reads and results that a sink publishes."""

    pairs_us: tuple[tuple[int, ...], ...] = ()
    """One-way delay from node to node by their numbers, the last row and column the
    coordinator's, as in the simulator's `Network`."""
    store_us: tuple[int, ...] = ()
    """One-way delay between each node and the store of checkpoints."""
    bytes_per_s: float = 0.0
    """Bandwidth of each pair of nodes, and of each node to the store; 0: no limit."""

    def __post_init__(self) -> None:
        # JSON has lists where these are tuples.
        object.__setattr__(self, "pairs_us", tuple(tuple(map(int, row)) for row in self.pairs_us))
        object.__setattr__(self, "store_us", tuple(map(int, self.store_us)))
        rows = len(self.pairs_us)
        if any(len(row) != rows for row in self.pairs_us) or (
            self.store_us and len(self.store_us) != rows - 1
        ):
            raise UsageError(
                f"links of {rows} rows with {sorted({len(row) for row in self.pairs_us})} columns "
                f"and {len(self.store_us)} ways to the store",
                remedy="give a row and a column for every node and for the coordinator, and a way "
                "to the store for every node",
            )
        if self.bytes_per_s < 0 or min(map(min, self.pairs_us), default=0) < 0:
            raise UsageError("a link with a negative number", remedy="give 0 (no limit) or more")

    @classmethod
    def between(
        cls,
        places: Sequence[str],
        delay_s: Callable[[str, str], float],
        *,
        coordinator: str,
        store: str,
        bytes_per_s: float = 0.0,
    ) -> Self:
        """Return the links of nodes at ``places``, in the order of the cluster's nodes.

        ``delay_s`` is the delay between two places (`TieredNetwork.latency_s`)."""
        ends = [*places, coordinator]

        def us(one: str, other: str) -> int:
            return round(delay_s(one, other) * US_PER_S)

        return cls(
            pairs_us=tuple(tuple(us(one, other) for other in ends) for one in ends),
            store_us=tuple(us(place, store) for place in places),
            bytes_per_s=bytes_per_s,
        )

    def __bool__(self) -> bool:
        return bool(self.pairs_us) or self.bytes_per_s > 0

    def delay_us(self, sender: int, receiver: int) -> int:
        """One way between two nodes; -1 is the coordinator."""
        return self.pairs_us[sender][receiver] if self.pairs_us else 0

    def way_to_store_us(self, node: int) -> int:
        """One way between a node and the store, by declaration."""
        return self.store_us[node] if self.store_us else 0

    def transfer_us(self, size: int) -> int:
        """Return the time for these bytes beyond the delay."""
        return _duration_us(size, self.bytes_per_s)


class Arrivals:
    """When a node may see what others have sent to it."""

    def __init__(self, links: Links, node: int) -> None:
        self._links, self._node = links, node
        self._lanes: dict[int, Lane] = {}
        """Sender to its way here."""

    def due_us(self, sent_us: int, sender: int, size: int) -> int:
        """When a message of ``size`` bytes is here; at once within a node."""
        if sender == self._node:
            return sent_us
        passed = sent_us
        if transfer := self._links.transfer_us(size):
            passed = self._lanes.setdefault(sender, Lane()).occupy(sent_us, transfer)
        return passed + self._links.delay_us(sender, self._node)
