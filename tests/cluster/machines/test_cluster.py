"""A cluster of machines: the contract, and what only several machines can do."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from harness.cluster.backends import find_backend, remove_made
from harness.cluster.base import Action, Cluster, ClusterSpec
from harness.cluster.machines.cluster import MachinesCluster
from harness.cluster.machines.settings import read_machines
from harness.errors import EnvironmentFailure, UsageError
from tests.cluster.contract import SPEC, ClusterContract, started
from tests.cluster.helpers import eventually, silent
from tests.cluster.machines.kit import ROOT, Network, needs_machines, why_no_cut

pytestmark = needs_machines


@pytest.mark.long
class TestMachinesCluster(ClusterContract):
    @pytest.fixture(scope="class")
    @classmethod
    def network(cls) -> Iterator[Network]:
        with Network(5) as network:
            yield network

    @pytest.fixture(scope="class")
    @classmethod
    def cluster(cls, network: Network) -> Iterator[Cluster]:
        shared = (network.directory / "shared").as_uri()
        racks = {"m1": "r1", "m2": "r1", "m3": "r2", "m4": "r2"}
        file = network.file(
            [{"ssh": ssh, "rack": rack} for ssh, rack in racks.items()],
            checkpoints=shared,
            cuts=why_no_cut() is None,
            services={"ssh": "m5"},
        )
        with started(find_backend(str(file)).make(SPEC)) as cluster:
            yield cluster
        assert list((network.directory / "shared").glob("*")) == []
        for machine in network.machines:
            assert machine.processes() == []
            assert list((machine.cache / "runs").iterdir()) == []
            assert list(machine.tmp.iterdir()) == []
            assert machine.rules() == ""

    def test_nothing_was_sent_that_was_there(self, cluster: MachinesCluster) -> None:
        sent = {machine.name: machine.sent_bytes for machine in cluster.places}
        assert sent.pop("m5") > 0, "the jars of the broker, and Redis"
        assert sent == dict.fromkeys(["m1", "m2", "m3", "m4"], 0)

    def test_servers_run_on_the_machine_of_the_services(
        self, cluster: Cluster, network: Network
    ) -> None:
        lines = "\n".join(network.machines[4].processes())
        for part in ("kafka.Kafka", "redis-server", "master.Master"):
            assert part in lines
        assert cluster.kafka.bootstrap.startswith(f"{network.machines[4].address}:")
        assert cluster.harness_host == network.host

    def test_a_kill_that_was_sent_ahead_comes_at_its_instant(self, cluster: Cluster) -> None:
        with cluster.prepare(Action.PAUSE, "r1") as prepared:
            due = time.time() + 1.0
            prepared.arm(due)
            victims = prepared.apply()
        assert len(victims) == 2
        assert all(victim.reached for victim in victims)
        assert all(victim.earliest_unix_s >= due - 0.001 for victim in victims)

    def test_it_cannot_be_left_up(self, cluster: Cluster) -> None:
        with pytest.raises(UsageError, match="ends with its connections"):
            cluster.release()


@pytest.mark.long
@pytest.mark.cluster
def test_a_machine_that_is_switched_off_is_dead_and_named() -> None:
    with Network(2) as network:
        cluster = MachinesCluster(
            read_machines(network.file()),
            ClusterSpec(racks=2, memory_mb_per_worker=512),
            remove=remove_made,
        )
        with cluster:
            cluster.start(silent)
            network.machines[1].off()
            eventually(lambda: cluster.alive() == {"r1n1": True, "r2n1": False}, limit_s=90)
            with pytest.raises(EnvironmentFailure, match="the machine m2 is lost"):
                cluster.health()
        assert network.machines[0].processes() == []
        assert ROOT in network.directory.parents


@pytest.mark.cluster
def test_a_host_that_is_not_there_is_named_and_leaves_nothing() -> None:
    with Network(1) as network:
        entries = [{"ssh": "m1", "rack": "r1"}, {"ssh": "no-such-host.invalid", "rack": "r2"}]
        backend = find_backend(str(network.file(entries)))
        cluster = backend.make(ClusterSpec(racks=2))
        with pytest.raises(EnvironmentFailure, match=r"no-such-host\.invalid cannot be reached"):
            cluster.start(silent)
        eventually(lambda: network.machines[0].processes() == [])
        assert not cluster.run_directory.exists()
