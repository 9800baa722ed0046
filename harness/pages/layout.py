"""The templates of all pages, and the content of the first page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jinja2

from harness.measure.metrics import METRICS
from harness.measurement import Origin
from harness.pages import published
from harness.pages.answer_picture import in_words, picture
from harness.pages.answers import Answer
from harness.pages.assessment import Assessment
from harness.pages.cards import Files
from harness.pages.outages import outages
from harness.pages.sentences import counted, counts
from harness.results.provenance import describe_machine, describe_versions
from harness.results.record import Profile
from harness.running.code import of_other_code

TEMPLATES = Path(__file__).parent / "templates"


def templates(*before: Path, escape: bool = True) -> jinja2.Environment:
    """Return the templates of the report; those in ``before`` come first.

    ``escape``: as HTML."""
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader([*before, TEMPLATES]),
        autoescape=escape,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )


def overview(
    judged: Sequence[Assessment],
    findings: Sequence[Answer],
    files: Files,
    printed: Sequence[published.Row],
) -> dict[str, Any]:
    """Return the content of the first page, but for its list of figures.

    ``printed`` are the numbers of papers beside those that were judged. The pictures of its
    findings go into ``files``. Machine and versions are those of the newest record, of this
    process without any."""
    claims = counted(judged)
    records = {record.run: record for item in judged for record in item.campaign.records}.values()
    older = of_other_code(records)
    newest = max(records, key=lambda record: record.started_unix_s, default=None)
    return {
        "machine": describe_machine() if newest is None else newest.machine,
        "versions": describe_versions() if newest is None else newest.stated_versions,
        "profiles": ", ".join(sorted({item.profile.value for item in judged})) or "nothing yet",
        "findings": [
            {
                "answer": each,
                "figure": files.picture(f"finding-{each.question.id}", ("svg+xml", picture(each))),
                "alt": in_words(each),
            }
            for each in findings
        ],
        "older": older,
        "commits": sorted({each.commit[:8] for each in records if each.experiment in older}),
        "runs": len(records),
        "printed": published.sentence(printed),
        "outages": outages(judged),
        **counts(judged),
        "broken": [c for c in claims if c.kind.value == "invariant" and c.held is False],
        "origins": _origins(judged),
        "smoke": any(item.profile is Profile.SMOKE for item in judged),
        "metrics": METRICS,
    }


def _origins(judged: Sequence[Assessment]) -> str:
    """Return "3 figures measured on real servers, 2 simulated, 4 computed"."""
    count = Counter(item.experiment.origin for item in judged)
    return (
        f"{count[Origin.MEASURED]} measured on real servers, {count[Origin.SIMULATED]} simulated, "
        f"{count[Origin.COMPUTED]} computed"
    )
