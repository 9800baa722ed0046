"""The Docker backend: the contract, and its own promises. Needs a daemon."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from harness.cluster.backends import remove_made
from harness.cluster.base import Action, Cluster, ClusterSpec
from harness.cluster.docker import daemon
from harness.cluster.docker.cluster import DockerCluster
from harness.cluster.docker.containers import Containers
from harness.cluster.docker.daemon import ROLE_LABEL, RUN_LABEL, ensure_image
from harness.cluster.links import RATE, WorkerLink
from harness.cluster.ownership import ClusterRecords
from harness.cluster.processes import HostProcess, marked, send_signal, wait_until_gone
from harness.cluster.run_directory import read_journal
from harness.cluster.spark import REPOSITORY
from harness.errors import EnvironmentFailure, UsageError
from tests.cluster.contract import SPEC, ClusterContract
from tests.cluster.daemons import client_or_skip, left_of
from tests.cluster.helpers import PEER, eventually, silent
from tests.cluster.links import Laid, LinkContract

pytestmark = [pytest.mark.cluster, pytest.mark.deep]


@pytest.fixture(scope="module", autouse=True)
def _daemon() -> None:
    client_or_skip()


class TestLinks(LinkContract):
    """Counters of one container's interface; no server is needed."""

    @pytest.fixture(scope="class")
    @classmethod
    def containers(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Containers]:
        client = client_or_skip()
        run = secrets.token_hex(8)
        directory = tmp_path_factory.mktemp("links")
        found = Containers(client, run, ensure_image(client, silent), directory)
        found.make_network()
        client.containers.run(
            ensure_image(client, silent),
            ["python", "-c", PEER],
            name=f"faultline-{run}-r1w1",
            network=f"faultline-{run}",
            networking_config={
                f"faultline-{run}": client.api.create_endpoint_config(
                    ipv4_address=found.address(10)
                )
            },
            labels={RUN_LABEL: run, ROLE_LABEL: "r1w1"},
            detach=True,
        )
        yield found
        daemon.remove_run(client, run)
        assert left_of(run) == []

    @pytest.fixture
    def laid(self, containers: Containers) -> Laid:
        return Laid(containers.shapes(), partial(containers.shape, "r1w1"), containers.address(10))

    def test_what_lives_for_one_command_is_no_server(self, containers: Containers) -> None:
        containers.shape("r1w1", None)
        assert containers.states() == {"r1w1": "running"}


class TestDockerCluster(ClusterContract):
    @pytest.fixture(scope="class")
    @classmethod
    def cluster(cls) -> Iterator[Cluster]:
        with DockerCluster(SPEC, remove=remove_made) as cluster:
            cluster.start(silent)
            yield cluster
        assert left_of(cluster.run) == []
        assert not cluster.run_directory.exists()
        assert cluster.run not in {record.run for record in ClusterRecords().records()}

    @pytest.fixture
    def here(self, cluster: Cluster) -> DockerCluster:
        assert isinstance(cluster, DockerCluster)
        return cluster

    def test_a_container_that_somebody_removed_is_dead_until_the_next_restore(
        self, here: DockerCluster
    ) -> None:
        here._containers.of("r2w1").remove(force=True)
        assert not here.alive()["r2n1"]
        assert not here.apply(Action.KILL, "r2n1")[0].reached
        assert not here.apply(Action.CUT, "r2n1")[0].reached
        here.restore(silent)
        assert all(here.alive().values())

    def test_a_link_lies_under_the_next_container_too(self, here: DockerCluster) -> None:
        if RATE not in here.shapes():
            pytest.skip("this kernel has no token bucket")
        here.shape("r1n1", WorkerLink(bytes_per_s=500_000))
        here.apply(Action.KILL, "r1n1")
        here.apply(Action.RESTART, "r1n1")
        container = here._containers.of("r1w1")
        shown = here._containers._once(f"container:{container.id}", "tc qdisc show dev eth0")
        assert "tbf" in shown
        assert "rate 4Mbit" in shown

    def test_no_secret_is_where_the_daemon_shows_it(self, here: DockerCluster) -> None:
        containers = daemon.connect().containers.list(filters={"label": f"{RUN_LABEL}={here.run}"})
        assert len(containers) == 3 + 4
        shown = json.dumps([container.attrs for container in containers])
        assert str(here.kafka.password) not in shown
        assert str(here.redis.password) not in shown
        logs = b"".join(path.read_bytes() for path in here.run_directory.glob("logs/*"))
        assert str(here.kafka.password).encode() not in logs

    def test_a_dead_broker_is_told_with_its_last_words(self, here: DockerCluster) -> None:
        here._containers.of("redis").pause()
        try:
            with pytest.raises(EnvironmentFailure, match="Redis did not start; its container is p"):
                here.health()
        finally:
            here._containers.of("redis").unpause()
        here.health()


