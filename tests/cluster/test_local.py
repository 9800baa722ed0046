"""The local backend: the contract, and its own promises."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from http.client import HTTPException
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import psutil
import pytest

from harness.cluster import owned
from harness.cluster.agent import agent as agents
from harness.cluster.agent.launching import Server
from harness.cluster.agent.ports import free_port
from harness.cluster.backends import remove_made
from harness.cluster.base import BROKER, STORE, Action, Cluster, ClusterSpec, Prepared
from harness.cluster.local import breaking
from harness.cluster.local.cluster import LocalCluster
from harness.cluster.owned import find_programs
from harness.cluster.ownership import ClusterRecords
from harness.cluster.processes import is_alive, marked, send_signal, wait_until_gone
from harness.cluster.run_directory import processes_of, read_journal
from harness.cluster.spark import REPOSITORY
from harness.engines.topics import topics
from harness.errors import EnvironmentFailure, UsageError
from harness.load.generator import send_markers
from tests.cluster.contract import SPEC, ClusterContract, Driver, driver, started, stored
from tests.cluster.helpers import eventually, harness_process, silent


def secrets_of(cluster: LocalCluster) -> list[str]:
    secrets = cluster.kafka.password, cluster.redis.password, cluster.spark_access().secret
    return [str(secret) for secret in secrets]


class TestLocalCluster(ClusterContract):
    @pytest.fixture(scope="class")
    @classmethod
    def cluster(cls) -> Iterator[Cluster]:
        with started(LocalCluster(SPEC, remove=remove_made)) as cluster:
            yield cluster

    @pytest.mark.parametrize("password", [None, "wrong"])
    def test_servers_refuse_a_client_without_the_password(
        self, cluster: LocalCluster, password: str | None
    ) -> None:
        import redis
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        full = {**cluster.kafka.confluent(), "log_level": 0}
        assert AdminClient(full).list_topics(timeout=30).brokers
        without = {"bootstrap.servers": cluster.kafka.bootstrap, "log_level": 0}
        wrong = without if password is None else {**full, "sasl.password": password}
        with pytest.raises(KafkaException):
            AdminClient(wrong).list_topics(timeout=3)
        with (
            redis.Redis(cluster.redis.host, cluster.redis.port, password=password) as client,
            pytest.raises(redis.AuthenticationError),
        ):
            client.get("contract")

    @pytest.mark.deep
    def test_the_master_refuses_a_driver_without_the_secret(
        self, cluster: LocalCluster, tmp_path: Path
    ) -> None:
        environment = cluster.driver_environment()
        del environment["SPARK_CONF_DIR"]
        conf = {**cluster.spark_conf(), "spark.authenticate": "false", "spark.app.name": "intruder"}
        master_log = cluster.run_directory / "logs" / "master.log"
        before = master_log.read_text().count("Registering app")
        with driver(conf, environment, tmp_path / "log") as job:
            # It would go on asking for a minute; its first refusal is enough.
            eventually(lambda: "Expected SaslMessage" in job.log.read_text())
            assert "Failed to connect to master" in job.log.read_text()
        assert master_log.read_text().count("Registering app") == before

    @pytest.mark.deep
    def test_web_pages_and_unknown_callers_are_refused(self, cluster: LocalCluster) -> None:
        codes: list[int] = []
        for limit_s in (3, 15, 60):  # what is no web page may never answer, and a busy one late
            places = set(listening_ports(cluster))
            with ThreadPoolExecutor(len(places)) as pool:
                answers = pool.map(partial(page_code, limit_s=limit_s), places)
            codes = [code for code in answers if code is not None]
            if len(codes) == 5:
                break
        assert codes == [403] * 5, "the master's page and four workers'"

    def test_everything_listens_on_loopback_only(self, cluster: LocalCluster) -> None:
        assert len(listening_ports(cluster)) >= 12
        assert all(host.startswith("127.") for host, _ in listening_ports(cluster))

    def test_no_secret_is_on_a_command_line_or_in_a_log(
        self, cluster: LocalCluster, application: Driver
    ) -> None:
        assert application.next_workers()
        lines = [
            Path(f"/proc/{stat.pid}/cmdline").read_text(errors="replace")
            for stat in marked(cluster.run)
        ]
        assert len(lines) >= 4 + 4 * 2 + 2, "daemons, workers and executors, the driver and its JVM"
        logs = [
            application.log,
            *cluster.run_directory.glob("logs/*"),
            *cluster.run_directory.glob("work/**/std*"),
        ]
        assert len(logs) >= 1 + 8 + 2
        text = "\n".join([*lines, *(path.read_text(errors="replace") for path in logs)])
        assert [secret for secret in secrets_of(cluster) if secret in text] == []

    def test_the_run_directory_is_private_and_so_is_every_secret(
        self, cluster: LocalCluster
    ) -> None:
        assert cluster.run_directory.stat().st_mode & 0o777 == 0o700
        secrets = [secret.encode() for secret in secrets_of(cluster)]
        holders = [
            path
            for path in cluster.run_directory.rglob("*")
            if path.is_file() and any(secret in path.read_bytes() for secret in secrets)
        ]
        assert len(holders) >= 8
        assert {path.stat().st_mode & 0o777 for path in holders} == {0o600}

    @pytest.mark.deep
    def test_a_harness_that_is_killed_leaves_nothing_after_the_next_start(
        self, cluster: LocalCluster, tmp_path: Path
    ) -> None:
        """Another cluster that runs at the same time must not be affected."""
        with harness_process(HARNESS, "everything answers") as (process, run, directory):
            keeper, redis = (dict(read_journal(directory))[name] for name in ("keeper", "redis"))
            send_signal(keeper, signal.SIGKILL)
            assert wait_until_gone([keeper], limit_s=10)
            process.kill()
            process.wait()
            assert len(processes_of(run, directory)) >= 5, "nothing is left, so nothing is tested"
            program = dict(read_journal(directory))["r1n1-program"]
            assert is_alive(program)
            (tmp_path / "occupied").touch()
            with pytest.raises(UsageError, match="not empty"):  # the sweep comes before that
                LocalCluster(ClusterSpec(), tmp_path, remove=remove_made).start(silent)
            assert marked(run) == []
            assert not is_alive(redis)
            assert not is_alive(program)
            assert not directory.exists()
        cluster.health()
        assert all(cluster.alive().values())

    @pytest.mark.parametrize(
        "number", [signal.SIGKILL, pytest.param(signal.SIGINT, marks=pytest.mark.deep)]
    )
    def test_a_harness_that_ends_while_it_starts_leaves_no_process(
        self, cluster: LocalCluster, number: signal.Signals
    ) -> None:
        with harness_process(HARNESS, "Redis answers") as (process, run, directory):
            assert len(processes_of(run, directory)) >= 3
            process.send_signal(number)
            process.wait()
            eventually(lambda: processes_of(run, directory) == [])
            eventually(lambda: not (directory / "secrets").exists())
        cluster.health()


@pytest.mark.cluster
def test_a_planned_kill_of_a_server_is_no_error_and_nothing_stored_is_lost() -> None:
    with started(LocalCluster(replace(SMALL, append_only=True), remove=remove_made)) as cluster:
        kafka, redis = cluster.kafka, cluster.redis
        with topics(kafka, {"kept": 1}), redis.client() as client:
            send_markers(kafka, "kept", 1, payload=b"stays", at_unix_s=1.0)
            client.set("kept", "stays")
            for name in (BROKER, STORE):
                (victim,) = cluster.apply(Action.KILL, name)
                assert victim.felt
                assert victim.node == name
                cluster.health()
            (victim,) = cluster.apply(Action.RESTART, BROKER)
            assert victim.reached, "it was dead"
            cluster.restore(silent)  # waits for the broker, and starts the store
            cluster.health()
            assert (cluster.kafka, cluster.redis) == (kafka, redis)
            assert stored(cluster, "kept") == b"stays"
            assert client.get("kept") == b"stays"
            assert cluster.apply(Action.PAUSE, BROKER)[0].reached
            cluster.restore(silent)
            assert stored(cluster, "kept") == b"stays"


@pytest.mark.deep
@pytest.mark.cluster
def test_a_broker_that_is_killed_is_told_and_taken_ports_are_replaced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        LocalCluster(SMALL, remove=remove_made) as cluster,
    ):
        port = taken.getsockname()[1]  # for the broker's clients and for Redis
        ports = chain([port, free_port(), port], iter(free_port, None))
        monkeypatch.setattr(agents, "free_port", lambda host: next(ports))
        cluster.start(silent)
        cluster.health()
        assert str(taken.getsockname()[1]) not in {
            cluster.kafka.bootstrap.split(":")[1],
            str(cluster.redis.port),
        }
        broker = dict(read_journal(cluster.run_directory))["kafka"]
        send_signal(broker, signal.SIGKILL)
        eventually(lambda: not is_alive(broker))
        with pytest.raises(EnvironmentFailure, match="the Kafka broker is dead; it was killed by"):
            cluster.health()
        cluster.stop()
        cluster.stop()
    assert marked(cluster.run) == []


@pytest.mark.cluster
def test_a_start_that_fails_leaves_no_process_and_its_logs_until_the_next(tmp_path: Path) -> None:
    broken = replace(find_programs(silent), broker_jars=tmp_path)
    cluster = LocalCluster(SMALL, programs=broken, remove=remove_made)
    with pytest.raises(EnvironmentFailure, match="storage could not be formatted") as caught:
        cluster.start(silent)
    assert "kafka.tools.StorageTool" in caught.value.what, "the JVM's own words"
    assert marked(cluster.run) == []
    assert (cluster.run_directory / "logs" / "kafka-format.log").exists()
    assert not (cluster.run_directory / "secrets").exists()
    ClusterRecords().sweep(silent, remove_made)
    assert not cluster.run_directory.exists()


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (ClusterSpec(racks=256), "at most 255 racks"),
        (ClusterSpec(workers_per_rack=255), "at most 254 workers_per_rack"),
        (ClusterSpec(memory_mb_per_worker=256), "cannot run a Spark executor"),
    ],
)
def test_a_shape_that_cannot_be_is_refused(spec: ClusterSpec, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        LocalCluster(spec, remove=remove_made)


def test_nothing_can_be_asked_of_a_cluster_that_is_not_running() -> None:
    with pytest.raises(UsageError, match="not running"):
        LocalCluster(SMALL, remove=remove_made).usage()


@pytest.mark.deep
@pytest.mark.cluster
def test_the_command_line_starts_shows_and_ends_a_cluster() -> None:
    made = faultline("up", "--racks", "1", "--json")
    assert made["state"] == "up"
    assert all(made["servers"].values())
    (shown,) = faultline("status", "--json")
    assert shown["run"] == made["run"]
    assert stat.S_IMODE(os.stat(shown["credentials"]["kafka"]).st_mode) == 0o600
    assert faultline("down", made["run"], "--json") == {"ended": [made["run"]]}
    assert marked(made["run"]) == []
    assert faultline("status", "--json") == []


SMALL = ClusterSpec(racks=1, memory_mb_per_worker=512)

HARNESS = """
import signal, sys, time
from harness.cluster.backends import remove_made
from harness.cluster.base import ClusterSpec
from harness.cluster.local.cluster import LocalCluster

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it

