"""The versions of each delivered result, and their comparison with what was expected.

A result's identity is its window and key. Sinks deliver at least once, and replicas deliver
again, so an identity may arrive several times: a reader takes the first copy and drops the
others. Two different stable values for one identity are not a repetition but a contradiction.

An engine that emits *revisions* (update mode) replaces each value of an identity by the next: its
result is the last one, which counts from the first time that it came (`settled`).

A scheme with tentative output marks each delivery (Balazinska et al. 2008): a *tentative* result
may be corrected, an *undo* takes it back, a *stable* one is final. A stable value after another
tentative one is a correction, not a contradiction.

Frames of deliveries have a row per delivered result, in the order of arrival; without a column
`STABILITY` all of them are stable. Values are equal as `harness.measure.values` defines it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from harness.measure.values import differs, identities

STABILITY = "stability"
"""The column with the `Stability` of a delivery."""


class Stability(StrEnum):
    """How an engine marks a result that it delivers."""

    STABLE = "stable"
    """Never taken back. The only kind of an engine without tentative output."""
    TENTATIVE = "tentative"
    """Computed from incomplete input; a stable version follows."""
    UNDO = "undo"
    """Takes back the tentative version that was delivered last; carries no answer."""
    REVISION = "revision"
    """Replaced by the next revision of its identity; the last one is the result."""


_RANK = {Stability.UNDO: 0, Stability.TENTATIVE: 0, Stability.STABLE: 1}
"""A stable result outranks all other deliveries, before or after it; among the others the newest
counts, so that an undo takes a tentative result back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Versions:
    """Deliveries in the view of a reader. All frames have the columns of the deliveries."""

    first: pd.DataFrame
    """The first delivery of each identity, tentative or not, on which a user acts."""
    last: pd.DataFrame
    """The version at the end: a stable result, else a tentative one that was not undone."""
    stable: pd.DataFrame
    """The first stable delivery of each identity."""
    duplicates: int
    """Repeated deliveries: the same value with the same stability."""
    early: int
    """Deliveries whose value is not the one that stays."""
    setbacks: int
    """Those of them that came after the value that stays."""
    tentative: int
    """Identities whose first version was tentative."""
    corrections: int
    """Identities whose stable value differs from a tentative one that was delivered before."""
    uncorrected: int
    """Identities of which only tentative results (or undos of them) were ever delivered."""
    contradictions: pd.DataFrame
    """Every stable delivery of those identities that came with more than one stable value, and
    every undo of an identity that was stable already."""


def versions(
    deliveries: pd.DataFrame,
    identity: Sequence[str],
    values: Sequence[str],
    *,
    tolerance: float = 0.0,
) -> Versions:
    """Distinguish first, last, repeated, corrected and contradictory deliveries.

    Of revisions the value that stays is stable, and every other one tentative (`settled`). Raises
    `ValueError` for an unknown stability."""
    deliveries = settled(deliveries, identity, values, tolerance=tolerance)
    stability = _stability(deliveries)
    answers = pd.DataFrame(
        {
            "identity": identities([deliveries], identity)[0],
            "answer": _answers(deliveries, identity, values, tolerance),
            "stability": stability,
        },
        index=deliveries.index,
    )
    is_stable, is_result = stability == Stability.STABLE, stability != Stability.UNDO
    first = deliveries[is_result][~answers["identity"][is_result].duplicated()]
    first_stable = deliveries[is_stable][~answers["identity"][is_stable].duplicated()]
    return Versions(
        first=first,
        last=_standing(deliveries, answers),
        stable=first_stable,
        duplicates=_repeated(answers),
        early=int((stability == Stability.TENTATIVE).sum()),
        setbacks=int((_is_final(answers) & (stability == Stability.TENTATIVE)).sum()),
        tentative=int((_stability(first) == Stability.TENTATIVE).sum()),
        corrections=_corrections(answers),
        uncorrected=answers["identity"].nunique() - len(first_stable),
        contradictions=_contradictions(deliveries, answers),
    )


def first_of_each(deliveries: pd.DataFrame, identity: Sequence[str]) -> pd.DataFrame:
    """Return the first row of each identity."""
    (number,) = identities([deliveries], identity)
    return deliveries[~pd.Series(number, index=deliveries.index).duplicated()]


