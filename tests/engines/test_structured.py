"""The stock engine, by substitutes that send a driver's messages: modes, schemes and parts."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pandas as pd
import psutil
import pytest

from harness.child import Event
from harness.cluster.base import Action, Cluster, ClusterSpec, Node, Prepared
from harness.cluster.processes import RUN_VARIABLE, WORKER_VARIABLE
from harness.engines.base import Engine, EventKind, Setup, Targets, Work
from harness.engines.base import Event as Observed
from harness.engines.deliveries import COPY_HEADER
from harness.engines.kinds import find_engine
from harness.engines.structured import pair, parts, real_time, standby
from harness.engines.structured.applications import Application, application_conf
from harness.engines.structured.driver import RESTART_ATTEMPTS, Supervised
from harness.engines.structured.engine import StructuredEngine
from harness.engines.structured.parameters import Mode, StockParameters
from harness.engines.structured.session import FIXED, _of_java, settings_of, with_settings
from harness.environment.doctor import Status
from harness.errors import EnvironmentFailure, UsageError
from harness.failures.schedule import BUSIEST
from harness.load.plan import BY_THE_CLOCK
from harness.measure.collector import Message
from harness.measure.versions import STABILITY, Stability, versions
from tests.cluster.helpers import eventually
from tests.engines.tasks.kit import machines
from tests.engines.toy import NODE, ToyCluster
from workloads.accident import accidents
from workloads.base import Workload
from workloads.synthetic import synthetic
from workloads.traffic import traffic_jams
from workloads.wordcount import word_count
from workloads.worldcup import world_cup

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KIND = find_engine("structured")
WORDS = word_count(text=[__file__])
FOUR = word_count(partitions=4)
(SOURCE,) = (source.name for source in FOUR.sources)
SPEC = ClusterSpec(racks=2, workers_per_rack=2, cores_per_worker=2)
REAL = Mode.REAL_TIME.value
START_S = 1_800_000_000.0
STORE = "spark.sql.streaming.stateStore.providerClass"


class Told(Application):
    """An application with these messages of its driver, and a living or dead process."""

    def __init__(self, directory: Path, events: list[Event], code: int | None = None) -> None:
        self.name, self.log, self.events, self._code = "told", directory / "log", events, code
        self.log.touch()

    @property
    def exit_code(self) -> int | None:
        return self._code

    def mark(self) -> int:
        return 0

    def newest(self, kind: str) -> Event | None:
        return next((event for event in self.events if event["event"] == kind), None)

    def order(self, command: str, **parameters: object) -> None:
        """Do nothing: there is no listener."""

    def failure(self, what: str) -> EnvironmentFailure:
        return EnvironmentFailure(what, remedy="none")

    def wait_for(self, what: str, found: object, **_: object) -> Event:
        raise self.failure(f"waiting for {what}")


def engine(*applications: Application) -> StructuredEngine:
    return StructuredEngine(applications, cast(Cluster, None))


def test_a_query_that_is_not_done_is_no_error(tmp_path: Path) -> None:
    assert engine(Told(tmp_path, [])).drain(100.0, within_s=0) is False


def test_a_driver_that_has_ended_is_told_of_at_once(tmp_path: Path) -> None:
    """There is no wait for a batch that cannot come."""
    for gone in (Told(tmp_path, [], code=1), Told(tmp_path, [{"event": "died"}])):
        with pytest.raises(EnvironmentFailure, match="has ended"):
            engine(Told(tmp_path, []), gone).raise_problems()
        with pytest.raises(EnvironmentFailure, match="has ended"):
            engine(gone).drain(100.0, within_s=0)


def test_applications_whose_query_did_not_end_are_not_used_again(tmp_path: Path) -> None:
    hung = engine(Told(tmp_path, []))
    with pytest.raises(EnvironmentFailure, match="the end of its query"):
        hung.end()
    with pytest.raises(EnvironmentFailure, match="did not end"):
        hung.check()


def test_only_what_says_nothing_of_times_leaves_sparks_defaults() -> None:
    """`test_settings` has the options of Java."""
    brief, usual = (application_conf({}, name="x", cores=2, brief=each) for each in (True, False))
    assert brief["spark.locality.wait"] == "0s"
    assert "spark.locality.wait" not in usual
    own = application_conf({}, name="x", cores=2, brief=True, own={"spark.locality.wait": "1s"})
    assert own["spark.locality.wait"] == "1s", "the user's own settings come before all of ours"


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"mode": "continuous"}, "no mode 'continuous'"),
        ({"checkpoint_s": 5.0}, "belong to real-time mode"),
        ({"spare_slots": 1}, "belong to real-time mode"),
        ({"mode": REAL, "checkpoint_s": 1.0}, "a checkpoint every 1 s"),
        ({"mode": REAL, "spare_slots": -1}, "spare_slots is -1"),
        ({"partitions": {"reports": (-1,)}}, "partitions of source 'reports'"),
        ({"partitions": {"reports": "0"}}, "partitions of source 'reports'"),
        ({"partitions": {"reports": (0.5,)}}, "partitions of source 'reports'"),
        ({"conf": {"checkpoint_s": "1"}}, "'checkpoint_s' is not a setting of Spark"),
    ],
)
def test_settings_that_make_no_sense_are_refused(given: dict[str, Any], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        StockParameters(**given)


def setup(scheme: str = "checkpoint", **given: Any) -> Setup:
    return Setup(scheme=scheme, parameters=StockParameters(mode=REAL, **given))


def reading(*numbers: int, source: str = SOURCE, scheme: str = "ppa") -> Setup:
    """Return a setup whose second query reads these partitions of a source."""
    return Setup(scheme=scheme, parameters=StockParameters(partitions={source: numbers}))


@pytest.mark.parametrize(
    ("given", "workload", "reason"),
    [
        (setup(), WORDS, None),
        (setup(spare_slots=5), WORDS, None),
        (setup(spare_slots=6), WORDS, "needs a slot for each of the 2 partitions"),
        (setup("active", spare_slots=1), WORDS, None),
        (setup("active", spare_slots=2), WORDS, "each application has 4"),
        (setup(), accidents(partitions=4), None),
        (setup(), synthetic(levels=1), None),
        (setup(), synthetic(levels=2), "update mode allows one"),
        (setup(), world_cup(), "update mode allows one"),
        (setup(), traffic_jams(), "it joins two streams"),
        (reading(0, 2), FOUR, None),
        (reading(), FOUR, "no whole MC-tree"),
        (reading(0, source="others"), FOUR, "no whole MC-tree"),
        (reading(4), FOUR, "has 4 partitions"),
    ],
)
def test_what_cannot_run_has_a_reason(given: Setup, workload: Workload, reason: str | None) -> None:
    found = KIND.lacks(given, workload, SPEC)
    assert (found is None) if reason is None else (reason in str(found)), found


@pytest.mark.parametrize("given", [Setup(scheme="ppa"), reading(0, scheme="active")])
def test_partitions_go_with_ppa_alone(given: Setup) -> None:
    with pytest.raises(UsageError, match="do not go with"):
        KIND.lacks(given, FOUR, SPEC)
    with pytest.raises(UsageError, match="do not go with"):
        KIND.open(given, cast(Cluster, None))


def test_applications_serve_both_modes_and_any_partitions_of_one_scheme() -> None:
    assert KIND.key(setup(spare_slots=2)) == KIND.key(Setup(scheme="checkpoint"))
    assert KIND.key(reading(0, 2)) == KIND.key(reading(1)) != KIND.key(Setup(scheme="active"))


def test_a_query_takes_a_slot_for_each_partition_and_leaves_the_spare_ones() -> None:
    given = StockParameters(mode=REAL)
    assert real_time.orders(given, WORDS, 8, 1.0) == {
        "mode": "real-time", "trigger_s": 5.0, "shuffle_partitions": 6,
    }  # fmt: skip
    spare = StockParameters(mode=REAL, spare_slots=2, checkpoint_s=15)
    orders = real_time.orders(spare, WORDS, 8, 1.0)
    assert (orders["shuffle_partitions"], orders["trigger_s"]) == (4, 15)


def test_input_has_ended_when_a_checkpoint_has_the_markers_and_nothing_is_unread() -> None:
    done = {"behind": "", "behind_records": 0.0, "newest_event": "1970-01-01T00:00:10.000Z"}
    assert real_time.drained(done, 10.0)
    assert not real_time.drained(done, 10.1)
    assert not real_time.drained({**done, "behind": "words/1: 3"}, 10.0)
    assert not real_time.drained({**done, "behind_records": 3.0}, 10.0)
    assert not real_time.drained({**done, "newest_event": None}, 10.0)


def test_a_query_that_always_ends_is_started_again_until_it_counts_as_dead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Spark's start succeeds, and the query ends a moment later for want of slots."""
    monkeypatch.setattr("harness.engines.structured.driver.RESTART_PAUSE_S", 0.0)
    monkeypatch.setattr("harness.engines.structured.driver.POLL_S", 0.0)
    query = SimpleNamespace(  # it has ended without a report
        isActive=False, recentProgress=list, exception=lambda: "a task was lost", stop=lambda: None
    )
    query._jsq = query
    said: list[Mapping[str, Any]] = []
    supervised = Supervised(lambda: cast(Any, query), said.append)
    while not said or said[-1]["event"] != "died":
        pass
    supervised.stop()
    assert [one["event"] for one in said].count("restarted") == RESTART_ATTEMPTS


