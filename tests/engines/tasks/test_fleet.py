"""The harness restarts a coordinator that was killed: a real process, and no other server."""

from __future__ import annotations

import os
import signal
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.engines.tasks.fleet import Fleet
from harness.errors import EnvironmentFailure
from tests.cluster.helpers import eventually
from tests.engines.tasks.kit import REDIS, job

WITHIN_S = 60


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    cluster = SimpleNamespace(
        nodes=list,
        spec=SimpleNamespace(cores_per_worker=1, nodes_per_worker=1),
        redis=REDIS,
        kafka=SimpleNamespace(tls=None),
        harness_host="127.0.0.1",
        driver_environment=lambda: dict(os.environ),
    )
    made = Fleet(cast(Any, cluster), tmp_path)
    made.start_coordinator()
    made._registering.start()
    yield made
    made.stop()


def kill(fleet: Fleet) -> int:
    pid = fleet.coordinator.pid
    os.kill(pid, signal.SIGKILL)
    assert fleet.coordinator.wait(WITHIN_S)
    return pid


def begun(fleet: Fleet) -> int:
    return len([event for event in fleet.said() if event["event"] == "begun"])


def test_a_coordinator_that_was_killed_is_started_again_and_goes_on(fleet: Fleet) -> None:
    fleet.begin(job())
    killed = kill(fleet)
    eventually(lambda: begun(fleet) == 2)
    fleet.check()
    assert fleet.coordinator.pid != killed
    kill(fleet)
    fleet.adapt(())
    fleet.end()
    assert len(fleet.coordinators) == 3
    fleet.begin(job())
    assert len(fleet.coordinators) == 1, "those of an earlier pass are forgotten"
    assert begun(fleet) == 1
    assert [event["event"] for event in fleet.coordinator.events].count("begun") <= 2


def test_an_error_of_the_coordinator_ends_the_run(fleet: Fleet) -> None:
    fleet.coordinator.send({"order": "begin", "job": {}})
    fleet.coordinator.wait(WITHIN_S)
    with pytest.raises(EnvironmentFailure, match=r"the coordinator has ended: CorruptData: no job"):
        fleet.check()
    with pytest.raises(EnvironmentFailure):
        fleet.begin(job())


def test_a_coordinator_that_is_killed_again_and_again_is_given_up(fleet: Fleet) -> None:
    fleet._began_s = deque(fleet._began_s, maxlen=2)
    kill(fleet)
    eventually(lambda: len(fleet._began_s) == 2)
    fleet._began_s.extend([time.monotonic() + 3_600.0] * 2)
    kill(fleet)
    with pytest.raises(EnvironmentFailure, match="the coordinator has ended"):
        fleet.check()
