"""A plan that follows the load, live: claims that can hold and can fail, and the picture."""

from __future__ import annotations

import pandas as pd
import pytest

from experiments.live import _plans, drift
from experiments.live.drift import EXPERIMENT
from experiments.ppa.drift import ADAPTED, KEPT
from tests.experiments.live.judging import all_hold, failing, held, panels, passes
from workloads.accident import two_highways

KILL_AT_S = 9.0


def made_up() -> dict[str, pd.DataFrame]:
    run = {"run": "a", "kill_at_s": KILL_AT_S}
    none = {"changed_s": None, "started": 0, "ready_after_s": None, "all_ready": True}
    some = {"changed_s": 5.0, "started": 3, "ready_after_s": 0.5, "all_ready": True}
    ways = [
        {**run, "way": KEPT, "of": 0.25, "measured": 0.26, **none},
        {**run, "way": ADAPTED, "of": 0.75, "measured": 0.74, **some},
    ]
    windows = [
        {**run, "way": way, "window_start_s": start_s, "accuracy": accuracy}
        for way, accuracy in ((KEPT, 0.26), (ADAPTED, 0.74))
        for start_s in (10.0, 11.0)
    ]
    two = passes({"ratio": 0.6, "variant": KEPT}, {"ratio": 0.6, "variant": ADAPTED})
    return {"ways": pd.DataFrame(ways), "windows": pd.DataFrame(windows), "passes": two}


def test_every_claim_can_hold_and_can_fail() -> None:
    assert all_hold(EXPERIMENT, made_up())
    table = made_up()
    table["ways"]["measured"] = [0.74, 0.26]
    assert failing(EXPERIMENT, table) == {"as-fidelity", "follows"}
    table = made_up()
    table["ways"]["ready_after_s"] = KILL_AT_S
    assert failing(EXPERIMENT, table) == {"caught-up"}


def test_nothing_measured_nothing_judged() -> None:
    empty = {name: frame[:0] for name, frame in made_up().items()}
    assert set(held(EXPERIMENT, empty).values()) == {None}


def test_a_line_for_each_plan() -> None:
    (axes,) = panels(EXPERIMENT, made_up())
    assert len(axes.get_legend().get_texts()) == 2


def test_the_last_change_before_the_kill_decides_the_fidelity() -> None:
    topology = _plans.topology_of(two_highways(share=drift.SHARE), 400.0)
    north = (0, 1, 4, 6)
    assert drift.fidelity(topology, north, pd.DataFrame()) == pytest.approx(0.25)
    changes = pd.DataFrame({"at_s": [6.0, 5.0], "value_after": [0.75, 0.5]})
    assert drift.fidelity(topology, north, changes) == pytest.approx(0.75)