# -- PPA at query level ----------------------------------------------------------------------


def test_the_first_is_away_from_its_first_loss_until_its_next_batch() -> None:
    lost, back = EventKind.DETECTED, EventKind.RECOVERED
    events = [
        Observed(kind=kind, at_unix_s=at_s, copy=copy)
        for kind, at_s, copy in (
            (lost, 1.0, 1), (lost, 2.0, 0), (lost, 2.5, 0), (back, 4.0, 0), (back, 4.0, 0),
            (lost, 7.0, 0),
        )
    ]  # fmt: skip
    assert standby.away(events) == [(2.0, 4.0), (7.0, math.inf)]
    assert standby.away([]) == []


T, S = Stability.TENTATIVE, Stability.STABLE


@pytest.mark.parametrize(
    ("delivered", "spans", "shown"),
    [
        pytest.param(
            [(0, 1.0, T), (0, 1.2, S), (1, 2.0, T), (1, 2.2, S)],
            [],
            [(0, 1.2, S), (1, 2.2, S)],
            id="nothing tentative while the first is whole",
        ),
        pytest.param(
            [(1, 4.5, T), (2, 6.0, T), (1, 9.0, S), (2, 9.0, S), (3, 9.5, T)],
            [(5.0, 9.1)],
            [(1, 5.0, T), (2, 6.0, T), (1, 9.0, S), (2, 9.0, S)],
            id="what was held at the loss, what comes then at once",
        ),
        pytest.param(
            [(0, 3.0, T), (0, 4.0, S), (1, 5.5, S), (1, 6.0, T)],
            [(5.0, 9.0)],
            [(0, 4.0, S), (1, 5.5, S)],
            id="never again what the first has given",
        ),
        pytest.param(
            [(4, 11.0, T), (4, 15.0, S)],
            [(5.0, 9.0), (12.0, 14.0)],
            [(4, 12.0, T), (4, 15.0, S)],
            id="a second loss shows what the first one did not",
        ),
        pytest.param([(1, 4.5, T)], [(4.0, math.inf)], [(1, 4.5, T)], id="of the second alone"),
    ],
)
def test_a_reader_shows_tentative_results_while_the_first_is_away(
    delivered: list[tuple[int, float, Stability]],
    spans: list[tuple[float, float]],
    shown: list[tuple[int, float, Stability]],
) -> None:
    columns = ["window_start_s", "arrival_s", STABILITY]
    frame = pd.DataFrame([(w, at, stability.value) for w, at, stability in delivered])
    found = standby.shown(
        frame.set_axis(columns, axis="columns").assign(word="all"),
        spans,
        ["window_start_s", "word"],
    )
    assert list(found[columns].itertuples(index=False, name=None)) == [
        (window, at, stability.value) for window, at, stability in shown
    ]


