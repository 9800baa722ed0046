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
    table = [
        "| metric | verdict | cost over the baseline's, or minus it (99 % interval) |",
        "|---|---|---|",
        *rows,
    ]
    decided = sum(claim.held is not None for claim in night.claims)
    parts = [
        f"## Nightly: {_headline(night)}",
        f"`{night.commit}` against `{night.baseline}`, {night.pairs} pairs each, on "
        f"{night.machine_name}",
        *_listed(night.alarms, MOST_LINES, "- :warning: "),
        "",
        *(table if rows else []),
        "",
        f"{decided} of {len(night.claims)} claims are measured.",
        *_listed(night.notes, MOST_LINES, "- "),
    ]
    return "\n".join(parts) + "\n"


def _headline(night: Night) -> str:
    count = len(night.alarms)
    return f"{count} alarm{'s' * (count > 1)}" if count else "nothing is worse"


def _cell(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", "\\|")


def _listed(texts: Sequence[str], most: int, bullet: str) -> list[str]:
    lines = [f"{bullet}{_cell(text)}" for text in texts[:most]]
    return [*lines, f"{bullet}{len(texts) - most} more"] if len(texts) > most else lines
