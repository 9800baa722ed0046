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

from harness.measure.values import differs

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
    keys = list(identity)
    deliveries = settled(deliveries, identity, values, tolerance=tolerance)
    stability = _stability(deliveries)
    stable = deliveries[stability == Stability.STABLE]
    results = deliveries[stability != Stability.UNDO]
    first = results.drop_duplicates(keys, keep="first")
    first_stable = stable.drop_duplicates(keys, keep="first")
    answers = deliveries[keys].assign(_answer=_answers(deliveries, keys, values, tolerance))
    return Versions(
        first=first,
        last=_standing(deliveries, stability, keys),
        stable=first_stable,
        duplicates=_repeated(answers, stability, keys),
        early=int((stability == Stability.TENTATIVE).sum()),
        setbacks=_setbacks(deliveries, stability, keys),
        tentative=int((_stability(first) == Stability.TENTATIVE).sum()),
        corrections=_corrections(answers, stability, keys),
        uncorrected=len(deliveries.drop_duplicates(keys)) - len(first_stable),
        contradictions=_contradictions(deliveries, answers, stability, keys),
    )


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
    number = mine.groupby(list(identity), sort=False, dropna=False).ngroup().to_numpy()
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
    final = deliveries[stability == Stability.STABLE].drop_duplicates([*identity])
    both = deliveries[stability == Stability.TENTATIVE].merge(
        final[[*identity, *numbers]], on=[*identity], suffixes=("", "_final")
    )
    if not numbers or not len(both):
        return None
    errors = [
        (both[name] - both[f"{name}_final"]).abs() / both[f"{name}_final"].abs().clip(lower=1)
        for name in numbers
    ]
    return float(pd.concat(errors).mean())


def _setbacks(deliveries: pd.DataFrame, stability: pd.Series[str], keys: list[str]) -> int:
    is_stable = stability == Stability.STABLE
    after = is_stable.groupby([deliveries[key] for key in keys]).cummax().astype(bool)
    return int((after & (stability == Stability.TENTATIVE)).sum())


def _stability(deliveries: pd.DataFrame) -> pd.Series[str]:
    if STABILITY not in deliveries.columns:
        return pd.Series(Stability.STABLE.value, index=deliveries.index, dtype=str)
    unknown = set(deliveries[STABILITY]) - set(Stability)
    if unknown:
        raise ValueError(f"deliveries say they are {sorted(unknown)}, but none of {[*Stability]}")
    return deliveries[STABILITY].astype(str)


def _answers(
    deliveries: pd.DataFrame, keys: list[str], values: Sequence[str], tolerance: float
) -> NDArray[np.int64]:
    """Return a number per delivery that is the same for equal values of one identity."""
    if all(_exact(deliveries[value]) for value in values):
        same = deliveries.groupby([*keys, *values], sort=False, dropna=False)
        return same.ngroup().to_numpy().astype(np.int64)
    answers = np.zeros(len(deliveries), dtype=np.int64)
    identity = deliveries.groupby(keys, sort=False, dropna=False).ngroup().to_numpy()
    left = np.flatnonzero(deliveries.duplicated(keys, keep=False).to_numpy())
    while len(left):
        first = pd.Series(left).groupby(identity[left]).transform("first").to_numpy()
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


def _standing(deliveries: pd.DataFrame, stability: pd.Series[str], keys: list[str]) -> pd.DataFrame:
    """Return the versions at the end. Sorting is stable: among equals the newest is the last."""
    order = stability.map(_RANK).to_numpy().argsort(kind="stable")
    newest = deliveries.iloc[order].assign(_undone=(stability == Stability.UNDO).iloc[order])
    newest = newest.drop_duplicates(keys, keep="last")
    standing = newest.loc[~newest["_undone"], [*deliveries.columns]]
    return standing.sort_index()


def _repeated(answers: pd.DataFrame, stability: pd.Series[str], keys: list[str]) -> int:
    """Count repetitions; a tentative result that comes again after its undo is not one."""
    undone = (stability == Stability.UNDO).groupby([answers[k] for k in keys]).cumsum()
    seen = answers.assign(_stability=stability, _undone=undone)
    seen.loc[stability == Stability.STABLE, "_undone"] = 0
    return int(seen[stability != Stability.UNDO].duplicated().sum())


def _corrections(answers: pd.DataFrame, stability: pd.Series[str], keys: list[str]) -> int:
    placed = answers.assign(_place=range(len(answers)))
    final = placed[stability == Stability.STABLE].drop_duplicates(keys, keep="first")
    both = placed[stability == Stability.TENTATIVE].merge(final, on=keys, suffixes=("", "_final"))
    before = both[both["_place"] < both["_place_final"]]
    return len(before[before["_answer"] != before["_answer_final"]].drop_duplicates(keys))


def _contradictions(
    deliveries: pd.DataFrame, answers: pd.DataFrame, stability: pd.Series[str], keys: list[str]
) -> pd.DataFrame:
    is_stable = stability == Stability.STABLE
    distinct = answers[is_stable].drop_duplicates()
    contradicted = distinct.loc[distinct.duplicated(keys), keys].drop_duplicates()
    found = deliveries[is_stable].merge(contradicted, on=keys)
    if is_stable.all():
        return found
    final = is_stable.groupby([deliveries[key] for key in keys]).cummax().astype(bool)
    return pd.concat([found, deliveries[final & (stability == Stability.UNDO)]], ignore_index=True)


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
    for name, frame in (("delivered", delivered), ("expected", expected)):
        if frame.duplicated(keys).any():
            raise ValueError(f"an identity stands twice among the {name} results")
    # Rows are joined by number: a join of their values would make doubles of integers.
    rows = (
        expected[keys]
        .assign(_expected=range(len(expected)))
        .merge(delivered[keys].assign(_delivered=range(len(delivered))), on=keys, how="outer")
    )
    absent, surplus = rows["_delivered"].isna(), rows["_expected"].isna()
    both = rows[~absent & ~surplus].astype({"_expected": int, "_delivered": int})
    due, came = expected.iloc[both["_expected"]], delivered.iloc[both["_delivered"]]
    wrong = _unlike(due, came, values, tolerance)
    sides = {"expected": due[wrong], "delivered": came[wrong]}
    return Comparison(
        expected=len(expected),
        missing=_rows(expected, rows.loc[absent, "_expected"], columns),
        extra=_rows(delivered, rows.loc[surplus, "_delivered"], columns),
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


def _rows(frame: pd.DataFrame, numbers: pd.Series[float], columns: list[str]) -> pd.DataFrame:
    return frame.iloc[numbers.astype(int)][columns].reset_index(drop=True)
