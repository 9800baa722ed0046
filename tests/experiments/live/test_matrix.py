"""The matrix: its cells, its plans and schedules, and claims that can fail."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pandas as pd
import pytest

from experiments.live import _matrix_figure, _plans, matrix
from experiments.live._six_nodes import SPEC
from experiments.stock._workloads import WORKLOADS
from harness.claims import ClaimKind, Word
from harness.cluster.base import Action
from harness.measure.recovery import Unrecovered
from harness.measurement import Context
from harness.results.record import Profile
from harness.topology.fidelity import Evaluator
from tests.experiments.live.judging import all_hold, failing, held, judged, panels
from tests.experiments.smoke import SmokeContext


def tables(cells: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return the tables of a campaign with these cells: two kills and two passes each."""
    kills = pd.concat([cells, cells], ignore_index=True)
    costs = kills.assign(spent_s=kills["twin_cpu_s"])
    return {"cells": cells, "kills": kills.assign(outside_s=kills["recovery_s"]), "costs": costs}


def made_up() -> pd.DataFrame:
    """Return a row per cell, as in the table of a whole campaign."""
    rows = []
    cells = [
        {**point, "failures": failures}
        for point in matrix.EXPERIMENT.grid[Profile.PAPER]
        for failures in _matrix_figure.FAILURES
    ]
    for point in cells:
        replicated = point["scheme"] == "full replication"
        row: dict[str, Any] = {
            **point, "repeat": 0, **dict.fromkeys(matrix.MEASURES, 0.5), "kills_done": 1,
            "output_equals_truth": True, "output_equals_twin": True, "contradictions": 0,
            "recovery_s": 0.0, "paper_recovery_s": 0.2 if replicated else 2.0,
            "twin_cpu_s": 9.0 if replicated else 5.0,
            "recovery_why_not": None, "uncorrected": 0,
            "output_gap_s": 0.1 if point["scheme"] == "stock PPA" else 4.0,
            "twin_recovery_s": 0.0,
            "paper_accuracy_first": 0.8 if point["scheme"] == "PPA" else 1.0,
        }  # fmt: skip
        rows.append(row)
    return pd.DataFrame(rows)


def test_there_are_thirty_two_cells_besides_the_stock_ones_and_an_invariant_for_each() -> None:
    table = made_up()
    assert len(table[table["scheme"].isin(matrix.OURS)]) == 32
    assert len(table) == 56
    invariants = [claim for claim in matrix.CLAIMS if claim.kind is ClaimKind.INVARIANT]
    assert len({claim.id for claim in invariants}) == 56
    assert all_hold(matrix.EXPERIMENT, tables(table))
    ours = held(matrix.EXPERIMENT, tables(table[table["scheme"].isin(matrix.OURS)]))
    assert len(ours) == 32 + 3, "stock claims are not asked of a grid without its cells"


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("output_equals_twin", False), ("output_equals_truth", None), ("kills_done", 0),
        ("contradictions", 1),
    ],
)  # fmt: skip
def test_one_bad_cell_breaks_its_own_invariant_alone(column: str, value: object) -> None:
    table = made_up()
    table[column] = table[column].astype(object)
    table[column] = pd.Series(
        [value if place == 5 else each for place, each in enumerate(table[column])], dtype=object
    )
    [broken] = failing(matrix.EXPERIMENT, tables(table))
    assert broken == f"{table.loc[5, 'workload']}/checkpoint/{table.loc[5, 'failures']}"


def test_a_second_query_that_gains_nothing_is_refuted() -> None:
    table = made_up()
    mine = table["scheme"] == "stock PPA"
    table.loc[mine, "output_gap_s"] = 5.0
    table.loc[mine, "uncorrected"] = 3
    second = {"stock-tentative-replaced", "stock-second-query-shorter-gap"}
    assert failing(matrix.EXPERIMENT, tables(table)) == second


@pytest.mark.parametrize("workload", WORKLOADS)
def test_the_second_query_reads_a_part_of_every_source(workload: str) -> None:
    made = _plans.WORKLOADS[workload](1)
    rate = WORKLOADS[workload].rate_per_s
    plan = _plans.plan_for("ppa", made, rate, nodes=SPEC.node_names)
    found = _plans.second_query(made, rate, plan)
    assert set(found) == {source.name for source in made.sources}
    assert all(0 < len(some) < _plans.PARTITIONS for some in found.values())


def test_a_stock_engine_that_stalls_breaks_no_invariant() -> None:
    table = made_up()
    stock = table.index[table["scheme"] == "stock checkpoint"][0]
    ours = table.index[table["scheme"] == "checkpoint"][0]
    for row in (stock, ours):
        table.loc[row, "output_equals_truth"] = False
        table.loc[row, "recovery_why_not"] = Unrecovered.STALLED.value
    cell = f"{table.loc[ours, 'workload']}/checkpoint/{table.loc[ours, 'failures']}"
    failed = failing(matrix.EXPERIMENT, tables(table))
    assert failed == {cell, "stock-goes-on"}, "the task engine may not"


