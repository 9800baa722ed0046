"""Tonight's claims, decided by the records of a results directory as in the report."""

from __future__ import annotations

import math
from collections.abc import Sequence

from harness.claims import Verdict, Word
from harness.nightly.history import ClaimNight
from harness.pages.assessment import assess
from harness.pages.walk import campaigns
from harness.results.store import RecordStore

LIVE = ("live", "stock")
"""Groups whose claims compare engines on real servers: their numbers are kept night by night."""


def claims_tonight(store: RecordStore) -> Sequence[ClaimNight]:
    """Return the claims of the newest campaign of each experiment and profile on this machine."""
    found = []
    for experiment, profile, campaign in campaigns(store):
        found += [
            ClaimNight(
                experiment=experiment.id,
                profile=profile.value,
                id=claim.id,
                text=claim.text,
                kind=claim.kind.value,
                held=None if claim.held is None else bool(claim.held),
                undecided=_undecided(claim),
                numbers=_numbers(claim) if experiment.group in LIVE else {},
            )
            for claim in assess(experiment, profile, campaign).claims
        ]
    return found


def _undecided(claim: Verdict) -> str:
    return (claim.why or "no reason is known") if claim.word is Word.UNDECIDED else ""


def _numbers(claim: Verdict) -> dict[str, float]:
    return {
        key: float(value)
        for key, value in claim.measured.items()
        if isinstance(value, int | float)
        and not isinstance(value, bool)
        and math.isfinite(value)
        and not key.startswith(("limit", "tolerance", "bound"))
    }
