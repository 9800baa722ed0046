"""Parts of the Docker backend without a daemon: image, messages, counters, programs."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from harness.cluster.base import Action, ClusterSpec
from harness.cluster.configuration import MOST_MB
from harness.cluster.docker.cluster import redis_files
from harness.cluster.docker.containers import Containers, _archive, read_counters
from harness.cluster.docker.daemon import (
    base_image,
    build_failure,
    content_hash,
    context_files,
    python_version,
    refusal,
)
from harness.cluster.docker.workers import DockerWorkers
from harness.cluster.processes import WORKER_VARIABLE, HostProcess
from harness.cluster.spark import REPOSITORY
from harness.cluster.workers import nodes_of
from tests.cluster.helpers import eventually


def test_the_image_holds_the_code_and_its_locks_and_nothing_that_changes_by_itself() -> None:
    names = {str(path.relative_to(REPOSITORY)) for path in context_files(REPOSITORY)}
    assert {"requirements.lock", "docker/Dockerfile", "harness/errors.py"} <= names
    assert "harness/environment/jars.lock.json" in names
    assert not [name for name in names if "__pycache__" in name]
    assert not [name for name in names if name.startswith(("tests/", "results/", ".git"))]


def test_the_image_is_another_one_when_a_file_a_name_or_the_base_changes(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1")
    first = content_hash([tmp_path / "a"], tmp_path, "base")
    assert content_hash([tmp_path / "a"], tmp_path, "base") == first
    assert content_hash([tmp_path / "a"], tmp_path, "other") != first
    (tmp_path / "a").write_text("2")
    second = content_hash([tmp_path / "a"], tmp_path, "base")
    (tmp_path / "a").rename(tmp_path / "b")
    third = content_hash([tmp_path / "b"], tmp_path, "base")
    assert len({first, second, third}) == 3


def test_the_dockerfile_copies_what_the_context_holds() -> None:
    names = [str(path.relative_to(REPOSITORY)) for path in context_files(REPOSITORY)]
    for line in (REPOSITORY / "docker" / "Dockerfile").read_text().splitlines():
        if line.startswith("COPY "):
            for source in line.split()[1:-1]:
                assert any(n == source or n.startswith(f"{source}/") for n in names), source


def test_what_is_fetched_in_the_image_needs_no_code_but_what_was_copied_for_it(
    tmp_path: Path,
) -> None:
    for line in (REPOSITORY / "docker" / "Dockerfile").read_text().splitlines():
        if not line.startswith("COPY ") or "/opt/fetch" not in line:
            continue
        *sources, target = line.split()[1:]
        for source in sources:
            into = tmp_path / Path(target).relative_to("/opt/fetch")
            if (REPOSITORY / source).is_dir():
                shutil.copytree(REPOSITORY / source, into)
            else:
                into.mkdir(parents=True, exist_ok=True)
                shutil.copy(REPOSITORY / source, into)
    there = {**os.environ, "PYTHONPATH": str(tmp_path)}
    importing = [sys.executable, "-P", "-c", "import fetch; print(fetch.__file__)"]
    done = subprocess.run(
        importing, env=there, cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()) == tmp_path / "fetch.py"


def test_the_base_image_can_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FAULTLINE_DOCKER_BASE", raising=False)
    assert base_image() == f"python:{python_version()}-slim-bookworm"
    monkeypatch.setenv("FAULTLINE_DOCKER_BASE", "mirror/python:3.11")
    assert base_image() == "mirror/python:3.11"


STEPS = [
    "Step 1/2 : FROM x",
    'Step 2/2 : RUN python3 || { echo "faultline: the base image has no Python ${PYTHON}"; }',
]
"""Output of every builder, whatever fails later."""


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        (f"faultline: the base image has no Python {python_version()}", "FAULTLINE_DOCKER_BASE"),
        ("/bin/sh: 1: python3: not found", "FAULTLINE_DOCKER_BASE"),
        ("pull access denied for python", "docker pull"),
        ("dial tcp: lookup mirror.example on 10.0.0.1:53: no such host", "docker pull"),
        ("Temporary failure in name resolution", "no way to the package index"),
        ("Failed to establish a new connection: refused", "no way to the package index"),
        ("write /x: no space left on device", "docker system df"),
        ("something else", "by hand"),
    ],
)
def test_a_build_that_fails_says_what_to_do(words: str, remedy: str) -> None:
    failure = build_failure("faultline:x", [*STEPS, words], "returned 1")
    assert words in failure.what
    assert remedy in failure.remedy


@pytest.mark.parametrize(
    ("words", "what", "remedy"),
    [
        ("('Connection aborted.', PermissionError(13, 'Permission denied'))", "may not", "group"),
        ("FileNotFoundError(2, 'No such file or directory')", "no Docker daemon", "DOCKER_HOST"),
        ("boom", "cannot be used: boom", "docker info"),
    ],
)
def test_a_daemon_that_cannot_be_used_is_told_apart(words: str, what: str, remedy: str) -> None:
    failure = refusal(OSError(words))
    assert what in failure.what
    assert remedy in failure.remedy


def test_counters_are_read_from_either_kind_of_control_group() -> None:
    networks = {"eth0": {"rx_bytes": 5, "tx_bytes": 7}, "eth1": {"rx_bytes": 1, "tx_bytes": 0}}
    answer = {
        "cpu_stats": {"cpu_usage": {"total_usage": 2_500_000_000}},
        "memory_stats": {"usage": 1000, "stats": {"total_inactive_file": 300}},
        "networks": networks,
    }
    counted = read_counters(answer)
    used = counted.used
    assert (used.cpu_s, used.received_bytes, used.sent_bytes) == (2.5, 6, 7)
    assert counted.resident_bytes == 700
    answer["memory_stats"] = {"usage": 1000, "stats": {"inactive_file": 100}}
    assert read_counters(answer).resident_bytes == 900
    assert read_counters({"memory_stats": {}}).resident_bytes is None


@pytest.mark.parametrize("append_only", [False, True])
def test_redis_keeps_as_little_and_evicts_as_little_as_on_a_local_cluster(
    append_only: bool,
) -> None:
    text = redis_files("10.0.0.3", "x", append_only=append_only)["redis.conf"]
    assert f"appendonly {'yes' if append_only else 'no'}\n" in text
    assert f"maxmemory {MOST_MB}mb\nmaxmemory-policy noeviction\n" in text


def test_configuration_is_the_users_alone_and_the_user_has_a_name() -> None:
    with tarfile.open(fileobj=io.BytesIO(_archive({"redis.conf": "requirepass x"}))) as tar:
        secret = tar.getmember("etc/faultline/redis.conf")
        assert (secret.mode, secret.uid, secret.gid) == (0o400, os.getuid(), os.getgid())
        users = tar.extractfile("etc/passwd")
        assert users is not None
        assert f":x:{os.getuid()}:" in users.read().decode()


@pytest.mark.slow
def test_process_trees_are_looked_at_and_killed_by_what_they_said_of_themselves() -> None:
    """Run the code for the inside of a container here: several trees at once, in one sweep."""
    program = (
        "import json, time; from dataclasses import asdict; "
        "from harness.cluster.processes import HostProcess; "
        "print(json.dumps(asdict(HostProcess.here())), flush=True); time.sleep(600)"
    )

    def inside(order: str, *hosts: HostProcess) -> list[dict[str, Any]]:
        trees = [{"pid": host.pid, "started_ticks": host.started_ticks} for host in hosts]
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "harness.cluster.docker.inside",
                json.dumps({"do": order, "trees": trees}),
            ],
            cwd=REPOSITORY,
            check=True,
            capture_output=True,
        )
        found: list[dict[str, Any]] = json.loads(done.stdout)
        return found

    def reached(order: str, *hosts: HostProcess) -> list[bool]:
        return [answer["reached"] for answer in inside(order, *hosts)]

    with ExitStack() as stack:
        processes = [
            stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-c", program],
                    cwd=REPOSITORY,
                    env={**os.environ, WORKER_VARIABLE: "r1w1"},
                    stdout=subprocess.PIPE,
                )
            )
            for _ in range(3)
        ]
        for process in processes:
            stack.callback(process.kill)
        hosts = []
        for process in processes:
            assert process.stdout is not None
            hosts.append(HostProcess(**json.loads(process.stdout.readline())))
        assert [(host.worker, host.pid) for host in hosts] == [("r1w1", p.pid) for p in processes]
        first, second, third = hosts
        assert reached("look", *hosts) == [True] * 3
        stranger = replace(first, started_ticks=first.started_ticks + 1)
        assert reached("kill", stranger) == [False]
        killed = inside("kill", third, stranger, first)
        assert [answer["reached"] for answer in killed] == [True, False, True]
        assert len({answer["at_unix_s"] for answer in killed}) == 1, "one sweep"
        assert all(answer["began_unix_s"] <= answer["at_unix_s"] for answer in killed)
        assert [processes[number].wait(10) for number in (0, 2)] == [-9, -9]
        assert reached("look", first, second, third) == [False, True, False]
        assert reached("kill", first) == [False]


class HereContainers:
    """One container, whose commands run here."""

    def __init__(self) -> None:
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def states(self) -> dict[str, str]:
        return {"r1w1": "running"}

    def of(self, role: str) -> HereContainers:
        assert role == "r1w1"
        return self

    def exec_run(self, argv: list[str]) -> tuple[int, bytes]:
        own = [sys.executable if word == "python" else word for word in argv]
        done = subprocess.run(own, cwd=REPOSITORY, capture_output=True, check=False)
        return done.returncode, done.stdout + done.stderr

    def execute(
        self, role: str, argv: list[str], environment: dict[str, str], directory: Path
    ) -> tuple[str, Any]:
        process = subprocess.Popen(argv, cwd=directory, env={**os.environ, **environment})
        self.processes[str(process.pid)] = process
        return str(process.pid), list

    def executed(self, command: str) -> int | None:
        return self.processes[command].poll()

    def follow(self, output: Any, log: Path) -> None:
        assert output() == []


@pytest.mark.slow
def test_programs_of_nodes_that_share_a_container_are_started_killed_and_stopped(
    tmp_path: Path,
) -> None:
    nodes = nodes_of(ClusterSpec(racks=1, nodes_per_worker=2), lambda rack, worker: "")
    here = HereContainers()
    workers = DockerWorkers(
        cast(Containers, here), nodes, tmp_path, lambda *names: None, lambda name: True
    )

    def reached(action: Action) -> bool:
        (victim,) = workers.apply(action, nodes[:1], rack=False)
        return victim.felt

    one, two = (
        workers.launch(node.name, ["sleep", "600"], name="x", env={}, files={"given": "secret"})
        for node in nodes
    )
    try:
        assert (one.directory / "given").read_text() == "secret"
        assert reached(Action.PAUSE)
        assert one.alive
        assert reached(Action.KILL)
        eventually(lambda: one.exit_code == -9)
        assert two.alive
        assert not reached(Action.KILL)
        assert workers.alive() == {"r1n1": True, "r1n2": True}, "their worker runs, without hosts"
        assert workers.apply(Action.RESTART, nodes[:1], rack=False)[0].reached
        eventually(lambda: one.alive and one.incarnation == 2)
        assert not workers.apply(Action.RESTART, nodes[:1], rack=False)[0].reached
        assert (workers.usage()["r1n1"].resident_bytes or 0) > 0
        one.stop()
        assert one.exit_code == -15
        assert two.alive
    finally:
        for process in here.processes.values():
            process.kill()
            process.wait()
