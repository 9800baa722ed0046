"""Every number that a paper prints, beside ours: rows, counts, and the sentence about them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pandas as pd

from harness.claims.cells import Cells, Printed
from harness.pages import published
from harness.pages.assessment import Assessment
from harness.running.discovery import all_experiments


def rows(values: dict[tuple[Any, ...], float]) -> list[published.Row]:
    printed = Printed(
        what="T*", unit="min", place="Table 1", by=("depth",), values=values,
        ours=Cells("", "optimum_min"), why="lost",
    )  # fmt: skip
    table = pd.DataFrame({"depth": [5, 7], "optimum_min": [1.0418, 9.0]})
    item = SimpleNamespace(
        experiment=SimpleNamespace(printed=[printed]), tables=lambda: {"": table}
    )
    found = published.rows_of(cast(Assessment, item))
    return [{**row, "origin": "computed"} for row in found]


def test_a_row_has_both_numbers_with_place_and_factor() -> None:
    (row,) = rows({(5,): 1.0418})
    assert row["what"] == "T*: depth 5"
    assert (row["printed"], row["ours"]) == ("1.0418 min", "1.042 min")
    assert (row["factor"], row["nearness"], row["place"]) == ("1.00", "within 10 %", "Table 1")


def test_the_sentence_and_the_counts_are_about_every_number() -> None:
    found = rows({(5,): 1.0, (7,): 5.0, (9,): 1.0})
    assert published.sentence(found) == (
        "Of 3 numbers that papers print, 2 are measured, simulated or computed here: 1 within "
        "10 %, 0 within the printed limit, 1 more within a factor of two, 0 in order only, "
        "and 0 apart."
    )
    assert published.counts(found) == [
        ("computed", [1, 0, 1, 0, 0, 1]),
        ("all", [1, 0, 1, 0, 0, 1]),
    ]


def test_each_paper_has_printed_numbers_and_one_main_figure_with_its_counterpart() -> None:
    papers = {"ppa", "intervals", "edge", "dpc"}
    assert papers <= {each.group for each in all_experiments() if each.printed}
    main = [each for each in all_experiments() if each.main]
    assert papers <= {each.group for each in main}
    assert sum(len(p.values) for each in all_experiments() for p in each.printed) >= 60
