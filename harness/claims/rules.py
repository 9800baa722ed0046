"""Builders of claims, and of the findings that their rules return."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from harness.claims.claim import Cause, Claim, ClaimKind, Finding, Rule
from harness.claims.samples import Sample

Number = Callable[[Any], float | Sample | None]
"""Takes an experiment's tables; None if the number was not measured."""


def found(held: bool | None, /, why: str | None = None, **measured: Any) -> Finding:
    """Return a finding about the whole grid; a part of it decides nothing."""
    return Finding(held=None if _null(held) else bool(held), why=why, measured=measured)


def every(cells: Iterable[Any], /, why: str | None = None, **measured: Any) -> Finding:
    """Return a finding about each cell: False if one is, else None if one is or there is none.

    ``cells``: True, False or null each; a mapping counts by its values, a series by its items."""
    return Finding(held=all_of(cells), why=why, measured=measured, per_cell=True)


def all_of(cells: Iterable[Any]) -> bool | None:
    """Return False if one of ``cells`` is, else None if one is null or there is none, else True."""
    items = [None if _null(item) else bool(item) for item in _items(cells)]
    if False in items:
        return False
    return None if not items or None in items else True


def at_most(
    value: float | Sample | None, limit: float, /, why: str | None = None, **measured: Any
) -> Finding:
    """Return whether ``value`` is at most ``limit``, which is shown with the numbers.

    A sample's interval with the limit inside leaves the claim undecided, and so does a sample that
    is too small for an interval."""
    if isinstance(value, Sample):
        return _of_sample(value, value.below(limit), why, {**measured, "limit": limit})
    held = None if _null(value) else value <= limit  # type: ignore[operator]
    return found(held, why, **measured, limit=limit)


def at_least(
    value: float | Sample | None, limit: float, /, why: str | None = None, **measured: Any
) -> Finding:
    """Return whether ``value`` is at least ``limit``, as `at_most`."""
    if isinstance(value, Sample):
        return _of_sample(value, value.above(limit), why, {**measured, "limit": limit})
    held = None if _null(value) else value >= limit  # type: ignore[operator]
    return found(held, why, **measured, limit=limit)


def _of_sample(
    sample: Sample, held: bool | None, why: str | None, measured: Mapping[str, Any]
) -> Finding:
    shown = {"median": sample.value, "samples": sample.n}
    if sample.low is not None:
        shown["interval_95"] = [sample.low, sample.high]  # type: ignore[assignment]
    # What is open is explained by its samples.
    decided = None if held is None else why
    return Finding(held=held, why=decided, measured={**shown, **measured}, sample=sample)


def together(findings: Mapping[str, Finding]) -> Finding:
    """Return whether all of several findings hold, with the numbers of each by its name.

    The sample is that of the finding that decided it."""
    first = min(findings.values(), key=lambda each: (each.held is not False, each.held is not None))
    return Finding(
        held=all_of(each.held for each in findings.values()),
        measured={name: each.measured for name, each in findings.items()},
        sample=first.sample,
    )


def near(
    value: float | None,
    printed: float,
    tolerance: float,
    /,
    why: str | None = None,
    **measured: Any,
) -> Finding:
    """Return whether ``value`` is within ``tolerance`` of a printed number."""
    held = None if _null(value) else abs(value - printed) <= tolerance  # type: ignore[operator]
    return found(held, why, **measured, printed=printed, tolerance=tolerance)


def unmeasured(why: str | None = None, **measured: Any) -> Finding:
    """Return the finding that the data does not decide it."""
    return Finding(held=None, why=why, measured=measured)


