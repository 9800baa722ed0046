"""The same claims judged of several sets of results: of other machines, revisions or clusters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from harness.catalogue import all_experiments
from harness.report.verdicts import Assessment, assess
from harness.results.library import Found
from harness.results.record import Profile
from harness.results.store import RecordStore


def verdicts(sides: Sequence[Sequence[Found]]) -> list[dict[str, Any]]:
    """A row per claim that the first side and another one judge: what each side says of it, None
    where it did not measure it or has no run of it. Each side's newest campaign speaks for it."""
    found = [
        {
            (item.experiment.id, item.profile.value, claim.text): (claim.kind.value, claim.held)
            for item in _judged(side)
            for claim in item.claims
        }
        for side in sides
    ]
    first, *others = found
    return [
        {
            "experiment": experiment,
            "profile": profile,
            "kind": kind,
            "claim": text,
            "held": [side.get((experiment, profile, text), (kind, None))[1] for side in found],
        }
        for (experiment, profile, text), (kind, _) in first.items()
        if any((experiment, profile, text) in other for other in others)
    ]


def _judged(side: Sequence[Found]) -> Iterator[Assessment]:
    newest: dict[tuple[str, Profile], Found] = {}
    for each in sorted(side, key=lambda each: each.record.started_unix_s):
        newest[each.record.experiment, Profile(each.record.profile)] = each
    for experiment in all_experiments():
        for (source, profile), each in newest.items():
            if source != experiment.source:
                continue
            record = each.record
            campaign = RecordStore(each.root).campaign(
                record.question,
                record.code,
                each.machine_name,
                record.repeats,
                experiment.grid[profile],
            )
            if campaign.records:
                yield assess(experiment, profile, campaign)
