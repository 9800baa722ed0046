"""Breaking and mending nodes, on small process trees in place of Spark workers."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.cluster.agent import finding
from harness.cluster.agent.launching import Server
from harness.cluster.agent.place import LaunchedProcess, Launcher, Place
from harness.cluster.agent.programs import Program
from harness.cluster.agent.workers import Workers
from harness.cluster.base import Action, ClusterSpec, Node, nodes_of
from harness.cluster.links import Loopback
from harness.cluster.processes import (
    WORKER_VARIABLE,
    HostProcess,
    ProcessStat,
    identify,
    members,
    read_stat,
)
from harness.errors import UsageError
from tests.cluster.helpers import FAMILY, eventually, silent
from tests.there import there


class FakeWorker(Server):
    """A family of Python processes that "registers" as soon as its child runs."""

    def __init__(self, launcher: Launcher, name: str, incarnation: int) -> None:
        super().__init__(launcher)
        self.name, self.incarnation = name, incarnation
        self.title = f"worker {name}"

    def launch(self) -> LaunchedProcess:
        return self.launcher.spawn(
            self.name,
            [sys.executable, "-S", "-c", FAMILY],
            environment={WORKER_VARIABLE: self.name},
            log_name=f"{self.name}.{self.incarnation}",
        )

    def answers(self) -> bool:
        return self.running.log_text().strip().isdecimal()

    @property
    def running(self) -> LaunchedProcess:
        """Its own process."""
        return there(self.child)

    @property
    def host(self) -> int:
        """The child of its process, which can host a node."""
        return int(self.running.log_text())

    def pids(self) -> set[int]:
        return {self.running.pid, self.host}


class Rig:
    """Two racks of two workers with ``nodes_per_worker`` nodes each."""

    def __init__(self, directory: Path, nodes_per_worker: int) -> None:
        (directory / "logs").mkdir()
        run = f"test-{secrets.token_hex(8)}"
        environment = {"PATH": os.environ["PATH"]}
        launcher = Place.here(run, directory, environment).launcher(environment)
        spec = ClusterSpec(racks=2, workers_per_rack=2, nodes_per_worker=nodes_per_worker)
        self.nodes = nodes_of(spec, lambda rack, worker: "")
        self.made: dict[str, FakeWorker] = {}

        def make(node: Node, incarnation: int) -> Server:
            self.made[node.worker] = FakeWorker(launcher, node.worker, incarnation)
            return self.made[node.worker]

        launchers = {node.worker: launcher for node in self.nodes}
        self.workers = Workers(launchers, self.nodes, make, Loopback())
        self.workers.begin()
        eventually(lambda: all(worker.answers() for worker in self.made.values()))

    def apply(self, action: Action, *names: str, rack: bool = False) -> dict[str, set[int]]:
        nodes = [node for node in self.nodes if node.name in names]
        with self.workers.prepare(action, nodes, rack=rack) as prepared:
            victims = prepared.apply()
        assert [victim.node for victim in victims] == list(names)
        return {victim.node: set(victim.processes) for victim in victims}

    def dead(self) -> set[str]:
        return {name for name, alive in self.workers.alive().items() if not alive}

    def cpu_s(self, node: str) -> float:
        return there(self.workers.usage()[node].cpu_s)


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    rig = Rig(tmp_path, nodes_per_worker=1)
    yield rig
    rig.workers.reap()


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[Rig]:
    rig = Rig(tmp_path, nodes_per_worker=2)
    yield rig
    rig.workers.reap()


def host_of(pid: int) -> HostProcess:
    """Return a process's identity; a start time that fits no process if it is gone."""
    identity = identify(pid)
    ticks = identity.started_ticks if identity is not None else 0
    return HostProcess(worker="", pid=pid, started_ticks=ticks)


def test_a_rack_dies_at_once_with_each_nodes_own_victims(rig: Rig) -> None:
    expected = {"r2n1": rig.made["r2w1"].pids(), "r2n2": rig.made["r2w2"].pids()}
    assert rig.apply(Action.KILL, "r2n1", "r2n2", rack=True) == expected
    assert not any(read_stat(pid) for pids in expected.values() for pid in pids)
    assert rig.dead() == {"r2n1", "r2n2"}


