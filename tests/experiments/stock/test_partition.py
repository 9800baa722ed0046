"""Plans and claims of the partition experiment, without a cluster."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from experiments.live import partition
from experiments.stock.partition import EXPERIMENT, FAILURES, schedule
from harness.cluster.backends import BACKENDS
from harness.cluster.base import Action
from harness.experiment import Experiment
from tests.experiments.stock import judging


@pytest.mark.parametrize("experiment", [EXPERIMENT, partition.EXPERIMENT])
def test_where_nothing_can_be_cut_all_of_it_is_skipped(experiment: Experiment) -> None:
    """By the runner, before anything is started."""
    assert BACKENDS["local"].refusal(experiment.measurement.actions) is not None
    assert BACKENDS["local-namespaces"].refusal(experiment.measurement.actions) is None


@pytest.mark.parametrize("failure", FAILURES)
def test_each_failure_is_begun_and_undone_on_the_same_rack(failure: str) -> None:
    planned = schedule(failure, "r1", at_s=8, down_s=10)
    planned.check(rack_of={"r1n1": "r1", "r2n1": "r2"}, actions=set(Action), duration_s=32)
    assert [event.at_s for event in planned.events] == [8, 18]


def runs(**changes: Any) -> pd.DataFrame:
    frame = pd.DataFrame(
        {
            "run": ["a", "b", "c"],
            "failure": list(FAILURES),
            "scheme": "checkpoint",
            "interval_s": 2.0,
            "repeat": 0,
            "failures_planned": 1,
            "failures_done": 1,
            "failure_lateness_s": 0.1,
            "processes_killed": 1,
            "failed_at_s": 8.0,
            "down_s": 10.0,
            "dropped_rows": 0,
            "output_equals_truth": True,
            "difference_from_truth": "",
            "contradictions": 0,
            "output_gap_s": [12.0, 13.0, 5.0],
        }
    )
    return frame.assign(**changes)


def held(frame: pd.DataFrame) -> list[bool | None]:
    return [*judging.held(EXPERIMENT, {"runs": frame}).values()]


def test_every_claim_can_fail() -> None:
    assert held(runs()) == [True] * 5
    assert held(runs(failures_done=[1, 0, 1]))[0] is False
    assert held(runs(output_equals_truth=[True, True, False]))[1] is False
    assert held(runs(contradictions=[1, 0, 0]))[2] is False
    assert held(runs(dropped_rows=[0, 3, 0]))[3] is False
    assert held(runs(output_gap_s=[12.0, 4.0, 5.0]))[4] is False
