"""The common look of figures."""

from __future__ import annotations

from harness.figures.style import new_figure, stamp, styled


def test_two_stamps_are_one_line_that_says_nothing_twice() -> None:
    with styled():
        figure = new_figure()
        stamp(figure, "simulated, virtual time")
        stamp(figure, "simulated · smoke profile")
        assert [t.get_text() for t in figure.texts] == ["simulated, virtual time · smoke profile"]


def test_a_stamp_leaves_a_title_alone() -> None:
    with styled():
        figure = new_figure()
        figure.suptitle("a title")
        stamp(figure, "simulated")
        assert [text.get_text() for text in figure.texts] == ["a title", "simulated"]
