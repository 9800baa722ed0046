"""Parts of the external backend without a cluster: description, commands, judgements."""

from __future__ import annotations

import copy
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
import pyspark
import pytest
import yaml

from harness.cluster.backends import find_backend, remove_made
from harness.cluster.base import Action, ClusterSpec
from harness.cluster.external import nodes as nodes_module
from harness.cluster.external import servers
from harness.cluster.external.cluster import (
    ExternalCluster,
    check_clocks,
    check_executors,
    check_storage,
    probe_failure,
)
from harness.cluster.external.nodes import ExternalNodes
from harness.cluster.external.probe import ARCHIVE, RECORDS, of_sources, write_archive
from harness.cluster.external.servers import demand_lasting
from harness.cluster.external.settings import Command, read_settings
from harness.cluster.ownership import ClusterRecords
from harness.cluster.processes import HostProcess
from harness.cluster.spark import REPOSITORY
from harness.errors import EnvironmentFailure, UsageError
from tests.cluster.helpers import silent
from tests.there import there

MINIMAL: dict[str, Any] = {
    "kafka": {"bootstrap": "k:9092"},
    "redis": {"url": "redis://r:6379/2"},
    "spark": {
        "master": "spark://m:7077",
        "driver_host": "10.0.0.1",
        "python": "/usr/bin/python3",
        "secret": {"env": "FAULTLINE_SPARK_SECRET"},
    },
    "checkpoints": "file:///shared/checkpoints/",
    "nodes": [
        {"rack": "r1", "host": "a"},
        {"rack": "r2", "host": "b"},
        {"rack": "r1", "host": "c"},
    ],
    "commands": {"up": "true", "kill": "ssh {host} kill", "restart": "ssh {host} start"},
}


@pytest.fixture(autouse=True)
def _secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAULTLINE_SPARK_SECRET", "secret of SPARK_SECRET")


def described(directory: Path, changes: Mapping[str, Any] | None = None) -> Path:
    """Write `MINIMAL` with ``changes`` by their places ("kafka.password"); None takes away."""
    document = copy.deepcopy(MINIMAL)
    for place, value in (changes or {}).items():
        *above, key = place.split(".")
        part = document
        for each in above:
            part = part[each]
        if value is None:
            del part[key]
        else:
            part[key] = value
    path = directory / "lab.yaml"
    path.write_text(yaml.safe_dump(document))
    return path


def test_the_smallest_description_is_enough(tmp_path: Path) -> None:
    settings = read_settings(described(tmp_path))
    assert [(n.name, n.worker, n.host) for n in settings.nodes] == [
        ("r1n1", "r1w1", "a"),
        ("r1n2", "r1w2", "c"),
        ("r2n1", "r2w1", "b"),
    ]
    assert settings.checkpoints == "file:///shared/checkpoints"
    assert (settings.redis.database, settings.spark.code) == (2, "archive")
    backend = find_backend(str(settings.path))
    assert backend.capabilities == {Action.KILL, Action.RESTART}
    with pytest.raises(UsageError, match="needs cut, which the cluster external-lab") as caught:
        backend.demand([Action.CUT], "the schedule")
    assert "commands of these names, or use --cluster" in caught.value.remedy


def test_the_example_shows_what_can_be_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("KAFKA_PASSWORD", "REDIS_PASSWORD", "SPARK_SECRET"):
        monkeypatch.setenv(f"FAULTLINE_{name}", f"secret of {name}")
    (tmp_path / "ca.pem").write_text("CERTIFICATE")
    path = tmp_path / "example.yaml"
    path.write_text((REPOSITORY / "docker" / "external-example.yaml").read_text())
    settings = read_settings(path)
    assert settings.kafka.password == "secret of KAFKA_PASSWORD"
    assert there(settings.kafka.tls).ca == "CERTIFICATE"
    assert settings.spark.rack_conf["r2"] == {"spark.executor.resource.rack_r2.amount": "1"}
    assert settings.remove_checkpoints is not None
    assert "secret of" not in repr(settings)
    encoded = msgspec.to_builtins((settings.kafka, settings.redis, settings.nodes))
    assert encoded[0]["bootstrap"] == settings.kafka.bootstrap


