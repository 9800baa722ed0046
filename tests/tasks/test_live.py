"""The task engine on a real cluster: nodes are killed, and the output is what it must be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from harness.engines.tasks.endure import endure
from harness.engines.tasks.engine import TaskEngine
from harness.engines.tasks.trial import Disturb, Disturbance
from harness.errors import UsageError
from tests.cluster.contract import silent
from tests.tasks.live import WORDS, kill, trial
from workloads.base import Reference, Workload
from workloads.toolkit.operators import TableProgram, TableTask, Timeline
from workloads.wordcount import Lower, program

pytestmark = [pytest.mark.cluster, pytest.mark.spark, pytest.mark.slow]


def test_killed_nodes_and_a_killed_rack_change_nothing(engine: TaskEngine, tmp_path: Path) -> None:
    done = trial(engine, tmp_path, "checkpoint", 8).run(
        [kill(2, "r1n1"), kill(3.5, "r2n2"), kill(5, "r1")]
    )
    assert done.results > 500
    assert done.kills == 4
    assert done.failures == 0, done
    lost = engine.lost_primaries()
    assert len(lost) >= 4
    # A machine that is too busy may take a living node for dead as well; that changes nothing.
    assert any("connection" in noted.note.why for noted in lost)


def test_the_coordinator_is_killed_and_goes_on(engine: TaskEngine, tmp_path: Path) -> None:
    done = trial(engine, tmp_path, "checkpoint").run(
        [Disturbance(at_s=2, kind=Disturb.COORDINATOR), kill(4, "r2n1")]
    )
    assert done.kills == 2
    assert done.failures == 0, done


def test_a_frozen_node_is_replaced_by_its_silence(engine: TaskEngine, tmp_path: Path) -> None:
    done = trial(engine, tmp_path, "checkpoint", 8).run(
        [Disturbance(at_s=2, kind=Disturb.PAUSE, target="r1n2", for_s=4)]
    )
    assert done.failures == 0, done
    assert any("connection" not in noted.note.why for noted in engine.lost_primaries())


def test_twenty_kills_at_random(engine: TaskEngine, tmp_path: Path) -> None:
    """Under every scheme in turn, with racks, the coordinator and frozen nodes among them."""
    tally = endure(
        engine, WORDS, tmp_path, kills=20, seed=1, rate_per_s=200, seconds=20, report=silent
    )
    assert tally.kills >= 20
    assert tally.failures == 0, tally


def test_an_operator_that_raises_is_one_message(engine: TaskEngine, tmp_path: Path) -> None:
    """The last test here: the pass ends where it is."""
    broken = replace(WORDS, program=Reference(target=f"{Path(__file__).resolve()}:broken_program"))
    assert broken.reference is not None
    carried = Reference(target=f"{Path(__file__).resolve()}:broken_workload")
    disturbed = trial(engine, tmp_path, "checkpoint", workload=replace(broken, reference=carried))
    with pytest.raises(UsageError, match=r"task lower\.\d on node r\dn\d raised") as caught:
        disturbed.run()
    assert "this word is too much" in str(caught.value)


class Broken(Lower):
    """Fails in the middle of the input."""

    def work(
        self, state: None, batch: int, inputs: Sequence[pa.Table]
    ) -> tuple[None, tuple[pa.Table, ...]]:
        if batch > 20:
            raise ValueError("this word is too much")
        return super().work(state, batch, inputs)


def broken_program(*, timeline: Timeline, rate: float | None = None) -> TableProgram:
    code = program(timeline=timeline, rate=rate, depth=4)

    def task(operator: str, index: int) -> TableTask:
        return Broken(2) if operator == "lower" else code.task(operator, index)

    return replace(code, task=task)


def broken_workload() -> Workload:
    """As the nodes build it."""
    return replace(WORDS, program=Reference(target=f"{Path(__file__).resolve()}:broken_program"))
