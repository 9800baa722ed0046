"""Plans of the partition experiment, without a cluster."""

from __future__ import annotations

import pytest

from experiments.live import partition
from experiments.stock.partition import EXPERIMENT, FAILURES, schedule
from harness.cluster.backends import BACKENDS
from harness.cluster.base import Action
from harness.experiment import Experiment


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