@pytest.mark.parametrize("profile", [Profile.QUICK, Profile.PAPER])
@pytest.mark.parametrize("workload", list(_plans.WORKLOADS))
def test_every_stock_worker_that_is_killed_is_restarted_and_one_lives(
    profile: Profile, workload: str
) -> None:
    scale = matrix.SCALES[profile]
    contender = matrix.CONTENDERS["stock active"]
    context = cast(Context, SmokeContext(matrix.EXPERIMENT))
    schedule = matrix._schedule(_matrix_figure.EXPONENTIAL, contender, scale, context, workload)
    away: set[str] = set()
    for event in schedule.events:
        if event.action is Action.KILL:
            away.add(event.target)
        else:
            away.remove(event.target)
        assert len(away) < len(contender.spec.node_names)
    assert not away
    assert schedule.events[-1].at_s < scale.load_s


def test_a_difference_within_the_noise_is_undecided() -> None:
    table = made_up()
    ours = table["scheme"].isin(["full replication", "checkpoint"])
    table.loc[ours, "paper_recovery_s"] = [0.1 * (row % 7) for row in range(int(ours.sum()))]
    verdict = judged(matrix.EXPERIMENT, tables(table))["replication-back-sooner"]
    assert verdict.word is Word.UNDECIDED
    assert verdict.sample is not None
    assert verdict.sample.n >= 5
    assert "outside_s, checkpoint" in verdict.measured


def test_what_was_not_measured_is_null() -> None:
    table = made_up()
    table["paper_recovery_s"] = None
    assert held(matrix.EXPERIMENT, tables(table))["replication-back-sooner"] is None


def test_the_frontier_holds_what_no_other_scheme_beats() -> None:
    points = pd.DataFrame(
        {"spent": [5.0, 9.0, 7.0, 8.0], "lost": [0.3, 0.0, 0.3, None]},
        index=["cheap", "whole", "beaten", "unknown"],
    )
    assert _matrix_figure.frontier(points, "lost") == ["cheap", "whole"]


def test_a_trade_is_over_the_cells_that_were_measured() -> None:
    table = made_up()
    mine = table[table["workload"] == "word-count"].copy()
    mine["paper_recovery_s"] = mine["paper_recovery_s"].where(
        mine["failures"] == _matrix_figure.CORRELATED
    )
    assert _matrix_figure.trades(mine).loc["checkpoint", "back_s"] == pytest.approx(2.0)
    mine["paper_recovery_s"] = None
    assert _matrix_figure.trades(mine)["back_s"].isna().all()
    assert _matrix_figure.trades(mine)["lost"].notna().all()


def test_it_is_drawn() -> None:
    assert all(axes.has_data() for axes in panels(matrix.EXPERIMENT, tables(made_up())))


def test_no_point_of_the_trade_lies_outside_its_panel() -> None:
    table = made_up()
    table["paper_recovery_s"] = [float(number) for number in range(len(table))]
    for axes in panels(matrix.EXPERIMENT, tables(table))[-8:]:
        low, high = axes.get_ylim()
        for line in axes.get_lines():
            assert all(low <= float(y) <= high for y in np.asarray(line.get_ydata(), float))


@pytest.mark.parametrize("name", _plans.WORKLOADS)
def test_a_plan_of_half_the_tasks_holds_a_whole_tree(name: str) -> None:
    workload = _plans.WORKLOADS[name](1)
    topology = _plans.topology_of(workload, 1_000)
    nodes = SPEC.node_names
    sizes = {
        scheme: len(_plans.plan_for(scheme, workload, 1_000, nodes=nodes))
        for scheme in ("checkpoint", "active", "ppa", "rppg")
    }
    assert sizes["checkpoint"] == 0
    assert sizes["active"] == topology.task_count
    assert 0 < sizes["rppg"] <= topology.task_count / 2
    assert 0 < sizes["ppa"] <= topology.task_count / 2
    plan = list(_plans.plan_for("ppa", workload, 1_000, nodes=nodes))
    alive = [number in plan for number in range(topology.task_count)]
    assert Evaluator(topology).value(pd.Series(alive).to_numpy()) > 0


@pytest.mark.parametrize("name", ["PPA", "stock active"])
@pytest.mark.parametrize("profile", Profile)
def test_every_schedule_kills_something_in_time(profile: Profile, name: str) -> None:
    contender = matrix.CONTENDERS[name]
    context = cast(Context, SmokeContext(matrix.EXPERIMENT))
    scale = matrix.SCALES[profile]
    for workload in _plans.WORKLOADS:
        for model in _matrix_figure.FAILURES:
            schedule = matrix._schedule(model, contender, scale, context, workload)
            kills = [event for event in schedule.events if event.action is Action.KILL]
            assert kills
            assert all(2 <= kill.at_s <= scale.load_s - 2 for kill in kills)
            again = matrix._schedule(model, contender, scale, context, workload)
            assert again.events == schedule.events
