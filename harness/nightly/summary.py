"""A night in Markdown, for the terminal and a workflow's page."""

from __future__ import annotations

import re
from collections.abc import Sequence

from harness.nightly.history import Night

MOST_LINES = 20
"""Alarms, or notes, that the page lists; the rest are counted."""


def markdown(night: Night) -> str:
    """Return the page: alarms, then every metric, then notes."""
    rows = [
        f"| {_cell(name)} | {metric.verdict} | {_cell(metric.numbers)} |"
        for name, metric in night.metrics.items()
    ]
    head = "| metric | verdict | cost over the baseline's, or minus it (99 % interval) |"
    decided = sum(claim.held is not None for claim in night.claims)
    count = len(night.alarms)
    headline = f"{count} alarm{'s' * (count > 1)}" if count else "nothing is worse"
    parts = [
        f"## Nightly: {headline}",
        f"`{night.commit}` against `{night.baseline}`, {night.pairs} pairs each, on "
        f"{night.machine_name}",
        *_listed(night.alarms, "- :warning: "),
        "",
        *([head, "|---|---|---|", *rows] if rows else []),
        "",
        f"{decided} of {len(night.claims)} claims are decided.",
        *_listed(night.notes, "- "),
    ]
    return "\n".join(parts) + "\n"


def _cell(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", "\\|")


def _listed(texts: Sequence[str], bullet: str) -> list[str]:
    lines = [f"{bullet}{_cell(text)}" for text in texts[:MOST_LINES]]
    more = len(texts) - MOST_LINES
    return [*lines, f"{bullet}{more} more"] if more > 0 else lines
