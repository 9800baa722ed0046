"""The task engine on a cluster that exists already: a local one, as if it were foreign.

Executors get this checkout's code as an archive; whatever breaks workers and nodes is a command."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.cluster.backends import find_backend, remove_made
from harness.cluster.local.cluster import LocalCluster
from harness.engines.tasks.engine import TaskEngine
from tests.cluster.contract import silent
from tests.cluster.described import describe
from tests.engines.tasks.live import SPEC, kill, own_state, started
from tests.engines.tasks.on_backend import TasksOnBackend, passed


class TestTasksOnExternal(TasksOnBackend):
    @pytest.fixture(scope="class")
    @classmethod
    def engine(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TaskEngine]:
        with own_state(tmp_path_factory), LocalCluster(SPEC, remove=remove_made) as local:
            local.start(silent)
            backend = find_backend(str(describe(local, tmp_path_factory.mktemp("foreign"))))
            with started(backend.make(SPEC)) as engine:
                yield engine

    def test_a_node_dies_alone_by_its_pid(self, engine: TaskEngine, tmp_path: Path) -> None:
        done = passed(engine, tmp_path, "checkpoint", kill(2.5, "r2n1"))
        assert (done.kills, done.failures) == (1, 0), done
        assert {noted.note.node for noted in engine.lost_primaries()} >= {2}
