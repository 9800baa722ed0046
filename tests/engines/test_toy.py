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
from harness.load import generator
from harness.measurement import Context
from harness.results.kills import Unrecovered
from harness.results.record import Outcome, Profile
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

    def __init__(self, directory: Path, repeat: int = 0) -> None:
        super().__init__(cast(Engine, self), directory)
        self.repeat, self.stack = repeat, ExitStack()

    def keep(self, key: str, start: Callable[[], Any], **_: object) -> Any:
        return self.stack.enter_context(start())


@pytest.fixture
def toy_cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Cluster]:
    """Return a cluster of one node and an imitated broker.

    A machine that is too busy to send in time does not count here."""
    monkeypatch.setattr(generator, "LATE_SHARE", 1.0)
    broker = Broker()
    monkeypatch.setattr(kinds, "ENGINES", (*ENGINES, ToyKind()))
    monkeypatch.setattr(passes, "topics", made_when_named)
    yield cast(Cluster, ToyCluster(broker, tmp_path))
    broker.close()


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


@pytest.fixture
def measured(toy_cluster: Cluster, tmp_path: Path) -> Callable[..., Outcome]:
    """Measure the toy under a scheme and a schedule."""

    def run(scheme: str, schedule: Schedule, repeat: int = 0) -> Outcome:
        context = cast(Context, Keeping(tmp_path, repeat))
        return measure(live_run(scheme, schedule), toy_cluster, context)

    return run


@contextmanager
def made_when_named(
    kafka: Broker, wanted: Mapping[str, int], *, appended: Sequence[str] = ()
) -> Iterator[None]:
    """Make no topic: the imitation of a broker makes each with its first use."""
    producer = Producer(kafka.confluent())
    for topic in wanted:
        producer.list_topics(topic, timeout=20)
    yield


@pytest.mark.slow
def test_a_run_without_failures_equals_its_twin_and_the_truth(
    measured: Callable[..., Outcome], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It keeps the conditions of both passes. An engine that is slow by itself has not stalled."""
    monkeypatch.setattr(passes, "LOOK_S", 0.0)
    monkeypatch.setattr(passes, "STALLED_S", 0.0)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    ClusterRecords().add(cluster_of(os.getppid(), tmp_path))
    values = measured("wait", NO_FAILURES).values
    assert not values["stalled"]
    assert values["load_cpu_s"] > 0
    assert isinstance(values["load_nice"], int)
    assert values["load_delivery_p99_s"] > 0
    assert {"foreign_share", "steal_share", "twin_foreign_share"} <= set(values)
    assert values["other_clusters"] == values["twin_other_clusters"] == 1
    assert values["results"] == values["records"] == RATE_PER_S * LOAD_S
    assert values["output_equals_truth"], values["difference_from_truth"]
    assert values["output_equals_twin"], values["difference_from_twin"]
    assert values["accuracy_first"] == 1.0
    assert values["contradictions"] == values["duplicates"] == 0
    assert values["kills_done"] == 0


@pytest.mark.slow
def test_a_kill_that_comes_late_because_processes_are_found_slowly_makes_a_run_invalid(
    measured: Callable[..., Outcome], toy_cluster: Cluster
) -> None:
    cast(ToyCluster, toy_cluster).walk_s = 0.4
    outcome = measured("wait", KILL)
    assert outcome.values["kill_lateness_s"] >= 0.4
    assert outcome.invalid is not None
    assert "failures: the kill came 0.4" in outcome.invalid


def test_tentative_results_that_are_corrected_equal_the_twin(
    measured: Callable[..., Outcome],
) -> None:
    """Accuracy 1 is not an invariant under tentative output; equal stable output is."""
    values = measured("guess", KILL).values
    assert values["output_equals_truth"], values["difference_from_truth"]
    assert values["output_equals_twin"], values["difference_from_twin"]
    assert values["contradictions"] == values["uncorrected"] == 0
    assert values["corrections"] == values["tentative"] > 0
    assert values["accuracy_first"] < 1
    assert values["accuracy_last"] == 1


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.long
def test_the_twin_comes_second_in_every_other_repetition(measured: Callable[..., Outcome]) -> None:
    for repeat, first in ((0, True), (1, False)):
        values = measured("wait", KILL, repeat).values
        assert values["twin_first"] is first
        assert values["output_equals_twin"], values["difference_from_twin"]


@pytest.mark.slow
def test_an_engine_that_forgets_is_found_out(measured: Callable[..., Outcome]) -> None:
    values = measured("forget", KILL).values
    assert not values["output_equals_truth"]
    assert not values["output_equals_twin"]
    assert values["twin_equals_truth"]
    assert 0 < values["accuracy_first"] < 1


@pytest.mark.slow
def test_an_engine_that_dies_while_the_load_runs_did_not_recover(
    measured: Callable[..., Outcome],
) -> None:
    """The load continues to its end, so the rest of the run is judged as any other."""
    values = measured("die", KILL).values
    assert values["died"] == "the toy is broken"
    assert not values["stalled"]
    assert values["records"] == RATE_PER_S * LOAD_S
    assert values["output_equals_truth"] is False
    assert values["recovery_why_not"] == Unrecovered.DIED.value


class TestToyKind(EngineKindContract):
    kind, workload = ToyKind(), WORKLOAD


@pytest.mark.slow
class TestToy(EngineContract):
    kind, workload, setup = ToyKind(), WORKLOAD, Setup(scheme="wait")
    interval_s, load_s, kill_s, away_s = 0.1, LOAD_S, 0.7, 0.5

    @pytest.fixture
    def cluster(self, toy_cluster: Cluster) -> Cluster:
        return toy_cluster

    @pytest.fixture
    def engine(self, cluster: Cluster) -> Iterator[Engine]:
        with self.kind.open(self.setup, cluster) as engine:
            engine.configure(self.setup)
            yield engine
