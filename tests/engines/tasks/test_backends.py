"""The task engine on the other backends: containers, and a cluster that exists already.

The latter is a local one, as if it were foreign: executors get this checkout's code as an archive,
and whatever breaks workers and nodes is a command. One engine serves
all tests, as the runs of a campaign share one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from harness.cluster.backends import find_backend, remove_made
from harness.cluster.docker.cluster import DockerCluster
from harness.cluster.local.cluster import LocalCluster
from harness.endurance.trial import Disturb, Disturbance
from harness.engines.tasks.engine import TaskEngine
from harness.protocol.effects import CopyEvent
from tests.cluster.daemons import client_or_skip, left_of
from tests.cluster.described import describe
from tests.cluster.helpers import silent
from tests.engines.tasks.live import SPEC, kill, own_state, passed, started


@pytest.mark.cluster
@pytest.mark.spark
@pytest.mark.long
class TasksOnBackend:
    """Workers and nodes that are killed, with checkpoints and with replicas."""

    @pytest.mark.parametrize("scheme", ["checkpoint", "active"])
    def test_a_killed_worker_changes_nothing(
        self, engine: TaskEngine, tmp_path: Path, scheme: str
    ) -> None:
        done = passed(engine, tmp_path, scheme, kill(2.5, "r1"))
        assert done.results > 400
        assert done.kills >= 1
        assert done.failures == 0, done
        assert engine.lost_primaries(), "the coordinator noticed"
        if scheme == "active":
            assert CopyEvent.PROMOTED in {noted.note.event for noted in engine.notes()}
        begun_s = engine.job.start_us / 1e6 if engine.job else 0.0
        detected = [event for event in engine.events() if event.kind == "detected"]
        # Nodes elsewhere have other clocks, but what happened is told by one; and a machine that is
        # too busy may take a living node for dead as well, and earlier.
        assert any(begun_s + 2 < event.at_unix_s < begun_s + 120 for event in detected)
        for event in engine.events():
            if event.kind == "recovered":
                assert event.at_unix_s >= event.detail["detected_unix_s"]

    def test_nodes_of_one_instant_die_in_one_sweep_and_their_worker_lives(
        self, engine: TaskEngine, tmp_path: Path
    ) -> None:
        done = passed(engine, tmp_path, "checkpoint", kill(2.5, "r2n1+r2n2"))
        assert (done.kills, done.failures) == (2, 0), done
        assert {noted.note.node for noted in engine.lost_primaries()} >= {2, 3}


class TestTasksOnDocker(TasksOnBackend):
    @pytest.fixture(scope="class")
    @classmethod
    def engine(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TaskEngine]:
        client_or_skip()
        with own_state(tmp_path_factory):
            cluster = DockerCluster(SPEC, remove=remove_made)
            with started(cluster) as engine:
                yield engine
            assert left_of(cluster.run) == []

    def test_a_container_is_cut_off_the_network_and_comes_back(
        self, engine: TaskEngine, tmp_path: Path
    ) -> None:
        cut = Disturbance(at_s=2, kind=Disturb.CUT, target="r1", for_s=5)
        done = passed(engine, tmp_path, "active", cut, seconds=9)
        assert (done.cuts, done.failures) == (2, 0), done
        assert {noted.note.node for noted in engine.lost_primaries()} >= {0, 1}


class TestTasksOnExternal(TasksOnBackend):
    @pytest.fixture(scope="class")
    @classmethod
    def engine(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TaskEngine]:
        spec = replace(SPEC, append_only=True)
        with own_state(tmp_path_factory), LocalCluster(spec, remove=remove_made) as local:
            local.start(silent)
            backend = find_backend(str(describe(local, tmp_path_factory.mktemp("foreign"))))
            with started(backend.make(SPEC)) as engine:
                yield engine
