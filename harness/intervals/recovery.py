"""An outage as a sum: detect, restart, restore, replay, and what a transaction adds.

Each part is a `Span`: at best, on average and at worst over the phase of the failure, which is its
place between two heartbeats and between two checkpoints. The sum is what a user sees, from the
failure until output is on time again. The replay follows from the others: the job reads again what
came since its last checkpoint, ``phase · interval``, then what came in the meantime, and all that
at what it can do beyond its present input::

    replay = (phase · interval + detect + restart + restore) · rate / (capacity - rate)

No other constant is in it. `harness.intervals.systems` has the settings of systems that exist."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from harness.errors import UsageError
from harness.text import format_duration

DETECT, RESTART, RESTORE, REPLAY, TRANSACTION = (
    "detect", "restart", "restore", "replay", "transaction",
)  # fmt: skip
MEAN_PHASE = 0.5
"""Mean place of a failure between two checkpoints: it strikes at any time alike."""


class Origin(StrEnum):
    """The source of a part's numbers."""

    SETTING = "setting"
    """A default of the system, or of the settings that were given for it."""
    LIVE = "live runs"
    """Runs of this repository on real servers."""
    OWN = "your runs"
    """Outages that the user observed."""
    GIVEN = "given"
    COMPUTED = "computed"
    """Follows from other values."""
    ASSUMED = "assumed"
    """Chosen, because nothing is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Seconds at best, on average and at worst. Raises `UsageError` if they are out of order."""

    best_s: float
    mean_s: float
    worst_s: float

    def __post_init__(self) -> None:
        if not 0.0 <= self.best_s <= self.mean_s <= self.worst_s < math.inf:
            raise UsageError(
                f"{self.best_s:g} s at best, {self.mean_s:g} s on average and {self.worst_s:g} s "
                "at worst cannot be",
                remedy="give three numbers, none negative and none less than the one before",
            )

    def __add__(self, other: Span) -> Span:
        """Return the sum, as if both were at their best or worst together."""
        return Span(
            best_s=self.best_s + other.best_s,
            mean_s=self.mean_s + other.mean_s,
            worst_s=self.worst_s + other.worst_s,
        )

    def less(self, seconds: float) -> Span:
        """Return it without a part of that length, nowhere below zero."""
        return Span(
            best_s=max(self.best_s - seconds, 0.0),
            mean_s=max(self.mean_s - seconds, 0.0),
            worst_s=max(self.worst_s - seconds, 0.0),
        )

    def describe(self) -> str:
        """Return it as text: ``15 s (10 s to 20 s)``."""
        mean = format_duration(self.mean_s)
        if self.best_s == self.worst_s:
            return mean
        return f"{mean} ({format_duration(self.best_s)} to {format_duration(self.worst_s)})"


def exactly(seconds: float) -> Span:
    """Return a span without a range."""
    return Span(best_s=seconds, mean_s=seconds, worst_s=seconds)


NOTHING = exactly(0.0)


def silence(timeout_s: float, every_s: float) -> Span:
    """Return the detection by a timeout since the last heartbeat, of which one comes ``every_s``.

    The last one came up to ``every_s`` before the failure."""
    return Span(
        best_s=max(timeout_s - every_s, 0.0),
        mean_s=max(timeout_s - every_s / 2.0, 0.0),
        worst_s=timeout_s,
    )


def failed_calls(calls: int, every_s: float) -> Span:
    """Return the detection by ``calls`` failed calls in a row, of which one is made ``every_s``."""
    return Span(
        best_s=(calls - 1) * every_s, mean_s=(calls - 0.5) * every_s, worst_s=calls * every_s
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What the job has to do, and what it can do. Raises `UsageError` if it cannot catch up."""

    rate_per_s: float
    """Tuples that come in a second."""
    capacity_per_s: float
    """Tuples that it can process in a second at most."""
    interval_s: float
    """Time between two checkpoints: micro-batches, commits."""

    def __post_init__(self) -> None:
        for words, number in (("the rate", self.rate_per_s), ("the capacity", self.capacity_per_s)):
            if not 0.0 < number < math.inf:
                raise UsageError(f"{words} is {number:g}", remedy="give a number above zero")
        if not 0.0 <= self.interval_s < math.inf:
            raise UsageError(
                f"the interval is {self.interval_s:g} s", remedy="give a duration of 0 s or more"
            )
        if self.rate_per_s >= self.capacity_per_s:
            raise UsageError(
                f"{self.rate_per_s:,.6g} tuples/s come in and the job can do "
                f"{self.capacity_per_s:,.6g}, so it never catches up after a failure",
                remedy="give a capacity above the rate, or a lower rate",
            )

    @property
    def behind(self) -> float:
        """Seconds of catching up for each second of input that waits."""
        return self.rate_per_s / (self.capacity_per_s - self.rate_per_s)

    def replay(self, outage: Span) -> Span:
        """Return the time to catch up after a downtime, early, midway and late in the interval."""
        return Span(
            best_s=outage.best_s * self.behind,
            mean_s=(MEAN_PHASE * self.interval_s + outage.mean_s) * self.behind,
            worst_s=(self.interval_s + outage.worst_s) * self.behind,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One part of an outage."""

    name: str
    span: Span
    origin: Origin
    why: str
    """Names of settings, the number of runs, or the formula."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """The parts of an outage, in the order of their names above."""

    parts: Sequence[Part]

    @property
    def total(self) -> Span:
        """The outage, from the failure until output is on time again."""
        total = NOTHING
        for part in self.parts:
            total += part.span
        return total

    def part(self, name: str) -> Span:
        """Return one part; nothing if it has none of that name."""
        return next((part.span for part in self.parts if part.name == name), NOTHING)


def recovery_of(
    detect: Part, restart: Sequence[Part], restore: Part, load: Load, transaction: Part | None
) -> Recovery:
    """Return the whole sum, the replay included.

    ``transaction`` is the time from the failure until the lost tasks' open transactions are
    settled; only what is left of it after the detection is added."""
    parts = [detect, *restart, restore]
    if transaction is not None:
        parts.append(_left(transaction, detect.span))
    outage = NOTHING
    for part in parts:
        outage += part.span
    spare = f"{load.capacity_per_s - load.rate_per_s:,.6g} tuples/s"
    replay = Part(
        name=REPLAY,
        span=load.replay(outage),
        origin=Origin.COMPUTED,
        why=f"what waits, at {spare} beyond the input",
    )
    return Recovery(parts=[*parts, replay])


def _left(transaction: Part, detect: Span) -> Part:
    """Return the wait for a transaction after the detection: both count from the failure."""
    ends = transaction.span
    best_s = max(ends.best_s - detect.best_s, 0.0)
    mean_s = max(ends.mean_s - detect.mean_s, best_s)
    worst_s = max(ends.worst_s - detect.worst_s, mean_s)
    return replace(
        transaction, name=TRANSACTION, span=Span(best_s=best_s, mean_s=mean_s, worst_s=worst_s)
    )
