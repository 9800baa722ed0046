"""Plans for two queries, live: each query's accuracy, and claims that can hold and can fail."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from experiments.live import _highways
from experiments.live._plans import topology_of
from experiments.live.multi_query import EXPERIMENT
from experiments.live.query_accuracy import LATE_S
from harness.engines.tasks.parameters import TaskParameters
from tests.experiments.live.judging import all_hold, failing, held, panels, passes
from workloads.accident import FAR, two_highways


def made_up() -> dict[str, pd.DataFrame]:
    rows = [
        {"planner": "sa", "of": 0.5, "measured": 0.49, "north": 0.98, "south": 0.0},
        {"planner": "greedy", "of": 0.0, "measured": 0.0, "north": 0.0, "south": 0.0},
    ]
    plans = pd.DataFrame([{"run": "a", "priorities": "equal", **row} for row in rows])
    return {"plans": plans, "passes": passes({"priorities": "equal", "variant": "sa"})}


def test_every_claim_can_hold_and_can_fail() -> None:
    assert all_hold(EXPERIMENT, made_up())
    table = made_up()
    table["plans"]["measured"] = [0.0, 0.5]
    assert failing(EXPERIMENT, table) == {"as-objective", "not-behind"}


def test_nothing_measured_nothing_judged() -> None:
    empty = {name: frame[:0] for name, frame in made_up().items()}
    assert set(held(EXPERIMENT, empty).values()) == {None}


def test_a_bar_for_each_planner() -> None:
    (axes,) = panels(EXPERIMENT, made_up())
    assert len(axes.patches) == 2


def test_the_rack_is_back_when_all_that_counts_has_come() -> None:
    topology = topology_of(two_highways(seed=1, share=0.5), _highways.RATE_PER_S)
    given = _highways.setup(topology, (0,), 5.0).parameters
    assert isinstance(given, TaskParameters)
    assert given.restart_s == pytest.approx(5.0 + LATE_S)


def test_a_querys_accuracy_is_of_its_own_locations_while_the_rack_is_away() -> None:
    def row(
        which: str, start_s: float, location: int, cars: str, at_s: float, how: str
    ) -> dict[str, Any]:
        return {"pass": which, "window_start_s": start_s, "location": location, "car_ids": cars,
                "arrival_s": at_s, "stability": how}  # fmt: skip

    results = pd.DataFrame(
        [
            row("twin", 4.0, 7, "1 2 3 4", 5.1, "stable"),
            row("twin", 4.0, FAR + 7, "1 2", 5.1, "stable"),
            row("twin", 1.0, 7, "1 2", 2.1, "stable"),
            row("failed", 4.0, 7, "1 2 3", 5.2, "tentative"),
            row("failed", 4.0, FAR + 7, "1 2", 9.0, "stable"),
            row("failed", 1.0, 7, "1 2", 2.1, "stable"),
        ]
    )
    counted = _highways.reports(results, until_s=7.0)
    assert _highways.share(counted, 3.0, "north") == pytest.approx(0.75)
    assert _highways.share(counted, 3.0, "south") == 0.0
    assert _highways.share(counted, 0.0) == pytest.approx(5 / 8)
    assert _highways.share(counted, 5.0) is None
