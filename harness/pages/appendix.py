"""The artifact appendix: every claim with its command, cost, number, tolerance and check.

It is Markdown from one template, and the same text as a page.

Tests: ``tests/pages/test_appendix.py``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mistune

from harness import __version__
from harness.cache import sha256
from harness.claims import Claim
from harness.environment.licences import (
    JAR_LOCKS,
    PACKAGE_LOCKS,
    WHEEL_LOCKS,
    jars,
    licences,
    pins,
)
from harness.pages.assessment import Assessment
from harness.pages.cards import Card, card, groups_of
from harness.pages.layout import templates
from harness.pages.sentences import counts
from harness.pages.trials import TRIALS
from harness.results.provenance import ROOT
from harness.results.record import Record
from harness.text import format_bytes

_CODE = re.compile(r"<code>.*?</code>")
_SPECIAL = re.compile(r"([\\`*_\[\]|<>])")
_LONGEST = 420
"""Characters of measured numbers in a row; claims.json has all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The revision whose tree is in the archive."""

    commit: str
    date: str
    """ISO date of the commit."""
    unix_s: int
    """The same instant; every file of the archive has it."""


def markdown(judged: Sequence[Assessment], source: Source, *, title: str) -> str:
    """Return the appendix; ``title`` names the set."""
    environment = templates(escape=False)  # Markdown, whose own characters `plain` escapes
    environment.filters |= {"plain": plain, "code": code}
    runs = {record.run: record for item in judged for record in item.campaign.records}
    stated = licences()
    text: str = environment.get_template("appendix.md.j2").render(
        title=title,
        version=__version__,
        source=source,
        parts=parts(judged),
        **counts(judged),
        trials=TRIALS,
        machines=_machines(runs.values()),
        locks=_locks(),
        jars=[(name, stated["jars"][name], digest) for name, digest in jars()],
        packages=sorted(stated["packages"].items()),
    )
    return text


def parts(judged: Sequence[Assessment]) -> list[dict[str, Any]]:
    """Return the papers that have a figure, each with its figures in the paper's order."""
    several = len({item.campaign.machine_name for item in judged}) > 1
    groups = groups_of([_figure(item, several) for item in judged])
    for group in groups:
        group["differs"] = [f for f in map(_differing, group["cards"]) if f["claims"] or f["notes"]]
    return groups


def _figure(judged: Assessment, several: bool) -> dict[str, Any]:
    """Return a card with what its runs needed, and what each rule needs and where it stands."""
    shown, records = card(judged, None, None), judged.campaign.records
    rules = {claim.id: claim for claim in judged.experiment.claims}
    for row in shown["claims"]:
        rule = rules[row["id"]]
        row |= {"needs": rule.needs, "place": place(rule)}
        numbers = "; ".join(f"{name}: {value}" for name, value in row["measured"])
        cut = f"{numbers[:_LONGEST]} … (all in claims.json)"
        row["numbers"] = numbers if len(numbers) <= _LONGEST else cut
    return {
        **shown,
        "machine": judged.campaign.machine_name if several else None,
        "commits": sorted({record.commit for record in records}),
        "runs": len(records),
        "memory": _largest([record.peak_memory_bytes for record in records]),
        "disk": _largest([record.disk_bytes for record in records]),
    }


def _machines(records: Iterable[Record]) -> list[dict[str, Any]]:
    """Return each machine and set of versions with the number of its runs, the most runs first."""
    found: dict[str, dict[str, Any]] = {}
    for record in records:
        facts = {**record.machine, **record.stated_versions}
        mine = found.setdefault(repr(sorted(facts.items())), {"facts": facts, "runs": 0})
        mine["runs"] += 1
    return sorted(found.values(), key=lambda each: (-each["runs"], repr(each["facts"])))


def _locks() -> list[tuple[str, int, str]]:
    """Return each lock file with the number of its pins and its SHA-256."""
    counts = {path: len(pins(path)) for path in (*PACKAGE_LOCKS, *WHEEL_LOCKS)}
    counts |= {path: path.read_text().count('"sha256"') for path in JAR_LOCKS}
    return [(path.relative_to(ROOT).as_posix(), n, sha256(path)) for path, n in counts.items()]


def place(claim: Claim) -> str:
    """Return the place of a claim, as ``path:line`` from the root."""
    file, line = claim.place
    return f"{Path(file).relative_to(ROOT).as_posix()}:{line}"


def _largest(sizes: Sequence[int | None]) -> str:
    known = [size for size in sizes if size is not None]
    return format_bytes(max(known)) if known else "not recorded"


def _differing(figure: Card) -> dict[str, Any]:
    """Return a figure with its paper's sentences that do not hold, and its notes.

    Notes are those of a paper's own figure: one of ours has nothing to differ from."""
    experiment = figure["experiment"]
    claims = [row for row in figure["claims"] if row["kind"] == "paper" and row["css"] != "held"]
    return {**figure, "claims": claims, "notes": () if experiment.ours else experiment.notes}


def html(text: str) -> str:
    """Return the page of a Markdown text: one file, no network."""
    body = str(mistune.create_markdown(escape=True, plugins=["table"])(text))
    # In a table's code, mistune leaves the backslash that keeps a bar from ending the cell.
    body = _CODE.sub(lambda match: match[0].replace("\\|", "|"), body)
    title = text.partition("\n")[0].removeprefix("# ")
    page: str = templates().get_template("appendix.html.j2").render(title=title, body=body)
    return page


def plain(text: object) -> str:
    """Return a text for a line or a cell, its characters without a meaning in Markdown."""
    return _SPECIAL.sub(r"\\\1", " ".join(str(text).split()))


def code(text: object) -> str:
    """Return a text as code in a line or a cell."""
    return f"`{' '.join(str(text).split())}`".replace("|", "\\|")
