"""Builders of claims, and of the findings that their rules return."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import Any

from harness.claims.claim import Claim, ClaimKind, Finding
from harness.claims.quantity import Quantity, deferrable, describe, evaluate, named
from harness.claims.samples import Sample


def found(held: bool | None, /, why: str | None = None, **measured: Any) -> Finding:
    """Return a finding about the whole grid; a part of it decides nothing."""
    return Finding(held=None if _null(held) else bool(held), why=why, measured=measured)


def every(cells: Iterable[Any], /, why: str | None = None, **measured: Any) -> Finding:
    """Return a finding about each cell: False if one is, else None if one is or there is none.

    ``cells``: True, False or null each; a mapping counts by its values, a series by its items."""
    return Finding(held=all_of(cells), why=why, measured=measured, per_cell=True)


@deferrable
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


def unmeasured(why: str | None = None, **measured: Any) -> Finding:
    """Return the finding that the data does not decide it."""
    return Finding(held=None, why=why, measured=measured)


def not_asked() -> Finding:
    """Return the finding that the claim makes no sense of this grid: it gets no verdict."""
    return Finding(held=None, asked=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The rule of a claim as a value: a quantity, the comparison, its limits, and what is shown."""

    quantity: Any
    """A `Quantity`, a collection of them, or a function of the tables."""
    compare: Callable[..., Finding]
    """`found`, `every`, `at_most`, `at_least`, `near`, `between` or `grows`."""
    limits: tuple[float, ...] = ()
    words: str = "{}"
    """The comparison in words, with a place for the quantity's."""
    shown: Mapping[str, Any] = field(default_factory=dict)
    """Numbers that are shown with the verdict, by name."""
    also: Any = None
    """More numbers to show: a mapping whose names the tables give."""
    why: Any = None
    """The reason if it does not hold, where the numbers show one."""
    given: Any = True
    """Where this is not true nothing is decided, for the reason ``otherwise``."""
    otherwise: str | None = None
    asked: Any = True
    """Where this is not true the claim makes no sense."""

    def __call__(self, tables: Any) -> Finding:
        """Judge the quantity on the tables."""
        if not evaluate(self.asked, tables):
            return not_asked()
        if not evaluate(self.given, tables):
            return unmeasured(self.otherwise)
        parts = [self.quantity, self.why, self.also, dict(self.shown)]
        value, why, also, shown = evaluate(parts, tables)
        if not self._written:
            value = self.quantity(tables)
        return self.compare(value, *self.limits, why, **{**(also or {}), **shown})

    @property
    def _written(self) -> bool:
        return isinstance(self.quantity, Quantity) or not callable(self.quantity)

    @property
    def described(self) -> str:
        """The condition in words."""
        quantity = describe(self.quantity) if self._written else named(self.quantity)
        return self.words.format(quantity, *self.limits)


def _value(builder: Callable[..., Finding], value: Any, *limits: Any, **shown: Any) -> Finding:
    """Compare a number, which is shown where nothing else is and no sample says more."""
    *numbers, why = limits
    if not shown and not isinstance(value, Sample):
        shown = {"value": value}
    return builder(value, *numbers, why, **shown)


def _near(value: Any, printed: float, tolerance: float, why: str | None, **shown: Any) -> Finding:
    held = None if _null(value) else abs(value - printed) <= tolerance
    return found(held, why, **(shown or {"ours": value}), printed=printed, tolerance=tolerance)


def _between(value: Any, low: float, high: float, why: str | None, **shown: Any) -> Finding:
    bounds = _value(at_least, value, low, why), at_most(value, high)
    held = all_of(bound.held for bound in bounds)
    numbers = {**bounds[0].measured, "low": low, "high": high, **shown}
    return Finding(held=held, measured=numbers, sample=bounds[0].sample)


def _grows(points: Any, why: str | None, **shown: Any) -> Finding:
    values = dict(sorted(dict(points).items()))
    rising = [
        None if _null(one) or _null(two) else one < two for one, two in pairwise(values.values())
    ]
    return found(all_of(rising), why, values={str(key): v for key, v in values.items()}, **shown)


