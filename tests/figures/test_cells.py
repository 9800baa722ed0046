from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from harness.figures.cells import draw_held

LETTERS = {"faster": "A", "cheaper": "B"}
CELLS = {
    ("1", "x"): {"faster": True, "cheaper": True},
    ("1", "y"): {"faster": True, "cheaper": False},
    ("2", "x"): {"faster": False, "cheaper": False},
}


def drawn() -> Figure:
    figure = Figure()
    draw_held(
        figure.subplots(), CELLS, rows=["1", "2"], columns=["x", "y"], letters=LETTERS,
        marked=("1", "y"),
    )  # fmt: skip
    figure.draw_without_rendering()
    return figure


def test_a_cell_says_how_many_hold_and_which_do_not() -> None:
    (axes,) = drawn().axes
    words = [text.get_text() for text in axes.texts if text.get_text()]
    assert words == ["2 of 2\nall", "1 of 2\nB\n(ours)", "0 of 2\nAB"]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["x", "y"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["1", "2"]


def test_the_more_holds_the_darker_and_black_stays_readable() -> None:
    (axes,) = drawn().axes
    colours = np.asarray(axes.collections[0].get_facecolor(), dtype=float)
    light = colours[:3, :3] @ [0.2126, 0.7152, 0.0722]
    assert light[0] < light[1] < light[2]
    assert light.min() > 0.3, "relative luminance, against black text"