def test_a_paused_node_is_stopped_as_a_whole_and_can_be_killed(rig: Rig) -> None:
    pids = rig.made["r1w1"].pids()
    assert rig.apply(Action.PAUSE, "r1n1") == {"r1n1": pids}
    eventually(lambda: {s.state for pid in pids if (s := read_stat(pid))} == {"T"})
    assert rig.dead() == {"r1n1"}
    assert rig.apply(Action.KILL, "r1n1") == {"r1n1": pids}
    rig.workers.restore(silent)
    assert rig.made["r1w1"].incarnation == 2
    assert rig.dead() == set()


def test_usage_counts_earlier_incarnations(rig: Rig) -> None:
    before = rig.cpu_s("r1n1")
    assert rig.workers.usage()["r1n1"].resident_bytes
    rig.apply(Action.KILL, "r1n1")
    dead = rig.cpu_s("r1n1")
    assert dead >= before
    assert rig.workers.usage()["r1n1"].resident_bytes == 0
    rig.workers.restore(silent)
    assert rig.cpu_s("r1n1") >= dead
    again = rig.workers.usage()["r1n1"]
    assert again.received_bytes is None
    assert "no per-process byte counter" in again.method


def test_a_node_that_is_a_worker_takes_no_registration(rig: Rig) -> None:
    with pytest.raises(UsageError, match="is a whole worker"):
        rig.workers.register_host("r1n1", host_of(os.getpid()))


def test_nodes_of_one_worker_die_alone(shared: Rig) -> None:
    worker = shared.made["r1w1"]
    shared.workers.register_host("r1n2", host_of(worker.host))
    assert shared.apply(Action.KILL, "r1n2") == {"r1n2": {worker.host}}
    assert shared.dead() == {"r1n2"}
    assert worker.running.poll() is None


def test_a_rack_of_shared_workers_dies_as_a_whole(shared: Rig) -> None:
    worker, other = shared.made["r1w1"], shared.made["r1w2"].pids()
    shared.workers.register_host("r1n2", host_of(worker.host))
    done = shared.apply(Action.KILL, "r1n1", "r1n2", "r1n3", "r1n4", rack=True)
    assert (done["r1n2"], done["r1n1"]) == ({worker.host}, {worker.running.pid})
    assert done["r1n3"] == other
    assert shared.dead() == {"r1n1", "r1n2", "r1n3", "r1n4"}


def test_only_a_process_of_its_worker_can_host_a_node(shared: Rig) -> None:
    with pytest.raises(UsageError, match="no living process of worker r1w1"):
        shared.workers.register_host("r1n1", host_of(shared.made["r2w1"].host))
    with subprocess.Popen([sys.executable, "-S", "-c", ""]) as gone:
        pass
    with pytest.raises(UsageError, match="cannot host node"):
        shared.workers.register_host("r1n1", host_of(gone.pid))


PROGRAM = """
import pathlib, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(600)"],
                         start_new_session=True)
end = time.process_time() + 0.1
while time.process_time() < end:
    pass
pathlib.Path("draft").write_text(str(child.pid))
pathlib.Path("draft").rename("child")
print(pathlib.Path("given").read_text(), flush=True)
time.sleep(600)
"""


def launched(rig: Rig, node: str, program: str = PROGRAM) -> tuple[Program, set[int]]:
    """Launch a program that uses 0.1 s of CPU; return it with its own and its child's pid."""
    argv = [sys.executable, "-S", "-c", program]
    found = rig.workers.launch(node, argv, name="engine", env={}, files={"given": "secret"})
    return found, pids_of(found)


def pids_of(program: Program) -> set[int]:
    eventually((program.directory / "child").exists)
    return {program.pid, int((program.directory / "child").read_text())}


def test_a_program_dies_with_its_node_and_comes_back_with_it(rig: Rig) -> None:
    program, pids = launched(rig, "r1n1")
    worker = rig.made["r1w1"].pids()
    assert program.alive
    assert rig.apply(Action.KILL, "r1n1") == {"r1n1": worker | pids}
    assert program.exit_code == -9
    with pytest.raises(UsageError, match="which is dead"):
        launched(rig, "r1n1")
    started = rig.apply(Action.RESTART, "r1n1")["r1n1"]
    assert program.alive
    assert program.incarnation == 2
    assert program.pid in started
    assert pids_of(program).isdisjoint(pids), "an empty directory of its own"
    assert "secret" in program.log.with_name("r1n1-engine.1.log").read_text()


