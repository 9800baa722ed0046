"""Claims that do not hold have a reason, in the results that ship."""

from __future__ import annotations

import json

from harness.results.provenance import ROOT
from harness.running.discovery import all_experiments, reasons

SHIPPED = json.loads((ROOT / "results" / "baselines" / "report" / "claims.json").read_text())


def test_reasons_are_given_for_sentences_that_there_are() -> None:
    """The results that ship have every sentence of all experiments that could be judged.

    Of the others they have the statement alone.
    """
    statements = {(experiment.id, experiment.statement) for experiment in all_experiments()}
    there = {(document["experiment"], document["text"]) for document in SHIPPED} - statements
    judged = {experiment for experiment, _ in there}
    given = {(experiment, text) for experiment, each in reasons().items() for text in each}
    assert {(experiment, text) for experiment, text in given if experiment in judged} <= there
    assert set(reasons()) <= {experiment for experiment, _ in statements}


def test_what_does_not_hold_says_why() -> None:
    """The same for claims that were not measured (older results kept no reasons).

    Where this fails after new results were made: find the reason from their numbers, and write it
    into the claim's ``because`` or ``unmeasured_because``.
    """
    given = {(experiment, text) for experiment, each in reasons().items() for text in each}
    for experiment in all_experiments():
        claims = [] if callable(experiment.claims) else experiment.claims
        given |= {(experiment.id, c.text) for c in claims if c.because or c.unmeasured_because}
    silent = [
        f"{document['experiment']}: {document['text']}"
        for document in SHIPPED
        if "why" in document
        and document["held"] is not True
        and not document["why"]
        and (document["experiment"], document["text"]) not in given
    ]
    assert not silent