@pytest.mark.parametrize(
    ("changes", "words", "remedy"),
    [
        ({"kafak": {}}, "unknown key 'kafak'", "kafka"),
        ({"redis": None}, "lacks redis", "add redis"),
        ({"kafka.password": "plain"}, "password is written into the file", "env"),
        ({"kafka.password": {"env": "NOT_SET_HERE"}}, r"\$NOT_SET_HERE", "set it"),
        ({"kafka.password": {"file": "gone"}}, "is to come from", "path"),
        ({"redis.url": "redis://:pw@r/0"}, "holds a password", "env"),
        ({"redis.url": "http://r"}, "is no Redis URL", "redis://"),
        ({"redis.url": "redis://r:70000"}, "is no Redis URL", "redis://"),
        ({"redis.url": "redis://r/first"}, "is no Redis URL", "redis://"),
        ({"kafka.replication": "three"}, "replication is 'three'", "number"),
        ({"kafka.replication": 0}, "replication is 0", "at least 1"),
        ({"spark.rack_conf": ["r1"]}, r"rack_conf is \['r1'\]", "keys and values"),
        ({"spark.code": "git"}, "spark.code is 'git'", "archive"),
        ({"spark.rack_conf": {"r9": {}}}, "names 'r9'", "r1"),
        ({"checkpoints": "/shared"}, "is no URI", "file://"),
        ({"checkpoints": "s3a://b/c"}, "how to remove", "remove"),
        ({"nodes": []}, r"nodes is \[\]", "at least 1"),
        ({"nodes": [{"rack": "left", "host": "a"}]}, "is 'left'", "r1, r2"),
        ({"nodes": [{"rack": "r2", "host": "a"}]}, "has the racks", "r1, r2"),
        ({"commands.kill": "ssh {hots} kill"}, "a place {hots}", "{host}"),
        ({"commands.kill": "ssh 'x"}, "commands.kill cannot be read", "mend"),
        ({"commands.kill": ""}, "commands.kill is empty", "program"),
        ({"commands.cut": "true"}, "only one of cut and heal", "both or neither"),
        ({"commands.kill_process": "kill {pid}"}, "only one of kill_process", "both"),
        ({"commands.kill": "kill {pid}"}, "a place {pid}", "{host}"),
        ({"spark.secret": None}, "spark has no secret", "env"),
        ({"kafka.mechanism": "PLAIN"}, "needs a user's name", "give both"),
    ],
)
def test_what_is_wrong_in_a_description_is_named(
    tmp_path: Path, changes: Mapping[str, Any], words: str, remedy: str
) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        read_settings(described(tmp_path, changes))
    assert remedy in caught.value.remedy


def test_a_file_that_is_no_description_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        read_settings(tmp_path / "none.yaml")
    (tmp_path / "list.yaml").write_text("- 1")
    with pytest.raises(UsageError, match=r"it is \[1\]"):
        read_settings(tmp_path / "list.yaml")


def test_a_value_cannot_become_a_command() -> None:
    command = Command(words=("ssh", "{host}", "kill"))
    assert command.filled({"host": "a; rm -rf /"}) == ["ssh", "a; rm -rf /", "kill"]


def test_a_shape_that_it_has_not_is_refused(tmp_path: Path) -> None:
    settings = read_settings(described(tmp_path))
    ExternalCluster(settings, ClusterSpec(racks=2), remove=remove_made)
    with pytest.raises(UsageError, match="has 2 rack"):
        ExternalCluster(settings, ClusterSpec(racks=2, workers_per_rack=2), remove=remove_made)
    with pytest.raises(UsageError, match="are whole workers"):
        ExternalCluster(settings, ClusterSpec(nodes_per_worker=2), remove=remove_made)


def nodes_of_files(
    directory: Path, *, per_worker: int = 1, **commands: str | float
) -> ExternalNodes:
    """Make nodes of workers that are files: an existing file is a worker that is up."""
    for name in ("a", "b", "c"):
        (directory / name).touch()
    given: dict[str, str | float] = {
        "up": f"test -e {directory}/{{host}}",
        "kill": f"rm {directory}/{{host}}",
        "restart": f"touch {directory}/{{host}}",
        "clock": "date +%s.%N",
        **commands,
    }
    path = described(directory, {f"commands.{name}": text for name, text in given.items()})
    return ExternalNodes(read_settings(path), per_worker)


PROCESSES = {
    "kill_process": "kill -KILL {pid}",
    "up_process": "sh -c 'grep -qs \"^State:[[:space:]]*[RSDTtI]\" /proc/{pid}/status'",
}


def test_several_nodes_to_a_worker_are_told_apart_by_their_processes(tmp_path: Path) -> None:
    nodes = nodes_of_files(tmp_path, per_worker=2, **PROCESSES)
    assert [node.name for node in nodes.nodes] == ["r1n1", "r1n2", "r1n3", "r1n4", "r2n1", "r2n2"]
    assert [node.worker for node in nodes.nodes][:4] == ["r1w1", "r1w1", "r1w2", "r1w2"]
    first, second = nodes.nodes[:2]
    with subprocess.Popen(["sleep", "600"]) as process:
        host = HostProcess(worker="r1w1", pid=process.pid, started_ticks=0)
        nodes.register(first, host)
        with pytest.raises(UsageError, match="cannot host node r2n1"):
            nodes.register(nodes.nodes[4], host)
        assert all(nodes.alive().values())
        (victim,) = nodes.apply(Action.KILL, [first])
        assert victim.felt
        assert process.wait() == -9
    assert not nodes.apply(Action.KILL, [first])[0].reached
    assert not nodes.apply(Action.KILL, [second])[0].reached, "nobody lives there"
    assert {name for name, up in nodes.alive().items() if not up} == {"r1n1"}
    assert not nodes.apply(Action.RESTART, [first])[0].reached, "its worker is up"
    nodes.restore(silent)
    assert all(nodes.alive().values())