def message(window_s: int, append_s: float, *, tentative: bool) -> Message:
    value = dict.fromkeys(FOUR.columns, "a") | {
        FOUR.window_start: round((START_S + window_s) * 1000),
        **dict.fromkeys(FOUR.values, 1 if tentative else 2),
    }
    headers = {COPY_HEADER: b"1", STABILITY: b"tentative"} if tentative else {COPY_HEADER: b"0"}
    return Message(
        append_ms=round((START_S + append_s) * 1000),
        partition=0,
        offset=0,
        value=json.dumps(value).encode(),
        copy=int(tentative),
        headers=headers,
    )


def test_the_engine_shows_what_its_events_allow(tmp_path: Path) -> None:
    """The first application loses its executor at 5 s and commits again at 9 s."""
    whole = Told(
        tmp_path,
        [
            {"event": "executors", "count": 1, "hosts": ["127.0.1.1"], "at_unix_s": START_S},
            {"event": "executors", "count": 0, "hosts": [], "at_unix_s": START_S + 5},
            {"event": "progress", "rows": 3, "at_unix_s": START_S + 9},
        ],
    )
    two_racks = SimpleNamespace(nodes=lambda: machines(2, 1))
    one = StructuredEngine([whole, Told(tmp_path, [])], cast(Cluster, two_racks))
    sent = [
        message(0, 4.0, tentative=True), message(0, 4.2, tentative=False),
        message(1, 6.0, tentative=True), message(1, 8.9, tentative=False),
    ]  # fmt: skip
    load = SimpleNamespace(event=BY_THE_CLOCK)
    work = cast(Work, SimpleNamespace(workload=FOUR, load=load))
    one.configure(reading(0, 2))
    seen = versions(one.read(sent, work, START_S), FOUR.identity_in_run, FOUR.values)
    assert (seen.tentative, seen.corrections, seen.uncorrected) == (1, 1, 0)
    assert len(seen.stable) == 2
    one.configure(Setup(scheme="active"))
    assert len(one.read(sent, work, START_S)) == 4


# -- parts -----------------------------------------------------------------------------------


