"""Sentences that are checked against what was measured, and what it means when one fails."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


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
