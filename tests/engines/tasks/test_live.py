"""The task engine on a real cluster: nodes are killed, and the output is correct."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.endurance.trial import Disturb, Disturbance
from harness.engines.tasks.engine import TaskEngine
from tests.engines.tasks.live import endurance, kill, trial
from tests.levels import amount

pytestmark = [pytest.mark.cluster, pytest.mark.spark]


@pytest.mark.deep  # `test_fleet` kills the process, and the virtual host its connections
def test_the_coordinator_is_killed_and_goes_on(engine: TaskEngine, tmp_path: Path) -> None:
    done = trial(engine, tmp_path, "checkpoint").run(
        [Disturbance(at_s=2, kind=Disturb.COORDINATOR), kill(4, "r2n1")]
    )
    assert (done.kills, done.failures) == (2, 0), done


@pytest.mark.deep  # the virtual host freezes one, too
def test_a_frozen_node_is_replaced_by_its_silence(engine: TaskEngine, tmp_path: Path) -> None:
    done = trial(engine, tmp_path, "checkpoint", 8).run(
        [Disturbance(at_s=2, kind=Disturb.PAUSE, target="r1n2", for_s=4)]
    )
    assert done.failures == 0, done
    assert any("connection" not in noted.note.why for noted in engine.lost_primaries())


@pytest.mark.long
def test_kills_at_random(engine: TaskEngine, tmp_path: Path) -> None:
    """Under one contender after the other, with racks, the coordinator and frozen nodes."""
    kills = amount(12)
    tally = endurance(engine, tmp_path, seed=1).until(kills)
    assert tally.kills >= kills
    assert tally.failures == 0, tally
