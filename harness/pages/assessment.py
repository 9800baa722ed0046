"""Verdicts from records; invalid or missing runs can never make a claim hold."""

from __future__ import annotations

import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from harness.claims import Basis, ClaimKind, Verdict, judge, too_few, unmeasured
from harness.claims.claim import about_times, verdict_of
from harness.experiment import Experiment, Tables
from harness.measurement import Origin
from harness.pages.trust import alike, sound, trusted
from harness.results.record import Profile
from harness.results.store import Campaign

SMOKE_DECIDES = "the smoke profile decides invariants only: its instances are too few and too short"


@dataclass(frozen=True, slots=True, kw_only=True)
class Assessment:
    """A campaign of an experiment with its tables and verdicts."""

    experiment: Experiment
    profile: Profile
    campaign: Campaign
    table: Tables | None
    claims: Sequence[Verdict]
    problem: str | None = None
    """The error of a table or a rule although every run is valid: a defect here."""

    def tables(self) -> Mapping[str, pd.DataFrame]:
        """Return its tables by name; a single one has the empty name."""
        if self.table is None:
            return {}
        return {"": self.table} if isinstance(self.table, pd.DataFrame) else self.table

    def documents(self) -> list[dict[str, Any]]:
        """Return the verdicts as in ``claims.json``."""
        return [
            {
                "experiment": self.experiment.id,
                "figure": self.experiment.figure,
                "paper": self.experiment.paper,
                "id": claim.id,
                "kind": claim.kind.value,
                "text": claim.text,
                "sentence": claim.sentence,
                "rests_on": claim.basis and claim.basis.value,
                "foregone": claim.foregone and claim.foregone.value,
                "held": claim.held,
                "measured": dict(claim.measured),
                "why": claim.why,
                "cause": claim.cause and claim.cause.value,
                "verdict": claim.word.value,
                "rule": {"version": claim.rule.version, "since": claim.rule.since},
                "post_hoc": claim.post_hoc,
                "samples": claim.samples,
                "interval": None
                if claim.sample is None or claim.sample.low is None
                else [claim.sample.low, claim.sample.high],
                "runs": [record.run for record in self.campaign.valid],
                "commits": sorted({record.commit for record in self.campaign.valid}),
                "profile": self.profile.value,
                "engines": list(self.campaign.engines),
            }
            for claim in self.claims
        ]


def assess(experiment: Experiment, profile: Profile, campaign: Campaign) -> Assessment:
    """Tabulate the valid runs and judge the claims by them."""
    judged = _judged(experiment, profile, campaign)
    basis = _BASES[experiment.origin]
    claims = [
        replace(
            verdict,
            basis=Basis.FOREGONE if verdict.foregone else basis,
            sentence=_key(experiment, verdict),
        )
        for verdict in judged.claims
    ]
    return replace(judged, claims=claims)


_BASES = {
    Origin.MEASURED: Basis.LIVE,
    Origin.SIMULATED: Basis.SIMULATED,
    Origin.COMPUTED: Basis.COMPUTED,
}


def _key(experiment: Experiment, verdict: Verdict) -> str:
    """Return the key of a sentence; an invariant is one of its own figure."""
    own = verdict.kind is ClaimKind.INVARIANT
    return f"{experiment.id}/{verdict.id}" if own else experiment.sentence(verdict.id)


def _judged(experiment: Experiment, profile: Profile, campaign: Campaign) -> Assessment:
    incompleteness = _incompleteness(campaign)
    missing = None if campaign.complete else incompleteness
    judged = Assessment(
        experiment=experiment,
        profile=profile,
        campaign=campaign,
        table=None,
        claims=_unmeasured(experiment, incompleteness),
    )
    if not campaign.valid:
        return judged
    try:
        table = experiment.table(campaign.results())
    except Exception as error:
        if missing is not None:
            return judged
        why = f"its table could not be made of its runs ({type(error).__name__}: {error})"
        return replace(judged, problem=traceback.format_exc(), claims=_unmeasured(experiment, why))
    broken = _broken(experiment, campaign)
    found = verdicts(experiment, table, missing)
    by_sound = _by_sound_runs(experiment, campaign, found, missing)
    chosen = [by_sound.get(v.id, (v, campaign)) for v in found]
    claims = [_marked(verdict, broken) for verdict, _ in chosen]
    seeds = {record.root_seed for record in campaign.valid}
    claims = [replace(v, post_hoc=bool(seeds & {*v.rule.seen_seeds})) for v in claims]
    if profile is Profile.SMOKE:
        claims = [_undecided(verdict) for verdict in claims]
    claims = [
        trusted(_supported(verdict, experiment, runs), experiment, runs)
        for verdict, (_, runs) in zip(claims, chosen, strict=True)
    ]
    problem = "\n".join(f"{v.id}: {v.problem}" for v in claims if v.problem) or None
    return replace(judged, table=table, claims=claims, problem=problem)


