"""Flink's utilization: what counts as progress, cost and restart, and claims that can fail."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from experiments.intervals import flink_live
from experiments.intervals.flink_live import EXPERIMENT, SPEC, TASKS
from experiments.live import utilization
from experiments.live._utilization_table import LONG, OPTIMAL
from harness.cluster.base import Action
from harness.engines.flink.engine import FlinkKind
from harness.engines.flink.parameters import FlinkParameters
from harness.results.record import Profile
from tests.experiments.live.judging import held
from workloads.wordcount import word_count

WORDS = word_count(text=[__file__], depth=5)


def test_the_job_has_all_slots_and_waits_for_a_killed_node() -> None:
    setup = flink_live.setup(60.0)
    assert FlinkKind().lacks(setup, WORDS, SPEC) is None
    assert isinstance(setup.parameters, FlinkParameters)
    assert setup.parameters.parallelism == len(SPEC.node_names)
    assert setup.parameters.slots_per_node == 1


def test_the_optimum_is_that_of_the_assumed_cost() -> None:
    assert flink_live.optimum_s() == pytest.approx((2 * 0.1 * 40) ** 0.5, rel=0.05)
    lambda_t = flink_live.LONG_S / flink_live.MEAN_S
    assert lambda_t == pytest.approx(0.05 * 30)


def test_kills_come_when_windows_are_full_and_never_while_their_node_is_away() -> None:
    events = utilization.kills(
        7, 20_000.0, mean_s=flink_live.MEAN_S, nodes=SPEC.node_names, full_s=flink_live.FULL_S,
        restart_after_s=flink_live.RESTART_AFTER_S,
    ).events  # fmt: skip
    dead = [event for event in events if event.action is Action.KILL]
    assert 400 < len(dead) < 600
    assert min(event.at_s for event in dead) > flink_live.FULL_S
    assert max(event.at_s for event in dead) < 20_000 - flink_live.QUIET_S
    assert {event.target for event in dead} == set(SPEC.node_names)
    times = [event.at_s for event in events]
    assert times == sorted(times)


def record(*arrivals: tuple[float, float], **more: Any) -> Any:
    """Return a pass whose windows begin and arrive so."""
    rows = [{"window_start_s": start, "word": "a", "arrival_s": at} for start, at in arrivals]
    return SimpleNamespace(deliveries=pd.DataFrame(rows), start_unix_s=100.0, **more)


def test_c_is_the_mean_checkpoint_and_nothing_without_one() -> None:
    assert flink_live.checkpoint_s(
        record(batches=pd.DataFrame({"checkpoint_s": [0.1, 0.3]}))
    ) == pytest.approx(0.2)
    assert flink_live.checkpoint_s(record(batches=pd.DataFrame())) is None


def kill(at_s: float, node: str) -> Any:
    victim = SimpleNamespace(node=node, felt=True, earliest_unix_s=100.0 + at_s)
    event = SimpleNamespace(action=Action.KILL, target=node)
    return SimpleNamespace(event=event, felt=True, victims=[victim])


def test_r_lasts_from_a_kill_until_all_tasks_ran_again() -> None:
    incidents = pd.DataFrame(
        [(11.0, "detected", "r1n1"), (14.0, "recovered", "r1n1"), (26.0, "recovered", "r2n1")],
        columns=["at_s", "event", "target"],
    )
    seen = record(incidents=incidents, injected=[kill(10.0, "r1n1"), kill(30.0, "r2n1")])
    assert flink_live.restarts_s([seen]) == pytest.approx(4.0), "the second one never recovered"
    calm = record(incidents=pd.DataFrame(), injected=[])
    assert flink_live.restarts_s([calm]) is None


def tables(**changes: Any) -> dict[str, pd.DataFrame]:
    """Return both depths of both engines, with all well."""
    points = pd.DataFrame(EXPERIMENT.grid[Profile.PAPER])
    rows = points.merge(pd.DataFrame({"interval": [OPTIMAL, LONG]}), how="cross")
    best = rows["interval"] == OPTIMAL
    rows["measured"] = best.map({True: 0.8, False: 0.4})
    rows["replayed"] = rows["model"] = rows["measured"] + 0.05
    runs = points.assign(wrong=0)
    return {
        "runs": runs.assign(**{k: v for k, v in changes.items() if k in runs}),
        "utilization": rows.assign(**{k: v for k, v in changes.items() if k in rows}),
    }


def test_all_holds_where_all_is_well() -> None:
    assert set(held(EXPERIMENT, tables()).values()) == {True}


@pytest.mark.parametrize(
    ("claim", "changes"),
    [
        ("nothing-lost", {"wrong": 1}),
        ("optimum-better", {"measured": 0.5}),
        ("model-predicts", {"replayed": 0.1}),
    ],
)
def test_each_claim_can_fail(claim: str, changes: dict[str, Any]) -> None:
    assert held(EXPERIMENT, tables(**changes))[claim] is False


def test_without_flink_no_claim_is_decided() -> None:
    only = {name: frame[frame["engine"] == TASKS] for name, frame in tables().items()}
    assert set(held(EXPERIMENT, only).values()) == {None}
