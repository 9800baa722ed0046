"""The matrix: its network, its schedules, what follows a failure, and claims that can fail."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pandas as pd
import pytest

from experiments.live import (
    _matrix_failures,
    _matrix_figure,
    _matrix_network,
    _matrix_stock,
    _matrix_table,
    _plans,
    matrix,
)
from experiments.live._matrix_failures import CORRELATED, EXPONENTIAL, FAILURES
from experiments.live._matrix_network import CHECKPOINT, DRA, FULL, PLACES, PPA, RAS, SCHEMES
from experiments.live._matrix_table import COLUMNS, CONTENDERS
from experiments.stock._workloads import WORKLOADS
from harness.claims import Word
from harness.cluster.base import TOGETHER, Action
from harness.measurement import Context
from harness.planning.tiers import paper_network
from harness.results.kills import Unrecovered
from harness.results.record import Profile
from harness.seeds import generator
from harness.topology.fidelity import Evaluator
from tests.experiments.judging import claim_of, judged
from tests.experiments.smoke import SmokeContext

Tables = dict[str, pd.DataFrame]
BACK_S = {CHECKPOINT: 3.0, FULL: 0.1, PPA: 1.0, RAS: 1.5, DRA: 2.5}
"""Mean recoveries of a campaign as it is expected."""
CORES = {CHECKPOINT: 0.5, FULL: 0.9, PPA: 0.7, RAS: 0.65, DRA: 0.66}


def made_up(repeats: int = 6) -> Tables:
    """Return the tables of a campaign as it is expected, with ten failures in each pass."""
    cells = pd.DataFrame(
        _pass(scheme, failures, repeat)
        for scheme in CONTENDERS
        for failures in FAILURES
        for repeat in range(repeats)
    )
    kills = pd.concat([cells.assign(number=number) for number in range(10)], ignore_index=True)
    some = 1 + 0.01 * (kills["number"] % 3)
    kills = kills.assign(
        planned_at_s=1.0 + kills["number"],
        inside_s=kills["scheme"].map(BACK_S).fillna(2.0) * some,
        outside_s=some,
        output_gap_s=kills["scheme"].map({RAS: 2.0, "stock checkpoint": 4.0}).fillna(0.5) * some,
        tentative_after=kills["scheme"].eq(PPA) * 0.2 * some,
        accuracy_after=1 - kills["scheme"].eq(PPA) * 0.1 * some,
    )
    far = kills["scheme"].eq(RAS) & kills["failures"].eq(CORRELATED)
    kills.loc[far, "inside_s"] = 3.0
    return {"cells": cells, "kills": kills}


def _pass(scheme: str, failures: str, repeat: int) -> dict[str, Any]:
    workload = next(iter(WORKLOADS))
    return {
        "run": f"{workload}/{repeat}", "workload": workload, "scheme": scheme,
        "failures": failures, "repeat": repeat, **dict.fromkeys(_matrix_table.MEASURES, 0.5),
        "kills_done": 10, "output_equals_truth": True, "output_equals_twin": True,
        "contradictions": 0, "uncorrected": 0, "recovery_why_not": None, "replicas": 3,
        "shared": 3 if scheme == DRA else 0, "cores": CORES.get(scheme, 1.0) * (1 + 0.01 * repeat),
    }  # fmt: skip


def context() -> Context:
    return cast(Context, SmokeContext(matrix.EXPERIMENT))


def deployment(scheme: str, name: str) -> _matrix_network.Deployment:
    return _matrix_network.deploy(scheme, _plans.WORKLOADS[name](1), WORKLOADS[name].rate_per_s)


def test_the_papers_machines_are_there_and_a_datacenter_is_a_rack_with_its_gateways() -> None:
    machines = {node.name for node in paper_network().nodes}
    assert sorted(PLACES) == sorted(machines)
    network = _matrix_network.testbed()
    for node, place in enumerate(PLACES):
        if place.startswith("gateway"):
            datacenter = PLACES[node // _matrix_network.IN_RACK * _matrix_network.IN_RACK]
            assert network.neighbours(place) == [datacenter]


@pytest.mark.parametrize("name", WORKLOADS)
def test_placement_matters_and_no_node_has_room_to_spare(name: str) -> None:
    found = {scheme: deployment(scheme, name) for scheme in SCHEMES}
    assert len({one.placement for one in found.values()}) == 1, "primaries stand alike"
    near, beside = found[RAS], found[DRA]
    assert near.plan == beside.plan, "only the places of the replicas differ"
    assert near.shared == 0 < beside.shared
    assert found[FULL].plan == tuple(range(len(near.placement)))
    assert 0 < len(near.plan) <= len(near.placement) / 2
    assert found[CHECKPOINT].plan == ()
    for one in found.values():
        assert sum(one.slots) == len(one.placement) + len(one.plan)
    for scheme in (FULL, PPA):
        racks = [
            (found[scheme].placement[task] // 4, node // 4)
            for task, node in found[scheme].replicas_at.items()
        ]
        assert all(primary != replica for primary, replica in racks)


@pytest.mark.parametrize("name", WORKLOADS)
def test_sources_are_at_gateways_and_the_last_task_is_in_the_cloud(name: str) -> None:
    workload = _plans.WORKLOADS[name](1)
    topology = _plans.topology_of(workload, WORKLOADS[name].rate_per_s)
    places = [PLACES[node] for node in deployment(CHECKPOINT, name).placement]
    for task, place in enumerate(places):
        operator, _ = topology.place(task)
        assert (place == "cloud") == (not topology.outputs(operator))
        if operator in topology.sources:
            assert place.startswith("gateway")
    given = deployment(PPA, name).parameters(checkpoint_s=2, away_s=[3.0] * len(PLACES))
    assert given.keeps_replicas
    gateway, cloud = PLACES.index("gateway0"), PLACES.index("cloud")
    assert given.links.delay_us(gateway, cloud) == 70_000


@pytest.mark.parametrize("model", FAILURES)
@pytest.mark.parametrize("profile", Profile)
def test_every_schedule_has_enough_failures_and_ends_in_time(profile: Profile, model: str) -> None:
    scale, nodes = matrix.SCALES[profile], _matrix_network.SPEC.node_names
    for name in WORKLOADS:
        hosts = deployment(CHECKPOINT, name).hosts
        schedule = _matrix_failures.schedule(model, scale, context(), name, hosts)
        fewest, most = scale.failures
        assert fewest <= len(schedule.events) <= most
        assert all(event.action is Action.KILL for event in schedule.events)
        times = [event.at_s for event in schedule.events]
        assert times[0] >= _matrix_failures.BEGIN_S
        assert times[-1] + scale.away_s <= scale.load_s
        again = _matrix_failures.schedule(model, scale, context(), name, hosts)
        assert again.events == schedule.events
        hit = {event.target for event in schedule.events}
        if model == EXPONENTIAL:
            assert hit <= {nodes[node] for node in hosts}
            continue
        assert all(len(target.split(TOGETHER)) == _matrix_network.IN_RACK for target in hit)
        slow = _matrix_failures.slow_rack(context(), name)
        [gone] = [event for event in schedule.events if event.target.startswith(slow)]
        assert gone.at_s + scale.rack_away_s <= scale.load_s
        away_s = _matrix_failures.absences(model, scale, context(), name)
        assert sorted(set(away_s)) == [scale.away_s, scale.rack_away_s]


def test_what_came_after_a_failure_is_counted_up_to_the_next_one() -> None:
    results = pd.DataFrame(
        {
            "pass": ["failed"] * 5 + ["twin"],
            "arrival_s": [1.0, 2.0, 3.0, 6.0, 7.0, 6.5],
            "stability": ["stable", "tentative", "stable", "tentative", "tentative", "tentative"],
        }
    )
    rows = matrix.following(pd.Series([1.5, 5.0]), results)
    assert rows["came"].tolist() == [2, 2]
    assert rows["came_tentative"].tolist() == [1, 2]
    plain = matrix.following(pd.Series([1.5]), results.drop(columns="stability"))
    assert plain["came_tentative"].tolist() == [0]


def test_schemes_that_no_column_separates_are_said_to_be_equal_and_why() -> None:
    tables = made_up()
    for name, rows in tables.items():
        same = rows[rows["scheme"] == CHECKPOINT]
        near = same.assign(scheme=DRA, shared=3, replicas=3)
        tables[name] = pd.concat([rows[rows["scheme"] != DRA], near], ignore_index=True)
    verdict = judged(matrix.EXPERIMENT, tables)["differ/checkpoint/rppg-dra"]
    assert verdict.word is Word.DOES_NOT_HOLD
    assert "3 of them on their primary's own node" in str(verdict.why)


def test_too_few_passes_for_so_many_columns_separate_nothing() -> None:
    tables = made_up(repeats=4)
    verdict = judged(matrix.EXPERIMENT, tables)["differ/checkpoint/ppa"]
    assert verdict.word is Word.UNDECIDED
    assert "for 14 comparisons it takes 10 samples, and there are 8" in str(verdict.why)
    decided = judged(matrix.EXPERIMENT, made_up())["differ/checkpoint/ppa"]
    assert (decided.word, decided.measured["comparisons"]) == (Word.HOLDS, 14)


def test_equal_schemes_are_seldom_called_different_however_many_columns_there_are() -> None:
    draw = generator(0, "equal schemes")
    claim = claim_of(matrix.EXPERIMENT, "differ/checkpoint/ppa")
    tables = made_up()
    called = 0
    for _ in range(20):
        for rows in tables.values():
            for column in (each.name for each in COLUMNS if each.name in rows):
                rows[column] = draw.normal(10.0, 1.0, len(rows))
        called += bool(claim.decide(tables).held)
    assert called <= 4, "5 % of 20 are 1; of 14 intervals that need not overlap one is in half"


def test_a_sample_is_a_pass_however_many_failures_it_has() -> None:
    tables = made_up(repeats=3)
    verdict = judged(matrix.EXPERIMENT, tables)["replication-back-sooner"]
    assert (verdict.word, verdict.samples) == (Word.HOLDS, 6), "sixty failures in six passes"


def test_failures_in_one_outage_are_one() -> None:
    kills = pd.DataFrame(
        {"run": "a", "workload": "w", "scheme": PPA, "failures": CORRELATED,
         "at_s": [1.0, 5.0, 9.0, 60.0], "overlaps": [True, True, True, False]}
    )  # fmt: skip
    hidden = _matrix_table._in_an_earlier_outage(kills, pd.Series([43.7, 39.7, 35.7, 2.0]))
    assert hidden.tolist() == [False, True, True, False]


def test_a_stock_engine_that_stalls_breaks_no_invariant() -> None:
    tables = made_up()
    cells = tables["cells"]
    stock = cells.index[cells["scheme"] == "stock checkpoint"][0]
    ours = cells.index[cells["scheme"] == CHECKPOINT][0]
    for row in (stock, ours):
        cells.loc[row, "output_equals_truth"] = False
        cells.loc[row, "recovery_why_not"] = Unrecovered.STALLED.value
    cell = f"{cells.loc[ours, 'workload']}/checkpoint/{cells.loc[ours, 'failures']}"
    found = judged(matrix.EXPERIMENT, tables)
    refuted = {name for name, each in found.items() if each.held is False}
    assert refuted == {cell, "stock-goes-on"}, "the task engine may not"


@pytest.mark.parametrize("workload", WORKLOADS)
def test_the_second_query_reads_a_part_of_every_source(workload: str) -> None:
    made, rate = _plans.WORKLOADS[workload](1), WORKLOADS[workload].rate_per_s
    found = _plans.second_query(made, rate, _plans.plan_for("ppa", made, rate))
    assert set(found) == {source.name for source in made.sources}
    assert all(0 < len(some) < _plans.PARTITIONS for some in found.values())


@pytest.mark.parametrize("workload", WORKLOADS)
def test_every_stock_worker_that_is_killed_is_restarted_and_one_lives(workload: str) -> None:
    scale = matrix.SCALES[Profile.PAPER]
    schedule = _matrix_stock.schedule(EXPONENTIAL, scale, context(), workload)
    away: set[str] = set()
    for event in schedule.events:
        if event.action is Action.KILL:
            away.add(event.target)
        else:
            away.remove(event.target)
        assert len(away) < len(_matrix_stock.SPEC.node_names)
    assert not away
    assert schedule.events[-1].at_s < scale.load_s


@pytest.mark.parametrize("name", _plans.WORKLOADS)
def test_a_plan_of_half_the_tasks_holds_a_whole_tree(name: str) -> None:
    workload = _plans.WORKLOADS[name](1)
    topology = _plans.topology_of(workload, 1_000)
    plan = _plans.plan_for("ppa", workload, 1_000)
    assert 0 < len(plan) <= topology.task_count / 2
    alive = np.array([number in plan for number in range(topology.task_count)])
    assert Evaluator(topology).value(alive) > 0
    assert _plans.plan_for("checkpoint", workload, 1_000) == ()
    assert len(_plans.plan_for("active", workload, 1_000)) == topology.task_count


def test_the_frontier_holds_what_no_other_scheme_beats() -> None:
    points = {"cheap": (5.0, 0.3), "whole": (9.0, 0.0), "beaten": (7.0, 0.3)}
    assert _matrix_figure.frontier(points) == ["cheap", "whole"]
