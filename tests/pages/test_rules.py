"""The rule of a claim is found in its source: its place, and what it compares."""

from __future__ import annotations

import ast
import re

import pytest

from harness.claims import Claim, paper
from harness.experiment import Experiment
from harness.pages.rules import needs, places
from harness.results.provenance import ROOT
from harness.running.discovery import all_experiments

CLAIMS = [(each, claim) for each in all_experiments() for claim in each.claims]


def of(experiment: str, claim: str) -> Claim:
    (found,) = (c for e, c in CLAIMS if (e.id, c.id) == (experiment, claim))
    return found


@pytest.mark.parametrize(
    ("experiment", "claim", "expected"),
    [
        ("edge/readings", "changes-little", "max(apart.values()) <= SLIGHT (SLIGHT = 0.02)"),
        ("intervals/lanl-systems", "t-star-loses-little", "in each case: lost_percent ≤ 0.1"),
        (
            "intervals/dag-depth",
            "decrease",
            "by how many percent the DAG's utilization at T* is "
            "below the single operator's is within 0.05 of 11.6",
        ),
        (
            "intervals/rival-gain",
            "daly-2006",
            "in each case: (daly of gain_percent by cost_s, failures_per_min, model) ≤ 0.1",
        ),
        ("live/peers", "killed", "runs['kills'] == runs['planned']"),
    ],
)
def test_a_rule_needs_what_its_source_compares(experiment: str, claim: str, expected: str) -> None:
    assert needs(of(experiment, claim)) == expected


def test_every_rule_has_a_place_and_nearly_every_one_shows_what_it_needs() -> None:
    silent = []
    for experiment, claim in CLAIMS:
        found = places(claim)
        assert found, (experiment.id, claim.id)
        for place in found:
            name, _, line = place.partition(":")
            text = (ROOT / name).read_text().splitlines()[int(line) - 1]
            assert re.search(r"\bdef |lambda|@|\w\(", text), place
        if not needs(claim):
            silent.append((experiment.id, claim.id))
    assert len(silent) < 0.02 * len(CLAIMS), silent


def test_the_place_of_a_decorated_rule_is_that_of_its_claim() -> None:
    (place,) = places(of("dpc/reconciliation", "memory"))
    name, _, line = place.partition(":")
    (function,) = (
        node
        for node in ast.parse((ROOT / name).read_text()).body
        if isinstance(node, ast.FunctionDef) and node.name == "memory_as_printed"
    )
    assert int(line) == function.decorator_list[0].lineno


def test_a_limit_that_is_changed_is_shown_changed() -> None:
    def claim(limit: float) -> Claim:
        return paper("x", "x").at_most(lambda tables: tables, limit)

    assert needs(claim(0.25)) == "its number is at most 0.25"
    assert needs(claim(0.5)) == "its number is at most 0.5"


def test_what_chooses_rows_is_not_what_is_needed() -> None:
    shown: list[Experiment] = [e for e, c in CLAIMS if needs(c).startswith("table['planner']")]
    assert not shown
