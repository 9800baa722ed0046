"""Verdicts by id, and those on a run made by hand."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from harness.claims import Claim, ClaimKind, Verdict
from harness.experiment import Experiment, Tables
from harness.pages.assessment import verdicts
from harness.results.record import Outcome, Point, plain
from tests.experiments.smoke import results_of


def claim_of(experiment: Experiment, name: str) -> Claim:
    """Return its claim with this id."""
    (claim,) = (each for each in experiment.claims if each.id == name)
    return claim


def judged(experiment: Experiment, tables: Tables) -> dict[str, Verdict]:
    """Return the verdicts on the tables of a complete campaign; no rule may fail there.

    What a rule measured can be written into a report."""
    found = {verdict.id: verdict for verdict in verdicts(experiment, tables)}
    assert [each.problem for each in found.values() if each.problem] == []
    json.dumps([each.measured for each in found.values()], default=plain)
    return found


def broken(
    experiment: Experiment, point: Point, outcome: Outcome, directory: Path
) -> Sequence[Verdict]:
    """Return the invariants that the record of a single run breaks."""
    table = experiment.table(results_of([(point, outcome)], directory))
    found = verdicts(experiment, table)
    return [each for each in found if each.kind is ClaimKind.INVARIANT and not each.held]
