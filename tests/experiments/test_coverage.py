"""Every figure of the papers is made somewhere, or the documents say why not."""

from __future__ import annotations

from experiments._coverage import COVERAGE, coverage_markdown
from harness.catalogue import GROUPS, all_experiments

PAPERS = ("ppa", "intervals", "edge", "dpc")


def test_what_is_named_is_there() -> None:
    known = {experiment.id for experiment in all_experiments()}
    for row in COVERAGE:
        assert set(row.where) <= known, row
        assert row.paper in GROUPS


def test_what_is_not_made_has_a_reason() -> None:
    for row in COVERAGE:
        assert row.where or row.note, row


def test_every_figure_of_a_paper_has_a_row() -> None:
    """An experiment of a paper that no row names would be a figure that is missing above."""
    named = {name for row in COVERAGE for name in row.where}
    for experiment in all_experiments():
        ours = "Faultline" in experiment.paper
        if experiment.group in PAPERS and not ours:
            assert experiment.id in named or "at the parameters of every figure" in (
                experiment.figure
            ), experiment.id


def test_the_table_has_a_line_for_each() -> None:
    assert coverage_markdown().count("\n") == len(COVERAGE) + 2