def test_nodes_of_one_container_die_alone_or_together() -> None:
    spec = ClusterSpec(racks=1, nodes_per_worker=3, memory_mb_per_worker=512)
    with DockerCluster(spec, remove=remove_made) as cluster:
        cluster.start(silent)
        hosts = [_host(cluster) for _ in range(3)]
        for node, host in zip(("r1n1", "r1n2", "r1n3"), hosts, strict=True):
            cluster.register_host(node, host)
        (victim,) = cluster.apply(Action.KILL, "r1n2")
        assert victim.felt
        assert dict(cluster.alive()) == {"r1n1": True, "r1n2": False, "r1n3": True}
        assert not cluster.apply(Action.KILL, "r1n2")[0].reached
        with pytest.raises(UsageError, match="share its interface"):
            cluster.apply(Action.CUT, "r1n1")
        with pytest.raises(UsageError, match="no living process of worker"):
            cluster.register_host("r1n2", hosts[1])
        assert (cluster.usage()["r1n1"].resident_bytes or 0) > 0
        both = cluster.apply(Action.KILL, "r1n1+r1n2+r1n3")
        assert [(each.node, each.felt) for each in both] == [
            ("r1n1", True),
            ("r1n2", False),
            ("r1n3", True),
        ]
        assert len({each.at_unix_s for each in both if each.felt}) == 1, "one sweep"
        assert not any(cluster.alive().values())
        assert cluster._containers.states()["r1w1"] == "running", "the worker lives on"
    assert left_of(cluster.run) == []


@pytest.mark.parametrize("keeper_too", [False, True], ids=["harness", "harness and keeper"])
def test_a_harness_that_is_killed_in_mid_run_leaves_nothing(keeper_too: bool) -> None:
    """A rack is dead and a worker off the network then.

    The keeper removes containers and network, and the next start what a keeper could not."""
    with subprocess.Popen(
        [sys.executable, "-P", "-c", HARNESS],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        run, place = process.stdout.readline().split()
        directory = Path(place)
        try:
            assert len(left_of(run)) == 5 + 1, "three servers, two workers and their network"
            assert len(marked(run)) >= 2, "the keeper and a driver"
            if keeper_too:
                keeper = dict(read_journal(directory))["keeper"]
                send_signal(keeper, signal.SIGKILL)
                assert wait_until_gone([keeper], limit_s=10)
            process.kill()
            process.wait()
            if keeper_too:
                assert len(left_of(run)) == 5 + 1, "nobody has removed them yet"
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


def _host(cluster: DockerCluster) -> HostProcess:
    """Start a process in the worker's container and return its identity."""
    path = f"/tmp/host-{secrets.token_hex(4)}"
    program = (
        "import json, pathlib, time; from dataclasses import asdict; "
        "from harness.cluster.processes import HostProcess; "
        f"path = pathlib.Path({path!r}); draft = path.with_suffix('.draft'); "
        "draft.write_text(json.dumps(asdict(HostProcess.here()))); draft.rename(path); "
        "time.sleep(600)"
    )
    container = cluster._containers.of("r1w1")
    container.exec_run(["python", "-c", program], detach=True)
    eventually(lambda: container.exec_run(["test", "-e", path]).exit_code == 0)
    return HostProcess(**json.loads(container.exec_run(["cat", path]).output))
