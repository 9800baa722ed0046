"""Flink's utilization: what counts as cost and restart."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from experiments.intervals import flink_live
from experiments.intervals.flink_live import SPEC
from harness.cluster.base import Action
from harness.engines.flink.engine import FlinkKind
from harness.engines.flink.parameters import FlinkParameters
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


def record(**more: Any) -> Any:
    return SimpleNamespace(start_unix_s=100.0, **more)


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
