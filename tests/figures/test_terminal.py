"""Charts made of characters."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from harness.figures.terminal import area_chart


def test_heights_are_eighths_of_a_line() -> None:
    assert area_chart([0.0, 0.25, 0.5, 0.75, 1.0], height=2) == ["   ▄█", " ▄███"]


def test_what_is_not_zero_is_seen() -> None:
    assert area_chart([0.0, 1e-9], height=1) == [" ▁"]


@given(st.lists(st.floats(-1.0, 3.0), max_size=50), st.integers(1, 12))
def test_every_line_is_as_wide_as_there_are_values(values: list[float], height: int) -> None:
    chart = area_chart(values, height=height)
    assert [len(line) for line in chart] == [len(values)] * height
