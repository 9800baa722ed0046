"""Sentences that are checked against what was measured, and what it means when one fails."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeVar

Place = TypeVar("Place")
"""A combination of parameters."""


class ClaimKind(StrEnum):
    """What it means when a claim does not hold."""

    INVARIANT = "invariant"
    """It must always hold; if it does not, something is broken here. The identities of a formula
    are among them: they show that the formula was written down right, not that it is true."""
    PAPER = "paper"
    """A sentence of a paper. It may honestly fail to hold here."""
    HYPOTHESIS = "hypothesis"
    """A sentence of our own. It may fail to hold as well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One sentence, checked against what was measured."""

    text: str
    """The sentence; a paper's in its own words as far as a check allows."""
    kind: ClaimKind
    held: bool | None
    """None where it was not measured."""
    measured: Mapping[str, Any]
    """The numbers the verdict rests on, the tolerance among them."""
    why: str | None = None
    """Why it does not hold, or why it was not measured, where the experiment can tell it from the
    numbers; never shown where it holds. What was found out afterwards, by looking at the results
    that ship, stands in ``experiments/*/_reasons.py``, so that a better reason discards no run."""


def at_most(text: str, value: float | None, limit: float, measured: Mapping[str, Any]) -> Claim:
    """A sentence of our own with a limit, which then stands beside what was ``measured``; null
    where there is no ``value``."""
    return Claim(
        text=text,
        kind=ClaimKind.HYPOTHESIS,
        held=None if value is None else value <= limit,
        measured={**measured, "limit": limit},
    )


def shares(held: Mapping[Place, Mapping[str, bool]]) -> dict[str, float]:
    """In what share of the combinations that decide it each sentence holds, in the order in which
    they come."""
    by_sentence: dict[str, list[bool]] = {}
    for cell in held.values():
        for sentence, holds in cell.items():
            by_sentence.setdefault(sentence, []).append(holds)
    return {sentence: sum(found) / len(found) for sentence, found in by_sentence.items()}


def region(held: Mapping[Place, Mapping[str, bool]], named: Callable[[Place], str]) -> Claim:
    """Whether all sentences hold together anywhere, where parameters of a paper are lost."""
    whole = [place for place, cell in held.items() if all(cell.values())]
    best = max(held, key=lambda place: sum(held[place].values()) / len(held[place]))
    return Claim(
        text="There is a region of the lost parameters where all sentences hold together",
        kind=ClaimKind.HYPOTHESIS,
        held=bool(whole),
        measured={
            "combinations_where_all_hold": len(whole),
            "combinations": len(held),
            "where": [named(place) for place in whole],
            "best": named(best),
            "failing_there": [text for text, holds in held[best].items() if not holds],
            "share_of_combinations_by_sentence": shares(held),
        },
    )
