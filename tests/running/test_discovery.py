"""Every experiment that needs no servers runs in the smoke profile, and its invariants hold."""

from __future__ import annotations

from concurrent.futures import Future
from pathlib import Path
from typing import Self, cast

import pytest

from harness.claims import ClaimKind
from harness.experiment import Experiment
from harness.measurement import Origin
from harness.pages import report, walk
from harness.pages.assessment import assess
from harness.results.provenance import ROOT
from harness.results.record import Profile
from harness.results.store import RecordStore
from harness.running.computed import ProcessPool, RunResult, Task, make
from harness.running.discovery import (
    GROUPS,
    all_experiments,
    by_page,
    catalogue_markdown,
    find,
    to_reproduce,
)
from harness.running.execution import Runner
from harness.running.plan import PlannedRun, once, seconds_left
from tests.golden.masters import RENEW, differing, of_run
from tests.levels import by_cost
from tests.running.test_execution import SMOKE, no_cluster
from tests.toys import Watcher

WITHOUT_SERVERS = [e for e in all_experiments() if e.origin is not Origin.MEASURED]


def test_the_table_of_experiments_is_current() -> None:
    assert (ROOT / "experiments" / "README.md").read_text() == catalogue_markdown(), (
        "renew it: ./faultline list --markdown > experiments/README.md"
    )


@pytest.mark.parametrize("experiment", all_experiments(), ids=lambda e: e.id)
def test_an_experiment_is_described_for_every_profile(experiment: Experiment) -> None:
    assert experiment.group in GROUPS
    for profile in Profile:
        assert experiment.grid[profile]
        assert experiment.measurement.repeats[profile] >= 1
        assert experiment.measurement.seconds_per_run[profile] > 0
        keys = {tuple(point) for point in experiment.grid[profile]}
        # The rate of live/utilization has a default, so that records without one count.
        keys = {tuple(name for name in key if name != "per_minute") for key in keys}
        assert len(keys) == 1, "every point has the same parameters"


@pytest.mark.parametrize(
    ("paper", "minutes"), [("ppa", 48), ("intervals", 20), ("edge", 26), ("dpc", 33), (None, 60)]
)
def test_reproduce_takes_no_longer_than_it_says(paper: str | None, minutes: int) -> None:
    """In quick, by the declared times, with computed runs in parallel as a plan counts them."""
    runs = [
        PlannedRun(
            experiment=each,
            point=point,
            repeat=repeat,
            done=False,
            seconds=each.measurement.seconds_per_run[Profile.QUICK],
        )
        for each in to_reproduce(paper, Profile.QUICK)
        for point in each.grid[Profile.QUICK]
        for repeat in range(each.measurement.repeats[Profile.QUICK])
    ]
    needed = seconds_left(once(runs)) / 60
    page = f"--paper {paper}" if paper else "without the figures that are quick_by_page"
    assert needed <= minutes, (
        f"reproduce --profile quick, {page}, takes {needed:.1f} min of {minutes}: give the new "
        "figure fewer points or seconds in quick, or raise the limit of this test"
    )


class Here:
    """A `harness.running.computed.ProcessPool` without processes, which would start too slowly."""

    def __init__(self) -> None:
        self.made: list[tuple[Task, RunResult]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Do nothing: nothing is running."""

    def submit(self, task: Task) -> Future[RunResult]:
        """Return the result at once."""
        result = make(task)
        self.made.append((task, result))
        made: Future[RunResult] = Future()
        made.set_result(result)
        return made


@pytest.mark.slow
@pytest.mark.parametrize("experiment", by_cost(WITHOUT_SERVERS, soon_s=0.5))
def test_smoke(experiment: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walk, "all_experiments", lambda: [experiment])
    store, watcher, here = RecordStore(tmp_path), Watcher(), Here()
    runner = Runner(store, no_cluster, watcher, others=lambda: cast(ProcessPool, here))
    runner.execute(runner.plan([experiment], SMOKE), SMOKE)
    ((_, campaign),) = watcher.campaigns
    assert campaign.complete, [record.reason for record in campaign.records]
    judged = assess(experiment, Profile.SMOKE, campaign)
    assert judged.problem is None, judged.problem
    broken = [
        (claim.text, dict(claim.measured))
        for claim in judged.claims
        if claim.kind is ClaimKind.INVARIANT and claim.held is False
    ]
    assert not broken
    mine = experiment.measurement.id
    masters = [of_run(mine, task, result) for task, result in here.made]
    assert not differing("smoke", masters, whole=False), RENEW
    folder = report.write_report(store).index.parent
    assert any("data:image" in page.read_text() for page in folder.glob("*.html"))


def test_a_group_stands_for_its_experiments() -> None:
    groups = {name: [e for e in all_experiments() if e.group == name] for name in GROUPS}
    assert find(["edge"]) == groups["edge"]
    for group, names in {
        "intervals": ["intervals/flink-live"],
        "live": ["live/layout", "live/peers", "live/same-kill"],
    }.items():
        fetching = [e for e in groups[group] if e.measurement.fetches is not None]
        assert [e.id for e in fetching] == names
        assert find([group]) == [e for e in groups[group] if e not in fetching]
        assert find(names) == fetching
    assert {e.group for e in find(["intervals", "stock"])} == {"intervals", "stock"}


def test_what_smoke_leaves_out_is_covered_by_what_it_runs() -> None:
    run = {e.id for e in to_reproduce(None, Profile.SMOKE)}
    left_out = [e for e in all_experiments() if e.id not in run]
    assert {e.smoke_covered_by for e in left_out} <= run
    for profile in (Profile.QUICK, Profile.PAPER):
        assert to_reproduce(None, profile, peers=True, every=True) == all_experiments()
        assert all(e.measurement.fetches is None for e in to_reproduce(None, profile))


@pytest.mark.parametrize("paper", ["ppa", "intervals", "edge", "dpc"])
def test_a_paper_is_reproduced_with_the_live_figures_of_its_page(paper: str) -> None:
    run = to_reproduce(paper, Profile.QUICK)
    assert {e.id for e in run} == {e.id for e in by_page()[paper] if e.measurement.fetches is None}
    assert [e for e in run if e.origin is Origin.MEASURED]
    ours = to_reproduce("live", Profile.QUICK)
    assert not {e.id for e in ours} & {e.id for e in run}
