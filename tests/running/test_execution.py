"""Runs are recorded once, resumed, and never lost."""

from __future__ import annotations

import errno
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.cluster.backends import BACKENDS
from harness.cluster.base import Cluster, ClusterSpec
from harness.cluster.impossible import Impossible
from harness.errors import EnvironmentFailure, UsageError
from harness.experiment import Experiment
from harness.measurement import Context, Origin
from harness.results.provenance import machine_name
from harness.results.record import FAILED, OK, SKIPPED, Outcome, Point, Profile
from harness.results.store import RecordStore
from harness.running import execution
from harness.running.discovery import find
from harness.running.execution import ATTEMPTS, Runner
from harness.running.plan import Deadline, RunSettings
from harness.running.warm_cluster import LOG_BYTES, ClusterPool
from tests.toys import Watcher, changed, square, toy

SMOKE = RunSettings(profile=Profile.SMOKE)


def no_cluster(spec: ClusterSpec) -> Cluster:
    raise AssertionError("the toy needs no cluster")


CALM = "waits for a calmer minute"


def measured(name: str, **changes: Any) -> Experiment:
    return changed(toy(identifier=name), origin=Origin.MEASURED, **changes)


def make(
    store: RecordStore,
    *experiments: Experiment,
    settings: RunSettings = SMOKE,
    watcher: Watcher | None = None,
) -> Watcher:
    watcher = watcher or Watcher()

    def calm(say: Callable[[str], None], at_most_s: float) -> bool:
        say(CALM)
        return True

    runner = Runner(store, no_cluster, watcher, calm=calm)
    runner.execute(runner.plan(experiments, settings), settings)
    return watcher


def test_every_point_is_run_and_kept(tmp_path: Path) -> None:
    watcher = make(RecordStore(tmp_path), toy())
    assert [r.values["y"] for r in watcher.finished] == [1, 4, 9, 1, 4, 9]
    ((_, campaign),) = watcher.campaigns
    assert campaign.complete
    assert campaign.results().frame["y"].tolist() == [1, 1, 4, 4, 9, 9]
    noise = campaign.results().series("noise", ["x", "repeat"])
    assert noise.groupby("repeat")["seed"].nunique().tolist() == [1, 1], "one seed for all points"
    assert noise["seed"].nunique() == 2, "another seed for another repetition"


def test_what_was_measured_on_another_backend_is_not_pooled(tmp_path: Path) -> None:
    def campaign(experiment: Experiment, backend: str) -> str:
        store = RecordStore(tmp_path / backend)
        runner = Runner(store, no_cluster, Watcher(), backend=BACKENDS[backend])
        (record,) = runner.execute(runner.plan([experiment], SMOKE)[:1], SMOKE)
        return record.campaign

    live = measured("stock/toy")
    assert campaign(live, "local") != campaign(live, "docker")
    computed = changed(toy(), origin=Origin.COMPUTED)
    assert campaign(computed, "local") == campaign(computed, "docker")


@pytest.mark.parametrize(
    "settings",
    [replace(SMOKE, again=True), replace(SMOKE, root_seed=7), RunSettings(profile=Profile.PAPER)],
)
def test_another_question_is_measured_anew(tmp_path: Path, settings: RunSettings) -> None:
    make(RecordStore(tmp_path), toy())
    assert len(make(RecordStore(tmp_path), toy(), settings=settings).finished) == 6


def test_a_failed_run_is_recorded_and_tried_again(tmp_path: Path) -> None:
    def run(point: Point, context: Context) -> Outcome:
        if point["x"] == 2:
            raise EnvironmentFailure("the broker died", remedy="look at its log")
        return square(point, context)

    first = make(RecordStore(tmp_path), toy(run))
    assert [r.status for r in first.finished] == [OK, FAILED, FAILED, OK] * 2
    assert "the broker died" in (first.finished[1].reason or "")
    assert not first.campaigns[0][1].complete
    again = make(RecordStore(tmp_path), toy())
    assert [r.point["x"] for r in again.finished] == [2, 2]
    assert again.campaigns[0][1].complete


class Failing:
    """A cluster that starts, and on which every run fails."""

    def __init__(self, directory: Path) -> None:
        self.spec, self.run_directory = ClusterSpec(), directory
        self.stopped = False

    def start(self, report: object) -> None:
        (self.run_directory / "deep").mkdir()
        (self.run_directory / "deep" / "worker.log").write_text("x" * LOG_BYTES + "the end")
        (self.run_directory / "deep" / "secret.conf").write_text("password")

    def stop(self) -> None:
        self.stopped = True


