"""Nodes that join while a pass runs; and the places where the wall clock is read."""

from __future__ import annotations

import ast
from dataclasses import replace
from itertools import chain
from pathlib import Path

import pytest

import harness.endurance
import harness.engines.tasks
from harness.cluster.base import Action
from harness.cluster.local.cluster import LocalCluster
from harness.endurance.trial import Disturb, Disturbance, Trial
from harness.engines.base import Setup
from harness.engines.tasks.engine import TaskEngine
from harness.protocol.effects import CopyEvent
from tests.cluster.helpers import eventually
from tests.engines.tasks.live import PARAMETERS, WORDS, kill

WALL = {"time", "time_ns", "localtime", "gmtime", "ctime", "now", "utcnow", "today"}
READS = {
    "ports.py": 1,  # to compare instants of two machines
    "engine.py": 1,  # what the wall clock is ahead, once a pass
    "trial.py": 1,  # when the load begins
    "driver.py": 2,  # for the log alone
}


def test_the_wall_clock_is_read_where_it_is_known_to_be() -> None:
    """Everything else uses the monotonic clock, which cannot be set."""
    found = {}
    for path in chain.from_iterable(
        Path(package.__path__[0]).glob("*.py")
        for package in (harness.engines.tasks, harness.endurance)
    ):
        calls = [
            node
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in WALL
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id in ("time", "datetime", "date")
        ]
        if calls:
            found[path.name] = len(calls)
    assert found == READS


class OnceReplicated(Trial):
    """Kills nothing before every task has had a copy on the nodes that join."""

    def _disturb(self, disturbance: Disturbance) -> None:
        if disturbance.kind is Disturb.KILL:
            eventually(lambda: ready_there(self.engine) == set(range(7)), limit_s=120)
        super()._disturb(disturbance)


def ready_there(engine: TaskEngine) -> set[int]:
    """Return the tasks with a copy on the second rack that has had its state."""
    notes = [noted.note for noted in engine.notes() if noted.node in (2, 3)]
    return {note.task for note in notes if note.event is CopyEvent.READY}


@pytest.mark.cluster
@pytest.mark.spark
@pytest.mark.deep
def test_a_worker_joins_while_it_runs(
    cluster: LocalCluster, engine: TaskEngine, tmp_path: Path
) -> None:
    """Start the pass with a dead second rack.

    It gets the replicas once it has joined, and goes on alone when the first one dies."""
    engine.check()
    assert all(victim.reached for victim in cluster.apply(Action.KILL, "r2"))
    eventually(lambda: set(engine.fleet.connected()) == {0, 1})
    engine.setup = Setup(scheme="active", parameters=replace(PARAMETERS, late=(2, 3)))
    one = OnceReplicated(engine, WORDS, tmp_path, rate_per_s=200, seconds=16)
    done = one.run([Disturbance(at_s=1, kind=Disturb.JOIN, target="r2"), kill(6, "r1")])
    assert (done.kills, done.failures) == (2, 0), done
    assert engine.job is not None
    assert set(engine.job.placement) == {0, 1}
    notes = [noted for noted in engine.notes() if noted.node in (2, 3)]
    assert any(n.note.event is CopyEvent.PROMOTED for n in notes)
