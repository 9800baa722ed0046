"""Accuracy while nodes come back: room, steps, counted windows, and claims that can fail."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from experiments.live import query_accuracy, recovery_accuracy
from experiments.live.query_accuracy import KILL_AT_S
from experiments.live.recovery_accuracy import EXPERIMENT, NODES, Arrivals
from experiments.ppa.recovery_accuracy import ORDERS
from harness.claims import Word
from harness.claims.samples import FEWEST
from harness.engines.tasks.parameters import TaskParameters
from harness.planning.planners import recovery_order
from tests.experiments.live.judging import all_hold, held, judged, passes

ARRIVALS = Arrivals(steps=3, window_s=2.0, slide_s=1.0)


def made_up() -> dict[str, pd.DataFrame]:
    rows: list[dict[str, Any]] = [
        {
            "query": name, "planner": who, "arrived": step / 3, "repeat": repeat,
            "value": share, "measured": share,
        }
        for repeat in range(FEWEST)
        for name in query_accuracy.QUERIES
        for who, bend in (("inc", 1.0), ("to", 3.0))
        for step in range(4)
        for share in [(step / 3) ** bend]
    ]  # fmt: skip
    one = passes(query="Q1", variant="inc", kills_done=6)
    return {"curves": pd.DataFrame(rows), "passes": one}


def test_every_claim_can_hold_and_can_fail() -> None:
    assert all_hold(EXPERIMENT, made_up())
    table = made_up()
    table["curves"]["measured"] = 1 - table["curves"]["measured"]
    table["passes"]["output_equals_twin"] = False
    assert set(held(EXPERIMENT, table).values()) == {False}


def test_runs_on_both_sides_of_the_limit_are_undecided() -> None:
    """Of two sets of one run each, one was 0.105 off and the other 0.159."""
    table = made_up()
    off = dict(enumerate([0.105, 0.159, 0.14, 0.12, 0.17, 0.13]))
    table["curves"]["measured"] += table["curves"]["repeat"].map(off)
    assert judged(EXPERIMENT, table)["q1-close-to-of"].word is Word.UNDECIDED
    one = table["curves"][table["curves"]["repeat"] == 0]
    alone = judged(EXPERIMENT, {**table, "curves": one})["q1-close-to-of"]
    assert alone.word is Word.UNDECIDED
    assert alone.why is not None
    assert "--repeats" in alone.why


def test_nothing_measured_nothing_judged() -> None:
    table = made_up()
    table["curves"]["measured"] = float("nan")
    assert list(held(EXPERIMENT, table).values()) == [True, None, None, None]


def test_nodes_come_back_in_groups() -> None:
    assert ARRIVALS.away_s == (2.5, 2.5, 7.5, 7.5, 12.5, 12.5)
    assert ARRIVALS.inside(0) == (KILL_AT_S, KILL_AT_S + 2.5)
    assert ARRIVALS.inside(1) == (KILL_AT_S + 4.0, KILL_AT_S + 7.5)
    assert ARRIVALS.inside(3)[1] == KILL_AT_S + ARRIVALS.over_s


@pytest.mark.parametrize("name", query_accuracy.QUERIES)
@pytest.mark.parametrize("steps", sorted(set(recovery_accuracy.STEPS.values())))
def test_a_window_fits_into_every_step_and_all_tasks_into_the_last(name: str, steps: int) -> None:
    chosen = recovery_accuracy.shortened(name, 1)
    workload = chosen.workload
    arrivals = Arrivals(steps=steps, window_s=workload.window_s, slide_s=workload.slide_s)
    for step in range(1, steps + 1):
        from_s, until_s = arrivals.inside(step)
        begins = [n * workload.slide_s for n in range(int(until_s))]
        assert any(from_s <= at_s <= until_s - workload.window_s for at_s in begins)
    topology = query_accuracy.topology_of(chosen)
    for who in ORDERS:
        order = list(recovery_order(who).order(topology))
        given = recovery_accuracy.setup(topology.task_count, order, arrivals.away_s).parameters
        assert isinstance(given, TaskParameters)
        assert isinstance(given.slots, tuple)
        assert isinstance(given.restart_s, tuple)
        assert sum(given.slots) == topology.task_count
        assert len(given.restart_s) == NODES
        for node, away_s in enumerate(given.restart_s):
            step = node // (NODES // steps)
            back_s = query_accuracy.KILL_AT_S + away_s
            assert back_s >= arrivals.inside(step)[1] + query_accuracy.LATE_S, "it counts no more"
        shares = [
            recovery_accuracy.restored_fidelity(topology, order, step, steps)
            for step in range(steps + 1)
        ]
        assert shares[0] == 0
        assert shares[-1] == pytest.approx(1)


def test_what_comes_after_the_next_arrival_is_missing() -> None:
    windows = pd.DataFrame(
        {"window_start_s": [8.0, 9.0, 10.0, 11.0], "members": 10, "first": [9, 8, 6, 9]}
    )
    results = pd.DataFrame(
        {
            "pass": ["failed"] * 3 + ["twin"],
            "window_start_s": [9.0, 10.0, 10.0, 8.0],
            "arrival_s": [11.1, 12.2, 20.0, 10.0],
        }
    )
    seen = query_accuracy.on_time(windows, results)
    assert recovery_accuracy.accuracy(seen, ARRIVALS, 1) == pytest.approx(8 / 20)
    assert recovery_accuracy.accuracy(seen, ARRIVALS, 3) is None
