"""What was delivered, and whether it is right.

A result's identity is its window and key. Sinks deliver at least once, and replicas deliver
again, so an identity may arrive several times: a reader takes the first copy and drops the
others. Two different values for one identity are not a repetition but a contradiction.

Frames of deliveries have a row per delivered result, in the order of arrival.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd


@dataclass(frozen=True, slots=True, kw_only=True)
class Versions:
    """Deliveries as a reader sees them. All frames have the columns of the deliveries."""

    first: pd.DataFrame
    """The first delivery of each identity: what a user acts on."""
    last: pd.DataFrame
    """The last one."""
    duplicates: int
    """Deliveries beyond the first of their identity."""
    contradictions: pd.DataFrame
    """Every delivery of those identities that came with more than one value."""


def versions(deliveries: pd.DataFrame, identity: Sequence[str], values: Sequence[str]) -> Versions:
    """Tell first, last, repeated and contradictory deliveries apart."""
    keys = list(identity)
    first = deliveries.drop_duplicates(keys, keep="first")
    distinct = deliveries.drop_duplicates([*keys, *values])
    contradicted = distinct.loc[distinct.duplicated(keys), keys].drop_duplicates()
    return Versions(
        first=first,
        last=deliveries.drop_duplicates(keys, keep="last"),
        duplicates=len(deliveries) - len(first),
        contradictions=deliveries.merge(contradicted, on=keys),
    )


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
