"""Breaking and mending nodes, on small process trees in the place of Spark workers."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.cluster.base import Action, ClusterSpec, Node
from harness.cluster.local.launching import LaunchedProcess, Launcher
from harness.cluster.local.network import Loopback
from harness.cluster.local.spark_standalone import Worker
from harness.cluster.local.workers import LocalWorkers
from harness.cluster.processes import WORKER_VARIABLE, HostProcess, identify, read_stat
from harness.cluster.workers import nodes_of
from harness.errors import UsageError
from tests.cluster.helpers import FAMILY, end_run, eventually

pytestmark = pytest.mark.slow


class FakeWorker(Worker):
    """A family of Python processes that "registers" as soon as its child runs."""

    def __init__(self, launcher: Launcher, name: str, incarnation: int) -> None:
        self.launcher = launcher
        self.name = name
        self.title = f"worker {name}"
        self.incarnation = incarnation
        self.child: LaunchedProcess | None = None

    def launch(self) -> LaunchedProcess:
        return self.launcher.spawn(
            self.name,
            [sys.executable, "-S", "-c", FAMILY],
            environment={WORKER_VARIABLE: self.name},
            log_name=f"{self.name}.{self.incarnation}",
        )

    def answers(self) -> bool:
        assert self.child is not None
        return self.child.log_text().strip().isdecimal()

    def pids(self) -> set[int]:
        assert self.child is not None
        return {self.child.process.pid, int(self.child.log_text())}


class Rig:
    """Two racks of two workers with ``nodes_per_worker`` nodes each."""

    def __init__(self, directory: Path, nodes_per_worker: int) -> None:
        (directory / "logs").mkdir()
        self.run = f"test-{secrets.token_hex(8)}"
        launcher = Launcher(
            run=self.run, directory=directory, environment={"PATH": os.environ["PATH"]}
        )
        spec = ClusterSpec(racks=2, workers_per_rack=2, nodes_per_worker=nodes_per_worker)
        self.nodes = nodes_of(spec, lambda rack, worker: "")
        self.made: dict[str, FakeWorker] = {}

        def make(node: Node, incarnation: int) -> Worker:
            self.made[node.worker] = FakeWorker(launcher, node.worker, incarnation)
            return self.made[node.worker]

        self.workers = LocalWorkers(launcher, self.nodes, make, Loopback())
        self.workers.begin()
        eventually(lambda: all(worker.answers() for worker in self.made.values()))

    def apply(self, action: Action, *names: str, rack: bool = False) -> dict[str, set[int]]:
        nodes = [node for node in self.nodes if node.name in names]
        victims = self.workers.apply(action, nodes, rack=rack)
        assert [victim.node for victim in victims] == list(names)
        return {victim.node: set(victim.processes) for victim in victims}

    def dead(self) -> set[str]:
        return {name for name, alive in self.workers.alive().items() if not alive}

    def end(self) -> None:
        end_run(self.run)
        self.workers.reap()


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    rig = Rig(tmp_path, nodes_per_worker=1)
    yield rig
    rig.end()


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[Rig]:
    rig = Rig(tmp_path, nodes_per_worker=2)
    yield rig
    rig.end()


def host_of(pid: int, worker: str = "") -> HostProcess:
    """What the process would say of itself; a start time that fits nobody if it is gone."""
    identity = identify(pid)
    ticks = identity.started_ticks if identity is not None else 0
    return HostProcess(worker=worker, pid=pid, started_ticks=ticks)


def silent(text: str) -> None:
    """A report that nobody reads."""


def test_a_kill_reaches_the_whole_tree_and_nothing_else(rig: Rig) -> None:
    pids = rig.made["r1w1"].pids()
    assert rig.apply(Action.KILL, "r1n1") == {"r1n1": pids}
    assert all(read_stat(pid) is None for pid in pids)
    assert rig.dead() == {"r1n1"}


def test_a_rack_dies_at_once_with_each_nodes_own_victims(rig: Rig) -> None:
    expected = {"r2n1": rig.made["r2w1"].pids(), "r2n2": rig.made["r2w2"].pids()}
    assert rig.apply(Action.KILL, "r2n1", "r2n2", rack=True) == expected
    assert rig.dead() == {"r2n1", "r2n2"}


def test_killing_the_dead_reaches_nobody(rig: Rig) -> None:
    rig.apply(Action.KILL, "r1n1")
    assert rig.apply(Action.KILL, "r1n1") == {"r1n1": set()}


def test_a_paused_node_is_stopped_and_goes_on_after_resume(rig: Rig) -> None:
    pids = rig.made["r1w1"].pids()
    assert rig.apply(Action.PAUSE, "r1n1") == {"r1n1": pids}
    eventually(lambda: {s.state for pid in pids if (s := read_stat(pid))} == {"T"})
    assert rig.dead() == {"r1n1"}
    rig.apply(Action.RESUME, "r1n1")
    eventually(lambda: {s.state for pid in pids if (s := read_stat(pid))} <= {"S", "R"})
    assert rig.dead() == set()


def test_a_paused_node_can_be_killed(rig: Rig) -> None:
    pids = rig.made["r1w1"].pids()
    rig.apply(Action.PAUSE, "r1n1")
    assert rig.apply(Action.KILL, "r1n1") == {"r1n1": pids}
    rig.workers.restore(silent)
    assert rig.dead() == set()


def test_a_restart_is_a_new_incarnation_and_leaves_the_living_alone(rig: Rig) -> None:
    rig.apply(Action.KILL, "r1n1")
    started = rig.apply(Action.RESTART, "r1n1", "r1n2")
    eventually(rig.made["r1w1"].answers)
    assert rig.made["r1w1"].incarnation == 2
    assert started["r1n1"] < rig.made["r1w1"].pids()
    assert started["r1n2"] == set()
    assert rig.dead() == set()


def test_restore_brings_everything_back(rig: Rig) -> None:
    rig.apply(Action.KILL, "r1n1")
    rig.apply(Action.PAUSE, "r2n1", "r2n2")
    rig.workers.restore(silent)
    assert rig.dead() == set()
    assert [rig.made[name].incarnation for name in ("r1w1", "r1w2", "r2w1", "r2w2")] == [2, 1, 1, 1]


def test_usage_counts_earlier_incarnations(rig: Rig) -> None:
    before = rig.workers.usage()["r1n1"]
    assert before.cpu_s is not None
    assert before.resident_bytes
    rig.apply(Action.KILL, "r1n1")
    dead = rig.workers.usage()["r1n1"]
    assert dead.cpu_s is not None
    assert dead.cpu_s >= before.cpu_s
    assert dead.resident_bytes == 0
    rig.workers.restore(silent)
    again = rig.workers.usage()["r1n1"]
    assert again.cpu_s is not None
    assert again.cpu_s >= dead.cpu_s
    assert again.received_bytes is None
    assert "no per-process byte counter" in again.method


def test_a_node_that_is_a_worker_takes_no_registration(rig: Rig) -> None:
    with pytest.raises(UsageError, match="is a whole worker"):
        rig.workers.register_host("r1n1", host_of(os.getpid()))


def test_nodes_of_one_worker_die_alone(shared: Rig) -> None:
    root = next(iter(shared.made["r1w1"].pids() - {shared.made["r1w1"].child.process.pid}))  # type: ignore[union-attr]
    shared.workers.register_host("r1n2", host_of(root))
    assert shared.apply(Action.KILL, "r1n2") == {"r1n2": {root}}
    assert shared.dead() == {"r1n2"}
    assert shared.made["r1w1"].child is not None
    assert shared.made["r1w1"].child.running()


def test_a_new_incarnation_registers_in_place_of_the_old(shared: Rig) -> None:
    child = shared.made["r1w1"].child
    assert child is not None
    (host,) = shared.made["r1w1"].pids() - {child.process.pid}
    shared.workers.register_host("r1n2", host_of(host))
    shared.apply(Action.KILL, "r1n2")
    shared.workers.register_host("r1n2", host_of(child.process.pid))
    assert shared.dead() == set()


def test_a_rack_of_shared_workers_dies_as_a_whole(shared: Rig) -> None:
    child = shared.made["r1w1"].child
    assert child is not None
    (host,) = shared.made["r1w1"].pids() - {child.process.pid}
    shared.workers.register_host("r1n2", host_of(host))
    done = shared.apply(Action.KILL, "r1n1", "r1n2", "r1n3", "r1n4", rack=True)
    assert done["r1n2"] == {host}
    assert done["r1n1"] == {child.process.pid}
    assert done["r1n3"] == shared.made["r1w2"].pids()
    assert shared.dead() == {"r1n1", "r1n2", "r1n3", "r1n4"}


def test_a_node_without_a_known_process_is_not_killed(shared: Rig) -> None:
    assert shared.apply(Action.KILL, "r1n2") == {"r1n2": set()}


def test_only_a_process_of_its_worker_can_host_a_node(shared: Rig) -> None:
    (host, *_) = shared.made["r2w1"].pids()
    with pytest.raises(UsageError, match="no living process of worker r1w1"):
        shared.workers.register_host("r1n1", host_of(host))
    with subprocess.Popen([sys.executable, "-S", "-c", ""]) as gone:
        pass
    with pytest.raises(UsageError, match="cannot host node"):
        shared.workers.register_host("r1n1", host_of(gone.pid))


def test_an_unknown_node_is_refused(shared: Rig) -> None:
    with pytest.raises(UsageError, match="no node 'r9n9'"):
        shared.workers.register_host("r9n9", host_of(os.getpid()))
