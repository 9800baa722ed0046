"""Every row of the papers is made somewhere, or the documents say why not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from experiments._coverage import COVERAGE
from harness.measurement import Origin
from harness.results.provenance import ROOT
from harness.running.discovery import GROUPS, all_experiments, on_page

PAPERS = ("ppa", "intervals", "edge", "dpc")


def numbers(prefix: str, last: int, parts: Mapping[int, str] | None = None) -> list[str]:
    """1 to ``last``, those in ``parts`` once per letter."""
    return [
        f"{prefix}{number}{letter}"
        for number in range(1, last + 1)
        for letter in (parts or {}).get(number, [""])
    ]


PRINTED: Mapping[str, Sequence[str]] = {
    "ppa": [
        *numbers("ICDE ", 14, {10: "ab", 12: "ab", 13: "ab", 14: "abcd"}),
        *numbers("TKDE ", 20, {
            12: "ab", 14: "ab", 15: "ab", 16: "abcd", 18: "ab", 19: "abcd", 20: "ab",
        }),
        "nodes attached on EC2", "tentative output ten times earlier",
        "an order of magnitude over greedy", "heartbeats, progress, recovery latency",
        "output loss, OF, IC", "Algorithms 1 to 5", "plan adaptation",
    ],
    "intervals": [
        *numbers("", 16, {15: "ab"}),
        "Table 1", "five real systems", "30 minutes at 0.0022 per hour", "gain falls as c rises",
        "equations 1 to 10",
    ],
    "edge": [
        *numbers("", 9, {5: "ab", 6: "ab", 9: "abc"}),
        "failure prediction", "200 ms between gateway and datacenter",
        "equations 1 to 3, Algorithm 1",
    ],
    "dpc": [
        *numbers("", 11), "40 ms", "12 left", "12 middle", "12 right",
        "Table 1", "Table 2", "Table 3", "Properties 1 to 4",
    ],
    "data": [
        "World Cup 1998", "traffic incidents", "accident detection", "Los Alamos failures",
        "failure models", "other models of the interval", "published recovery",
    ],
}  # fmt: skip
"""What the papers number and what else they give, in their own numbering."""


MEASURED: Mapping[str, Sequence[str]] = {
    "ppa": [
        *(f"ICDE {row}" for row in ("7", "8", "9", "10a", "10b", "12a", "12b", "13a", "13b")),
        *(f"TKDE {row}" for row in ("8", "9", "10", "12a", "12b", "14a", "14b", "15a", "15b")),
        "TKDE 20a", "TKDE 20b",
    ],
    "intervals": ["Table 1"],
    "edge": ["5a", "5b", "6a", "6b", "7", "8", "9a", "9b", "9c"],
    "dpc": ["40 ms", "9", "10", "11", "12 left", "12 middle", "12 right", "Table 3"],
}  # fmt: skip
"""What the papers measured on a cluster."""


def rows_of(paper: str) -> list[str]:
    found = []
    for row in COVERAGE:
        if row.paper == paper:
            known = row.row in PRINTED[paper]
            found += [row.row] if known else row.row.split(", ")
    return found


@pytest.mark.parametrize("paper", PRINTED)
def test_every_row_of_a_paper_is_named_once(paper: str) -> None:
    assert sorted(rows_of(paper)) == sorted(PRINTED[paper])


@pytest.mark.parametrize("paper", MEASURED)
def test_what_a_paper_measured_live_is_measured_live_on_its_own_page(paper: str) -> None:
    origins = {experiment.id: experiment.origin for experiment in on_page(paper)}
    for row in COVERAGE:
        if row.paper == paper and {row.row, *row.row.split(", ")} & {*MEASURED[paper]}:
            assert Origin.MEASURED in {origins.get(name) for name in row.where}, row.row
    assert {*MEASURED[paper]} <= {*rows_of(paper)}


def test_what_is_named_is_there() -> None:
    known = {experiment.id for experiment in all_experiments()}
    for row in COVERAGE:
        for name in row.where:
            assert (ROOT / name).is_file() if "." in name else name in known, row
        assert row.paper in (*GROUPS, "data")


def test_what_is_not_made_has_a_reason() -> None:
    for row in COVERAGE:
        made = any("." not in name for name in row.where)
        assert made or row.where or row.note, row


def test_every_figure_of_a_paper_has_a_row() -> None:
    """An experiment of a paper that no row names would be a figure that is missing above."""
    named = {name for row in COVERAGE for name in row.where}
    for experiment in all_experiments():
        ours = "Faultline" in experiment.paper
        if experiment.group in PAPERS and not ours:
            assert experiment.id in named or "at the parameters of every figure" in (
                experiment.figure
            ), experiment.id
