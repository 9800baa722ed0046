"""Passes with deliberate disturbances, for the live tests of the task engine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.cluster.base import Cluster, ClusterSpec
from harness.endurance.endure import Endurance
from harness.endurance.trial import Disturb, Disturbance, Trial
from harness.engines.base import Setup
from harness.engines.tasks.engine import TaskEngine, running_engine
from harness.engines.tasks.parameters import TaskParameters
from tests.cluster.helpers import silent
from workloads.base import Workload
from workloads.wordcount import word_count

SPEC = ClusterSpec(
    racks=2, workers_per_rack=1, nodes_per_worker=2, cores_per_worker=2, memory_mb_per_worker=512
)
PARAMETERS = TaskParameters(checkpoint_s=1.0, suspect_s=2.0)
WORDS = word_count(text=[__file__], window_s=2, slide_s=1, depth=4)
"""Tasks: split 0-1, lower 2-3, count 4-5, collect 6."""
NODES = ("r1n1", "r1n2", "r2n1", "r2n2")
"""In the order of their numbers."""


@contextmanager
def own_state(factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep records of clusters apart from the user's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(factory.mktemp("state")))
        yield


@contextmanager
def started(cluster: Cluster, parameters: TaskParameters = PARAMETERS) -> Iterator[TaskEngine]:
    """Start ``cluster`` and processes on it that any scheme can use: a pass brings its own."""
    with cluster:
        cluster.start(silent)
        with running_engine(Setup(scheme="checkpoint", parameters=parameters), cluster) as engine:
            yield engine


def trial(
    engine: TaskEngine,
    directory: Path,
    scheme: str,
    seconds: float = 6,
    *,
    workload: Workload = WORDS,
    rate_per_s: float = 200,
    **parameters: Any,
) -> Trial:
    """Return a pass under ``scheme``, ready to run.

    Nothing dies before every copy has been ready, so that the consequences of a kill do not depend
    on how busy the machine is."""
    engine.setup = Setup(scheme=scheme, parameters=replace(PARAMETERS, **parameters))
    engine.check()
    return Trial(engine, workload, directory, rate_per_s=rate_per_s, seconds=seconds, settles=True)


def kill(at_s: float, target: str) -> Disturbance:
    """Kill a node or a rack; its next life begins at once or when ``restart_s`` is over."""
    return Disturbance(at_s=at_s, kind=Disturb.KILL, target=target)


def endurance(engine: TaskEngine, directory: Path, *, seed: int) -> Endurance:
    """Make short passes of word count under one contender after the other."""
    return Endurance(
        engine=engine,
        workloads=[WORDS],
        seed=seed,
        directory=directory,
        keep=directory / "kept",
        rate_per_s=200,
        seconds=15,
    )