def test_a_stopped_program_is_gone_for_good_and_stays_counted(rig: Rig) -> None:
    before = rig.cpu_s("r1n1")
    program, pids = launched(rig, "r1n1")
    with pytest.raises(UsageError, match="has a program 'engine' already"):
        launched(rig, "r1n1")
    assert rig.cpu_s("r1n1") >= before + 0.1
    program.stop()
    assert program.exit_code == -15
    assert not any(read_stat(pid) for pid in pids)
    assert rig.cpu_s("r1n1") >= before + 0.1
    rig.apply(Action.KILL, "r1n1")
    rig.apply(Action.RESTART, "r1n1")
    assert not program.alive
    again, _ = launched(rig, "r1n1")
    assert again.incarnation == 2


def test_a_program_that_ends_by_itself_keeps_its_exit_code_and_its_usage(rig: Rig) -> None:
    program, _ = launched(rig, "r1n1", PROGRAM.replace("time.sleep(600)\n", "sys.exit(3)\n"))
    eventually(lambda: not program.alive)
    assert program.exit_code == 3
    spent = rig.cpu_s("r1n1")
    assert spent >= 0.1
    rig.apply(Action.KILL, "r1n1")
    assert spent <= rig.cpu_s("r1n1") < spent + 0.1, "counted once"


def test_a_program_that_ignores_its_end_is_killed(rig: Rig) -> None:
    deaf = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN){PROGRAM}"
    program, pids = launched(rig, "r1n1", deaf)
    program.stop(within_s=0.1)
    assert program.exit_code == -9
    assert not any(read_stat(pid) for pid in pids)


def test_a_program_of_a_node_that_shares_its_worker_is_that_nodes_alone(shared: Rig) -> None:
    program, pids = launched(shared, "r1n2")
    assert shared.cpu_s("r1n2") >= 0.1
    assert shared.cpu_s("r1n3") < 0.1
    assert shared.apply(Action.KILL, "r1n1") == {"r1n1": set()}
    assert shared.apply(Action.KILL, "r1n2") == {"r1n2": pids}
    assert program.exit_code == -9
    assert shared.apply(Action.RESTART, "r1n2") == {"r1n2": {program.pid}}
    assert program.alive
    assert shared.apply(Action.RESTART, "r1n2") == {"r1n2": set()}, "it lives"


def test_names_that_would_lead_elsewhere_are_refused(rig: Rig) -> None:
    with pytest.raises(UsageError, match="cannot name a file"):
        rig.workers.launch("r1n1", ["true"], name="x", env={}, files={"../x": ""})
    with pytest.raises(UsageError, match="cannot name a directory"):
        rig.workers.launch("r1n1", ["true"], name="../x", env={}, files={})
    assert rig.workers.programs() == []


def test_a_prepared_kill_looks_for_nobody_before_its_first_signal(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even when the walk over all processes is slow."""
    pids = rig.made["r1w1"].pids()
    with rig.workers.prepare(Action.KILL, [rig.nodes[0]], rack=False) as prepared:
        assert all(read_stat(pid) for pid in pids)
        late, late_pids = launched(rig, "r1n1")

        def walk(*of: str) -> dict[str, list[ProcessStat]]:
            time.sleep(0.5)
            return members(*of)

        monkeypatch.setattr(finding, "members", walk)
        due = time.time()
        (victim,) = prepared.apply()
    assert due <= there(victim.began_unix_s) < due + 0.5
    assert victim.at_unix_s >= due + 0.5, "the last signal was for those that came in between"
    assert set(victim.processes) == pids | late_pids
    assert not late.alive


def test_a_prepared_kill_spares_what_took_a_dead_ones_place(rig: Rig) -> None:
    with rig.workers.prepare(Action.KILL, [rig.nodes[0]], rack=False) as prepared:
        rig.apply(Action.KILL, "r1n1")
        (victim,) = prepared.apply()
    assert not victim.reached
    with rig.workers.prepare(Action.KILL, [rig.nodes[1]], rack=False):
        pass
    assert "r1n2" not in rig.dead(), "a preparation that was given up does nothing"
