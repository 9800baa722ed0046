"""Warming up: load in pieces until batches no longer become shorter."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
from harness.failures.schedule import NO_FAILURES, Schedule
from harness.judging import run as runs
from harness.judging.outcome import TWIN_BEHIND
from harness.judging.passes import PassRecord
from harness.judging.run import LiveRun, Passes, Variant, measure_each, together
from harness.measurement import Context
from harness.results.record import Outcome, Profile
from tests.judging.constructed import WORKLOAD, record


class Warming(Passes):
    """Passes with given durations of batches, one for each piece of load."""

    def __init__(self, durations_s: Sequence[float | None]) -> None:
        self.left: Iterator[float | None] = iter(durations_s)
        self.pieces: list[float] = []

    def once(self, name: str, load_s: float, schedule: Schedule) -> PassRecord:
        self.pieces.append(load_s)
        duration_s = next(self.left)
        batches = pd.DataFrame({"at_s": [1.0, 2.0], "rows": [0, 9], "dropped_rows": 0})
        if duration_s is not None:
            batches = batches.assign(duration_s=[99.0, duration_s])
        return record(batches=batches)


@pytest.mark.parametrize(
    ("durations_s", "pieces"),
    [([5.4, 3.2, 3.1], 3), ([5.4, 3.2, 2.0, 1.0, 0.5], 4), ([1.0, 1.0], 2), ([None], 1)],
)
def test_it_lasts_until_batches_are_as_short_as_they_get(
    durations_s: Sequence[float | None], pieces: int
) -> None:
    passes = Warming(durations_s)
    passes.warm_up(12, at_most_s=40)
    assert passes.pieces == [12.0] * pieces, "at most 40 s and what is left of a piece"


def test_without_a_piece_there_is_no_warm_up() -> None:
    passes = Warming([])
    passes.warm_up(0, at_most_s=0)
    assert passes.pieces == []


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
    class Made(Passes):
        def __init__(self) -> None:
            """Have no engine."""
            self.passes: list[str] = []
            self._context = cast(Context, SimpleNamespace(progress=lambda _: None))

        def with_truth(self, name: str, load_s: float, variant: Variant) -> Any:
            self.passes.append(name)
            return record(name=name), pd.DataFrame(), None

    answers = iter(felt)
    setup = Setup(scheme="checkpoint", parameters=TaskParameters())
    variant = Variant(setup=setup, schedule=NO_FAILURES, felt=lambda _: next(answers))
    passes = Made()
    passes.until_felt("kill", 5.0, variant)
    assert passes.passes == ["kill"] * made


@pytest.mark.parametrize(("profile", "timed"), [(Profile.SMOKE, False), (Profile.QUICK, True)])
def test_the_smoke_profile_alone_keeps_runs_with_a_late_pass(
    profile: Profile, timed: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    given: dict[str, Any] = {}

    def judge(*_: object, **settings: Any) -> Outcome:
        given.update(settings)
        return Outcome(values={})

    class Made(Passes):
        def warm_up(self, piece_s: float, *, at_most_s: float) -> None:
            """Send nothing."""

        def once(self, name: str, load_s: float, schedule: Schedule) -> PassRecord:
            return record(name=name)

        def with_truth(self, name: str, load_s: float, variant: Variant) -> Any:
            return record(name=name), pd.DataFrame(), None

    for name, fake in {"judge": judge, "Passes": Made, "score": lambda *_: None}.items():
        monkeypatch.setattr(runs, name, fake)
    engine = SimpleNamespace(targets=list, used=False)
    monkeypatch.setattr(runs, "warm_engine", lambda *_: engine)
    cluster = SimpleNamespace(capabilities=set, scratch=lambda _: tmp_path)
    context = SimpleNamespace(
        directory=tmp_path, repeat=0, profile=profile, progress=lambda *_: None
    )
    setup = Setup(scheme="checkpoint", parameters=TaskParameters())
    one = LiveRun(
        workload=WORKLOAD,
        setup=setup,
        interval_s=1.0,
        rate_per_s=10,
        load_s=5,
        warmup_s=0,
        first_warmup_s=0,
        settle_s=1,
        schedule=NO_FAILURES,
        timed=False,
    )
    variants = {"failures": Variant(setup=setup, schedule=NO_FAILURES)}
    measure_each(one, variants, cast(Cluster, cluster), cast(Context, context))
    assert (given["timed"], given["stationary"]) == (timed, False)


@pytest.mark.parametrize(("one_truth", "computed"), [(False, 2), (True, 1)])
def test_a_truth_serves_all_passes_where_a_run_says_so(
    one_truth: bool, computed: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[Work] = []

    class OnePass:
        work = cast(Work, SimpleNamespace())

        def __enter__(self) -> OnePass:
            return self

        def __exit__(self, *_: object) -> None:
            """Have nothing to end."""

        def run(self) -> PassRecord:
            return record(name="kill")

    def truth(work: Work) -> pd.DataFrame:
        asked.append(work)
        return pd.DataFrame({"window_start_s": [float(len(asked))]})

    monkeypatch.setattr(runs, "relative_windows", lambda found, *_: found)
    monkeypatch.setattr(Passes, "_pass", lambda *_: OnePass())
    setup = Setup(scheme="checkpoint", parameters=TaskParameters())
    passes = Passes(
        cast(LiveRun, SimpleNamespace(one_truth=one_truth, workload=WORKLOAD)),
        cast(Cluster, SimpleNamespace(restore=lambda _: None)),
        cast(Engine, SimpleNamespace(configure=lambda _: None, truth=truth)),
        tmp_path,
        cast(Context, SimpleNamespace(progress=lambda _: None)),
    )
    variant = Variant(setup=setup, schedule=NO_FAILURES)
    found = [passes.with_truth("kill", 5.0, variant)[1] for _ in range(2)]
    assert len(asked) == computed
    assert found[1]["window_start_s"].tolist() == [float(computed)]
