"""The picture of a topology: every task once, replicated ones apart, within the paper's size."""

from __future__ import annotations

import numpy as np
import pytest

from harness.figures.style import new_figure, styled
from harness.figures.topology import draw_topology, size_in
from harness.planning.base import flags
from harness.topology import named
from harness.topology.model import Operator, Topology


def test_every_task_and_every_operator_is_drawn_once() -> None:
    topology = named.figure_1a(join=True)
    with styled():
        figure = new_figure(size_in(topology))
        draw_topology(topology, flags(topology, (0, 8)), figure, title="a plan")
        figure.draw_without_rendering()
    (axes,) = figure.axes
    words = [text.get_text() for text in axes.texts]
    assert sorted(words[:14]) == sorted(str(topology.place(task)[1]) for task in range(14))
    assert words[14:] == ["O1", "O2", "O3\njoin", "O4\n→ O4, priority 1"]
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == ["replicated (2)", "not replicated (12)"]
    assert axes.get_title(loc="left") == "a plan"


def test_a_query_in_the_middle_and_a_dear_operator_are_marked() -> None:
    topology = named.figure_5a((1, 0, 3))
    dear = Topology(operators=(Operator(name="a", parallelism=1, rate=(1,), cost=3),))
    with styled():
        for each, expected in ((topology, "O2\n→ Q2, priority 0"), (dear, "a\ncost 3, → a")):
            figure = new_figure()
            draw_topology(each, flags(each, ()), figure)
            words = [text.get_text() for text in figure.axes[0].texts]
            assert any(word.startswith(expected) for word in words)


@pytest.mark.parametrize(("tasks", "height_in"), [(1, 2.5), (20, 7.54), (1000, 40.0)])
def test_the_height_follows_the_widest_operator(tasks: int, height_in: float) -> None:
    wide = Topology(operators=(Operator(name="a", parallelism=tasks, rate=(1.0,) * tasks),))
    assert size_in(wide)[0] == 5.0
    assert np.isclose(size_in(wide)[1], height_in, atol=0.1)