def revises(deliveries: pd.DataFrame) -> bool:
    """Return True if there are revisions among the deliveries."""
    return STABILITY in deliveries.columns and bool(
        (deliveries[STABILITY] == Stability.REVISION).any()
    )


def settled(
    deliveries: pd.DataFrame,
    identity: Sequence[str],
    values: Sequence[str],
    *,
    tolerance: float = 0.0,
) -> pd.DataFrame:
    """Return the deliveries with every revision marked as stable or tentative.

    Stable are those with the value that their identity has at the end."""
    if not revises(deliveries):
        return deliveries
    revised = (deliveries[STABILITY] == Stability.REVISION).to_numpy()
    mine = deliveries[revised]
    (number,) = identities([mine], identity)
    last = pd.Series(np.arange(len(mine))).groupby(number).transform("last").to_numpy()
    early = _unlike(mine.iloc[last], mine, values, tolerance)
    marks = deliveries[STABILITY].astype(str).to_numpy(dtype=object, copy=True)
    marks[revised] = np.where(early, Stability.TENTATIVE.value, Stability.STABLE.value)
    return deliveries.assign(**{STABILITY: marks})


def early_error(
    deliveries: pd.DataFrame, identity: Sequence[str], values: Sequence[str]
) -> float | None:
    """Return the mean relative error of early numbers against those that stay.

    ``deliveries`` are `settled`. None without an early version or a column of numbers."""
    numbers = [value for value in values if deliveries[value].dtype.kind in "iuf"]
    stability = _stability(deliveries)
    (number,) = identities([deliveries], identity)
    rows = deliveries[numbers].assign(_identity=number)
    final = rows[stability == Stability.STABLE].drop_duplicates("_identity")
    both = rows[stability == Stability.TENTATIVE].merge(
        final, on="_identity", suffixes=("", "_final")
    )
    if not numbers or not len(both):
        return None
    errors = [
        (both[name] - both[f"{name}_final"]).abs() / both[f"{name}_final"].abs().clip(lower=1)
        for name in numbers
    ]
    return float(pd.concat(errors).mean())


def _is_final(answers: pd.DataFrame) -> pd.Series[bool]:
    """Return True for each delivery of an identity from its first stable one on."""
    is_stable = answers["stability"] == Stability.STABLE
    return is_stable.groupby(answers["identity"]).cummax().astype(bool)


def _stability(deliveries: pd.DataFrame) -> pd.Series[str]:
    if STABILITY not in deliveries.columns:
        return pd.Series(Stability.STABLE.value, index=deliveries.index, dtype=str)
    unknown = set(deliveries[STABILITY]) - set(Stability)
    if unknown:
        raise ValueError(f"deliveries say they are {sorted(unknown)}, but none of {[*Stability]}")
    return deliveries[STABILITY].astype(str)


def _answers(
    deliveries: pd.DataFrame, identity: Sequence[str], values: Sequence[str], tolerance: float
) -> NDArray[np.int64]:
    """Return a number per delivery that is the same for equal values of one identity."""
    if all(_exact(deliveries[value]) for value in values):
        return identities([deliveries], [*identity, *values])[0]
    answers = np.zeros(len(deliveries), dtype=np.int64)
    number = pd.Series(identities([deliveries], identity)[0])
    left = np.flatnonzero(number.duplicated(keep=False))
    while len(left):
        first = pd.Series(left).groupby(number[left].to_numpy()).transform("first").to_numpy()
        wrong = _unlike(deliveries.iloc[first], deliveries.iloc[left], values, tolerance)
        left = left[wrong & (left != first)]
        answers[left] += 1
    return answers


def _exact(column: pd.Series[Any]) -> bool:
    """Return True for whole numbers and text, which are equal or not without a tolerance."""
    return column.dtype.kind in "iub" or pd.api.types.infer_dtype(column, skipna=False) == "string"


def _unlike(
    one: pd.DataFrame, other: pd.DataFrame, values: Sequence[str], tolerance: float
) -> NDArray[np.bool_]:
    """Return True for rows of two frames with an unequal value at the same place."""
    wrong = np.zeros(len(one), dtype=bool)
    for value in values:
        wrong |= differs(one[value], other[value], tolerance)
    return wrong