def test_several_nodes_of_one_instant_are_killed_in_one_sweep(tmp_path: Path) -> None:
    """No command ends before all have begun, so commands in turn would wait for ever."""
    meet = (
        f"sh -c 'touch {tmp_path}/began-{{pid}}; "
        f"until test $(ls {tmp_path} | grep -c began-) = 2; do sleep 0.05; done; "
        "kill -KILL {pid}'"
    )
    nodes = nodes_of_files(tmp_path, per_worker=2, **{**PROCESSES, "kill_process": meet})
    with ExitStack() as stack:
        processes = [stack.enter_context(subprocess.Popen(["sleep", "600"])) for _ in range(2)]
        for node, process in zip(nodes.nodes, processes, strict=False):
            stack.callback(process.kill)
            nodes.register(node, HostProcess(worker="r1w1", pid=process.pid, started_ticks=0))
        victims = nodes.apply(Action.KILL, nodes.nodes[:3])
        assert [(victim.node, victim.felt) for victim in victims] == [
            ("r1n1", True),
            ("r1n2", True),
            ("r1n3", False),
        ]
        assert all((victim.began_unix_s or 0) <= victim.at_unix_s for victim in victims)
        assert [process.wait() for process in processes] == [-9, -9]
    assert nodes.alive()["r1n3"], "its worker lives on"


def test_a_rack_of_shared_workers_goes_as_a_whole(tmp_path: Path) -> None:
    nodes = nodes_of_files(tmp_path, per_worker=2, pause="true", resume="true", **PROCESSES)
    rack = [node for node in nodes.nodes if node.rack == "r1"]
    victims = nodes.apply(Action.KILL, rack, rack=True)
    assert [(victim.node, victim.reached) for victim in victims] == [
        (node.name, True) for node in rack
    ]
    assert [name for name, up in nodes.alive().items() if up] == ["r2n1", "r2n2"]
    with pytest.raises(UsageError, match="cannot pause r2n1 alone"):
        nodes.apply(Action.PAUSE, [nodes.nodes[4]])
    assert nodes.usage()["r2n1"].cpu_s is None
    assert list(nodes.clocks()) == [node.name for node in nodes.nodes]


def test_a_kill_counts_only_when_the_node_is_down_after_it(tmp_path: Path) -> None:
    nodes = nodes_of_files(tmp_path)
    nodes.demand_up()
    first = nodes.nodes[:1]
    assert nodes.apply(Action.KILL, first)[0].felt
    assert nodes.alive() == {"r1n1": False, "r1n2": True, "r2n1": True}
    assert not nodes.apply(Action.KILL, first)[0].reached
    with pytest.raises(EnvironmentFailure, match=r"r1n1 of .* is down"):
        nodes.demand_up()
    nodes.restore(silent)
    assert all(nodes.alive().values())
    assert not nodes.apply(Action.RESTART, first)[0].reached


def test_what_is_silent_is_not_alive_and_is_mended_by_restore(tmp_path: Path) -> None:
    nodes = nodes_of_files(tmp_path, cut="true", heal=f"touch {tmp_path}/healed-{{host}}")
    assert nodes.apply(Action.CUT, nodes.nodes[:1])[0].reached
    assert not nodes.alive()["r1n1"]
    nodes.restore(silent)
    assert nodes.alive()["r1n1"]
    assert (tmp_path / "healed-a").exists()


@pytest.mark.parametrize(
    ("kill", "words"),
    [
        ("true", "is up 300 ms after its command `kill` ended well"),
        ("sh -c 'echo no >&2; exit 3'", "ended with exit code 3: no"),
        ("no-such-program", "cannot be started"),
        ("sleep 60", "did not end within 0.2 s"),
    ],
)
def test_commands_that_fail_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kill: str, words: str
) -> None:
    monkeypatch.setattr(nodes_module, "EFFECT_LIMIT_S", 0.3)
    nodes = nodes_of_files(tmp_path, kill=kill, timeout_s=0.2)
    with pytest.raises(EnvironmentFailure, match=words):
        nodes.apply(Action.KILL, nodes.nodes[:1])


LASTING = {"redis_version": "7.2.4", "maxmemory_policy": "noeviction", "aof_enabled": 1}


