"""Claims that do not hold have a reason, in the results that ship."""

from __future__ import annotations

import json
import re

from harness.claims import ClaimKind
from harness.results.provenance import ROOT
from harness.running.discovery import all_experiments

ID = re.compile(r"[a-z0-9][a-z0-9./+-]*")
SHIPPED = json.loads((ROOT / "results" / "baselines" / "report" / "claims.json").read_text())


def test_every_claim_has_an_id_of_its_own() -> None:
    for experiment in all_experiments():
        ids = [claim.id for claim in experiment.claims]
        assert len(set(ids)) == len(ids), f"{experiment.id} has a claim id twice"
        assert all(ID.fullmatch(each) for each in ids), ids


def test_the_results_that_ship_are_about_claims_that_there_are() -> None:
    known = {(e.id, claim.id) for e in all_experiments() for claim in e.claims}
    assert {(each["experiment"], each["id"]) for each in SHIPPED} <= known


def test_a_paper_s_sentence_with_a_reason_has_it_in_a_word() -> None:
    silent = [
        f"{experiment.id}: {claim.id}"
        for experiment in all_experiments()
        for claim in experiment.claims
        if claim.kind is ClaimKind.PAPER and claim.because and claim.cause is None
    ]
    assert not silent


def test_what_does_not_hold_says_why() -> None:
    """The same for claims that were not measured (older results kept no reasons).

    Where this fails after new results were made: find the reason from their numbers, and write it
    into the claim's ``because`` or ``unmeasured_because``."""
    given = {
        (experiment.id, claim.id)
        for experiment in all_experiments()
        for claim in experiment.claims
        if claim.because or claim.unmeasured_because
    }
    silent = [
        f"{document['experiment']}: {document['text']}"
        for document in SHIPPED
        if "why" in document
        and document["held"] is not True
        and not document["why"]
        and (document["experiment"], document["id"]) not in given
    ]
    assert not silent
