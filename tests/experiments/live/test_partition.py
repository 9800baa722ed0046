"""The partition of a rack: its plans, and what comes during the cut, which is not judged."""

from __future__ import annotations

import pandas as pd
import pytest

from experiments.live import partition
from experiments.stock.partition import EXPERIMENT, FAILURES, schedule
from harness.cluster.backends import BACKENDS
from harness.cluster.base import Action
from harness.experiment import Experiment
from harness.results.record import Outcome


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


def test_what_came_meanwhile_and_what_was_fenced_is_counted() -> None:
    timeline = pd.DataFrame(
        {
            "pass": ["twin"] * 4 + ["failed"] * 4,
            "at_s": [5.5, 6.0, 15.5, 16.0] * 2,
            "throughput_per_s": [5.0, 5.0, 5.0, 5.0, 5.0, 3.0, 3.0, 5.0],
        }
    )
    incidents = pd.DataFrame({"event": ["fenced", "detected"], "at_s": [16.1, 7.2]})
    series = {"timeline": timeline, "incidents": incidents}
    found = partition._beyond(Outcome(values={"failed_at_s": 6.0}, series=series), 9.9)
    assert found == {"down_s": 9.9, "fenced": 1, "delivered_meanwhile": pytest.approx(0.6)}
    nothing = partition._beyond(Outcome(values={"failed_at_s": None}, series=series), 9.9)
    assert nothing["delivered_meanwhile"] is None
