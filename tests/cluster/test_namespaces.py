"""Workers with a network of their own: the contract, real cuts, and nothing left behind.

Nearly everything here runs inside namespaces. Outside, one test starts this very file again inside.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from harness.cluster.backends import remove_made
from harness.cluster.base import Action, Cluster
from harness.cluster.links import Bytes, WorkerLink, interface_bytes
from harness.cluster.local import network
from harness.cluster.local.cluster import LocalCluster
from harness.cluster.local.network import Namespaces, why_not
from harness.cluster.ownership import ClusterRecords
from harness.cluster.processes import marked
from harness.cluster.spark import REPOSITORY
from harness.errors import EnvironmentFailure
from tests.cluster.contract import EVERYWHERE, SPEC, ClusterContract, Driver, started
from tests.cluster.helpers import PEER, eventually, silent, transfer_s
from tests.cluster.inside import WHOLE_FILE_S, only_inside, only_outside, ran_inside, started_inside
from tests.cluster.links import Laid, LinkContract


@pytest.mark.long
@only_outside
@pytest.mark.cluster
@pytest.mark.spark
@pytest.mark.timeout(WHOLE_FILE_S)
def test_all_of_it_inside() -> None:
    assert "skipped" in ran_inside(Path(__file__)), "what runs outside alone was skipped"


@only_outside
def test_a_system_that_lets_nobody_in_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "_ENTER", ("sh", "-c", "echo not permitted >&2; exit 1"))
    assert why_not() == "not permitted"
    with pytest.raises(EnvironmentFailure, match="no network namespace: not permitted") as caught:
        network.enter(["run"])
    assert "--network loopback" in caught.value.remedy


@only_outside
def test_a_program_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert "no program unshare" in str(why_not())


def test_an_interfaces_bytes_are_read() -> None:
    text = """Inter-|   Receive  |  Transmit
 face |bytes packets errs drop fifo frame compressed multicast|bytes packets errs drop
    lo:       1       1    0    0    0     0          0         0        2       1    0    0
v-r1w1:     700       5    0    0    0     0          0         0      900       6    0    0
"""
    assert interface_bytes("v-r1w1", text) == Bytes(received=700, sent=900)
    assert interface_bytes("v-r1w2", text) is None


@only_outside
def test_namespaces_end_with_the_process_that_made_them(tmp_path: Path) -> None:
    """A SIGKILL of a harness leaves no holder, so no namespace and no bridge."""
    if why := why_not():
        pytest.skip(f"no namespaces here: {why}")
    (tmp_path / "processes.jsonl").touch()
    program = (
        "import os, pathlib, signal; from harness.cluster.local.network import Namespaces; "
        "network = Namespaces(); "
        f"network.open('test-run', pathlib.Path({str(tmp_path)!r}), {{'r1w1': '10.77.1.1'}}); "
        "assert network.counted('r1w1') is not None; "
        "print(network._holders['r1w1'].pid, flush=True); os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = started_inside("-c", program)
    assert done.stdout, done.stderr
    pid = int(done.stdout)
    eventually(lambda: not Path(f"/proc/{pid}").exists())
    assert marked("test-run") == []


NOBODYS = ("198.51.100.7", 4242)
"""An address of documentation (RFC 5737), where nothing answers."""
_OPEN = """
import json, sys
from harness.cluster.backends import remove_made
from harness.cluster.base import ClusterSpec
from harness.cluster.local.cluster import LocalCluster
from harness.cluster.local.network import Namespaces
from harness.cluster.processes import marked

network = Namespaces()
with LocalCluster(
    ClusterSpec(racks=2, memory_mb_per_worker=512), network=network, remove=remove_made
) as cluster:
    cluster.start(lambda text: None)
    host, port = cluster.kafka.bootstrap.split(":")
    master = cluster.spark_conf()["spark.master"].rpartition(":")[2]
    print(json.dumps({
        "ports": [[host, int(port)], [cluster.redis.host, cluster.redis.port],
                  [host, int(master)], *([node.host, 22] for node in cluster.nodes())],
        "directory": str(cluster.run_directory),
        "pids": [stat.pid for stat in marked(cluster.run)],
        "secrets": [cluster.kafka.password, cluster.redis.password, cluster._secret],
    }), flush=True)
    sys.stdin.read()
"""
"""A cluster inside that prints everything that a stranger would have to find out, and waits."""

NOBODY = 65534
_ATTEMPTS = """
import json, os, socket, subprocess, sys

asked = json.loads(sys.stdin.read())
found = {"uid": os.getuid(), "reached": [], "commands": []}

def attempt(what, do):
    try:
        do()
        found["reached"].append(what)
    except (OSError, subprocess.CalledProcessError):
        pass

for host, port in asked["ports"]:
    place = host, port
    attempt(f"port {host}:{port}", lambda: socket.create_connection(place, timeout=2).close())
for top in asked["directories"]:
    attempt(f"list {top}", lambda: os.listdir(top))
    for folder, _, names in os.walk(top):
        for path in (os.path.join(folder, name) for name in names):
            attempt(f"read {path}", lambda: open(path, "rb").read(1))
for pid in asked["pids"]:
    attempt(f"signal {pid}", lambda: os.kill(pid, 0))
    attempt(f"environment of {pid}", lambda: open(f"/proc/{pid}/environ", "rb").read())
    entering = ["nsenter", "--user", "--net", "--preserve-credentials", f"--target={pid}", "true"]
    attempt(f"enter {pid}", lambda: subprocess.run(entering, capture_output=True, check=True))
    try:
        found["commands"].append(open(f"/proc/{pid}/cmdline").read())
    except OSError:
        pass
