"""The Docker backend: the contract, and its own promises. Needs a daemon."""

from __future__ import annotations

import json
import secrets
import signal
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import pytest

from harness.cluster.backends import remove_made
from harness.cluster.base import Action, Cluster
from harness.cluster.docker import daemon
from harness.cluster.docker.cluster import DockerCluster
from harness.cluster.docker.containers import Containers
from harness.cluster.docker.daemon import RUN_LABEL, ensure_image
from harness.cluster.links import RATE, WorkerLink
from harness.cluster.ownership import ClusterRecords
from harness.cluster.processes import marked, send_signal, wait_until_gone
from harness.cluster.run_directory import read_journal
from harness.errors import EnvironmentFailure
from tests.cluster.contract import SPEC, ClusterContract, started
from tests.cluster.daemons import client_or_skip, left_of
from tests.cluster.helpers import PEER, eventually, harness_process, silent
from tests.cluster.links import Laid, LinkContract

pytestmark = [pytest.mark.cluster, pytest.mark.deep]


@pytest.fixture(scope="module", autouse=True)
def _daemon() -> None:
    client_or_skip()


class TestLinks(LinkContract):
    """Counters of one container's interface; no server is needed."""

    @pytest.fixture(scope="class")
    @classmethod
    def containers(cls) -> Iterator[Containers]:
        client = client_or_skip()
        run = secrets.token_hex(8)
        found = Containers(1)
        found.make(client, run, ensure_image(client, silent))
        found.create("r1w1", found.worker_host(1, 1), ["python", "-c", PEER]).start()
        yield found
        daemon.remove_run(client, run)
        assert left_of(run) == []

    @pytest.fixture
    def laid(self, containers: Containers) -> Laid:
        shape = partial(containers.shape, "r1w1")
        return Laid(containers.shapes(), shape, containers.worker_host(1, 1))


class TestDockerCluster(ClusterContract):
    @pytest.fixture(scope="class")
    @classmethod
    def cluster(cls) -> Iterator[Cluster]:
        with started(DockerCluster(SPEC, remove=remove_made)) as cluster:
            yield cluster
        assert left_of(cluster.run) == []

    def test_a_link_lies_on_the_next_cable_too(self, cluster: DockerCluster) -> None:
        if RATE not in cluster.shapes():
            pytest.skip("this kernel has no token bucket")
        cluster.shape("r1n1", WorkerLink(bytes_per_s=500_000))
        cluster.apply(Action.CUT, "r1n1")
        cluster.apply(Action.HEAL, "r1n1")
        container = cluster.containers.of("r1w1")
        shown = cluster.containers._once(f"container:{container.id}", "tc qdisc show")
        assert "tbf" in shown
        assert "rate 4Mbit" in shown

    def test_no_secret_is_where_the_daemon_shows_it(self, cluster: DockerCluster) -> None:
        chosen = {"label": f"{RUN_LABEL}={cluster.run}"}
        containers = daemon.connect().containers.list(filters=chosen)
        assert len(containers) == 4
        shown = json.dumps([container.attrs for container in containers])
        assert str(cluster.kafka.password) not in shown
        assert str(cluster.redis.password) not in shown
        logs = b"".join(path.read_bytes() for path in cluster.run_directory.glob("logs/*"))
        assert str(cluster.kafka.password).encode() not in logs


def test_a_container_that_somebody_removed_is_dead_and_named() -> None:
    with started(DockerCluster(replace(SPEC, workers_per_rack=1), remove=remove_made)) as cluster:
        cluster.containers.of("r2w1").remove(force=True)
        eventually(lambda: dict(cluster.alive()) == {"r1n1": True, "r2n1": False})
        with pytest.raises(EnvironmentFailure, match="the container of r2w1 is lost"):
            cluster.health()
    assert left_of(cluster.run) == []


@pytest.mark.parametrize("keeper_too", [False, True], ids=["harness", "harness and keeper"])
def test_a_harness_that_is_killed_in_mid_run_leaves_nothing(keeper_too: bool) -> None:
    """A rack is dead and a worker off the network then.

    The keeper removes containers and network, and the next start what a keeper could not."""
    with harness_process(HARNESS) as (process, run, directory):
        try:
            assert len(left_of(run)) == 2 + 1, "two workers and their network"
            assert len(marked(run)) >= 2, "the keeper and a driver"
            if keeper_too:
                keeper = dict(read_journal(directory))["keeper"]
                send_signal(keeper, signal.SIGKILL)
                assert wait_until_gone([keeper], limit_s=10)
            process.kill()
            process.wait()
            if keeper_too:
                assert len(left_of(run)) == 2 + 1, "nobody has removed them yet"
                ClusterRecords().sweep(silent, remove_made)
            eventually(lambda: run not in {r.run for r in ClusterRecords().records()})
            assert left_of(run) == []
            assert marked(run) == []
            assert not directory.exists()
        finally:
            process.kill()
            daemon.remove_run(daemon.connect(), run)


HARNESS = """
import subprocess, sys, time
from harness.cluster.backends import remove_made
from harness.cluster.base import Action, ClusterSpec
from harness.cluster.docker.cluster import DockerCluster

with DockerCluster(ClusterSpec(racks=2, memory_mb_per_worker=512), remove=remove_made) as cluster:
    cluster.start(lambda text: None)
    driver = [sys.executable, "-S", "-c", "import time; print('up', flush=True); time.sleep(600)"]
    with subprocess.Popen(
        driver, env=cluster.driver_environment(), stdout=subprocess.PIPE
    ) as process:
        process.stdout.readline()
        assert cluster.apply(Action.KILL, "r2")[0].reached
        assert cluster.apply(Action.CUT, "r1")[0].reached
        print(cluster.run, cluster.run_directory, flush=True)
        time.sleep(600)
"""