def not_asked() -> Finding:
    """Return the finding that the claim makes no sense of this grid: it gets no verdict."""
    return Finding(held=None, asked=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentence:
    """A claim without its rule; called with one, also as a decorator, it makes the claim."""

    id: str
    text: str
    kind: ClaimKind
    because: str | None = None
    cause: Cause | None = None
    unmeasured_because: str | None = None
    rule: Rule = field(default_factory=Rule)
    counted: bool = False

    def __call__(self, decide: Callable[[Any], Finding]) -> Claim:
        """Make the claim that ``decide`` decides."""
        return Claim(
            id=self.id,
            text=self.text,
            kind=self.kind,
            decide=decide,
            because=self.because,
            cause=self.cause,
            unmeasured_because=self.unmeasured_because,
            rule=self.rule,
            counted=self.counted,
        )

    def at_most(self, value: Number, limit: float) -> Claim:
        """Claim that a number is at most ``limit``."""
        return self(lambda tables: _limited(at_most, value(tables), limit))

    def at_least(self, value: Number, limit: float) -> Claim:
        """Claim that a number is at least ``limit``."""
        return self(lambda tables: _limited(at_least, value(tables), limit))

    def near(self, value: Callable[[Any], float | None], printed: float, tolerance: float) -> Claim:
        """Claim that a number is within ``tolerance`` of a printed one."""
        return self(lambda tables: near(v := value(tables), printed, tolerance, ours=v))

    def between(self, value: Number, low: float, high: float) -> Claim:
        """Claim that a number is between two others, both included."""

        def decide(tables: Any) -> Finding:
            number = value(tables)
            bounds = at_least(number, low), at_most(number, high)
            held = all_of(bound.held for bound in bounds)
            shown = {**bounds[0].measured, "low": low, "high": high}
            return Finding(held=held, measured=shown, sample=bounds[0].sample)

        return self(decide)

    def grows(self, points: Callable[[Any], Mapping[Any, float]]) -> Claim:
        """Claim that values rise from each key to the next larger one (a mapping or a series)."""

        def decide(tables: Any) -> Finding:
            values = dict(sorted(dict(points(tables)).items()))
            steps = list(values.values())
            rising = [_rises(one, two) for one, two in pairwise(steps)]
            return found(all_of(rising), values={str(key): v for key, v in values.items()})

        return self(decide)

    def every(self, cells: Callable[[Any], Any]) -> Claim:
        """Claim that holds in each cell of the grid; failing cells are shown (mapping, series)."""

        def decide(tables: Any) -> Finding:
            judged = cells(tables)
            named = dict(judged) if hasattr(judged, "items") else dict(enumerate(judged))
            failing = [str(key) for key, holds in named.items() if not _null(holds) and not holds]
            return every(judged, failing=failing, cells=len(named))

        return self(decide)


def invariant(id: str, text: str, **more: Any) -> Sentence:  # noqa: A002
    """Begin a claim that must always hold."""
    return Sentence(id=id, text=text, kind=ClaimKind.INVARIANT, **more)


def paper(id: str, text: str, **more: Any) -> Sentence:  # noqa: A002
    """Begin a claim that is a sentence of a paper. ``more``: `Sentence`'s other fields."""
    return Sentence(id=id, text=text, kind=ClaimKind.PAPER, **more)


def hypothesis(id: str, text: str, **more: Any) -> Sentence:  # noqa: A002
    """Begin a claim that is a sentence of our own. ``more``: `Sentence`'s other fields."""
    return Sentence(id=id, text=text, kind=ClaimKind.HYPOTHESIS, **more)


def _limited(
    builder: Callable[..., Finding], value: float | Sample | None, limit: float
) -> Finding:
    return builder(value, limit, **({} if isinstance(value, Sample) else {"value": value}))


def _items(cells: Iterable[Any]) -> Iterable[Any]:
    return cells.values() if isinstance(cells, Mapping) else cells


def _rises(one: float | None, two: float | None) -> bool | None:
    return None if _null(one) or _null(two) else one < two  # type: ignore[operator]


def _null(value: Any) -> bool:
    """Return True for None, NaN and pandas' own null."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float) and math.isnan(value)
