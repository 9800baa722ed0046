"""The task engine in containers. Needs a daemon."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.cluster.backends import remove_made
from harness.cluster.docker.cluster import DockerCluster
from harness.endurance.trial import Disturb, Disturbance
from harness.engines.tasks.engine import TaskEngine
from tests.cluster.daemons import client_or_skip, left_of
from tests.engines.tasks.live import SPEC, kill, own_state, started
from tests.engines.tasks.on_backend import TasksOnBackend, passed


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

    def test_a_node_dies_alone_in_its_container(self, engine: TaskEngine, tmp_path: Path) -> None:
        done = passed(engine, tmp_path, "checkpoint", kill(2.5, "r2n1"))
        assert (done.kills, done.failures) == (1, 0), done
        assert {noted.note.node for noted in engine.lost_primaries()} >= {2}

    def test_a_container_is_cut_off_the_network_and_comes_back(
        self, engine: TaskEngine, tmp_path: Path
    ) -> None:
        cut = Disturbance(at_s=2, kind=Disturb.CUT, target="r1", for_s=5)
        done = passed(engine, tmp_path, "active", cut, seconds=9)
        assert (done.cuts, done.failures) == (2, 0), done
        assert {noted.note.node for noted in engine.lost_primaries()} >= {0, 1}
