"""Numbers of a figure beside those that its paper prints."""

from __future__ import annotations

import pandas as pd
import pytest

from harness.claims.cells import Cells, Nearness, Printed, largest, nearest_to, smallest_of
from tests.there import there

ROWS = pd.DataFrame(
    [(run, name, rate, value * (1 + run / 100)) for run in range(6)
     for name, rate, value in (("a", 1, 10.0), ("a", 3, 20.0), ("b", 1, 5.0), ("b", 3, 40.0))],
    columns=["run", "name", "rate", "s"],
)  # fmt: skip
TABLES = {"": ROWS, "other": ROWS.assign(s=-ROWS["s"])}


def printed(values: dict[tuple[str, ...], float], bound: str = "") -> Printed:
    return Printed(
        what="time",
        unit="s",
        place="Table 1",
        by=("name",),
        values=values,
        ours=Cells("", "s", {"rate": 1}),
        bound=bound,
    )


def test_a_number_is_the_median_over_passes_with_its_interval() -> None:
    sample = there(Cells("", "s", {"rate": nearest_to(2.9)}).sample(TABLES, name="a"))
    assert (sample.value, sample.low, sample.high) == (20.5, 20.0, 21.0)


@pytest.mark.parametrize(
    ("cells", "value"),
    [
        (Cells("", "s", {"rate": smallest_of, "name": "a"}, over={"name": "b"}), 2.0),
        (Cells("", "s", {"name": "b"}, per=("run", "rate"), take=largest), 42.0),
        (Cells("", lambda table: table["s"] * 1000, {"name": "a", "rate": 1}), 10250.0),
    ],
)
def test_it_may_be_a_ratio_an_extreme_or_computed(cells: Cells, value: float) -> None:
    assert there(cells.sample(TABLES)).value == pytest.approx(value)


@pytest.mark.parametrize(
    "cells", [Cells("none", "s"), Cells("", "none"), Cells("", "s", {"none": 1})]
)
def test_what_is_not_in_the_tables_is_not_measured(cells: Cells) -> None:
    assert cells.sample(TABLES) is None


@pytest.mark.parametrize(
    ("values", "bound", "nearness"),
    [
        ({("a",): 10.0}, "", Nearness.TENTH),
        ({("a",): 18.0}, "", Nearness.TWICE),
        ({("a",): 30.0}, "", Nearness.FAR),
        ({("a",): 30.0, ("b",): 15.0}, "", Nearness.ORDER),
        ({("a",): 30.0, ("b",): 60.0}, "", Nearness.FAR),
        ({("a",): 30.0}, "at most", Nearness.LIMIT),
        ({("a",): 30.0}, "at least", Nearness.FAR),
        ({("c",): 30.0}, "", Nearness.MISSING),
    ],
)
def test_how_near_a_number_is(
    values: dict[tuple[str, ...], float], bound: str, nearness: Nearness
) -> None:
    assert printed(values, bound).compared(TABLES)[0].nearness is nearness


def test_it_can_be_about_another_table() -> None:
    (number,) = printed({("a",): -10.25}).on("other").compared(TABLES)
    assert number.factor == 1.0
