"""What was delivered, and whether it is right.

A result's identity is its window and key. Sinks deliver at least once, and replicas deliver
again, so an identity may arrive several times: a reader takes the first copy and drops the
others. Two different stable values for one identity are not a repetition but a contradiction.

A scheme with tentative output says of each delivery how sure it is (Balazinska et al. 2008): a
*tentative* result may be corrected, an *undo* takes it back, a *stable* one is final. A stable
value after another tentative one is a correction and no contradiction.

Frames of deliveries have a row per delivered result, in the order of arrival; without a column
`STABILITY` all of them are stable.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import pandas as pd

STABILITY = "stability"
"""The column of a delivery that says how sure it is: a `Stability`."""


class Stability(StrEnum):
    """What an engine says of a result when it delivers it."""

    STABLE = "stable"
    """It will never be taken back. The only kind that an engine without tentative output knows."""
    TENTATIVE = "tentative"
    """Computed from incomplete input; a stable version follows."""
    UNDO = "undo"
    """The tentative version that was delivered last is taken back; carries no answer."""


_RANK = {Stability.UNDO: 0, Stability.TENTATIVE: 0, Stability.STABLE: 1}
"""What stands at the end: a stable result outranks whatever else came before or after it; among
the others the newest counts, so that an undo takes a tentative result back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Versions:
    """Deliveries as a reader sees them. All frames have the columns of the deliveries."""

    first: pd.DataFrame
    """The first delivery of each identity, tentative or not: what a user acts on."""
    last: pd.DataFrame
    """What stands at the end: a stable result, else a tentative one that was not undone."""
    stable: pd.DataFrame
    """The first stable delivery of each identity."""
    duplicates: int
    """Repeated deliveries: the same value, as sure as before."""
    tentative: int
    """Identities whose first version was tentative."""
    corrections: int
    """Identities whose stable value differs from a tentative one that was delivered before."""
    uncorrected: int
    """Identities of which only tentative results (or undos of them) were ever delivered."""
    contradictions: pd.DataFrame
    """Every stable delivery of those identities that came with more than one stable value, and
    every undo of an identity that was stable already."""


def versions(deliveries: pd.DataFrame, identity: Sequence[str], values: Sequence[str]) -> Versions:
    """Tell first, last, repeated, corrected and contradictory deliveries apart.

    Raises `ValueError` for a stability that there is not.
    """
    keys = list(identity)
    stability = _stability(deliveries)
    stable = deliveries[stability == Stability.STABLE]
    results = deliveries[stability != Stability.UNDO]
    first = results.drop_duplicates(keys, keep="first")
    first_stable = stable.drop_duplicates(keys, keep="first")
    return Versions(
        first=first,
        last=_standing(deliveries, stability, keys),
        stable=first_stable,
        duplicates=_repeated(deliveries, stability, keys, list(values)),
        tentative=int((_stability(first) == Stability.TENTATIVE).sum()),
        corrections=_corrections(deliveries, stability, keys, list(values)),
        uncorrected=len(deliveries.drop_duplicates(keys)) - len(first_stable),
        contradictions=_contradictions(deliveries, stability, keys, list(values)),
    )


def _stability(deliveries: pd.DataFrame) -> pd.Series[str]:
    if STABILITY not in deliveries.columns:
        return pd.Series(Stability.STABLE.value, index=deliveries.index, dtype=str)
    unknown = set(deliveries[STABILITY]) - set(Stability)
    if unknown:
        raise ValueError(f"deliveries say they are {sorted(unknown)}, but none of {[*Stability]}")
    return deliveries[STABILITY].astype(str)


def _standing(deliveries: pd.DataFrame, stability: pd.Series[str], keys: list[str]) -> pd.DataFrame:
    """Sorting is stable, so that among equals the newest is the last."""
    order = stability.map(_RANK).to_numpy().argsort(kind="stable")
    newest = deliveries.iloc[order].assign(_undone=(stability == Stability.UNDO).iloc[order])
    newest = newest.drop_duplicates(keys, keep="last")
    standing = newest.loc[~newest["_undone"], [*deliveries.columns]]
    return standing.sort_index()


