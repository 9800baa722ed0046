"""The report's pages: a short first one, and one for each paper."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jinja2

from harness import __version__
from harness.claims import ClaimKind, Verdict, Word
from harness.measure.metrics import METRICS
from harness.measurement import Origin
from harness.pages.assessment import Assessment
from harness.pages.outages import outages
from harness.results.provenance import ROOT, describe_machine, describe_versions
from harness.results.record import Profile
from harness.running.discovery import GROUPS, page_of, place_of

TEMPLATES = Path(__file__).parent / "templates"
Card = Mapping[str, Any]


def pages(
    cards: Sequence[Card], judged: Sequence[Assessment], folder: Path, records: Path
) -> dict[str, str]:
    """Return the pages by file name; ``index.html`` is the first one.

    A paper's page has all of its figures, tables and numbers. No page needs a network or a server.
    """
    groups = groups_of(cards)
    environment = templates()
    shared = {
        "version": __version__,
        "written": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
    }
    found = {
        str(group["page"]): environment.get_template("paper.html.j2").render(
            **shared,
            title=f"Faultline: {group['title']}",
            group=group,
            notebook=_notebook(str(group["name"]), folder),
        )
        for group in groups
    }
    found["index.html"] = environment.get_template("index.html.j2").render(
        **shared,
        **overview(judged),
        title="Faultline report",
        groups=groups,
        records=records,
        trends=(folder / "trends.html").exists(),
    )
    return found


def templates(*before: Path) -> jinja2.Environment:
    """Return the templates of the report; those in ``before`` come first."""
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader([*before, TEMPLATES]),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )


def overview(judged: Sequence[Assessment]) -> dict[str, Any]:
    """Return the content of the first page, but for its list of figures.

    Machine and versions are those of the newest record, of this process without any."""
    claims = [claim for item in judged for claim in item.claims]
    records = [record for item in judged for record in item.campaign.records]
    newest = max(records, key=lambda record: record.started_unix_s, default=None)
    return {
        "machine": describe_machine() if newest is None else newest.machine,
        "versions": describe_versions() if newest is None else newest.stated_versions,
        "profiles": ", ".join(sorted({item.profile.value for item in judged})) or "nothing yet",
        "outages": outages(judged),
        "score": _score(claims),
        "broken": [c for c in claims if c.kind.value == "invariant" and c.held is False],
        "origins": _origins(judged),
        "smoke": any(item.profile is Profile.SMOKE for item in judged),
        "metrics": METRICS,
    }


def groups_of(cards: Sequence[Card]) -> list[dict[str, Any]]:
    """Return the groups that have a card, each with its cards and its count of verdicts."""
    found = []
    for name, title in GROUPS.items():
        mine = [card for card in cards if page_of(card["experiment"]) == name]
        mine.sort(key=lambda card: place_of(card["experiment"]))
        if not mine:
            continue
        verdicts = Counter(claim["verdict"] for card in mine for claim in card["claims"])
        found.append(
            {
                "name": name,
                "title": title,
                "page": f"{name}.html",
                "cards": mine,
                "held": verdicts["held"],
                "failed": verdicts["not held"],
                "undecided": verdicts["undecided"],
                "unmeasured": verdicts["not measured"],
                "unfinished": sum(card["valid"] < card["expected"] for card in mine),
            }
        )
    return found


def _notebook(group: str, folder: Path) -> dict[str, str] | None:
    """Return the notebook with a group's figures, with its path from the report's folder."""
    name = "my_own_run" if group == "stock" else f"paper_{group}"
    path = ROOT / "notebooks" / f"{name}.ipynb"
    if not path.exists():
        return None
    return {"name": name, "href": os.path.relpath(path, folder.absolute())}


def published(claims: Sequence[Verdict]) -> list[dict[str, Any]]:
    """Return the claims about a printed number, with that number and ours.

    The name of the measured number marks it: ``printed...`` or ``published...``."""
    found = []
    for claim in claims:
        printed = [key for key in claim.measured if key.startswith(("printed", "published"))]
        ours = [key for key in claim.measured if key.startswith("ours")] or [
            key
            for key in claim.measured
            if key not in printed and not key.startswith(("tolerance", "largest"))
        ]
        if printed and ours:
            found.append(
                {
                    "text": claim.text,
                    "printed": claim.measured[printed[0]],
                    "ours": claim.measured[ours[0]],
                }
            )
    return found


def _origins(judged: Sequence[Assessment]) -> str:
    """Return "3 figures measured on real servers, 2 simulated, 4 computed"."""
    counts = Counter(item.experiment.origin for item in judged)
    words = {
        Origin.MEASURED: "measured on real servers",
        Origin.SIMULATED: "simulated",
        Origin.COMPUTED: "computed",
    }
    assert set(words) == set(Origin)
    return ", ".join(f"{counts[origin]} {words[origin]}" for origin in words)


_KINDS = {
    ClaimKind.INVARIANT: "invariants, which must hold",
    ClaimKind.PAPER: "sentences of papers",
    ClaimKind.HYPOTHESIS: "hypotheses of our own",
}


def _score(claims: Sequence[Verdict]) -> list[dict[str, Any]]:
    """Return the number of claims by kind and verdict."""
    assert set(_KINDS) == set(ClaimKind)
    counts = Counter((claim.kind, claim.word) for claim in claims)
    return [
        {
            "title": title,
            "held": counts[kind, Word.HOLDS],
            "failed": counts[kind, Word.DOES_NOT_HOLD],
            "undecided": counts[kind, Word.UNDECIDED],
            "unmeasured": counts[kind, Word.NOT_MEASURED],
        }
        for kind, title in _KINDS.items()
    ]
