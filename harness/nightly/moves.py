"""Moves of a metric's level over the nights, and the commits between which each happened.

A night compares two revisions; a slow decline is in no pair of them. Change points are those of
PELT (Killick et al. 2012, library `ruptures`) over the logarithms of the nights' medians, or over
the medians themselves for what may be 0 (`harness.nightly.statistics.Scale`). A move is
a verdict of the night that shows it first. That is the fourth on the new level: with three, the
shortest part that PELT makes, its place is not certain."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from harness.nightly.history import Night
from harness.nightly.statistics import MINIMUM_DIFFERENCE, MINIMUM_EFFECT

FEWEST_NIGHTS = 6
"""Least nights for a change point: two halves of three nights each."""
_SEGMENT_NIGHTS = 3
_SAME = 2
"""Nights by which a change point that was found before may move when another night comes."""


def change_points(values: Sequence[float], unit: str = "") -> list[int]:
    """Return the indices at which the level of a series moves: first values after a move.

    Without a unit all values are positive. With one, a `MINIMUM_DIFFERENCE` counts as much as a
    `MINIMUM_EFFECT` does elsewhere.

    PELT with squared deviations as cost and the penalty 6 σ² log n (three times that of the
    Bayesian information criterion), σ estimated from the differences between
    neighbours, so that a series that only scatters has none. [] for a series that is too short."""
    import ruptures

    if len(values) < FEWEST_NIGHTS:
        return []
    series = np.asarray(values, dtype=float)
    series = series * MINIMUM_EFFECT / MINIMUM_DIFFERENCE if unit else np.log(series)
    scatter = float(np.median(np.abs(np.diff(series)))) / 0.954
    variance = max(scatter, 0.01) ** 2
    search = ruptures.Pelt(model="l2", min_size=_SEGMENT_NIGHTS, jump=1).fit(series[:, None])
    ends: list[int] = search.predict(pen=6.0 * variance * np.log(len(series)))
    return ends[:-1]


def steps(values: NDArray[np.float64], points: Sequence[int], unit: str = "") -> list[float]:
    """Return by how much the mean between two change points is above the one before.

    It is a share, or a difference of values that have a unit.

    A level is that of its own nights alone, up to the next change."""
    levels = [part.mean() for part in np.split(values, list(points))]
    return [
        float(after - before if unit else after / before - 1) for before, after in pairwise(levels)
    ]


def step_in_words(step: float, unit: str) -> str:
    """Return a step as a share, or with its unit."""
    return f"{step:+.3g} {unit}" if unit else f"{step:+.0%}"


def unit_of(nights: Sequence[Night], name: str) -> str:
    """Return the unit of a metric's values where they may be 0; empty for any other metric."""
    return next((night.metrics[name].unit for night in nights if name in night.metrics), "")


def medians(nights: Sequence[Night], name: str) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the nights (their indices) with a number of a metric, and its medians in seconds."""
    found = []
    for index, night in enumerate(nights):
        metric = night.metrics.get(name)
        samples = [value for value in metric.seconds if value is not None] if metric else []
        if samples:
            found.append((index, float(np.median(samples))))
    return (
        np.array([index for index, _ in found], dtype=np.int64),
        np.array([value for _, value in found], dtype=np.float64),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A level that moved."""

    name: str
    step: float
    """Share by which the new level is above the old one, or the difference with a unit."""
    unit: str = ""
    before: str
    """The commit of the last night on the old level."""
    after: str
    """That of the first one on the new level."""

    @property
    def worse(self) -> bool:
        """True if it is dearer by more than the gate allows a change, with other code."""
        least = MINIMUM_DIFFERENCE if self.unit else MINIMUM_EFFECT
        return self.step > least and self.before != self.after

    def sentence(self, commits: Callable[[str, str], Sequence[str]]) -> str:
        """Return it in words; ``commits`` gives the commits between two, each in a line."""
        moved = step_in_words(self.step, self.unit)
        text = f"{self.name}: its level over the nights moved by {moved}"
        if self.before == self.after:
            return f"{text} with the same code, {self.after}: the machine did"
        between = list(commits(self.before.rstrip("+"), self.after.rstrip("+")))
        if len(between) == 1:
            return f"{text} with the commit {between[0]}"
        count = f"{len(between)} commits" if between else "the commits"
        return f"{text} in {count} from {self.before} to {self.after}"


def _is_certain(point: int, nights: int) -> bool:
    """Return True if more nights come after a change point than the shortest part has."""
    return nights - point > _SEGMENT_NIGHTS


def moves(nights: Sequence[Night]) -> list[Move]:
    """Return the moves that the last of these nights shows first."""
    found = []
    for name in nights[-1].metrics if nights else ():
        at, values = medians(nights, name)
        if not len(at) or at[-1] != len(nights) - 1:
            continue
        unit = unit_of(nights, name)
        earlier = change_points(values[:-1].tolist(), unit)
        known = [point for point in earlier if _is_certain(point, len(values) - 1)]
        points = change_points(values.tolist(), unit)
        for point, step in zip(points, steps(values, points, unit), strict=True):
            new = all(abs(point - old) > _SAME for old in known)
            if new and _is_certain(point, len(values)):
                found.append(
                    Move(
                        name=name, step=step, before=nights[at[point - 1]].commit,
                        after=nights[at[point]].commit, unit=unit,
                    )
                )  # fmt: skip
    return found
