"""Advice follows its formulas, reports its errors, and refuses senseless jobs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from harness.advice.advise import Advice, advise, chain
from harness.advice.evidence import FailureKind, SchemeName, fit
from harness.advice.job import ASSUMED, Job
from harness.advice.live import COLUMNS
from harness.advice.options import Option
from harness.advice.sums import known
from harness.errors import UsageError
from harness.intervals.observed import Observation, predict_s
from harness.intervals.recovery import (
    DETECT,
    REPLAY,
    RESTART,
    RESTORE,
    TRANSACTION,
    Origin,
)
from harness.intervals.systems import SYSTEMS
from harness.intervals.utilization import CheckpointedSystem
from harness.planning.base import budget_of
from harness.results.library import Library
from tests.there import there

JOB = Job(
    rate_per_s=20_000, state_bytes=4e9, node_mttf_s=30 * 86_400, nodes=20, racks=4, window_s=60,
    system="tasks",
)  # fmt: skip
NOTHING_RUN = Library([], [])
"""Records without a run, which are read at once."""


pytestmark = pytest.mark.usefixtures("shipped_once")


def rows(runs: int = 8, *, noise: float = 0.0) -> pd.DataFrame:
    draw = np.random.default_rng(5)
    process, transfer = draw.uniform(1, 20, runs), draw.uniform(0.1, 2, runs)
    return pd.DataFrame(
        {
            "scheme": SchemeName.CHECKPOINT,
            "failure": FailureKind.NODE,
            "process_s": process,
            "load_s": transfer,
            "recovery_s": (0.5 + 1.2 * process + 2.0 * transfer)
            * np.exp(draw.normal(0.0, noise, runs)),
        }
    )


def test_a_formula_that_made_the_runs_is_found_again() -> None:
    found = there(fit(rows(), SchemeName.CHECKPOINT, FailureKind.NODE))
    assert found.base_s == pytest.approx(0.5)
    assert found.factors == pytest.approx((1.2, 2.0))
    assert found.off_by == pytest.approx(1.0, abs=1e-6)


def test_each_run_is_predicted_without_itself() -> None:
    odd = rows(noise=0.05)
    odd["recovery_s"] *= np.where(odd.index == 3, 3.0, 1.0)
    found = there(fit(odd, SchemeName.CHECKPOINT, FailureKind.NODE))
    assert found.runs["off"].tolist()[3] < 0.5, "it did not see the odd run"
    assert found.off_by > 1.1


def option(found: Advice, scheme: SchemeName) -> Option:
    return next(each for each in found.options if each.scheme is scheme)


def test_the_interval_is_the_utilization_models(shipped: Library) -> None:
    found = advise(JOB, shipped)
    system = CheckpointedSystem(
        cost_s=4e9 / 20 / ASSUMED["storage_bytes_per_s"], failure_rate_per_s=20 / (30 * 86_400)
    )
    assert found.best.interval_s == pytest.approx(float(system.optimal_interval_s()))
    dear = advise(replace(JOB, checkpoint_cost_s=20.0), shipped)
    assert there(dear.best.interval_s) > there(found.best.interval_s)


@pytest.mark.parametrize(("share", "units"), [(0.29, 29), (0.57, 57), (0.58, 58), (1.0, 100)])
def test_a_share_of_the_tasks_is_no_task_short(share: float, units: int) -> None:
    topology = chain(replace(JOB, nodes=50, depth=1))
    assert topology.total_cost == 100
    assert budget_of(topology, share) == units


def test_the_choice_is_the_cheapest_that_is_fast_enough(shipped: Library) -> None:
    assert advise(JOB, shipped).choice is None
    assert advise(JOB, shipped, target_s=3600.0).choice is SchemeName.REPLAY
    assert advise(JOB, shipped, target_s=2.0).choice is SchemeName.ACTIVE
    assert advise(JOB, shipped, target_s=0.001).choice is None


def test_a_system_is_advised_only_what_it_has(shipped: Library) -> None:
    flink = replace(JOB, system="flink-2")
    assert advise(flink, shipped, target_s=3600.0).choice is SchemeName.CHECKPOINT
    assert advise(flink, shipped, target_s=25.0).choice is None, "its detection takes up to 20 s"
    assert not option(advise(flink, shipped), SchemeName.ACTIVE).offered


def test_a_shorter_interval_is_tried_where_the_best_one_recovers_too_late(shipped: Library) -> None:
    target_s = 60.0
    found = advise(JOB, shipped, target_s=target_s)
    usual, sooner = (each for each in found.options if each.scheme is SchemeName.CHECKPOINT)
    assert there(usual.outage).worst_s > target_s
    assert there(sooner.outage).worst_s == pytest.approx(target_s)
    assert JOB.transfer_s < there(sooner.interval_s) < there(usual.interval_s)
    assert 0 < there(sooner.utilization) < there(usual.utilization)
    assert len(found.table().index.unique()) == len(found.options) == 5
    assert len(advise(JOB, shipped, target_s=3600.0).options) == 4, "T* is short enough"


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("exactly_once", [False, True])
@pytest.mark.parametrize("latency_s", [2.0, 10.0, 1e5])
def test_where_results_wait_for_the_interval_the_wanted_latency_bounds_it(
    system: str, exactly_once: bool, latency_s: float
) -> None:
    job = replace(
        JOB, system=system, exactly_once=exactly_once, latency_s=latency_s, checkpoint_cost_s=0.5
    )
    best = advise(job, NOTHING_RUN).best
    waits = system.startswith("spark") or (exactly_once and system != "tasks")
    assert (best.latency is not None) == waits
    if waits and latency_s < 1e5:
        within = latency_s if (system, latency_s) != ("spark-real-time", 2.0) else 2 * 5.0 + 0.5
        assert there(best.latency).worst_s == pytest.approx(within), "5 s is its shortest interval"
    elif system != "spark-real-time":
        assert best.interval_s == pytest.approx(
            float(CheckpointedSystem(cost_s=0.5, failure_rate_per_s=job.failure_rate_per_s)
                  .optimal_interval_s())
        )  # fmt: skip


def test_the_frontier_gives_more_work_and_later_recoveries_up_to_the_best_interval() -> None:
    found = advise(replace(JOB, system="spark", interval_s=45.0), NOTHING_RUN)
    rows = [
        (row.interval_s, row.utilization, row.latency.worst_s, row.outage.mean_s)
        for row in found.frontier
        if row.interval_s and row.utilization and row.latency and row.outage
    ]
    assert len(rows) == len(found.frontier) >= 5
    assert all(np.diff(np.array(rows), axis=0).ravel() > 0)
    assert rows[-1][0] == found.best_interval_s
    assert {45.0, found.best.interval_s} <= {row[0] for row in rows}


def test_a_checkpoint_that_leaves_too_little_work_is_not_chosen() -> None:
    """A checkpoint after the other recovers soonest, and leaves nothing for the input."""
    job = replace(JOB, system="flink-2", checkpoint_cost_s=1.0, detection_s=1.0, restart_s=1.0)
    soonest = there(advise(replace(job, interval_s=1.02), NOTHING_RUN).now)
    assert soonest.stuck.startswith("never keeps up: its input needs 10.0% of the time, and 2")
    target_s = there(soonest.outage).worst_s
    assert advise(job, NOTHING_RUN, target_s=target_s).chosen is None


def test_a_job_that_fails_before_it_has_recovered_never_makes_progress() -> None:
    found = advise(replace(JOB, system="flink-2", node_mttf_s=400.0), NOTHING_RUN, target_s=1e5)
    assert found.best.stuck.startswith("never makes progress: an outage lasts ")
    assert found.chosen is None
    assert all(option.stuck for option in found.frontier)


def test_what_is_given_goes_before_settings_and_runs(shipped: Library) -> None:
    job = replace(
        JOB, system="kafka-streams", detection_s=6.0, restart_s=2.0, transaction_s=10.0,
        exactly_once=True, capacity_per_s=60_000.0, interval_s=0.0,
    )  # fmt: skip
    parts = there(there(advise(job, shipped).now).parts)
    assert [part.name for part in parts.parts] == [DETECT, RESTART, RESTORE, TRANSACTION, REPLAY]
    # 6 + 2 + 2 s of state + 4 s left of the transaction, and half of that to catch up.
    assert parts.total.mean_s == pytest.approx(14.0 * 1.5)
    assert {part.origin for part in parts.parts[:2]} == {Origin.GIVEN}


def test_ones_own_recoveries_decide_restart_and_capacity(shipped: Library) -> None:
    job = replace(JOB, detection_s=1.0)
    made = [
        Observation(interval_s=each, outage_s=predict_s(30.0, 50_000.0, each, job.rate_per_s))
        for each in (10.0, 60.0, 600.0)
    ]
    found = advise(job, shipped, observed=made)
    assert found.known.capacity_per_s == pytest.approx(50_000.0)
    assert there(found.known.fitted).median_error == pytest.approx(0.0, abs=1e-6)
    now = there(advise(replace(job, interval_s=60.0), shipped, observed=made).now)
    assert there(now.outage).mean_s == pytest.approx(made[1].outage_s)
    assert there(now.parts).part(RESTART).mean_s == pytest.approx(30.0 - 1.0 - JOB.transfer_s)


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("seen", [(217.0, 20.0), (50.0, 46.0), (9.0, 10.0, 70.0), (1.0, 300.0)])
def test_what_was_seen_is_between_best_and_worst(system: str, seen: Sequence[float]) -> None:
    job = replace(JOB, system=system, interval_s=60.0)
    none = pd.DataFrame(columns=list(COLUMNS))
    observed = [Observation(interval_s=60.0, outage_s=each) for each in seen]
    total = known(job, none, observed).outage(job, 60.0).total
    assert total.best_s <= min(seen)
    assert max(seen) <= total.worst_s
    assert min(seen) <= total.mean_s <= max(seen)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"rate_per_s": 1e9}, "never catches up"),
        ({"racks": 99}, "99 racks hold 20 nodes"),
        ({"budget": 2.0}, "the budget is 2"),
        ({"state_bytes": 0.0}, "the amount of state is 0"),
        ({"depth": 0}, "operators in a row is 0"),
    ],
)
def test_a_job_that_cannot_be_is_refused(change: dict[str, float], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        replace(JOB, **change)  # type: ignore[arg-type]  # each of a field's own type


def test_what_is_not_known_of_source_replay_is_no_number() -> None:
    unknown = option(advise(replace(JOB, window_s=None), NOTHING_RUN), SchemeName.REPLAY)
    assert unknown.outage is None
    assert unknown.utilization is None
