"""Findings of the doctor about the machines of a file."""

from __future__ import annotations

import pytest

from harness.cluster.machines.doctor import examine
from harness.environment.doctor import Status
from tests.cluster.machines.kit import Network, needs_machines

pytestmark = [needs_machines, pytest.mark.cluster]


def test_the_machine_of_the_services_is_examined_too(network: Network) -> None:
    file = network.file([{"ssh": "127.0.0.1:1", "rack": "r1"}], services={"ssh": "m1"})
    away, services = examine(file)
    assert (away.name, away.status) == ("127.0.0.1:1", Status.MISSING)
    assert services.name == "m1"
    assert services.detail.startswith("Kafka, Redis and the Spark master, no workers; ")
    (own,) = examine(network.file([{"ssh": "m1", "rack": "r1"}], services={"ssh": "m1"}))
    assert own.detail.startswith("r1, 1 worker(s); ")
