"""The tests of the task engine on a backend other than the local one: inherit, and give `engine`.

One engine serves all tests, as the runs of a campaign share one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.endurance.trial import Disturbance, Trial, Verdict
from harness.engines.base import Setup
from harness.engines.tasks.engine import TaskEngine
from harness.protocol.effects import CopyEvent
from tests.engines.tasks.live import PARAMETERS, WORDS, kill

FAMILIES = ("checkpoint", "global", "replay", "active", "ppa")


def passed(
    engine: TaskEngine, directory: Path, scheme: str, *disturbances: Disturbance, seconds: float = 6
) -> Verdict:
    """Make one pass after the return of all nodes that were killed before.

    Nothing dies before every copy has been ready."""
    engine.fleet.cluster.restore(lambda text: None)
    engine.setup = Setup(scheme=scheme, parameters=PARAMETERS)
    engine.check()
    one = Trial(engine, WORDS, directory, rate_per_s=200, seconds=seconds, settles=True)
    return one.run(disturbances)


@pytest.mark.cluster
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.long
class TasksOnBackend:
    """A worker that is killed, under each family of schemes."""

    @pytest.fixture(scope="class")
    @classmethod
    def engine(cls) -> Iterator[TaskEngine]:
        raise NotImplementedError

    @pytest.mark.parametrize("scheme", FAMILIES)
    def test_a_killed_worker_changes_nothing(
        self, engine: TaskEngine, tmp_path: Path, scheme: str
    ) -> None:
        done = passed(engine, tmp_path, scheme, kill(2.5, "r1"))
        assert done.results > 400
        assert done.kills >= 1
        assert done.failures == 0, done
        assert engine.lost_primaries(), "the coordinator noticed"
        if scheme == "active":
            assert CopyEvent.PROMOTED in {noted.note.event for noted in engine.notes()}

    def test_nodes_of_one_instant_die_in_one_sweep_and_their_worker_lives(
        self, engine: TaskEngine, tmp_path: Path
    ) -> None:
        done = passed(engine, tmp_path, "checkpoint", kill(2.5, "r2n1+r2n2"))
        assert (done.kills, done.failures) == (2, 0), done
        assert {noted.note.node for noted in engine.lost_primaries()} >= {2, 3}

    def test_what_happened_is_told_by_one_clock(self, engine: TaskEngine, tmp_path: Path) -> None:
        """Nodes elsewhere have other clocks; instants come in the order of their causes."""
        done = passed(engine, tmp_path, "checkpoint", kill(2.5, "r1"))
        assert done.failures == 0, done
        begun_s = engine.job.start_us / 1e6 if engine.job else 0.0
        detected = [event for event in engine.events() if event.kind == "detected"]
        # A machine that is too busy may take a living node for dead as well, and earlier.
        assert any(begun_s + 2 < event.at_unix_s < begun_s + 60 for event in detected)
        for event in engine.events():
            if event.kind == "recovered":
                assert event.at_unix_s >= event.detail["detected_unix_s"]
