"""Claims judged from records; what was invalid or incomplete can never hold one."""

from __future__ import annotations

import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from harness.claims import Claim, ClaimKind
from harness.experiment import Experiment, Tables
from harness.results.record import Profile
from harness.results.store import Campaign
from harness.running.discovery import reasons

SMOKE_DECIDES = "the smoke profile decides invariants only: its instances are too few and too short"


@dataclass(frozen=True, slots=True, kw_only=True)
class Assessment:
    """An experiment's campaign with its table and its claims."""

    experiment: Experiment
    profile: Profile
    campaign: Campaign
    table: Tables | None
    claims: Sequence[Claim]
    problem: str | None = None
    """Why there is no table or no verdict although every run is valid: a defect here."""

    def tables(self) -> Mapping[str, pd.DataFrame]:
        """Its tables by name; an only one has none."""
        if self.table is None:
            return {}
        return {"": self.table} if isinstance(self.table, pd.DataFrame) else self.table

    def documents(self) -> list[dict[str, Any]]:
        """The claims as they stand in ``claims.json``."""
        return [
            {
                "experiment": self.experiment.id,
                "figure": self.experiment.figure,
                "paper": self.experiment.paper,
                "kind": claim.kind.value,
                "text": claim.text,
                "held": claim.held,
                "measured": dict(claim.measured),
                "why": claim.why,
                "profile": self.profile.value,
                "engines": list(self.campaign.engines),
            }
            for claim in self.claims
        ]


def assess(experiment: Experiment, profile: Profile, campaign: Campaign) -> Assessment:
    """Tabulate the valid runs and check the claims against them."""
    unmeasured = Claim(
        text=experiment.statement,
        kind=ClaimKind.HYPOTHESIS if experiment.ours else ClaimKind.PAPER,
        held=None,
        measured={},
        why=_incompleteness(campaign),
    )
    judged = Assessment(
        experiment=experiment, profile=profile, campaign=campaign, table=None, claims=[unmeasured]
    )
    if not campaign.valid:
        return judged
    try:
        table = experiment.table(campaign.results())
        broken = _broken(experiment, campaign)
        claims = [
            _explained(_marked(claim, broken), experiment) for claim in experiment.claims(table)
        ]
    except Exception as error:
        if not campaign.complete:
            return judged
        why = f"its table or claims could not be made of its runs ({type(error).__name__}: {error})"
        return replace(
            judged, problem=traceback.format_exc(), claims=[replace(unmeasured, why=why)]
        )
    if not campaign.complete:
        claims = [_withdrawn(claim, _incompleteness(campaign)) for claim in claims]
    if profile is Profile.SMOKE:
        claims = [_undecided(claim) for claim in claims]
    return replace(judged, table=table, claims=claims)


def _broken(experiment: Experiment, campaign: Campaign) -> dict[str, Mapping[str, Any]]:
    """Invariants that an older valid record of the same code broke, with what it measured. They
    stay broken until the code has changed, however often the run is made again."""
    found: dict[str, Mapping[str, Any]] = {}
    for older in campaign.superseded:
        for claim in experiment.claims(experiment.table(older.results())):
            if claim.kind is ClaimKind.INVARIANT and claim.held is False:
                found[claim.text] = claim.measured
    return found


def _marked(claim: Claim, broken: Mapping[str, Mapping[str, Any]]) -> Claim:
    if claim.held is False or claim.text not in broken:
        return claim
    why = "an older record of the same code and point broke it"
    return replace(claim, held=False, measured=broken[claim.text], why=why)


def _explained(claim: Claim, experiment: Experiment) -> Claim:
    """With the reason for its verdict: its own, or what is known from the results that ship. What
    holds needs none, and an invariant that does not is a defect and has no excuse."""
    if claim.held:
        return replace(claim, why=None)
    if claim.why is not None or claim.kind is ClaimKind.INVARIANT:
        return claim
    return replace(claim, why=reasons().get(experiment.id, {}).get(claim.text))


def _withdrawn(claim: Claim, why_not: str) -> Claim:
    if not claim.held:
        return claim
    return replace(claim, held=None, why=why_not)


def _undecided(claim: Claim) -> Claim:
    """What two instances on one machine cannot decide; an invariant must hold in each of them."""
    if claim.kind is ClaimKind.INVARIANT or claim.held is None:
        return claim
    return replace(claim, held=None, why=SMOKE_DECIDES)


def _incompleteness(campaign: Campaign) -> str:
    skipped = len(campaign.skipped)
    bad = len(campaign.records) - len(campaign.valid) - skipped
    why = "; ".join(sorted({record.reason or "" for record in campaign.skipped}))
    return (
        f"{len(campaign.valid)} of {campaign.expected} runs are there and valid"
        + (f", {bad} failed or were invalid" if bad else "")
        + (f", {skipped} cannot be made: {why}" if skipped else "")
    )