def _every(cells: Any, why: str | None, **shown: Any) -> Finding:
    if not shown:
        named = dict(cells) if hasattr(cells, "items") else dict(enumerate(cells))
        failing = [str(key) for key, holds in named.items() if not _null(holds) and not holds]
        shown = {"failing": failing, "cells": len(named)}
    return every(cells, why, **shown)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentence:
    """A claim without its rule: its methods make the claim.

    They take a `Quantity` (or a function of the tables), limits, and by name what is shown with
    the verdict, as well as `Comparison`'s ``also``, ``why``, ``given`` and ``asked``. Called
    with a function that returns a finding, also as a decorator, it makes a claim with a rule that
    no comparison says; the function's docstring says it."""

    claim: Claim
    """The claim whose rule is to come."""

    def __call__(self, decide: Callable[[Any], Finding]) -> Claim:
        """Make the claim that ``decide`` decides."""
        return replace(self.claim, decide=decide)

    def at_most(self, value: Any, limit: float, /, **shown: Any) -> Claim:
        """Claim that a number is at most ``limit``."""
        return self._compared(value, partial(_value, at_most), "{} is at most {:g}", limit, **shown)

    def at_least(self, value: Any, limit: float, /, **shown: Any) -> Claim:
        """Claim that a number is at least ``limit``."""
        words = "{} is at least {:g}"
        return self._compared(value, partial(_value, at_least), words, limit, **shown)

    def near(self, value: Any, printed: float, tolerance: float, /, **shown: Any) -> Claim:
        """Claim that a number is within ``tolerance`` of a printed one."""
        words = "{0} is within {2:g} of {1:g}"
        return self._compared(value, _near, words, printed, tolerance, **shown)

    def between(self, value: Any, low: float, high: float, /, **shown: Any) -> Claim:
        """Claim that a number is between two others, both included."""
        return self._compared(value, _between, "{} is between {:g} and {:g}", low, high, **shown)

    def grows(self, points: Any, /, **shown: Any) -> Claim:
        """Claim that values rise from each key to the next larger one (a mapping or a series)."""
        return self._compared(points, _grows, "{} rises from each to the next", **shown)

    def every(self, cells: Any, /, **shown: Any) -> Claim:
        """Claim that holds in each cell of the grid; by itself, the failing cells are shown."""
        return self._compared(cells, _every, "in each case: {}", **shown)

    def holds(self, condition: Any, /, **shown: Any) -> Claim:
        """Claim that holds of the whole grid; a part of it decides nothing."""
        return self._compared(condition, found, "{}", **shown)

    def _compared(
        self,
        quantity: Any,
        compare: Callable[..., Finding],
        words: str,
        *limits: float,
        **more: Any,
    ) -> Claim:
        own = {name: more.pop(name) for name in _OPTIONS if name in more}
        return self(
            Comparison(
                quantity=quantity, compare=compare, words=words, limits=limits, shown=more, **own
            )
        )


_OPTIONS = ("also", "why", "given", "otherwise", "asked")
"""What a rule takes by name besides what it shows."""


def invariant(id: str, text: str, **more: Any) -> Sentence:  # noqa: A002
    """Begin a claim that must always hold."""
    return _sentence(ClaimKind.INVARIANT, id, text, more)


def paper(id: str, text: str, **more: Any) -> Sentence:  # noqa: A002
    """Begin a claim that is a sentence of a paper. ``more``: `Claim`'s other fields."""
    return _sentence(ClaimKind.PAPER, id, text, more)


def hypothesis(id: str, text: str, **more: Any) -> Sentence:  # noqa: A002
    """Begin a claim that is a sentence of our own. ``more``: `Claim`'s other fields."""
    return _sentence(ClaimKind.HYPOTHESIS, id, text, more)


def _sentence(kind: ClaimKind, name: str, text: str, more: Mapping[str, Any]) -> Sentence:
    caller = sys._getframe(2)
    place = caller.f_code.co_filename, caller.f_lineno
    return Sentence(
        claim=Claim(id=name, text=text, kind=kind, decide=unmeasured, place=place, **more)
    )


def _items(cells: Any) -> Iterator[Any]:
    """Yield the cells of mappings, series, tables and lists, however nested."""
    if hasattr(cells, "to_numpy"):
        yield from cells.to_numpy().ravel()
    elif isinstance(cells, Mapping):
        yield from _items(cells.values())
    elif isinstance(cells, Iterable) and not isinstance(cells, str):
        for each in cells:
            yield from _items(each)
    else:
        yield cells


def _null(value: Any) -> bool:
    """Return True for None, NaN and pandas' own null."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float) and math.isnan(value)