@pytest.mark.parametrize(
    ("change", "words", "remedy"),
    [
        ({"redis_version": "4.0.9"}, "is version 4.0.9", "Redis 5"),
        ({"cluster_enabled": 1}, "is a Redis Cluster", "cluster-enabled no"),
        ({"maxmemory_policy": "allkeys-lru"}, "evicts keys", "noeviction"),
        ({"aof_enabled": 0}, "in memory alone", "appendonly yes"),
    ],
)
def test_a_redis_that_may_lose_checkpoints_is_refused(
    change: dict[str, object], words: str, remedy: str
) -> None:
    demand_lasting(LASTING, "Redis", 0)
    demand_lasting({**LASTING, "aof_enabled": 0}, "Redis", 1)
    with pytest.raises(EnvironmentFailure, match=words) as caught:
        demand_lasting({**LASTING, **change}, "Redis", 0)
    assert remedy in caught.value.remedy


def test_executors_clocks_and_storage_are_checked() -> None:
    answer = {
        "executors": [{"host": "a", "unix_s": 100.2}], "before": 100.0, "after": 100.4,
        "stored": RECORDS,
    }  # fmt: skip
    check_clocks(answer)
    check_storage(answer, "file:///x")
    with pytest.raises(EnvironmentFailure, match=r"of the executor on b is \+300 ms off"):
        check_clocks({**answer, "executors": [{"host": "b", "unix_s": 100.5}]})
    with pytest.raises(EnvironmentFailure, match="400 of 1000 records") as caught:
        check_storage({**answer, "stored": 400}, "file:///x")
    assert "every executor can write to" in caught.value.remedy
    with pytest.raises(EnvironmentFailure, match="No FileSystem for scheme"):
        check_storage({**answer, "stored": None, "error": "No FileSystem for scheme"}, "s3a://x")


def test_clocks_and_usage_are_what_the_commands_say(tmp_path: Path) -> None:
    nodes = nodes_of_files(tmp_path, usage="echo '{{\"cpu_s\": 2.5}}'")
    nodes.check_clocks()
    assert there(nodes.clocks()["r1n1"]).bound_s > 0, "a command takes its time"
    used = nodes.usage()["r2n1"]
    assert (used.cpu_s, used.resident_bytes) == (2.5, None)
    with pytest.raises(EnvironmentFailure, match=r"of node r1n1 is -(2[5-9]|30)\d\d ms off"):
        nodes_of_files(tmp_path, clock="date -d '-3 seconds' +%s.%N").check_clocks()
    with pytest.raises(EnvironmentFailure, match="said 'noon'"):
        nodes_of_files(tmp_path, clock="echo noon").check_clocks()


@pytest.mark.parametrize(
    ("log", "remedy"),
    [
        ("[PYTHON_VERSION_MISMATCH] Python in worker has different version", "spark.python"),
        ("java.io.InvalidClassException: local class incompatible", pyspark.__version__),
        ("Expected SaslMessage, received something else", "spark.secret"),
        ('Cannot run program "/no/python"', "spark.python names no program"),
        ("Initial job has not accepted any resources", "spark.driver_host"),
        ("Connection refused", "spark.master"),
    ],
)
def test_a_first_application_that_fails_says_what_to_correct(log: str, remedy: str) -> None:
    failure = probe_failure("failed", log)
    assert log in failure.what
    assert remedy in failure.remedy


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"python": "3.9.1"}, "runs Python 3.9.1"),
        ({"pyspark": "3.5.0"}, "has PySpark 3.5.0"),
        ({"code": None}, "lacks this code"),
        ({"code": "other"}, "has other code"),
    ],
)
def test_an_executor_that_would_run_something_else_is_refused(
    change: dict[str, Any], words: str
) -> None:
    own = f"{sys.version_info[0]}.{sys.version_info[1]}.0"
    right = {"host": "a", "python": own, "pyspark": pyspark.__version__, "code": "mine"}
    check_executors([right], "mine", "image")
    with pytest.raises(EnvironmentFailure, match=words):
        check_executors([right, {**right, **change}], "mine", "image")


def test_the_archive_is_this_checkout_and_says_so(tmp_path: Path) -> None:
    path = write_archive(tmp_path, REPOSITORY)
    assert path.name == ARCHIVE
    with zipfile.ZipFile(path) as archive:
        assert "harness/cluster/base.py" in archive.namelist()
        assert archive.read("harness/fingerprint.txt").decode() == of_sources(REPOSITORY)


def test_a_broker_that_nobody_reaches_is_told_and_leaves_nothing_to_remove(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(servers, "_WITHIN_S", 0.5)
    path = described(tmp_path, {"kafka.bootstrap": "127.0.0.1:1"})
    cluster = find_backend(str(path)).make(ClusterSpec())
    with pytest.raises(EnvironmentFailure, match=r"Kafka at 127\.0\.0\.1:1 cannot be reached"):
        cluster.start(silent)
    assert ClusterRecords().records() == []
