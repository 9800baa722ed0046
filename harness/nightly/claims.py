"""Tonight's claims: what the records of a results directory decide, as the report shows them."""

from __future__ import annotations

from collections.abc import Sequence

from harness.catalogue import all_experiments
from harness.nightly.history import ClaimNight
from harness.report.build import campaigns
from harness.report.verdicts import judge
from harness.results.store import Store


def claims_tonight(store: Store) -> Sequence[ClaimNight]:
    """Every claim of the newest campaign of each experiment and profile on this machine."""
    found = []
    for experiment, profile, campaign in campaigns(store, all_experiments()):
        found += [
            ClaimNight(
                experiment=experiment.id,
                profile=profile.value,
                text=claim.text,
                kind=claim.kind.value,
                held=None if claim.held is None else bool(claim.held),
            )
            for claim in judge(experiment, profile, campaign).claims
        ]
    return found
