"""The rows of an appendix: every claim with its command, cost, number, tolerance and check.

Tests: ``tests/pages/test_appendix.py``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.claims import Verdict, Word
from harness.pages.assessment import Assessment, assess
from harness.pages.report import campaigns, claim_rows, command
from harness.pages.rules import needs, places
from harness.results.record import Record
from harness.results.store import RecordStore
from harness.running.discovery import GROUPS, all_experiments, by_page, page_of
from harness.text import format_bytes, format_duration

Tell = Callable[[str], None]
_LONGEST = 420
"""Characters of measured numbers in a row; claims.json has all of them."""


@dataclass(frozen=True, slots=True)
class Judged:
    """A campaign with its verdicts, and the machine that made it."""

    assessment: Assessment
    machine: str


def judged(root: Path, *, tell: Tell, warn: Tell) -> list[Judged]:
    """Judge every experiment, profile and machine of a results directory."""
    found = []
    store = RecordStore(root, warn=warn)
    for machine in sorted({path.name for path in store.records.glob("*/*/*")}):
        for experiment, profile, campaign in campaigns(store, all_experiments(), machine=machine):
            tell(f"{experiment.id} ({profile.value})")
            found.append(Judged(assess(experiment, profile, campaign), machine))
    return found


def documents(items: Sequence[Judged]) -> list[dict[str, Any]]:
    """Return the verdicts as in ``claims.json``."""
    return [
        {**document, "machine_name": item.machine}
        for item in items
        for document in item.assessment.documents()
    ]


def parts(items: Sequence[Judged]) -> list[dict[str, Any]]:
    """Return the papers that have a figure, each with its figures in the paper's order."""
    several = len({item.machine for item in items}) > 1
    found = []
    for name, title in GROUPS.items():
        order = [each.id for each in by_page()[name]]
        mine = [item for item in items if page_of(item.assessment.experiment) == name]
        mine.sort(key=lambda item: order.index(item.assessment.experiment.id))
        figures = [_figure(item, several) for item in mine]
        counts = Counter(claim.word for item in mine for claim in item.assessment.claims)
        if figures:
            found.append(
                {
                    "title": title,
                    "figures": figures,
                    "counts": [counts[word] for word in Word],
                    "differs": [d for figure in figures if (d := _differs(figure))],
                }
            )
    return found


def _figure(item: Judged, several: bool) -> dict[str, Any]:
    judged = item.assessment
    rules = {claim.id: claim for claim in judged.experiment.claims}
    newest = max(judged.campaign.records, key=lambda record: record.started_unix_s)
    return {
        "experiment": judged.experiment,
        "profile": judged.profile.value,
        "machine": item.machine if several else None,
        "command": command(judged, newest.root_seed),
        "commits": sorted({record.commit for record in judged.campaign.records}),
        "notes": judged.experiment.notes,
        "ours": judged.experiment.ours,
        **_needed(judged.campaign.records),
        "claims": [
            {
                **row,
                "measured": _numbers(row["measured"]),
                "interval": _interval(verdict),
                "needs": needs(rules[verdict.id]),
                "places": places(rules[verdict.id]),
                "verdict": verdict.word.value,
            }
            for row, verdict in zip(claim_rows(judged), judged.claims, strict=True)
        ],
    }


def _needed(records: Sequence[Record]) -> dict[str, Any]:
    """Return what the runs of a campaign needed, in words; sizes are those of the largest run."""
    sizes = {}
    for name in ("peak_memory_bytes", "disk_bytes"):
        known = [size for record in records if (size := getattr(record, name)) is not None]
        sizes[name] = format_bytes(max(known)) if known else "not recorded"
    return {
        "runs": len(records),
        "time": format_duration(sum(record.seconds for record in records)),
        "memory": sizes["peak_memory_bytes"],
        "disk": sizes["disk_bytes"],
    }


def _numbers(measured: Sequence[tuple[str, str]]) -> str:
    text = "; ".join(f"{name}: {value}" for name, value in measured)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} … (all in claims.json)"


def _interval(verdict: Verdict) -> str:
    """Return the median of the samples with its 95 % interval; empty where no sample was taken."""
    sample = verdict.sample
    if sample is None:
        return ""
    runs = f"{sample.n} {'sample' if sample.n == 1 else 'samples'}"
    if sample.low is None or sample.high is None:
        return f"{sample.value:z.4g}, {runs}: too few for an interval"
    return f"{sample.value:z.4g} [{sample.low:z.4g}, {sample.high:z.4g}], {runs}"


def _differs(figure: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the sentences of papers that do not hold, with the notes; None if there is neither.

    Notes are those of a paper's own figure: one of ours has nothing to differ from."""
    claims = [
        each
        for each in figure["claims"]
        if each["kind"] == "paper" and each["verdict"] != Word.HOLDS.value
    ]
    notes = [] if figure["ours"] else figure["notes"]
    return {**figure, "claims": claims, "notes": notes} if claims or notes else None


def counted(items: Sequence[Judged]) -> Iterator[tuple[str, int]]:
    """Yield each verdict with the number of claims that have it."""
    counts = Counter(claim.word for item in items for claim in item.assessment.claims)
    yield from ((word.value, counts[word]) for word in Word)
