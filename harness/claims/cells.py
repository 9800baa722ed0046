"""A number of a figure: the cells of its tables that it is taken from, and its printed counterpart.

A figure states the numbers that its paper prints as data (`Printed`), with the cells in which ours
stand. Findings of the first page take their numbers by `Cells` as well."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from harness.claims.samples import Sample, median_of

if TYPE_CHECKING:
    import pandas as pd

PASS = ("run", "variant", "workload", "failures", "repeat", "topology", "depth")
"""Columns that tell passes apart, those that a table has."""


Derived = Callable[["pd.DataFrame"], "pd.Series[float]"]
"""A column that is computed from a table."""


@dataclass(frozen=True, slots=True)
class Cells:
    """The median over passes of a column, in the rows with certain values."""

    table: str
    """Its name; empty if the figure has one table."""
    column: str | Derived
    where: Mapping[str, Any] = field(default_factory=dict)
    """A value by column, several, or a function of the column that returns a mask."""
    over: Mapping[str, Any] = field(default_factory=dict)
    """Divide by the rows of the same pass that have these values instead."""
    per: Sequence[str] = PASS
    """The columns that tell samples apart."""
    take: Callable[[pd.Series[Any]], Sample | None] = median_of
    """The statistic of the samples."""

    def sample(self, tables: Mapping[str, pd.DataFrame], **key: Any) -> Sample | None:
        """Return the number of the rows that also have the values of a key; None without any."""
        frame = tables.get(self.table)
        if frame is None or not {*self.where, *key} <= {*frame}:
            return None
        if callable(self.column):
            name, frame = _DERIVED, frame.assign(**{_DERIVED: self.column(frame)})
        elif (name := self.column) not in frame:
            return None
        rows = _chosen(frame, {**key, **self.where})
        if f"{name}_low" in rows:  # a table of medians
            rows = rows.dropna(subset=name).sort_values("n", kind="stable")
            return _given(rows.iloc[-1], name) if len(rows) else None
        by = [each for each in self.per if each in frame]
        values = rows.groupby(by)[name].median() if by else rows[name]
        if self.over:
            whole = _chosen(frame, {**key, **self.where, **self.over})
            values = values / whole.groupby(by)[name].median()
        return self.take(values)


_DERIVED = "derived"


def largest(values: pd.Series[Any]) -> Sample | None:
    """Return the largest value, which has no interval."""
    known = values.dropna()
    if not len(known):
        return None
    return Sample(value=float(known.max()), low=None, high=None, n=len(known))


def largest_of(column: pd.Series[float]) -> pd.Series[bool]:
    """Return where a column has its largest value."""
    return column == column.max()


def smallest_of(column: pd.Series[float]) -> pd.Series[bool]:
    """Return where a column has its smallest value."""
    return column == column.min()


def nearest_to(value: float) -> Callable[[pd.Series[float]], pd.Series[bool]]:
    """Return the choice of the rows whose value is nearest to this one."""
    return lambda column: (column - value).abs() == (column - value).abs().min()


def _chosen(frame: pd.DataFrame, values: Mapping[str, Any]) -> pd.DataFrame:
    """Return the rows with these values, one condition after the other."""
    for name, value in values.items():
        if callable(value):
            mask = value(frame[name])
        else:
            mask = frame[name].isin(value if isinstance(value, tuple) else (value,))
        frame = frame[mask]
    return frame


def _given(row: pd.Series[Any], column: str) -> Sample:
    import pandas as pd

    low, high = (row[f"{column}_{end}"] for end in ("low", "high"))
    known = pd.notna(low) and pd.notna(high)
    return Sample(
        value=float(row[column]),
        low=float(low) if known else None,
        high=float(high) if known else None,
        n=int(row["n"]),
    )


class Nearness(StrEnum):
    """How near a number of ours is to the printed one."""

    TENTH = "within 10 %"
    LIMIT = "within the printed limit"
    TWICE = "within a factor of two"
    ORDER = "in order only"
    """It has the printed place among the numbers that are printed with it."""
    FAR = "apart"
    MISSING = "not measured here"


@dataclass(frozen=True, slots=True, kw_only=True)
class Printed:
    """Numbers that a paper prints together, and the cells of the figure that have ours."""

    what: str
    unit: str
    place: str
    """Where the paper prints them."""
    by: Sequence[str] = ()
    """The columns whose values are the keys of ``values``."""
    values: Mapping[tuple[Any, ...], float]
    ours: Cells
    bound: str = ""
    """``at least`` or ``at most`` if the paper prints a limit, which counts if ours keeps it."""
    why: str = ""
    """Why ours may differ, where that is known."""

    def on(self, table: str) -> Printed:
        """Return the same numbers, with ours in another table."""
        return replace(self, ours=replace(self.ours, table=table))

    def compared(self, tables: Mapping[str, pd.DataFrame]) -> list[Compared]:
        """Return each number with ours."""
        ours = {
            key: self.ours.sample(tables, **dict(zip(self.by, key, strict=True)))
            for key in self.values
        }
        return [
            Compared(
                printed=self, key=key, value=value, ours=ours[key], nearness=self._near(key, ours)
            )
            for key, value in self.values.items()
        ]

    def _near(self, key: tuple[Any, ...], ours: Mapping[Any, Sample | None]) -> Nearness:
        value, sample = self.values[key], ours[key]
        if sample is None:
            return Nearness.MISSING
        kept = {"at least": sample.value >= value, "at most": sample.value <= value}
        if kept.get(self.bound):
            return Nearness.LIMIT
        factor = sample.value / value
        if abs(factor - 1.0) <= 0.1:
            return Nearness.TENTH
        if 0.5 <= factor <= 2.0:
            return Nearness.TWICE
        others = [
            (self.values[name], each.value)
            for name, each in ours.items()
            if each is not None and self.values[name] != value
        ]
        agree = [(theirs < value) == (other < sample.value) for theirs, other in others]
        return Nearness.ORDER if agree and all(agree) else Nearness.FAR


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A printed number with ours."""

    printed: Printed
    key: tuple[Any, ...]
    value: float
    ours: Sample | None
    nearness: Nearness

    @property
    def factor(self) -> float | None:
        """Ours as a multiple of the printed number."""
        return None if self.ours is None else self.ours.value / self.value
