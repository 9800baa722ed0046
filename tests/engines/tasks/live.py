"""Passes with deliberate disturbances, for the live tests of the task engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.cluster.base import Cluster, ClusterSpec
from harness.endurance.endure import Endurance
from harness.endurance.trial import Disturb, Disturbance, Trial, Verdict
from harness.engines.base import Setup
from harness.engines.tasks.engine import TaskEngine, running_engine
from harness.engines.tasks.parameters import TaskParameters
from harness.hosting.codec import decode
from harness.hosting.restoration import Noted
from harness.protocol.coordinator.registry import Registry
from harness.protocol.effects import CopyEvent
from harness.protocol.scheme import Recovery
from tests.cluster.contract import started as started_cluster
from tests.cluster.helpers import eventually, silent
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


WITHIN_S = 120.0
"""Longest wait for checkpoints and for tasks that were lost, on a machine that is too busy."""


class OnceRestorable(Trial):
    """Kills nothing for the last time before every task has a checkpoint to go back to.

    It goes on when the tasks that this has ended are back, so that the pass does not end before
    them. What it shows does not depend on the machine's speed."""

    def _steps(
        self, disturbances: Sequence[Disturbance]
    ) -> list[tuple[float, Callable[[], object]]]:
        self._last = disturbances[-1]
        return super()._steps(disturbances)

    def _disturb(self, disturbance: Disturbance) -> None:
        if disturbance is not self._last:
            super()._disturb(disturbance)
            return
        eventually(self._restorable, limit_s=WITHIN_S)
        before, reached = primaries(self.engine), len(self.killed)
        super()._disturb(disturbance)
        dead = {victim.node for victim in self.killed[reached:]}
        nodes = self.engine.fleet.nodes
        lost = {task: was for task, was in before.items() if nodes[was.node].name in dead}
        eventually(lambda: self._back(lost), limit_s=WITHIN_S)

    def _restorable(self) -> bool:
        """Return True once each task with a state has stored one, or all have a complete epoch."""
        self._look()
        job = self.engine.job
        assert job is not None, "the pass has begun"
        with self.engine.fleet.cluster.redis.client() as client:
            store: Any = client
            if job.scheme.recovery is Recovery.GLOBAL:
                registry = store.hget(f"{job.run}:registry", "value")
                found = None if registry is None else decode(registry)
                return isinstance(found, Registry) and found.epoch > 0
            storing = [task for task in job.wiring.tasks if not job.wiring.begins_anywhere(task)]
            return all(store.exists(f"{job.run}:state:{task}") for task in storing)

    def _back(self, lost: Mapping[int, Noted]) -> bool:
        self._look()
        now = primaries(self.engine)
        return all(term_of(now[task]) > term_of(was) for task, was in lost.items())


def primaries(engine: TaskEngine) -> dict[int, Noted]:
    """Return by task the note of its newest primary that has had its state."""
    found: dict[int, Noted] = {}
    for noted in engine.notes():
        task, event = noted.note.task, noted.note.event
        has_state = event in (CopyEvent.READY, CopyEvent.PROMOTED)
        if has_state and term_of(noted) > term_of(found.get(task)):
            found[task] = noted
    return found


def term_of(noted: Noted | None) -> int:
    """Return the term of a primary; 0 for a replica, or for none."""
    return 0 if noted is None else noted.note.term or 0


@contextmanager
def own_state(factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep records of clusters apart from the user's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(factory.mktemp("state")))
        yield


@contextmanager
def started(cluster: Cluster) -> Iterator[TaskEngine]:
    """Start ``cluster`` and processes on it that any scheme can use: a pass brings its own.

    After the block nothing of them is left on this machine."""
    with started_cluster(cluster), running_engine(Setup(scheme="checkpoint"), cluster) as engine:
        yield engine


def trial(
    engine: TaskEngine,
    directory: Path,
    scheme: str | Setup,
    seconds: float = 6,
    *,
    workload: Workload = WORDS,
    of: type[Trial] = Trial,
    **parameters: Any,
) -> Trial:
    """Return a pass under ``scheme``, ready to run.

    Nothing dies before every copy has been ready, so that the consequences of a kill do not depend
    on how busy the machine is."""
    if isinstance(scheme, str):
        scheme = Setup(scheme=scheme, parameters=replace(PARAMETERS, **parameters))
    engine.setup = scheme
    engine.check()
    return of(engine, workload, directory, rate_per_s=200, seconds=seconds, settles=True)


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


def passed(
    engine: TaskEngine, directory: Path, scheme: str, *disturbances: Disturbance, seconds: float = 6
) -> Verdict:
    """Make one pass after the return of all nodes that were killed before."""
    engine.fleet.cluster.restore(silent)
    return trial(engine, directory, scheme, seconds).run(disturbances)
