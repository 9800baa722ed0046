"""One pass and one judge for every engine: a toy passes all stages."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from confluent_kafka import Producer

from harness.cluster.base import Cluster
from harness.cluster.ownership import ClusterRecords
from harness.engines import kinds
from harness.engines.base import Engine, Setup
from harness.engines.kinds import ENGINES
from harness.failures.generators import one_target
from harness.failures.schedule import NO_FAILURES, Schedule
from harness.judging import calibration, passes
from harness.judging.calibration import GridScale, calibrate, ladder
from harness.judging.run import LiveRun, measure
from harness.judging.runner import steady_plan
from harness.load import generator
from harness.measurement import Context
from harness.results.kills import Unrecovered
from harness.results.record import Profile
from tests.cluster.helpers import cluster_of
from tests.engines.contract import EngineContract, EngineKindContract, Sharing
from tests.engines.toy import WORKLOAD, ToyCluster, ToyKind
from tests.load.test_generator import Broker

RATE_PER_S, LOAD_S = 200.0, 2.0
KILL = one_target("r1n1", at_s=0.7, restart_after_s=0.5)


class Keeping(Sharing):
    """The context of a run, which starts an engine of its own."""

    name = "toy"
    profile = Profile.QUICK

    def __init__(self, directory: Path) -> None:
        super().__init__(cast(Engine, self), directory)
        self.stack = ExitStack()

    def keep(self, key: str, start: Callable[[], Any], **_: object) -> Any:
        return self.stack.enter_context(start())


@contextmanager
def made_when_named(
    kafka: Broker, wanted: Mapping[str, int], *, appended: Sequence[str] = ()
) -> Iterator[None]:
    """Make no topic: the imitation of a broker makes each with its first use."""
    producer = Producer(kafka.confluent())
    for topic in wanted:
        producer.list_topics(topic, timeout=20)
    yield


@contextmanager
def imitated(kind: type[ToyCluster], place: Path) -> Iterator[Cluster]:
    """Make a cluster of one node with an imitated broker.

    A machine that is too busy to send in time does not count here."""
    broker = Broker()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(generator, "LATE_SHARE", 1.0)
        patch.setattr(passes, "topics", made_when_named)
        yield cast(Cluster, kind(broker, place))
    broker.close()


@pytest.fixture
def toy_cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Cluster]:
    monkeypatch.setattr(kinds, "ENGINES", (*ENGINES, ToyKind()))
    with imitated(ToyCluster, tmp_path) as cluster:
        yield cluster


def live_run(scheme: str, schedule: Schedule) -> LiveRun:
    return LiveRun(
        engine="toy",
        setup=Setup(scheme=scheme),
        workload=WORKLOAD,
        interval_s=0.1,
        rate_per_s=RATE_PER_S,
        load_s=LOAD_S,
        warmup_s=0,
        first_warmup_s=0,
        settle_s=0.5,
        schedule=schedule,
    )


def test_what_a_machine_holds_is_found_by_the_same_passes(
    toy_cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any machine holds the first rung where the margin is as wide as this."""
    monkeypatch.setattr(calibration, "MEDIAN_INTERVALS", 1e6)
    monkeypatch.setattr(calibration, "TAIL_INTERVALS", 1e6)
    outcome = calibrate(
        live_run("wait", NO_FAILURES),
        ladder(0.1, RATE_PER_S),
        toy_cluster,
        cast(Context, Keeping(tmp_path)),
    )
    (row,) = outcome.series["ramp"].to_dict("records")
    assert row["why_not"] is None
    assert 0 < row["latency_median_s"] <= row["latency_slowest_s"]
    assert GridScale.read(outcome.values) == GridScale()


def test_a_pass_keeps_its_conditions_and_an_engine_that_is_slow_by_itself_has_not_stalled(
    toy_cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passes, "LOOK_S", 0.0)
    monkeypatch.setattr(passes, "STALLED_S", 0.0)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    ClusterRecords().add(cluster_of(os.getppid(), tmp_path))
    plan = steady_plan("calm", WORKLOAD, RATE_PER_S, LOAD_S, 0.1)
    with ToyKind().open(Setup(scheme="wait"), toy_cluster) as engine:
        engine.configure(Setup(scheme="wait"))
        context = cast(Context, Sharing(engine, tmp_path))
        with passes.Pass(plan, toy_cluster, engine, tmp_path, context) as one:
            record = one.run()
    assert record.drained
    assert not record.stalled
    assert len(record.deliveries) == record.load.records == RATE_PER_S * LOAD_S
    assert record.load.cpu_s > 0
    assert isinstance(record.load.nice, int)
    assert record.load.delivery["p99_s"] > 0
    assert {"foreign_share", "steal_share"} <= set(record.conditions)
    assert record.conditions["other_clusters"] == 1


def test_an_engine_that_dies_while_the_load_runs_did_not_recover(
    toy_cluster: Cluster, tmp_path: Path
) -> None:
    """The load continues to its end, so the rest of the run is judged as any other."""
    context = cast(Context, Keeping(tmp_path))
    values = measure(live_run("die", KILL), toy_cluster, context).values
    assert values["died"] == "the toy is broken"
    assert not values["stalled"]
    assert values["records"] == RATE_PER_S * LOAD_S
    assert values["output_equals_truth"] is False
    assert values["recovery_why_not"] == Unrecovered.DIED.value


class TestToyKind(EngineKindContract):
    kind, workload = ToyKind(), WORKLOAD


class TestToy(EngineContract):
    kind, workload, setup = ToyKind(), WORKLOAD, Setup(scheme="wait")
    interval_s, load_s, kill_s, away_s = 0.1, LOAD_S, 0.7, 0.5

    @pytest.fixture(scope="class")
    @classmethod
    def cluster(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
        with imitated(ToyCluster, tmp_path_factory.mktemp("cluster")) as cluster:
            yield cluster