def test_the_logs_of_a_failed_run_are_kept_beside_its_record(tmp_path: Path) -> None:
    def run(point: Point, context: Context) -> Outcome:
        context.cluster(ClusterSpec())
        raise EnvironmentFailure("the broker died", remedy="look at its log")

    (tmp_path / "cluster").mkdir()
    held: list[Path] = []
    cluster = Failing(tmp_path / "cluster")
    runner = Runner(
        RecordStore(tmp_path), lambda spec: cast(Cluster, cluster), Watcher(), hold=held.append
    )
    settings = replace(SMOKE, repeats=1)
    runner.execute(runner.plan([toy(run)], settings)[:1], settings)
    assert cluster.stopped
    assert held == [tmp_path / "cluster"]
    (log,) = tmp_path.glob("records/stock/toy/*/*/logs/**/*.*")
    assert log.name == "worker.log", "nothing but logs: credentials stay where they are"
    assert len(log.read_text()) == LOG_BYTES
    assert log.read_text().endswith("the end")


@pytest.mark.parametrize("trouble", ["invalid", "again"])
def test_a_run_in_trouble_is_made_again_by_the_same_command(tmp_path: Path, trouble: str) -> None:
    left = 2

    def run(point: Point, context: Context) -> Outcome:
        nonlocal left
        left -= 1
        if left >= 0:
            outcome, why = square(point, context), "the machine was busy"
            return replace(outcome, **{trouble: why})  # type: ignore[arg-type]  # one of two fields
        return square(point, context)

    watcher = make(RecordStore(tmp_path), toy(run))
    assert [r.attempt for r in watcher.finished] == [1, 2, 3, 1, 1, 1, 1, 1]
    ((_, campaign),) = watcher.campaigns
    assert campaign.complete
    assert all(record.again is None for record in campaign.records)
    assert [record.attempt for record in campaign.others] == [1, 2]
    assert make(RecordStore(tmp_path), toy()).finished == []


class Machine:
    """A clock, and an alarm that ends what lasts beyond it."""

    now_s = 0.0
    alarm_s = math.inf

    def monotonic(self) -> float:
        return self.now_s

    def alarm(self, seconds: float) -> None:
        self.alarm_s = self.now_s + seconds if seconds else math.inf

    def spend(self, seconds: float) -> None:
        self.now_s += seconds
        if self.now_s >= self.alarm_s:
            self.now_s = self.alarm_s
            raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("slower", "made"), [(0.9, 6), (1.5, 6), (7.0, 1), (20.0, 0)], ids=lambda value: f"{value:g}"
)
def test_all_runs_end_within_twice_the_announced_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slower: float, made: int
) -> None:
    """Six runs of 60 s on a machine that others keep busy: each is in doubt and made again."""
    machine = Machine()
    clock = SimpleNamespace(time=time.time, monotonic=machine.monotonic)
    monkeypatch.setattr(execution, "time", clock)

    def run(point: Point, context: Context) -> Outcome:
        machine.spend(60 * slower)
        return replace(square(point, context), values={"y": 1, "disturbed": "busy"}, again="busy")

    def calm(say: Callable[[str], None], at_most_s: float) -> bool:
        machine.spend(max(0.0, at_most_s))
        return False

    deadline = Deadline(2.0, clock=machine.monotonic, alarm=machine.alarm)
    settings = replace(SMOKE, deadline=deadline)
    experiment = measured("stock/toy", run=run, seconds_per_run=dict.fromkeys(Profile, 60.0))
    for rate in (2, 1):  # as after a rate at which nothing kept up
        watcher = Watcher()
        runner = Runner(RecordStore(tmp_path / str(rate)), no_cluster, watcher, calm=calm)
        with suppress(KeyboardInterrupt):
            runner.execute(runner.plan([experiment], settings), settings)
        if rate == 2:
            assert len({(r.point["x"], r.repeat) for r in watcher.finished}) == made
    announced_s = 6 * 60 + 1
    assert machine.now_s <= 2 * announced_s
    assert deadline.near


def test_a_short_run_has_the_least_time() -> None:
    machine = Machine()
    deadline = Deadline(2.0, least_s=240.0, clock=machine.monotonic, alarm=machine.alarm)
    for near in (False, True):
        with deadline.over(46.8, 1):
            machine.spend(90)
        assert deadline.near is near, "a third time as long would not end in time"


def test_what_is_computed_by_another_process_is_recorded_as_if_made_here(tmp_path: Path) -> None:
    (experiment,) = find(["intervals/dag-delay"])
    elsewhere = make(RecordStore(tmp_path / "a"), experiment).finished
    here = make(RecordStore(tmp_path / "b"), changed(experiment, alone=True)).finished
    assert [record.point for record in elsewhere] == [record.point for record in here]
    assert [record.values for record in elsewhere] == [record.values for record in here]
    assert {record.campaign for record in elsewhere} == {record.campaign for record in here}
    assert len(elsewhere) > 1
    assert not list((tmp_path / "a" / "records").glob(".partial-*"))