class Apart:
    """An engine with one part."""

    killed = False

    def targets(self) -> list[Node]:
        return [NODE]

    def parts(self) -> list[str]:
        return ["driver-0"]

    def prepare(self, part: str) -> Prepared:
        assert part == "driver-0"
        return Prepared(self.kill)

    def kill(self) -> list[Any]:
        self.killed = True
        return []


def test_a_schedule_reaches_parts_of_the_engine_and_nodes_of_the_cluster(tmp_path: Path) -> None:
    """The busiest node is chosen when it fails, and is the one that comes back."""
    cluster, one = ToyCluster(None, tmp_path), Apart()
    targets = Targets(cluster=cast(Cluster, cluster), engine=cast(Engine, one), busiest=max)
    targets.prepare(Action.KILL, "driver-0").apply()
    assert one.killed
    with pytest.raises(UsageError, match="only kill it"):
        targets.prepare(Action.RESTART, "driver-0")
    for target in (NODE.name, BUSIEST):
        targets.prepare(Action.KILL, target).apply()
        assert cluster.dead == {NODE.name}
        cluster.felt.set()
        targets.prepare(Action.RESTART, target).apply()
        assert cluster.dead == set()


def test_an_executor_is_killed_with_its_children_and_no_other_runs_is() -> None:
    """Both have the same address: another run on this machine gives its workers the same ones."""

    def executor(run: str) -> psutil.Popen:
        return psutil.Popen(
            ["bash", "-c", "sleep 100 & wait", "CoarseGrainedExecutorBackend", "127.0.9.9"],
            env={**os.environ, RUN_VARIABLE: run, WORKER_VARIABLE: "r1w1"},
        )

    own, others = executor("own"), executor("another")
    here = SimpleNamespace(
        backend="local",
        nodes=lambda: [Node(name="r1n1", rack="r1", worker="r1w1", host="127.0.9.9")],
        driver_environment=lambda: {RUN_VARIABLE: "own"},
    )
    assert parts.names(["r1n1"], 1) == ["driver", "driver-0", "executor-r1n1"]
    children = [child_of(own), child_of(others)]
    with parts.prepare(
        "executor-r1n1", cast(Cluster, here), lambda copy: 0, lambda copy: None
    ) as prepared:
        (victim,) = prepared.apply()
    try:
        assert own.wait(20) == -9
        assert others.is_running()
        assert victim.felt
        assert set(victim.processes) == {own.pid, children[0].pid}
    finally:
        others.kill()
        others.wait(20)
        children[1].kill()


def child_of(process: psutil.Popen) -> psutil.Process:
    """Return its child, once it has one."""
    eventually(lambda: bool(process.children()), limit_s=20)
    return process.children()[0]


# -- samples, and the pair of PySpark and the connector --------------------------------------


def test_settings_of_the_job_reach_a_sample_and_those_of_a_cluster_do_not() -> None:
    found = settings_of(
        {
            STORE: "RocksDB", "spark.sql.session.timeZone": "Asia/Kolkata",
            "spark.sql.shuffle.partitions": "200", "spark.executor.memory": "8g",
            "spark.hadoop.fs.s3a.secret.key": "s3cret",
        }
    )  # fmt: skip
    assert found[STORE] == "RocksDB"
    assert found["spark.sql.session.timeZone"] == "Asia/Kolkata"
    assert found["spark.sql.shuffle.partitions"] == FIXED["spark.sql.shuffle.partitions"] == "1"
    assert "spark.executor.memory" not in found
    assert "s3cret" in found.values()
    java = dict(_of_java(found.items()))
    assert "spark.driver.extraJavaOptions" in java
    assert "s3cret" not in str(java), "a command line is no place for it"


@pytest.mark.spark
def test_a_session_that_runs_takes_settings_for_a_while(spark: SparkSession) -> None:
    before = spark.conf.get(STORE)
    with with_settings(spark, {STORE: "other", "spark.master": "no"}):
        assert spark.conf.get(STORE) == "other"
        assert spark.conf.get("spark.master") != "no"
    assert spark.conf.get(STORE) == before


@pytest.mark.parametrize(
    ("code", "said", "status"),
    [
        (0, str(pair.RECORDS), Status.OK),
        (0, str(pair.RECORDS - 1), Status.MISSING),
        (1, "NoSuchMethodError", Status.MISSING),
        (None, "no answer", Status.MISSING),
    ],
)
def test_only_all_records_are_an_answer(code: int | None, said: str, status: Status) -> None:
    found = pair.finding(code, said)
    assert found.status is status
    assert bool(found.remedy) == (status is not Status.OK)


@pytest.mark.cluster
@pytest.mark.spark
@pytest.mark.long
def test_the_pair_of_the_lock_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert pair.examine(lambda stage: None).status is Status.OK
