"""Live and simulated recovery: the table's claims can fail, and the simulated half runs."""

from __future__ import annotations

from typing import Any, cast

import pandas as pd
import pytest

from experiments.live import recovery
from harness.claims import Claim, ClaimKind
from harness.experiment import Context
from harness.figures.style import new_figure, styled
from harness.results.record import Profile
from tests.experiments.smoke import SmokeContext

LATENCY_S = {"Active": 0.01, "CKP-2s": 0.4, "CKP-6s": 0.8, "Storm": 2.0}


def made_up() -> pd.DataFrame:
    rows: list[dict[str, Any]] = [
        {
            **point, "repeat": 0, "latency_s": LATENCY_S[str(point["contender"])],
            "output_equals_truth": True, "output_equals_twin": True, "contradictions": 0,
            "kills_done": 1,
        }
        for point in recovery.EXPERIMENT.grid[Profile.QUICK]
    ]  # fmt: skip
    return pd.DataFrame(rows)


def claim(table: pd.DataFrame, text: str) -> Claim:
    (found,) = (each for each in recovery.claims(table) if each.text.startswith(text))
    return found


def test_all_claims_hold_where_all_is_well() -> None:
    assert [each.held for each in recovery.claims(made_up())] == [True] * 5


def test_a_run_that_lost_something_breaks_the_invariant() -> None:
    table = made_up()
    table.loc[table["engine"] == recovery.LIVE, "output_equals_twin"] = False
    assert claim(table, "Stable output").kind is ClaimKind.INVARIANT
    assert claim(table, "Stable output").held is False


def test_simulated_and_measured_may_be_far_apart() -> None:
    table = made_up()
    table.loc[table["engine"] == recovery.PACED, "latency_s"] *= 10
    assert claim(table, "Simulated and measured").held is False


def test_without_live_runs_nothing_is_said_of_them() -> None:
    table = made_up()
    table = table[table["engine"] == recovery.SIMULATED]
    held = [each.held for each in recovery.claims(table)]
    assert held == [None, None, None, True, None]


def test_it_is_drawn() -> None:
    with styled():
        figure = new_figure(recovery.EXPERIMENT.figure_size_in)
        recovery.draw(made_up(), figure)
        figure.canvas.draw()
    assert all(axes.has_data() for axes in figure.axes)


@pytest.mark.parametrize("failure", recovery.TARGETS)
def test_the_simulated_half_recovers_in_the_papers_order(failure: str) -> None:
    context = cast(Context, SmokeContext(recovery.EXPERIMENT))
    found = {
        name: recovery._simulated(contender, failure, 16.5, context).values["latency_s"]
        for name, contender in recovery.CONTENDERS.items()
    }
    assert found["Active"] < min(found["CKP-2s"], found["CKP-6s"]) < found["Storm"]


@pytest.mark.parametrize("profile", Profile)
@pytest.mark.parametrize("name", recovery.CONTENDERS)
def test_every_kill_and_restart_lies_within_the_load(profile: Profile, name: str) -> None:
    scale = recovery.SCALES[profile]
    at_s = recovery.kill_at_s(recovery.CONTENDERS[name], scale)
    assert 0 < at_s < at_s + recovery.RESTART_S < scale.load_s
