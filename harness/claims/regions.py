"""Regions of lost parameters: combinations where all sentences of a paper hold together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from harness.claims.claim import Finding

Place = TypeVar("Place")
"""A combination of parameters."""


def shares(held: Mapping[Place, Mapping[str, bool]]) -> dict[str, float]:
    """Return for each sentence the share of combinations where it holds, of those that decide it.

    Sentences keep the order in which they come."""
    by_sentence: dict[str, list[bool]] = {}
    for cell in held.values():
        for sentence, holds in cell.items():
            by_sentence.setdefault(sentence, []).append(holds)
    return {sentence: sum(each) / len(each) for sentence, each in by_sentence.items()}


def region(held: Mapping[Place, Mapping[str, bool]], named: Callable[[Place], str]) -> Finding:
    """Return whether all sentences hold together for some combination, with the best one.

    One combination is enough, so a part of the grid that has it decides the claim only together
    with the rest: the finding is about the whole grid."""
    whole = [place for place, cell in held.items() if all(cell.values())]
    best = max(held, key=lambda place: sum(held[place].values()) / len(held[place]))
    return Finding(
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
