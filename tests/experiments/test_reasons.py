"""What does not hold says why, beside by how much."""

from __future__ import annotations

import json

from harness.catalogue import all_experiments, reasons
from harness.results.provenance import ROOT

SHIPPED = json.loads((ROOT / "results" / "baselines" / "report" / "claims.json").read_text())


def test_reasons_are_given_for_sentences_that_there_are() -> None:
    """The results that ship have every sentence, whether it holds there or not."""
    there = {(document["experiment"], document["text"]) for document in SHIPPED}
    given = {(experiment, text) for experiment, each in reasons().items() for text in each}
    assert given <= there
    assert set(reasons()) <= {experiment.id for experiment in all_experiments()}
