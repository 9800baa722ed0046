"""The contract of every cluster backend. A backend's test class inherits `ClusterContract`."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import pytest

from harness.cluster.base import CLOCK_LIMIT_S, Action, Cluster, ClusterSpec, RunningProgram
from harness.cluster.clocks import BrokerClock
from harness.cluster.links import LATENCY, RATE, WorkerLink
from harness.cluster.ownership import ClusterRecords
from harness.cluster.processes import marked
from harness.engines.topics import topics
from harness.errors import UsageError
from harness.load.generator import send_markers
from harness.measure.collector import Collector
from tests.cluster.helpers import PORT, broken, connected, eventually, listener, unacknowledged
from tests.cluster.helpers import silent as silent
from tests.there import there

AnyCluster = TypeVar("AnyCluster", bound=Cluster)

SPEC = ClusterSpec(racks=2, workers_per_rack=2, memory_mb_per_worker=512)
"""The shape of the tested cluster."""
EVERYWHERE = {"r1w1", "r1w2", "r2w1", "r2w2"}
"""Its workers."""


BEATING = (
    "sh",
    "-c",
    'exec "$PYSPARK_PYTHON" -S -u -c "$0"',
    """
import time
print(open("given").read())
with open("beats", "w", buffering=1) as file:
    while True:
        print("beat", file=file)
        time.sleep(0.02)
