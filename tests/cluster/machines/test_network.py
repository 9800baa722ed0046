"""The data network of a machine: cut, shaped and counted by its agent, and undone however it ends.

The machine's agent and a program that moves bytes, without servers."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from harness.cluster.agent import network as data_network
from harness.cluster.links import RATE, WorkerLink
from harness.cluster.machines.machine import Machine as Reached
from harness.cluster.machines.ssh import Loop
from harness.errors import EnvironmentFailure
from tests.cluster.helpers import PEER, eventually
from tests.cluster.links import Laid, LinkContract
from tests.cluster.machines.kit import Network, needs_machines, open_machine, poor_path, why_no_cut

needs_cuts = pytest.mark.skipif(
    why_no_cut() is not None, reason=f"no machine can be cut off here: {why_no_cut()}"
)
pytestmark = [needs_machines, pytest.mark.cluster]


@pytest.fixture
def opened(reached: Reached, network: Network) -> Reached:
    reached.agent.open_network(network.machines[0].address, [network.host])
    return reached


def run(machine: Reached, program: str) -> None:
    """Start a program there."""
    words = ["sh", "-c", f'exec {sys.executable} -S -u -c "$0"', program]
    machine.agent.start("program", words, environment={}, log_name="program")


@needs_cuts
class TestLinks(LinkContract):
    @pytest.fixture
    def laid(self, opened: Reached, network: Network) -> Laid:
        run(opened, PEER)
        shapes = frozenset(opened.agent.shapes())
        return Laid(shapes, opened.agent.shape, network.machines[0].address)

    def test_the_ssh_connection_is_not_slowed(self, opened: Reached) -> None:
        if RATE not in opened.agent.shapes():
            pytest.skip("this kernel has no token bucket")
        opened.agent.shape(WorkerLink(bytes_per_s=1000))
        opened.agent.write("large", "x" * 200_000)  # 200 s by that link, more than a call may take
        assert opened.agent.files(".")["large"] == 200_000


@needs_cuts
def test_a_crash_of_the_agent_undoes_it(
    opened: Reached, network: Network, loop: Loop, tmp_path: Path
) -> None:
    (machine,) = network.machines
    opened.agent.shapes()
    opened.agent.cut_off()
    assert "drop" in machine.rules()
    for pid, line in machine.inside().items():
        if "harness.cluster.agent" in line:
            os.kill(pid, signal.SIGKILL)
    eventually(lambda: machine.rules() == "", limit_s=20)
    eventually(lambda: machine.processes() == [], limit_s=20)
    (tmp_path / "next").mkdir()
    open_machine(network, loop, tmp_path / "next").close()  # it removes the directory of the run


def test_a_machine_that_cannot_be_cut_says_what_to_grant(loop: Loop, tmp_path: Path) -> None:
    with poor_path() as path, Network(1, path=path) as network:
        machine = open_machine(network, loop, tmp_path)
        with pytest.raises(EnvironmentFailure, match=r"m1: .* there is no program ip") as caught:
            machine.agent.open_network(network.machines[0].address, [network.host])
        assert "sudo -n true" in caught.value.remedy
        machine.close()
        assert network.machines[0].processes() == []


def test_the_port_of_ssh_is_that_of_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSH_CONNECTION", "10.0.0.1 50000 10.0.0.2 2222")
    assert data_network.ssh_port() == 2222
    monkeypatch.delenv("SSH_CONNECTION")
    assert data_network.ssh_port() == 22
