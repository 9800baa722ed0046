"""One machine for the tests of a module, and its agent."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.cluster.machines.machine import Machine
from harness.cluster.machines.ssh import Loop
from tests.cluster.machines.kit import Network, open_machine


@pytest.fixture(scope="module")
def network() -> Iterator[Network]:
    with Network(1) as network:
        yield network


@pytest.fixture
def loop() -> Iterator[Loop]:
    loop = Loop()
    yield loop
    loop.close()


@pytest.fixture
def reached(network: Network, loop: Loop, tmp_path: Path) -> Iterator[Machine]:
    machine = open_machine(network, loop, tmp_path)
    yield machine
    machine.close()
    (only,) = network.machines
    assert only.processes() == [], "it waits for the agent's end"
    assert only.rules() == ""
    assert list((only.cache / "runs").iterdir()) == []
    assert list(only.tmp.iterdir()) == []
