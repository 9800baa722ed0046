"""The same claims on several sets of results: of other machines, revisions or clusters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from harness.claims import Word
from harness.pages.assessment import Assessment, assess
from harness.pages.walk import named
from harness.results.record import Point, Profile
from harness.results.store import Campaign, RecordStore, StoredRecord


def verdicts(sides: Sequence[Sequence[StoredRecord]]) -> list[dict[str, Any]]:
    """Return a row per claim that the first side and another one judge.

    It has each side's verdict in a word, the sample behind it (value, both ends of its interval,
    number) where there is one, and its number of valid runs."""
    found = [{(one.experiment.id, one.profile): one for one in _judged(side)} for side in sides]
    return [
        row
        for key, item in found[0].items()
        if any(key in other for other in found[1:])
        for row in _rows(item, [side.get(key) for side in found])
    ]


def _rows(first: Assessment, sides: Sequence[Assessment | None]) -> Iterator[dict[str, Any]]:
    judged = [{} if side is None else {c.id: c for c in side.claims} for side in sides]
    for claim in first.claims:
        mine = [side.get(claim.id) for side in judged]
        samples = [None if v is None else v.sample for v in mine]
        if any(mine[1:]):
            yield {
                "experiment": first.experiment.id,
                "profile": first.profile.value,
                "kind": claim.kind.value,
                "id": claim.id,
                "claim": claim.text,
                "verdicts": [(Word.NOT_MEASURED if v is None else v.word).value for v in mine],
                "samples": [None if s is None else [s.value, s.low, s.high, s.n] for s in samples],
                "valid": [0 if side is None else len(side.campaign.valid) for side in sides],
                "expected": first.campaign.expected,
            }


def differ(row: Mapping[str, Any]) -> bool:
    """Return whether two sides decide a claim, a row of `verdicts`, and not alike."""
    return {Word.HOLDS.value, Word.DOES_NOT_HOLD.value} <= {*row["verdicts"]}


def _judged(side: Sequence[StoredRecord]) -> Iterator[Assessment]:
    """Yield by experiment and profile the newest complete campaign, else the newest."""
    newest: dict[tuple[str, Profile], dict[str, StoredRecord]] = {}
    for each in sorted(side, key=lambda each: -each.record.started_unix_s):
        runs = (each.record.experiment, Profile(each.record.profile))
        newest.setdefault(runs, {}).setdefault(each.record.campaign, each)
    for experiment in named(None):
        for (source, profile), asked in newest.items():
            if source == experiment.measurement.id:
                found = [_campaign(each, experiment.grid[profile]) for each in asked.values()]
                best = next((campaign for campaign in found if campaign.complete), found[0])
                if best.records:
                    yield assess(experiment, profile, best)


def _campaign(each: StoredRecord, grid: Sequence[Point]) -> Campaign:
    record = each.record
    store = RecordStore(each.root)
    return store.campaign(record.question, record.code, each.machine_name, record.repeats, grid)
