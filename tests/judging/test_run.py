"""Warming up: load in pieces until batches no longer become shorter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pandas as pd
import pytest

from experiments.dpc._live import joined
from experiments.live._runs import outcome_of
from harness.cluster.base import Cluster
from harness.engines.base import Engine, Setup, Work
from harness.engines.tasks.parameters import TaskParameters
from harness.failures.schedule import NO_FAILURES
from harness.judging import run as runs
from harness.judging.outcome import TWIN_BEHIND
from harness.judging.passes import PassPlan, PassRecord
from harness.judging.run import LiveRun, Variant, measure_each, together
from harness.judging.runner import Made, Runner
from harness.measurement import Context
from harness.results.kills import SERIES
from harness.results.record import Outcome, Profile
from harness.results.setting import Setting
from tests.judging.constructed import WORKLOAD, record


class Answers(Runner):
    """A runner whose passes are made already."""

    def __init__(self, *records: PassRecord) -> None:
        self.left = iter(records)
        self.plans: list[PassPlan] = []
        self.truths: list[bool] = []
        self.context = cast(
            Context,
            SimpleNamespace(progress=lambda *_: None, profile=Profile.SMOKE, directory=Path()),
        )
        self.engine = cast(Engine, SimpleNamespace(targets=list, last=None))

    def run(self, plan: PassPlan, **more: Any) -> Made:
        self.plans.append(plan)
        self.truths.append(more.get("truth", False))
        made = next(self.left, None) or record(name=plan.name)
        due = pd.DataFrame() if self.truths[-1] else None
        return Made(record=made, work=cast(Work, None), setting=Setting(), truth=due)


def lasting(duration_s: float | None) -> PassRecord:
    """Return a pass whose batches last so long."""
    batches = pd.DataFrame({"at_s": [1.0, 2.0], "rows": [0, 9], "dropped_rows": 0})
    if duration_s is not None:
        batches = batches.assign(duration_s=[99.0, duration_s])
    return record(batches=batches)


SETUP = Setup(scheme="checkpoint", parameters=TaskParameters())
RUN = LiveRun(
    workload=WORKLOAD, setup=SETUP, interval_s=1.0, rate_per_s=10, load_s=5, warmup_s=12,
    first_warmup_s=40, settle_s=1, schedule=NO_FAILURES, timed=False,
)  # fmt: skip


@pytest.mark.parametrize(
    ("durations_s", "piece_s", "pieces"),
    [
        ([5.4, 3.2, 3.1], 12, 3),
        ([5.4, 3.2, 2.0, 1.0, 0.5], 12, 4),
        ([1.0, 1.0], 12, 2),
        ([None], 12, 1),
        ([], 0, 0),
    ],
)
def test_it_lasts_until_batches_are_as_short_as_they_get(
    durations_s: Sequence[float | None], piece_s: float, pieces: int
) -> None:
    runner = Answers(*map(lasting, durations_s))
    runs.warm_up(runner, replace(RUN, warmup_s=piece_s, first_warmup_s=40 if piece_s else 0))
    lengths = [plan.rate.duration_s for plan in runner.plans]
    assert lengths == [12.0] * pieces, "at most 40 s and what is left of a piece"


@pytest.mark.parametrize(("last", "pieces"), [("", 1), ("another", 1), (RUN.workload.name, 0)])
def test_a_pass_without_failures_leaves_the_engine_warm(last: str, pieces: int) -> None:
    runner = Answers()
    runner.engine.last = last
    runs.warm_up(runner, RUN)
    assert [plan.rate.duration_s for plan in runner.plans] == [12.0] * pieces


def test_several_outcomes_become_one_table() -> None:
    kills = pd.DataFrame({"at_s": [2.0], "target": ["r1n1"]})
    quiet = Outcome(values={"results": 3, "nodes_killed": []}, series={"failures": kills[:0]})
    broken = Outcome(
        values={"results": 3, "nodes_killed": ["r1n1"], "accuracy": 0.5},
        series={"failures": kills, "usage": pd.DataFrame({"cpu_s": [1.0]})},
        invalid="the clock jumped",
        again=TWIN_BEHIND,
    )
    found = together({"quiet": quiet, "broken": broken})
    rows = found.series["variants"].set_index("variant")
    assert rows["results"].to_dict() == {"quiet": 3, "broken": 3}
    assert rows.loc["broken", "nodes_killed"] == '["r1n1"]'
    assert rows["accuracy"].isna().to_dict() == {"quiet": True, "broken": False}
    assert found.series["failures"]["variant"].tolist() == ["broken"]
    assert found.series["usage"]["variant"].tolist() == ["broken"]
    assert found.invalid == "broken: the clock jumped"
    assert found.again == f"broken: {TWIN_BEHIND}"
    both = {"one": Outcome(again=TWIN_BEHIND), "other": Outcome(again=TWIN_BEHIND)}
    assert together(both).again == f"one, other: {TWIN_BEHIND}"
    assert (together({"quiet": quiet}).invalid, together({"quiet": quiet}).again) == (None, None)
    assert outcome_of({"broken": broken}, {}).again == f"broken: {TWIN_BEHIND}"
    assert joined([quiet, broken]).again == TWIN_BEHIND
    assert not len(together({"quiet": quiet}).series["failures"])


@pytest.mark.parametrize(
    ("felt", "made"), [([True], 1), ([False, True], 2), ([False] * runs.ATTEMPTS, runs.ATTEMPTS)]
)
def test_a_pass_whose_failures_ended_nothing_is_made_again(felt: list[bool], made: int) -> None:
    answers, runner = iter(felt), Answers()
    variant = Variant(setup=SETUP, schedule=NO_FAILURES, felt=lambda _: next(answers, True))
    runs.until_felt(runner, RUN, "kill", variant, truth=True)
    assert [plan.name for plan in runner.plans] == ["kill"] * made


@pytest.mark.parametrize(
    ("profile", "timed", "repeat", "order"),
    [
        (Profile.SMOKE, False, 0, ["twin", "one", "other"]),
        (Profile.QUICK, True, 1, ["one", "other", "twin"]),
    ],
)
@pytest.mark.parametrize(("one_truth", "computed"), [(False, 2), (True, 1)])
def test_smoke_alone_keeps_late_passes_one_truth_may_serve_all_and_the_twin_takes_turns(
    profile: Profile,
    timed: bool,
    repeat: int,
    order: list[str],
    one_truth: bool,
    computed: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given: list[dict[str, Any]] = []

    def judge(*_: object, **settings: Any) -> Outcome:
        given.append(settings)
        return Outcome(series={SERIES: pd.DataFrame({"at_s": [1.0]})})

    runner = Answers()
    context = SimpleNamespace(
        profile=profile, repeat=repeat, progress=lambda *_: None, directory=Path()
    )
    runner.context = cast(Context, context)
    fakes = {"judge": judge, "score": lambda *_: None, "open_runner": lambda *_: runner}
    for name, fake in fakes.items():
        monkeypatch.setattr(runs, name, fake)
    variants = {n: Variant(setup=SETUP, schedule=NO_FAILURES) for n in ("one", "other")}
    cluster = cast(Cluster, SimpleNamespace(capabilities=set, breakable=set))
    run = replace(RUN, one_truth=one_truth, warmup_s=0, first_warmup_s=0)
    measure_each(run, variants, cluster, runner.context)
    assert [(each["timed"], each["stationary"]) for each in given] == [(timed, False)] * 2
    assert sum(runner.truths) == computed
    assert [plan.name for plan in runner.plans] == order