print(json.dumps(found))
"""


def try_as_stranger(asked: Mapping[str, object]) -> dict[str, Any]:
    """Return the user's "uid", what it has "reached", and the "commands", which all may read.

    Skips the test without root, or without a Python that every user can run."""
    python = shutil.which("python3", path="/usr/bin:/bin:/usr/local/bin")
    if os.getuid() != 0 or python is None:
        pytest.skip("only root can try as another user, with a Python of the system's")
    done = subprocess.run(
        [python, "-S", "-c", _ATTEMPTS],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        check=True,
        user=NOBODY,
        group=NOBODY,
        extra_groups=[],
        cwd="/",
        env={"PATH": "/usr/bin:/bin"},
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@only_outside
@pytest.mark.cluster
@pytest.mark.spark
@pytest.mark.deep
class TestHarnessInside:
    @pytest.fixture(scope="class")
    @classmethod
    def told(cls) -> Iterator[Mapping[str, Any]]:
        if why := why_not():
            pytest.skip(f"no namespaces here: {why}")
        with tempfile.TemporaryDirectory() as home:
            Path(home).chmod(0o755)  # no directory above protects the cluster's own
            records = ClusterRecords(Path(home) / "faultline")
            process = subprocess.Popen(
                [*network._ENTER, sys.executable, "-P", "-c", _OPEN],
                cwd=REPOSITORY,
                env={
                    **os.environ,
                    network.INSIDE_VARIABLE: network.NAMESPACES,
                    "XDG_STATE_HOME": home,
                },
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            assert process.stdout is not None
            try:
                yield json.loads(process.stdout.readline())
            finally:
                process.communicate(timeout=60)
                records.sweep(silent, remove_made)

    def test_a_stranger_reaches_no_port_file_or_process_of_it(
        self, told: Mapping[str, Any]
    ) -> None:
        """A process under another user id, with the places of everything."""
        assert len(told["pids"]) >= 5
        found = try_as_stranger(
            {
                "ports": [*told["ports"], NOBODYS],
                "directories": [told["directory"]],
                "pids": told["pids"],
            }
        )
        assert found["uid"] == NOBODY
        reached = found["reached"]
        # A gateway that takes up every connection itself would answer for the cluster, too.
        if f"port {NOBODYS[0]}:{NOBODYS[1]}" in reached:
            reached = [each for each in reached if not each.startswith("port ")]
        assert reached == []
        assert found["commands"], "command lines are everybody's"
        lines = "".join(found["commands"])
        assert not [secret for secret in told["secrets"] if secret in lines]


@only_inside
class TestLinks(LinkContract):
    """Links of one worker's network, without servers.

    Every test makes it anew, on the same bridge, and so does the cluster after them."""

    @pytest.fixture
    def network(self, tmp_path: Path) -> Iterator[Namespaces]:
        (tmp_path / "processes.jsonl").touch()
        found = Namespaces()
        found.open("test-links", tmp_path, {"r1w1": "10.77.1.1"})
        yield found
        found.close()

    @pytest.fixture
    def laid(self, network: Namespaces) -> Iterator[Laid]:
        """Start a program on r1w1 that moves bytes."""
        command = [sys.executable, "-S", "-c", PEER]
        with subprocess.Popen(network.within("r1w1", command)) as process:
            yield Laid(network.shapes(), partial(network.shape, "r1w1"), "10.77.1.1")
            process.kill()

    def test_a_namespace_that_somebody_ended_is_laid_again(self, network: Namespaces) -> None:
        """For the next worker, with the same address; the bridge and the others stay."""
        network._holders["r1w1"].kill()
        network._holders["r1w1"].wait()
        command = [sys.executable, "-S", "-c", PEER]
        with subprocess.Popen(network.within("r1w1", command)) as process:
            assert transfer_s("10.77.1.1", 1000, up=True) > 0
            process.kill()
        assert network.counted("r1w1") is not None


@pytest.mark.deep
@only_inside
class TestNamespaceCluster(ClusterContract):
    @pytest.fixture(scope="class")
    @classmethod
    def cluster(cls) -> Iterator[Cluster]:
        network = Namespaces()
        with started(LocalCluster(SPEC, network=network, remove=remove_made)) as cluster:
            yield cluster

    def test_a_worker_that_is_cut_off_runs_nothing_until_it_is_healed(
        self, cluster: LocalCluster, application: Driver
    ) -> None:
        assert application.runs_on(EVERYWHERE)
        victims = cluster.apply(Action.CUT, "r2")
        assert all(victim.felt for victim in victims)
        assert not any(victim.reached for victim in cluster.apply(Action.CUT, "r2"))
        assert [name for name, up in cluster.alive().items() if up] == ["r1n1", "r1n2"]
        assert application.runs_on({"r1w1", "r1w2"})
        cluster.restore(silent)
        assert application.runs_on(EVERYWHERE)

    def test_a_restored_cluster_has_no_links(self, cluster: LocalCluster) -> None:
        cluster.shape("r1", WorkerLink(bytes_per_s=50_000))
        cluster.restore(silent)
        assert cluster._workers is not None
        assert [slot.link for slot in cluster._workers._slots.values()] == [None] * 4

    def test_servers_listen_on_the_inner_network_alone(self, cluster: LocalCluster) -> None:
        assert cluster.kafka.bootstrap.startswith("10.77.0.1:")
        assert (cluster.redis.host, cluster.backend) == ("10.77.0.1", "local-namespaces")