def report(text):
    if text == sys.argv[1]:
        print(cluster.run, cluster.run_directory, flush=True)

with LocalCluster(ClusterSpec(racks=1, memory_mb_per_worker=512), remove=remove_made) as cluster:
    cluster.start(report)
    cluster.launch("r1n1", ["sleep", "600"])
    report("everything answers")
    time.sleep(600)
"""


def faultline(*arguments: str) -> Any:
    """Run ``faultline cluster`` and return its JSON document."""
    done = subprocess.run(
        [sys.executable, "-m", "harness.cli", "cluster", *arguments],
        cwd=REPOSITORY,
        check=True,
        capture_output=True,
        text=True,
    )
    return json.loads(done.stdout)


def page_code(place: tuple[str, int], limit_s: float) -> int | None:
    """Return the code that a web page answers with; None for what is no web page."""
    host, port = place
    try:
        urllib.request.urlopen(f"http://{host}:{port}/json/", timeout=limit_s).close()
    except urllib.error.HTTPError as error:
        error.close()
        return error.code
    except (OSError, HTTPException):
        return None
    return 200


def listening_ports(cluster: LocalCluster) -> list[tuple[str, int]]:
    """Return address and port of every listening socket of the cluster."""
    found = []
    for member in processes_of(cluster.run, cluster.run_directory):
        with contextlib.suppress(psutil.NoSuchProcess):  # a driver that is just ending
            found.extend(psutil.Process(member.pid).net_connections(kind="inet"))
    return [
        (connection.laddr.ip.removeprefix("::ffff:"), connection.laddr.port)
        for connection in found
        if connection.status == psutil.CONN_LISTEN
    ]


@pytest.mark.parametrize(
    ("down", "lives", "waits"), [(True, 1, True), (False, 2, True), (False, 1, False)]
)
def test_a_server_that_was_started_again_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, down: bool, lives: int, waits: bool
) -> None:
    """It was not, where the schedule itself had started it: the next reader found it silent."""
    server = SimpleNamespace(down=down, lives=lives)

    def begin_again() -> None:
        server.down, server.lives = False, lives + 1

    server.begin_again = begin_again
    monkeypatch.setattr(breaking, "prepare", lambda *_: Prepared(list))
    assert breaking.revive(cast(Server, server), BROKER) is waits
    assert not server.down


@pytest.mark.cluster
def test_a_java_that_is_not_there_is_told(tmp_path: Path) -> None:
    broken = replace(find_programs(silent), java_home=tmp_path)
    cluster = LocalCluster(SMALL, programs=broken, remove=remove_made)
    with pytest.raises(EnvironmentFailure, match="bin/java cannot be started") as caught:
        cluster.start(silent)
    assert "faultline doctor" in caught.value.remedy


@pytest.mark.cluster
def test_a_full_disk_is_told_before_anything_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owned, "MINIMUM_FREE_BYTES", 1 << 60)
    cluster = LocalCluster(SMALL, remove=remove_made)
    with pytest.raises(EnvironmentFailure, match="MB are free") as caught:
        cluster.start(silent)
    assert "free some disk space" in caught.value.remedy
    assert not cluster.run_directory.exists()
