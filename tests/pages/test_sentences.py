"""One verdict counts for a sentence, and what it rests on is counted apart."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.claims import Basis, ClaimKind, Foregone, Verdict, Word, hypothesis, paper
from harness.measurement import Origin
from harness.pages.assessment import Assessment
from harness.pages.sentences import claims_json, counted, score, score_lines
from harness.results.record import Profile
from harness.running.discovery import all_experiments
from tests.pages.test_report import judged
from tests.toys import toy

LIVE, SIMULATED = ("live", Origin.MEASURED), ("simulated", Origin.SIMULATED)
HELD, BROKEN, OPEN, MISSING = (True, None), (False, None), (None, 5), (None, None)
"""What a rule found, and its number of samples."""


def assessment(name: str, origin: Origin, profile: Profile, **verdicts: Any) -> Assessment:
    """Return an assessment with these verdicts by the ids of their claims."""
    experiment = toy(identifier=name, origin=origin)
    basis = {Origin.MEASURED: Basis.LIVE, Origin.SIMULATED: Basis.SIMULATED}[origin]
    claims = [
        Verdict(
            id=claim, text=claim, kind=ClaimKind.PAPER, held=held, samples=samples, measured={},
            basis=basis, sentence=f"ppa/figure/{claim}",
        )
        for claim, (held, samples) in verdicts.items()
    ]  # fmt: skip
    campaign: Any = None
    return Assessment(
        experiment=experiment, profile=profile, campaign=campaign, table=None, claims=claims
    )


def standing(*found: tuple[tuple[str, Origin], Profile, tuple[bool | None, int | None]]) -> Verdict:
    items = [assessment(f"ppa/{n}", o, profile, one=each) for (n, o), profile, each in found]
    (verdict,) = counted(items)
    return verdict


@pytest.mark.parametrize(
    ("found", "basis", "word"),
    [
        ([(SIMULATED, Profile.QUICK, HELD), (LIVE, Profile.QUICK, BROKEN)], "live",
         "does not hold"),
        ([(SIMULATED, Profile.QUICK, HELD), (LIVE, Profile.QUICK, OPEN)], "simulated", "holds"),
        ([(SIMULATED, Profile.QUICK, OPEN), (LIVE, Profile.QUICK, MISSING)], "simulated",
         "undecided"),
        ([(LIVE, Profile.QUICK, HELD), (LIVE, Profile.PAPER, BROKEN)], "live", "does not hold"),
        ([(LIVE, Profile.QUICK, HELD), (LIVE, Profile.PAPER, OPEN)], "live", "undecided"),
        ([(LIVE, Profile.QUICK, HELD), (LIVE, Profile.PAPER, MISSING)], "live", "holds"),
        ([(LIVE, Profile.QUICK, HELD), (LIVE, Profile.QUICK, BROKEN)], "live", "does not hold"),
    ],
)  # fmt: skip
def test_the_strongest_ground_that_decides_a_sentence_counts(
    found: list[Any], basis: str, word: str
) -> None:
    for order in (found, found[::-1]):
        verdict = standing(*order)
        assert (verdict.basis, verdict.word.value) == (basis, word)


def test_a_reading_counts_only_where_the_sentence_itself_was_not_measured() -> None:
    item = assessment("ppa/figure", Origin.SIMULATED, Profile.QUICK, strict=BROKEN, mild=HELD)
    experiment = replace(item.experiment, sentences={"mild": "ppa/figure/strict"})
    strict, mild = (replace(each, sentence="ppa/figure/strict") for each in item.claims)
    item = replace(item, experiment=experiment, claims=[mild, strict])
    assert [each.held for each in counted([item])] == [False]
    unknown = replace(strict, held=None)
    assert unknown.word is Word.NOT_MEASURED
    assert [each.held for each in counted([replace(item, claims=[mild, unknown])])] == [True]


@pytest.mark.parametrize("broken", [Profile.QUICK, Profile.PAPER])
def test_a_broken_invariant_counts_whatever_another_profile_found(broken: Profile) -> None:
    items = []
    for profile in (Profile.PAPER, Profile.QUICK):
        found = BROKEN if profile is broken else HELD
        item = assessment("ppa/figure", Origin.MEASURED, profile, one=found)
        claims = [replace(each, kind=ClaimKind.INVARIANT) for each in item.claims]
        items.append(replace(item, claims=claims))
    assert [each.held for each in counted(items)] == [False]
    (row,) = [row for row in score(items) if row["failed"]]
    assert row["title"] == "invariants, which must hold"


def test_what_is_settled_beforehand_is_counted_apart_and_says_why(tmp_path: Path) -> None:
    chosen = paper(
        "chosen", "It is so", foregone=Foregone.CIRCULAR, foregone_because="y was chosen by it"
    )
    claims = [chosen.holds(True), hypothesis("open", "It may be so").holds(False)]
    item = judged(tmp_path, toy(claims=claims))
    first, second = item.claims
    assert first.basis is Basis.FOREGONE
    assert second.basis is not Basis.FOREGONE
    titles = {row["title"]: row for row in score([item])}
    assert titles["sentences of papers: circular or by construction"]["held"] == 1
    assert any("circular or by construction" in line for line in score_lines([item]))
    documents = json.loads(
        claims_json([item, replace(item, claims=[replace(each) for each in item.claims])])
    )
    assert [each["counts"] for each in documents].count(True) == 2
    assert documents[0]["foregone"] == "circular"
    assert documents[1]["foregone"] is None


def test_sentences_are_those_of_claims_that_there_are() -> None:
    known = {f"{each.id}/{claim.id}" for each in all_experiments() for claim in each.claims}
    ids = {each.id for each in all_experiments()}
    for experiment in all_experiments():
        own = {claim.id for claim in experiment.claims}
        assert set(experiment.sentences) <= own, experiment.id
        assert set(experiment.sentences.values()) <= known, experiment.id
        assert not experiment.counterpart or experiment.counterpart in ids, experiment.id
        for claim in experiment.claims:
            assert bool(claim.foregone) == bool(claim.foregone_because), claim.id
