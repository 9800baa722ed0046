"""One warm cluster and one warm fleet of nodes for all live tests of the task engine.

A pass brings its own scheme, so any test can use them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness.cluster.backends import remove_made
from harness.cluster.local.cluster import LocalCluster
from harness.engines.base import Setup
from harness.engines.tasks.engine import TaskEngine, running_engine
from tests.cluster.contract import started
from tests.engines.tasks.live import SPEC, own_state


@pytest.fixture(scope="package")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Two racks of one worker with two nodes each."""
    with own_state(tmp_path_factory), started(LocalCluster(SPEC, remove=remove_made)) as cluster:
        yield cluster


@pytest.fixture(scope="package")
def engine(cluster: LocalCluster) -> Iterator[TaskEngine]:
    """Start its processes, and connect every node."""
    with running_engine(Setup(scheme="checkpoint"), cluster) as engine:
        yield engine