""",
)
"""The command line of a program that prints a file and writes another one, on any backend."""


def beats(program: RunningProgram) -> int:
    """Count the lines of its present incarnation."""
    path = program.directory / "beats"
    return path.read_text().count("beat") if path.exists() else 0


def received(program: RunningProgram) -> bytes:
    """Return what a `listening` program has written so far."""
    path = program.directory / "received"  # asked for anew: it may be a copy
    return path.read_bytes() if path.exists() else b""


def stored(cluster: Cluster, topic: str) -> bytes:
    """Return the first record of a topic of one partition."""
    with Collector(cluster.kafka.confluent(), topic, 1, copy_header="copy") as collector:
        return collector.finish()[0].value


@contextmanager
def started(cluster: AnyCluster) -> Iterator[AnyCluster]:
    """Start a cluster, and end it with the block: then nothing of it is left on this machine."""
    with cluster:
        cluster.start(silent)
        yield cluster
    assert marked(cluster.run) == []
    assert not cluster.run_directory.exists()
    assert cluster.run not in {record.run for record in ClusterRecords().records()}


@contextmanager
def listening(cluster: Cluster) -> Iterator[tuple[RunningProgram, socket.socket]]:
    """Start a program on r1n1 that writes its input into a file; it has received ``a``."""
    if Action.CUT not in cluster.capabilities():
        pytest.skip(f"the {cluster.backend} backend cannot cut")
    program = cluster.launch("r1n1", (*BEATING[:3], listener("received")), name="listener")
    try:
        with connected(cluster.nodes()[0].host, PORT) as connection:
            connection.sendall(b"a")
            eventually(lambda: received(program) == b"a")
            yield program, connection
    finally:
        program.stop(within_s=0)


class Driver:
    """`tests.cluster.driver` under way on a cluster."""

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        self._process = process
        self.log = log

    def send(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def next_workers(self) -> set[str]:
        """Run a job and return the workers of its tasks."""
        self.send("go")
        line = there(self._process.stdout).readline()
        assert line, f"the driver ended with code {self._process.wait()}: {self.log.read_text()}"
        return set(json.loads(line))

    def runs_on(self, workers: set[str], *, jobs: int = 150) -> bool:
        """Return True if one of the next jobs runs on exactly these workers."""
        return any(self.next_workers() == workers for _ in range(jobs))


@contextmanager
def driver(conf: Mapping[str, str], environment: Mapping[str, str], log: Path) -> Iterator[Driver]:
    """Start a Spark application that runs jobs on request, until the block ends."""
    with (
        log.open("w") as errors,
        subprocess.Popen(
            [sys.executable, str(Path(__file__).parent / "driver.py")],
            env={**os.environ, **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as process,
    ):
        try:
            job = Driver(process, log)
            job.send(json.dumps(dict(conf)))
            yield job
        finally:
            # The JVM of PySpark's gateway ends by itself when the process is gone.
            process.kill()


@pytest.mark.cluster
@pytest.mark.spark
class ClusterContract:
    """Inherit it, and give `cluster`: class-scoped, started, of the shape `SPEC`."""

    @pytest.fixture(scope="class")
    @classmethod
    def application(
        cls, cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
    ) -> Iterator[Driver]:
        """Start one application for all tests: it idles on every worker and survives kills."""
        log = tmp_path_factory.mktemp("driver") / "log"
        with driver(cluster.spark_conf(), cluster.driver_environment(), log) as job:
            yield job

    @pytest.fixture(autouse=True)
    def _whole(self, cluster: Cluster) -> None:
        cluster.restore(silent)

    def test_its_nodes_have_names_racks_and_hosts_of_their_own(self, cluster: Cluster) -> None:
        assert [node.name for node in cluster.nodes()] == ["r1n1", "r1n2", "r2n1", "r2n2"]
        assert [node.rack for node in cluster.nodes()] == ["r1", "r1", "r2", "r2"]
        assert len({node.host for node in cluster.nodes()}) == 4
        assert dict(cluster.alive()) == dict.fromkeys(["r1n1", "r1n2", "r2n1", "r2n2"], True)

    def test_it_is_healthy(self, cluster: Cluster) -> None:
        cluster.health()

    def test_kafka_keeps_what_is_sent(self, cluster: Cluster) -> None:
        topic = f"{cluster.kafka.topic_prefix}contract"
        with topics(cluster.kafka, {topic: 1}):
            send_markers(cluster.kafka, topic, 1, payload=b"kept", at_unix_s=1.0)
            assert stored(cluster, topic) == b"kept"

    def test_redis_keeps_what_is_set(self, cluster: Cluster) -> None:
        with cluster.redis.client() as client:
            client.set("contract", b"kept")
            assert client.get("contract") == b"kept"

    def test_the_dead_stay_dead_until_they_are_started_and_the_living_are_left_alone(
        self, cluster: Cluster
    ) -> None:
        """Run before any application, as the next test: a restarted worker starts no executor."""
        assert not cluster.apply(Action.RESTART, "r1n1")[0].reached
        assert cluster.apply(Action.KILL, "r1n1")[0].reached
        assert not cluster.apply(Action.KILL, "r1n1")[0].reached
        assert not cluster.alive()["r1n1"]
        (victim,) = cluster.apply(Action.RESTART, "r1n1")
        assert victim.reached
        eventually(lambda: cluster.alive()["r1n1"])

    def test_a_paused_node_is_silent_until_it_is_resumed(self, cluster: Cluster) -> None:
        if not {Action.PAUSE, Action.RESUME} <= cluster.capabilities():
            pytest.skip(f"the {cluster.backend} backend cannot pause")
        victims = cluster.apply(Action.PAUSE, "r2")
        assert all(victim.reached for victim in victims)
        assert [name for name, up in cluster.alive().items() if up] == ["r1n1", "r1n2"]
        cluster.apply(Action.RESUME, "r2")
        eventually(lambda: all(cluster.alive().values()))

    def test_a_program_on_a_node_lives_and_dies_with_it(self, cluster: Cluster) -> None:
        if type(cluster).launch is Cluster.launch:
            with pytest.raises(UsageError, match=f"{cluster.backend} cannot start sh") as caught:
                cluster.launch("r1n1", BEATING)
            assert "--cluster" in caught.value.remedy
            return
        program = cluster.launch("r1n1", BEATING, name="beats", files={"given": "beat"})
        eventually(lambda: beats(program) > 0)
        assert program.alive
        assert program.log.parent == cluster.run_directory / "logs"
        assert "beat" in program.log.read_text()
        used = cluster.usage()["r1n1"]
        if Action.PAUSE in cluster.capabilities():
            cluster.apply(Action.PAUSE, "r1n1")
            before = beats(program)
            time.sleep(0.2)
            assert beats(program) == before
            assert program.alive
            cluster.apply(Action.RESUME, "r1n1")
            eventually(lambda: beats(program) > before)

        (victim,) = cluster.apply(Action.KILL, "r1n1")
        assert victim.felt
        eventually(lambda: not program.alive)
        assert program.exit_code == -9
        assert used.cpu_s is None or (cluster.usage()["r1n1"].cpu_s or 0) >= used.cpu_s
        with pytest.raises(UsageError, match="is dead"):
            cluster.launch("r1n1", BEATING, name="other")
        cluster.apply(Action.RESTART, "r1n1")
        eventually(lambda: program.alive and beats(program) > 0)
        assert program.incarnation == 2

        program.stop()
        eventually(lambda: not program.alive)
        left = cluster.launch("r1n1", BEATING, name="left", files={"given": "left"})
        eventually(lambda: beats(left) > 0)  # it ends with the cluster

    def test_no_byte_crosses_a_cut_and_what_was_sent_arrives_after(self, cluster: Cluster) -> None:
        with listening(cluster) as (program, connection):
            cluster.apply(Action.CUT, "r1n1")
            before = cluster.usage()["r1n1"].received_bytes
            connection.sendall(b"b")
            assert [unacknowledged(connection) for _ in range(3)] == [1, 1, 1]
            assert received(program) == b"a"
            assert cluster.usage()["r1n1"].received_bytes == before
            cluster.apply(Action.HEAL, "r1n1")
            eventually(lambda: received(program) == b"ab")

    def test_a_connection_whose_end_dies_during_a_cut_breaks_after_it(
        self, cluster: Cluster
    ) -> None:
        with listening(cluster) as (program, connection):
            cluster.apply(Action.CUT, "r1n1")
            connection.sendall(b"b")
            program.stop(within_s=0)
            assert not broken(connection), "nobody could tell"
            cluster.apply(Action.HEAL, "r1n1")
            eventually(lambda: broken(connection))

    @pytest.mark.long
    def test_another_shape_has_new_nodes_and_the_same_servers(
        self, cluster: Cluster, tmp_path: Path
    ) -> None:
        """Run before the first use of `application`, as the next test."""
        other = ClusterSpec(
            racks=2, workers_per_rack=1, nodes_per_worker=2, cores_per_worker=2,
            memory_mb_per_worker=512,
        )  # fmt: skip
        servers = cluster.kafka.bootstrap, cluster.redis.url()
        if not cluster.reshape(other, silent):
            assert cluster.spec == SPEC, "nothing has changed"
            assert all(cluster.alive().values())
            return
        assert cluster.spec == other
        assert cluster.alive() == dict.fromkeys(other.node_names, True)
        assert servers == (cluster.kafka.bootstrap, cluster.redis.url())
        log = tmp_path / "driver.log"
        with driver(cluster.spark_conf(), cluster.driver_environment(), log) as job:
            assert job.runs_on({"r1w1", "r2w1"}), "as large as they are now"
        log = cluster.launch("r1n1", BEATING, name="beat").log
        assert cluster.reshape(SPEC, silent)
        assert cluster.launch("r1n1", BEATING, name="beat").log != log, "it has a log of its own"
        assert cluster.alive() == dict.fromkeys(SPEC.node_names, True)

    def test_an_application_stays_on_its_rack(self, cluster: Cluster, tmp_path: Path) -> None:
        """Run before the first use of `application`, which takes every slot."""
        conf = cluster.spark_conf(racks=["r1"])
        with driver(conf, cluster.driver_environment(), tmp_path / "log") as job:
            assert job.runs_on({"r1w1", "r1w2"})
            assert job.next_workers() == {"r1w1", "r1w2"}

    @pytest.mark.long
    def test_a_job_goes_on_when_a_node_and_then_a_rack_is_killed(
        self, cluster: Cluster, application: Driver
    ) -> None:
        assert application.runs_on(EVERYWHERE)
        before = cluster.usage()["r1n1"].cpu_s

        (victim,) = cluster.apply(Action.KILL, "r1n1")
        assert victim.node == "r1n1"
        assert victim.reached
        eventually(lambda: not cluster.alive()["r1n1"])
        assert application.runs_on(EVERYWHERE - {"r1w1"})
        assert before is None or (cluster.usage()["r1n1"].cpu_s or 0) >= before

        victims = cluster.apply(Action.KILL, "r2")
        assert [victim.node for victim in victims] == ["r2n1", "r2n2"]
        assert all(victim.reached for victim in victims)
        eventually(lambda: [n for n, up in cluster.alive().items() if up] == ["r1n2"])
        assert application.runs_on({"r1w2"})

        cluster.restore(silent)
        assert all(cluster.alive().values())
        assert application.runs_on(EVERYWHERE)

    def test_bytes_are_counted_beyond_a_kill(self, cluster: Cluster, application: Driver) -> None:
        before = cluster.usage()["r1n1"].sent_bytes
        if before is None:
            pytest.skip(f"the {cluster.backend} backend counts no bytes")
        assert application.runs_on(EVERYWHERE)
        used = there(cluster.usage()["r1n1"].sent_bytes)
        assert used > before
        if Action.CUT in cluster.capabilities():
            cluster.apply(Action.CUT, "r1n1")
        cluster.apply(Action.KILL, "r1n1")
        assert (cluster.usage()["r1n1"].sent_bytes or 0) >= used

    def test_usage_is_counted_or_says_why_not(self, cluster: Cluster) -> None:
        usage = cluster.usage()
        assert list(usage) == [node.name for node in cluster.nodes()]
        for used in usage.values():
            assert used.cpu_s is None or used.cpu_s > 0
            assert used.resident_bytes is None or used.resident_bytes > 0
            assert used.method

    def test_what_a_run_leaves_is_removed_and_what_runs_goes_on(
        self, cluster: Cluster, application: Driver
    ) -> None:
        (cluster.scratch("contract") / "file").write_text("left")
        assert cluster.checkpoint_location("contract") == cluster.checkpoint_location("contract")
        cluster.tidy()
        assert list(cluster.scratch("contract").iterdir()) == []
        assert application.next_workers()
        with pytest.raises(UsageError):
            cluster.checkpoint_location("../contract")

    def test_every_nodes_clock_is_near_the_harnesss(self, cluster: Cluster) -> None:
        clocks = cluster.clocks()
        assert list(clocks) == [node.name for node in cluster.nodes()]
        assert all(found is None or found.certain_s <= CLOCK_LIMIT_S for found in clocks.values())
        if cluster.clock_limit_s is not None:
            assert all(found is None or found.bound_s > 0 for found in clocks.values())

    def test_the_brokers_clock_is_seen_by_its_append_times(self, cluster: Cluster) -> None:
        topic = f"{cluster.kafka.topic_prefix}clock"
        with topics(cluster.kafka, {topic: cluster.kafka.replication}, appended=[topic]):
            sample = there(BrokerClock(cluster.kafka, topic).compare())
        assert 0 < sample.bound_s < 1
        assert sample.certain_s <= CLOCK_LIMIT_S

    def test_an_unknown_target_is_refused(self, cluster: Cluster) -> None:
        with pytest.raises(UsageError, match="no node or rack 'r9n9'") as caught:
            cluster.apply(Action.KILL, "r9n9")
        assert "r1n1" in caught.value.remedy

    def test_what_it_cannot_do_it_refuses_with_a_way_out(self, cluster: Cluster) -> None:
        for action in set(Action) - cluster.capabilities():
            with pytest.raises(UsageError, match="cannot") as caught:
                cluster.apply(action, "r1n1")
            assert caught.value.remedy

    def test_a_link_that_it_cannot_lay_is_refused_with_a_way_out(self, cluster: Cluster) -> None:
        if {RATE, LATENCY} <= cluster.shapes():
            pytest.skip("it can lay all of them")
        with pytest.raises(UsageError, match="cannot give a worker's link") as caught:
            cluster.shape("r1n1", WorkerLink(bytes_per_s=1e6, latency_s=0.01))
        assert "receiver" in caught.value.remedy
        cluster.shape("r1", None)
        with pytest.raises(UsageError, match="no node or rack"):
            cluster.shape("r9n9", None)

    @pytest.mark.parametrize("racks", [["r3"], ["r1", "r3"], []])
    def test_racks_that_cannot_be_asked_for_are_refused(
        self, cluster: Cluster, racks: list[str]
    ) -> None:
        with pytest.raises(UsageError, match="rack"):
            cluster.spark_conf(racks=racks)

    def test_the_configuration_of_an_application_holds_no_secret(self, cluster: Cluster) -> None:
        text = json.dumps(cluster.spark_conf())
        assert "secret" not in {key.split(".")[-1] for key in cluster.spark_conf()}
        assert str(cluster.kafka.password) not in text
        assert str(cluster.redis.password) not in text