def test_a_defect_is_recorded_once_with_its_traceback(tmp_path: Path) -> None:
    def run(point: Point, context: Context) -> Outcome:
        raise ZeroDivisionError("oh")

    found = make(RecordStore(tmp_path), toy(run)).finished
    assert [(record.status, record.attempt) for record in found] == [(FAILED, 1)] * 6
    assert "ZeroDivisionError: oh" in (found[0].reason or "")


def test_runs_that_two_figures_show_are_made_once(tmp_path: Path) -> None:
    first = toy(identifier="stock/toy")
    view = replace(toy(), name="stock/a-view", measurement=first.measurement)
    watcher = make(RecordStore(tmp_path), first, view)
    assert len(watcher.finished) == 6
    assert {record.experiment for record in watcher.finished} == {"stock/toy"}
    assert [campaign.complete for _, campaign in watcher.campaigns] == [True, True]
    assert make(RecordStore(tmp_path), view).finished == [], "they are there for each of them"


def test_what_cannot_be_run_is_skipped_once_with_its_reason(tmp_path: Path) -> None:
    def run(point: Point, context: Context) -> Outcome:
        if point["x"] == 2:
            return Outcome(skipped="this engine has no such scheme")
        if point["x"] == 3:
            raise Impossible("two racks are there", remedy="describe more")
        return square(point, context)

    watcher = make(RecordStore(tmp_path), toy(run))
    assert [r.status for r in watcher.finished] == [OK, SKIPPED, SKIPPED] * 2
    ((_, campaign),) = watcher.campaigns
    assert campaign.complete
    reasons = {"this engine has no such scheme", "two racks are there: describe more"}
    assert {r.reason for r in campaign.skipped} == reasons
    assert make(RecordStore(tmp_path), toy(run)).finished == [], "asking again changes nothing"


def ramp(point: Point, context: Context) -> Outcome:
    return Outcome(values={"times": 3, "repeat": context.repeat})


def scaled(point: Point, context: Context) -> Outcome:
    times = None if context.calibration is None else context.calibration["times"]
    return Outcome(values={"y": times})


def test_two_at_once_are_refused(tmp_path: Path) -> None:
    with (
        RecordStore(tmp_path).locked(),
        pytest.raises(UsageError, match="another run"),
        RecordStore(tmp_path).locked(),
    ):
        pass


def test_a_corrupt_record_is_named_and_left_out(tmp_path: Path) -> None:
    make(RecordStore(tmp_path), toy())
    broken = min(tmp_path.glob("records/stock/toy/*/*/record.json"))
    broken.write_text("{")
    warnings: list[str] = []
    store = RecordStore(tmp_path, warn=warnings.append)
    for _ in range(2):
        assert len(store.read("stock/toy", machine_name())) == 5
    (warning,) = warnings
    assert str(broken) in warning
    assert f"delete {broken.parent}" in warning


def test_a_full_disk_says_so_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(RecordStore(tmp_path), toy())

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("harness.results.store.os.fsync", full)
    with pytest.raises(EnvironmentFailure, match="No space left") as caught:
        make(RecordStore(tmp_path), toy(), settings=replace(SMOKE, again=True))
    assert caught.value.exit_code == 3
    assert len(RecordStore(tmp_path).read("stock/toy", machine_name())) == 6


def test_an_option_that_nothing_takes_is_refused(tmp_path: Path) -> None:
    settings = replace(SMOKE, options={"failures": tmp_path / "f.yaml"})
    with pytest.raises(UsageError, match="--failures changes nothing"):
        make(RecordStore(tmp_path), toy(), settings=settings)


def test_an_edit_while_it_runs_does_not_tear_a_campaign_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    edits = iter(range(100))
    monkeypatch.setattr("harness.running.code.code_fingerprint", lambda *_: f"edit {next(edits)}")
    watcher = make(RecordStore(tmp_path), toy())
    assert {record.code for record in watcher.finished} == {"edit 0"}
    assert watcher.campaigns[0][1].complete
    assert len(make(RecordStore(tmp_path), toy()).finished) == 6, "the next command sees the edit"


@pytest.mark.parametrize(("repeats", "seed"), [(0, 1), (1, -1)])
def test_settings_out_of_range_are_refused(repeats: int, seed: int) -> None:
    with pytest.raises(UsageError):
        RunSettings(repeats=repeats, root_seed=seed)