def verdicts(experiment: Experiment, table: Tables, missing: str | None = None) -> list[Verdict]:
    """Judge every claim by a table; ``missing`` describes the runs that are not there."""
    each = (judge(claim, table, missing=missing) for claim in experiment.claims)
    return [verdict for verdict in each if verdict is not None]


def _by_sound_runs(
    experiment: Experiment, campaign: Campaign, found: Sequence[Verdict], missing: str | None
) -> dict[str, tuple[Verdict, Campaign]]:
    """Return the verdicts that the runs which count for times decide alone, with these runs.

    They decide if every point has enough of them, or if the claim is about other rows: without the
    other runs it is decided alike. What is counted and what must always hold goes by all runs."""
    rest = sound(campaign)
    if len(rest.records) == len(campaign.records) or not rest.valid:
        return {}
    try:
        table = experiment.table(rest.results())
    except Exception:  # no table without these runs: every claim rests on them
        return {}
    enough = rest.points.keys() == campaign.points.keys() and rest.samples >= experiment.fewest
    without = {verdict.id: verdict for verdict in verdicts(experiment, table, missing)}
    return {
        v.id: (other, rest)
        for v in found
        if (other := without.get(v.id)) is not None and about_times(v)
        if enough or alike(v, other)
    }


def _unmeasured(experiment: Experiment, why: str) -> list[Verdict]:
    return [verdict_of(claim, unmeasured(why)) for claim in experiment.claims]


def _broken(experiment: Experiment, campaign: Campaign) -> dict[str, Mapping[str, Any]]:
    """Return the invariants that an older valid record of the same code broke, with its numbers.

    They stay broken until the code changes, however often the run is made again."""
    found: dict[str, Mapping[str, Any]] = {}
    for older in campaign.superseded:
        try:
            table = experiment.table(older.results())
        except Exception:  # its series are spoilt; the newer record, which is read, counts
            continue
        for verdict in verdicts(experiment, table):
            if verdict.kind is ClaimKind.INVARIANT and verdict.held is False:
                found[verdict.id] = verdict.measured
    return found


def _marked(verdict: Verdict, broken: Mapping[str, Mapping[str, Any]]) -> Verdict:
    if verdict.held is False or verdict.id not in broken:
        return verdict
    why = "an older record of the same code and point broke it"
    return replace(verdict, held=False, measured=broken[verdict.id], why=why)


def _undecided(verdict: Verdict) -> Verdict:
    """Return the verdict of two instances on one machine: invariants alone are decided there."""
    if verdict.kind is ClaimKind.INVARIANT:
        return verdict
    if verdict.held is None:
        return replace(verdict, why=verdict.why or SMOKE_DECIDES)
    return replace(verdict, held=None, why=SMOKE_DECIDES, sample=None, samples=None)


SAMPLES_SINCE = "2026-11-26"
"""Since this day intervals are exact and need six samples, and so does any verdict on what was
measured live: a further version of each such rule that is older."""


COUNTED_SINCE = "2026-11-27"
"""Since this day a counted claim needs as many runs to hold: a version of its rule as well."""


def _supported(verdict: Verdict, experiment: Experiment, campaign: Campaign) -> Verdict:
    """Return a verdict on live measurements, undecided if too few samples are behind it.

    The samples of a counted claim are all runs, of any point, and one of them refutes it."""
    live = experiment.origin is Origin.MEASURED and verdict.kind is not ClaimKind.INVARIANT
    rule, since = verdict.rule, COUNTED_SINCE if verdict.counted else SAMPLES_SINCE
    if (live or verdict.sample is not None) and rule.since < since:
        rule = replace(rule, version=rule.version + 1, since=since)
    verdict = replace(verdict, rule=rule)
    if not live or verdict.held is None:
        return verdict
    repetitions = len(campaign.valid) if verdict.counted else campaign.samples
    samples = repetitions if verdict.samples is None else verdict.samples
    if samples >= experiment.fewest or (verdict.counted and verdict.held is False):
        return replace(verdict, samples=samples)
    why = too_few(samples, experiment.fewest)
    return replace(verdict, held=None, why=why, cause=None, samples=samples)


def _incompleteness(campaign: Campaign) -> str:
    skipped = len(campaign.skipped)
    bad = len(campaign.records) - len(campaign.valid) - skipped
    why = "; ".join(sorted({record.reason or "" for record in campaign.skipped}))
    return (
        f"{len(campaign.valid)} of {campaign.expected} runs are there and valid"
        + (f", {bad} failed or were invalid" if bad else "")
        + (f", {skipped} cannot be made: {why}" if skipped else "")
    )