def _repeated(
    deliveries: pd.DataFrame, stability: pd.Series[str], keys: list[str], values: list[str]
) -> int:
    """A tentative result that is delivered once more after its undo is no repetition."""
    undone = (stability == Stability.UNDO).groupby([deliveries[k] for k in keys]).cumsum()
    told = deliveries[[*keys, *values]].assign(_stability=stability, _undone=undone)
    told.loc[stability == Stability.STABLE, "_undone"] = 0
    return int(told[stability != Stability.UNDO].duplicated().sum())


def _corrections(
    deliveries: pd.DataFrame, stability: pd.Series[str], keys: list[str], values: list[str]
) -> int:
    placed = deliveries[[*keys, *values]].assign(_place=range(len(deliveries)))
    final = placed[stability == Stability.STABLE].drop_duplicates(keys, keep="first")
    both = placed[stability == Stability.TENTATIVE].merge(final, on=keys, suffixes=("", "_final"))
    before = both[both["_place"] < both["_place_final"]]
    differs = pd.Series(False, index=before.index)
    for value in values:
        differs |= before[value] != before[f"{value}_final"]
    return len(before[differs].drop_duplicates(keys))


def _contradictions(
    deliveries: pd.DataFrame, stability: pd.Series[str], keys: list[str], values: list[str]
) -> pd.DataFrame:
    is_stable = stability == Stability.STABLE
    stable = deliveries[is_stable]
    distinct = stable.drop_duplicates([*keys, *values])
    contradicted = distinct.loc[distinct.duplicated(keys), keys].drop_duplicates()
    found = stable.merge(contradicted, on=keys)
    if is_stable.all():
        return found
    final = is_stable.groupby([deliveries[key] for key in keys]).cummax().astype(bool)
    return pd.concat([found, deliveries[final & (stability == Stability.UNDO)]], ignore_index=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Results against the ones expected, identity by identity."""

    expected: int
    """How many were expected."""
    missing: pd.DataFrame
    """Expected, never delivered: identity and expected values."""
    extra: pd.DataFrame
    """Delivered, not expected: identity and delivered values."""
    wrong: pd.DataFrame
    """Delivered with another value: identity, ``<value>_expected``, ``<value>_delivered``."""

    @property
    def equal(self) -> bool:
        """Something was expected, and exactly that was delivered."""
        return self.expected > 0 and not len(self.missing) + len(self.extra) + len(self.wrong)

    @property
    def accuracy(self) -> float | None:
        """Share of the expected results that were delivered right; None if none was expected."""
        if not self.expected:
            return None
        return 1 - (len(self.missing) + len(self.wrong)) / self.expected

    def describe(self, most: int = 3) -> str:
        """The counts, and the first few results that differ."""
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
) -> Comparison:
    """Compare two frames with one row per identity; values are compared exactly.

    Raises `ValueError` when an identity stands twice in one of them.
    """
    keys, columns = list(identity), [*identity, *values]
    for name, frame in (("delivered", delivered), ("expected", expected)):
        if frame.duplicated(keys).any():
            raise ValueError(f"an identity stands twice among the {name} results")
    both = expected[columns].merge(
        delivered[columns],
        on=keys,
        how="outer",
        suffixes=("_expected", "_delivered"),
        indicator="side",
    )
    in_both = both[both["side"] == "both"]
    differs = pd.Series(False, index=in_both.index)
    for value in values:
        differs |= in_both[f"{value}_expected"] != in_both[f"{value}_delivered"]
    return Comparison(
        expected=len(expected),
        missing=_one_side(both, "left_only", "expected", keys, values),
        extra=_one_side(both, "right_only", "delivered", keys, values),
        wrong=in_both.loc[differs].drop(columns="side").reset_index(drop=True),
    )


def _one_side(
    both: pd.DataFrame, side: str, suffix: str, keys: list[str], values: Sequence[str]
) -> pd.DataFrame:
    names = {f"{value}_{suffix}": value for value in values}
    rows = both.loc[both["side"] == side, [*keys, *names]]
    return rows.rename(columns=names).reset_index(drop=True)