class Applications:
    """The object that a pool keeps, for a test."""

    def __init__(self) -> None:
        self.usable = True
        self.events: list[str] = []

    @contextmanager
    def start(self, name: str) -> Iterator[str]:
        self.events.append(f"start {name}")
        yield name
        self.events.append(f"stop {name}")

    def check(self, name: str) -> None:
        if not self.usable:
            raise EnvironmentFailure(f"{name} lost its executors", remedy="start it anew")

    def kept_by(self, pool: ClusterPool, name: str) -> str:
        return pool.keep(name, lambda: self.start(name), self.check, self.events.append)


class ShapedCluster:
    """The part of a cluster that a pool uses, without servers."""

    def __init__(self, spec: ClusterSpec, events: list[str], *, elastic: bool) -> None:
        self.spec, self._events, self._elastic = spec, events, elastic

    def start(self, report: Any) -> None:
        self._events.append(f"start {self.spec.racks}")

    def restore(self, report: Any) -> None:
        self._events.append("restore")

    def tidy(self) -> None:
        pass

    def reshape(self, spec: ClusterSpec, report: Any) -> bool:
        if spec.racks > 5:
            raise EnvironmentFailure("a worker died", remedy="look at its log")
        if self._elastic:
            self._events.append(f"reshape {spec.racks}")
            self.spec = spec
        return self._elastic

    def stop(self) -> None:
        self._events.append(f"stop {self.spec.racks}")


@pytest.mark.parametrize("elastic", [True, False])
def test_a_warm_cluster_gets_another_shape_where_it_can(elastic: bool) -> None:
    events: list[str] = []
    pool = ClusterPool(lambda spec: cast(Cluster, ShapedCluster(spec, events, elastic=elastic)))
    applications = Applications()
    applications.events = events
    for racks in (2, 2, 3, 6):
        pool.get(ClusterSpec(racks=racks), lambda _: None)
        applications.kept_by(pool, str(racks))
    pool.close()
    anew = ["stop 2", "start 3"]
    assert events == [
        *("start 2", "start 2", "restore", "stop 2"),
        *(["reshape 3"] if elastic else anew),
        *("start 3", "stop 3", "stop 3", "start 6", "start 6", "stop 6", "stop 6"),
    ], "what runs on the nodes is ended before they are"


def test_applications_are_kept_while_they_are_of_use() -> None:
    pool, applications = ClusterPool(no_cluster), Applications()
    for name in ("a", "a", "b"):
        assert applications.kept_by(pool, name) == name
    assert applications.events == ["start a", "stop a", "start b"]
    applications.usable = False
    applications.kept_by(pool, "b")
    pool.close()
    report = "the b did not recover (b lost its executors): starting them anew"
    assert applications.events[3:] == [report, "stop b", "start b", "stop b"]


def test_a_disturbed_run_is_made_again_until_the_machine_counts_as_busy(tmp_path: Path) -> None:
    """Every measured run has the state of the machine, and one rule decides about it."""

    def run(point: Point, context: Context) -> Outcome:
        share = 0.4 if point["x"] != 1 else 0.01
        for name, foreign in (("warm-up", 0.9), ("twin", 0.0), ("failures", share)):
            conditions = {"foreign_share": foreign, "steal_share": foreign}
            assert not context.surroundings(name, conditions, repeatable=False)
        return Outcome(values={"y": 1})

    settings = RunSettings(profile=Profile.QUICK, repeats=1)
    watcher = make(RecordStore(tmp_path), measured("stock/toy", run=run), settings=settings)
    found = watcher.finished
    assert watcher.stages.count(CALM) == ATTEMPTS - 1, "before each further attempt"
    assert [(record.point["x"], record.attempt) for record in found] == [
        (1, 1),
        *((2, attempt) for attempt in range(1, ATTEMPTS + 1)),
        (3, 1),
    ]
    assert [record.values["foreign_share"] for record in found] == [0.01, 0.4, 0.4, 0.4, 0.4]
    assert [record.again is not None for record in found] == [False, True, True, True, True]
    assert all(record.status == OK for record in found)


def test_a_disturbed_pass_is_made_again_and_not_its_whole_run(tmp_path: Path) -> None:
    def run(point: Point, context: Context) -> Outcome:
        shares, made = [0.4, 0.0, 0.4, 0.4, 0.4, 0.0][: 4 + 2 * (point["x"] == 3)], 0
        for share in shares:
            made += not context.surroundings("pass", {"foreign_share": share}, repeatable=True)
        return Outcome(values={"y": made})

    settings = RunSettings(profile=Profile.QUICK, repeats=1)
    found = make(RecordStore(tmp_path), measured("stock/toy", run=run), settings=settings).finished
    calm = [record.values["y"] for record in found if record.again is None]
    assert calm == [1, 1], "three of four passes were disturbed, and so made again"
    disturbed = [record for record in found if record.again is not None]
    assert {record.point["x"] for record in disturbed} == {3}, "a fourth one counts as it is"
