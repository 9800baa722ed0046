"""The task engine on a real cluster: nodes are killed, and the output is what it must be."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.cluster.base import ClusterSpec
from harness.cluster.local.cluster import LocalCluster
from harness.cluster.processes import marked
from harness.engines.base import Setup
from harness.engines.tasks.engine import TaskEngine, running_engine
from harness.engines.tasks.trial import Disturb, Disturbance, Trial
from harness.protocol.effects import CopyEvent
from tests.cluster.contract import silent
from workloads.wordcount import word_count

pytestmark = [pytest.mark.cluster, pytest.mark.spark, pytest.mark.slow]

SPEC = ClusterSpec(
    racks=2, workers_per_rack=1, nodes_per_worker=2, cores_per_worker=2, memory_mb_per_worker=512
)
WORDS = word_count(text=[__file__], window_s=2, slide_s=1, depth=4)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        with LocalCluster(SPEC) as cluster:
            cluster.start(silent)
            yield cluster
        assert marked(cluster.run) == []


@pytest.fixture(scope="module")
def engine(cluster: LocalCluster) -> Iterator[TaskEngine]:
    """Processes that any scheme can use: a pass brings its own."""
    setup = Setup(scheme="checkpoint", parameters={"checkpoint_s": 1.0})
    with running_engine(setup, cluster) as engine:
        yield engine


def trial(engine: TaskEngine, directory: Path, scheme: str, seconds: float = 6) -> Trial:
    engine.setup = Setup(scheme=scheme, parameters={"checkpoint_s": 1.0})
    engine.check()
    return Trial(engine, WORDS, directory, rate_per_s=200, seconds=seconds)


def kill(at_s: float, target: str) -> Disturbance:
    return Disturbance(at_s=at_s, kind=Disturb.KILL, target=target)


def test_killed_nodes_and_a_killed_rack_change_nothing(engine: TaskEngine, tmp_path: Path) -> None:
    done = trial(engine, tmp_path, "checkpoint", 8).run(
        [kill(2, "r1n1"), kill(3.5, "r2n2"), kill(5, "r1")]
    )
    assert done.results > 500
    assert done.kills == 4
    assert done.failures == 0, done
    lost = engine.lost_primaries()
    assert len(lost) >= 4
    assert all("connection" in noted.note.why for noted in lost)


def test_the_coordinator_is_killed_and_goes_on(engine: TaskEngine, tmp_path: Path) -> None:
    done = trial(engine, tmp_path, "checkpoint").run(
        [Disturbance(at_s=2, kind=Disturb.COORDINATOR), kill(4, "r2n1")]
    )
    assert done.kills == 2
    assert done.failures == 0, done


def test_a_frozen_node_is_replaced_by_its_silence(engine: TaskEngine, tmp_path: Path) -> None:
    done = trial(engine, tmp_path, "checkpoint").run(
        [Disturbance(at_s=2, kind=Disturb.PAUSE, target="r1n2", for_s=2)]
    )
    assert done.failures == 0, done
    assert any("connection" not in noted.note.why for noted in engine.lost_primaries())


def test_a_replica_takes_over(engine: TaskEngine, tmp_path: Path) -> None:
    done = trial(engine, tmp_path, "active").run([kill(3, "r1n1")])
    assert done.kills == 1
    assert done.failures == 0, done
    events = {noted.note.event for noted in engine.notes()}
    assert CopyEvent.PROMOTED in events


@pytest.mark.parametrize("scheme", ["replay", "global", "ppa", "rppg", "dpc"])
def test_every_other_scheme_survives_a_kill(
    engine: TaskEngine, tmp_path: Path, scheme: str
) -> None:
    done = trial(engine, tmp_path, scheme).run([kill(3, "r1n1")])
    assert done.kills == 1
    assert done.failures == 0, done
