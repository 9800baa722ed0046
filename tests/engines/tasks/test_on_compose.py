"""The task engine on the cluster of `docker/compose.yaml`, started by hand.

It runs there as on any existing cluster. Needs a daemon and `docker compose`."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tarfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.cluster.backends import find_backend
from harness.cluster.base import ClusterSpec
from harness.cluster.docker.by_hand import KAFKA, MASTER, REDIS
from harness.cluster.docker.image import ensure_image
from harness.cluster.spark import REPOSITORY
from harness.engines.tasks.engine import TaskEngine
from tests.cluster.contract import silent
from tests.cluster.daemons import client_or_skip, left_of
from tests.cluster.helpers import eventually
from tests.engines.tasks.live import kill, own_state, started
from tests.engines.tasks.on_backend import passed

pytestmark = [pytest.mark.cluster, pytest.mark.spark, pytest.mark.slow, pytest.mark.long]
SPEC = ClusterSpec(racks=2, workers_per_rack=1, memory_mb_per_worker=512)
PROJECT = "faultline-by-hand"


def compose_or_skip() -> list[str]:
    """Return the command: the plugin, or the older program."""
    for command in (["docker", "compose"], ["docker-compose"]):
        if shutil.which(command[0]) is not None:
            done = subprocess.run([*command, "version"], capture_output=True, check=False)
            if done.returncode == 0:
                return command
    pytest.skip("no docker compose on this machine")


@pytest.fixture(scope="module")
def client() -> Any:
    return client_or_skip()


class ByHand:
    """The file's services, as a person would start them."""

    def __init__(self, command: Sequence[str], directory: Path, image: str) -> None:
        text = (REPOSITORY / "docker" / "compose.yaml").read_text()
        # The earlier program does not support project names in the file.
        (directory / "compose.yaml").write_text(re.sub(r"(?m)^name:.*\n", "", text))
        self._command = [*command, "-f", str(directory / "compose.yaml"), "-p", PROJECT]
        self._environment = {
            **os.environ,
            "PWD": str(REPOSITORY),
            "FAULTLINE_IMAGE": image,
            "FAULTLINE_STATE": str(directory / "state"),
        }

    def do(self, *arguments: str) -> str:
        done = subprocess.run(
            [*self._command, *arguments],
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        return done.stdout


def container(client: Any, service: str) -> Any:
    (found,) = client.containers.list(
        all=True,
        filters={
            "label": [
                f"com.docker.compose.service={service}",
                f"com.docker.compose.project={PROJECT}",
            ]
        },
    )
    return found


def text_in(client: Any, service: str, path: str) -> str:
    """Read a file of a container."""
    chunks, _ = container(client, service).get_archive(path)
    with tarfile.open(fileobj=BytesIO(b"".join(chunks))) as tar:
        (member,) = tar.getmembers()
        file = tar.extractfile(member)
        assert file is not None
        return file.read().decode()


@contextmanager
def up(client: Any, directory: Path) -> Iterator[None]:
    by_hand = ByHand(compose_or_skip(), directory, ensure_image(client, silent))
    try:
        by_hand.do("up", "-d")
        logs = container(client, "master").logs
        eventually(lambda: logs().count(b"Registering worker") == 2)
        yield
    finally:
        by_hand.do("down", "--volumes", "--remove-orphans")


def describe(client: Any, directory: Path) -> Path:
    """Return the description that the cluster's owner would write; all of it is in the volume."""
    secrets = {
        name: text_in(client, "master", f"/configuration/{place}")
        for name, place in {
            "kafka": "secrets/kafka-client.properties",
            "redis": "secrets/redis-url",
            "spark": "driver-conf/spark-defaults.conf",
        }.items()
    }
    found = {
        "user": re.search(r'username="(\w+)"', secrets["kafka"]),
        "kafka": re.search(r'password="([^"]+)"', secrets["kafka"]),
        "mechanism": re.search(r"sasl\.mechanism=(\S+)", secrets["kafka"]),
        "redis": re.search(r":([^:@/]+)@", secrets["redis"]),
        "spark": re.search(r"spark\.authenticate\.secret (\S+)", secrets["spark"]),
    }
    values = {name: match[1] for name, match in found.items() if match}
    assert len(values) == len(found), sorted(values)
    for name in ("kafka", "redis", "spark"):
        (directory / name).write_text(values[name])
    names = {worker: container(client, worker).name for worker in ("r1w1", "r2w1")}
    document = {
        "kafka": {
            "bootstrap": f"{KAFKA}:9092",
            "mechanism": values["mechanism"],
            "username": values["user"],
            "password": {"file": "kafka"},
        },
        "redis": {"url": f"redis://{REDIS}:6379/0", "password": {"file": "redis"}},
        "spark": {
            "master": f"spark://{MASTER}:7077",
            "secret": {"file": "spark"},
            "driver_host": "10.88.0.1",
            "python": "/opt/venv/bin/python",
        },
        "checkpoints": "file:///checkpoints",
        "nodes": [
            {"rack": worker[:2], "host": address, "container": names[worker]}
            for worker, address in (("r1w1", "10.88.0.10"), ("r2w1", "10.88.0.11"))
        ],
        "commands": {
            "up": "sh -c 'docker inspect -f {{{{.State.Status}}}} {container} | grep -qx running'",
            "kill": "docker kill {container}",
            "restart": "docker start {container}",
            "pause": "docker pause {container}",
            "resume": "docker unpause {container}",
            "clock": "docker exec {container} date +%s.%N",
        },
    }
    path = directory / "by-hand.yaml"
    path.write_text(yaml.safe_dump(document))
    return path


@pytest.fixture(scope="module")
def engine(client: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TaskEngine]:
    directory = tmp_path_factory.mktemp("by-hand")
    with own_state(tmp_path_factory):
        with up(client, directory):
            backend = find_backend(str(describe(client, directory)))
            with started(backend.make(SPEC)) as engine:
                yield engine
        left = left_of("by-hand")
        assert left == [], [each.name for each in left]


@pytest.mark.parametrize("scheme", ["checkpoint", "active"])
def test_a_container_by_hand_is_killed_and_started_again(
    engine: TaskEngine, tmp_path: Path, scheme: str
) -> None:
    done = passed(engine, tmp_path, scheme, kill(2.5, "r1"))
    assert (done.kills, done.failures) == (1, 0), done
    assert engine.lost_primaries()


def test_the_harness_runs_in_a_container_and_makes_others_beside_it(
    client: Any, tmp_path: Path
) -> None:
    """It finds its programs, its image and the daemon; the cluster answers; nothing is left."""
    image = ensure_image(client, silent)
    by_hand = ByHand(compose_or_skip(), tmp_path, image)
    program = (
        "from harness.cluster.backends import find_backend; "
        "from harness.cluster.base import ClusterSpec\n"
        "spec = ClusterSpec(racks=1, memory_mb_per_worker=512)\n"
        "with find_backend('docker').make(spec) as cluster:\n"
        "    cluster.start(print)\n"
        "    cluster.health()\n"
        "    print('alive', all(cluster.alive().values()), 'run', cluster.run)\n"
    )
    said = by_hand.do("run", "--rm", "--entrypoint", "python", "harness", "-P", "-c", program)
    found = re.search(r"alive True run (\w+)", said)
    assert found is not None, said
    assert left_of(found[1]) == []
