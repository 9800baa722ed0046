"""Builders of verdicts that are made without a claim."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from harness.claims.claim import ClaimKind, Verdict
from harness.claims.regions import region as region_found

Place = TypeVar("Place")


def at_most(text: str, value: float | None, limit: float, measured: Mapping[str, Any]) -> Verdict:
    """Return the verdict."""
    return Verdict(
        text=text,
        kind=ClaimKind.HYPOTHESIS,
        held=None if value is None else value <= limit,
        measured={**measured, "limit": limit},
    )


def region(held: Mapping[Place, Mapping[str, bool]], named: Callable[[Place], str]) -> Verdict:
    """Return the verdict."""
    finding = region_found(held, named)
    return Verdict(
        text="There is a region of the lost parameters where all sentences hold together",
        kind=ClaimKind.HYPOTHESIS,
        held=finding.held,
        measured=finding.measured,
    )


def verdicts(
    experiment: Any, table: Any, missing: str | None, reasons: Mapping[str, Mapping[str, str]]
) -> list[Verdict]:
    """Return the verdicts of an experiment whose claims are a function."""
    found = []
    for each in experiment.claims(table):
        why = each.why or reasons.get(experiment.id, {}).get(each.text)
        if each.held:
            why = None
        held = each.held
        if missing is not None and held:
            held, why = None, missing
        if each.kind is ClaimKind.INVARIANT and held is False:
            why = each.why
        found.append(replace(each, id=each.id or slug(each.text), held=held, why=why))
    return found


def unmeasured(experiment: Any, why: str | None) -> list[Verdict]:
    """Return the one verdict of an experiment whose claims are a function."""
    kind = ClaimKind.HYPOTHESIS if experiment.ours else ClaimKind.PAPER
    text = experiment.statement
    return [Verdict(id="statement", text=text, kind=kind, held=None, measured={}, why=why)]


def slug(text: str) -> str:
    """Return an id made of a text."""
    return "-".join("".join(c if c.isalnum() else " " for c in text.lower()).split()[:8])
