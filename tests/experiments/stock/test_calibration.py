"""The claims about the ramp, and the grids of the kills that follow from it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pandas as pd
import pytest

from experiments.stock import _kills, calibration, rack_kill, worker_kill, workload_kill
from harness.judging.run import LiveRun
from harness.measurement import Context
from harness.results.record import Outcome, Profile
from harness.stock_kills import measure as stock_kills
from tests.engines.tasks.kit import machines

HELD_TWICE = {"intervals_times": 2.0, "rate_share": 0.5}
NOTHING = {"intervals_times": None, "rate_share": None}


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[LiveRun]:
    """Return the runs that would have been measured."""
    found: list[LiveRun] = []

    def measure(run: LiveRun, *_: object) -> Outcome:
        found.append(run)
        return Outcome(values={"results": 1})

    monkeypatch.setattr(stock_kills, "measure", measure)
    return found


def outcome_on(found: dict[str, Any] | None) -> Outcome:
    """Return the outcome on a machine with that calibration."""
    cluster = SimpleNamespace(nodes=lambda: machines(2, 1))
    context = SimpleNamespace(
        profile=Profile.QUICK, root_seed=1, repeat=0, options={}, calibration=found,
        seed=lambda *names: 7, cluster=lambda spec: cluster,
    )  # fmt: skip
    return worker_kill.run(stock_kills.point("checkpoint", 2), cast(Context, context))


def test_grids_are_multiples_of_what_the_machine_holds(runs: list[LiveRun]) -> None:
    plain, slow = outcome_on(None), outcome_on(HELD_TWICE)
    assert [run.interval_s for run in runs] == [2.0, 4.0]
    assert [run.rate_per_s for run in runs] == [500.0, 250.0]
    assert runs[1].load_s > runs[0].load_s
    assert (plain.values["trigger_s"], slow.values["trigger_s"]) == (2.0, 4.0)
    late = [event.at_s for event in runs[1].schedule.events]
    assert max(late) < runs[1].load_s, "the kills come while there is load"


def test_a_machine_that_holds_nothing_is_told_so_and_not_measured(runs: list[LiveRun]) -> None:
    outcome = outcome_on(NOTHING)
    assert outcome.skipped
    assert "--again" in outcome.skipped, "the way out"
    assert runs == []


def test_the_table_shows_the_trigger_that_a_run_really_had() -> None:
    frame = pd.DataFrame({"interval_s": [2, 2, 6], "trigger_s": [4.0, None, 6.0]})
    assert _kills.as_run(frame)["interval_s"].tolist() == [4.0, 2.0, 6.0]
    old = frame[["interval_s"]]
    assert _kills.as_run(old).equals(old), "from before there were calibrations"


def test_everything_that_kills_is_scaled_by_it() -> None:
    for module in (worker_kill, rack_kill, workload_kill):
        assert module.EXPERIMENT.scaled_by is calibration.EXPERIMENT
        assert (
            module.EXPERIMENT.measurement.accepts
            <= calibration.EXPERIMENT.measurement.accepts | {"failures"}
        )