def _standing(deliveries: pd.DataFrame, answers: pd.DataFrame) -> pd.DataFrame:
    """Return the versions at the end. Sorting is stable: among equals the newest is the last."""
    order = answers["stability"].map(_RANK).to_numpy().argsort(kind="stable")
    newest = answers.iloc[order].assign(place=order).drop_duplicates("identity", keep="last")
    standing = newest.loc[newest["stability"] != Stability.UNDO, "place"]
    return deliveries.iloc[np.sort(standing)]


def _repeated(answers: pd.DataFrame) -> int:
    """Count repetitions; a tentative result that comes again after its undo is not one."""
    is_undo = answers["stability"] == Stability.UNDO
    seen = answers.assign(undone=is_undo.groupby(answers["identity"]).cumsum())
    seen.loc[answers["stability"] == Stability.STABLE, "undone"] = 0
    return int(seen[~is_undo].duplicated().sum())


def _corrections(answers: pd.DataFrame) -> int:
    placed = answers.assign(place=range(len(answers)))
    final = placed[answers["stability"] == Stability.STABLE].drop_duplicates("identity")
    both = placed[answers["stability"] == Stability.TENTATIVE].merge(
        final, on="identity", suffixes=("", "_final")
    )
    before = both[both["place"] < both["place_final"]]
    return before.loc[before["answer"] != before["answer_final"], "identity"].nunique()


def _contradictions(deliveries: pd.DataFrame, answers: pd.DataFrame) -> pd.DataFrame:
    is_stable = answers["stability"] == Stability.STABLE
    distinct = answers[is_stable].drop_duplicates()
    contradicted = distinct.loc[distinct["identity"].duplicated(), "identity"]
    found = deliveries[is_stable & answers["identity"].isin(contradicted)]
    taken_back = deliveries[_is_final(answers) & (answers["stability"] == Stability.UNDO)]
    return pd.concat([found, taken_back], ignore_index=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Results against the ones expected, identity by identity."""

    expected: int
    """Number of expected results."""
    missing: pd.DataFrame
    """Expected, never delivered: identity and expected values."""
    extra: pd.DataFrame
    """Delivered, not expected: identity and delivered values."""
    wrong: pd.DataFrame
    """Delivered with another value: identity, ``<value>_expected``, ``<value>_delivered``."""

    @property
    def equal(self) -> bool:
        """True if results were expected, and exactly these were delivered."""
        return self.expected > 0 and not len(self.missing) + len(self.extra) + len(self.wrong)

    @property
    def accuracy(self) -> float | None:
        """Share of the expected results that were delivered right; None if none was expected."""
        if not self.expected:
            return None
        return 1 - (len(self.missing) + len(self.wrong)) / self.expected

    def describe(self, most: int = 3) -> str:
        """Return the counts, and the first few results that differ."""
        if self.equal:
            return f"all {self.expected} equal"
        parts = [
            f"{len(frame)} {name}, such as {frame.head(most).to_dict('records')}"
            for name, frame in (
                ("missing", self.missing),
                ("extra", self.extra),
                ("wrong", self.wrong),
            )
            if len(frame)
        ]
        return f"of {self.expected} expected: " + "; ".join(parts or ["nothing to compare"])


def compare(
    delivered: pd.DataFrame,
    expected: pd.DataFrame,
    identity: Sequence[str],
    values: Sequence[str],
    *,
    tolerance: float = 0.0,
) -> Comparison:
    """Compare two frames with one row per identity.

    Raises `ValueError` when an identity stands twice in one of them."""
    keys, columns = list(identity), [*identity, *values]
    due_of, came_of = identities([expected, delivered], identity)
    for name, number in (("delivered", came_of), ("expected", due_of)):
        if len(np.unique(number)) < len(number):
            raise ValueError(f"an identity stands twice among the {name} results")
    _, due_at, came_at = np.intersect1d(due_of, came_of, return_indices=True)
    due, came = expected.iloc[due_at], delivered.iloc[came_at]
    wrong = _unlike(due, came, values, tolerance)
    sides = {"expected": due[wrong], "delivered": came[wrong]}
    return Comparison(
        expected=len(expected),
        missing=expected.loc[~np.isin(due_of, came_of), columns].reset_index(drop=True),
        extra=delivered.loc[~np.isin(came_of, due_of), columns].reset_index(drop=True),
        wrong=due.loc[wrong, keys]
        .reset_index(drop=True)
        .assign(
            **{
                f"{value}_{side}": frame[value].reset_index(drop=True)
                for value in values
                for side, frame in sides.items()
            }
        ),
    )
