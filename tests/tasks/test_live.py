"""The task engine on a real cluster: nodes are killed, and the output is what it must be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from harness.cluster.base import ClusterSpec
from harness.cluster.local.cluster import LocalCluster
from harness.cluster.processes import marked
from harness.engines.base import Setup
from harness.engines.tasks.endure import endure
from harness.engines.tasks.engine import TaskEngine, running_engine
from harness.engines.tasks.trial import Disturb, Disturbance, Trial
from harness.errors import UsageError
from harness.protocol.effects import CopyEvent
from tests.cluster.contract import silent
from workloads.base import Reference, Workload
from workloads.toolkit.operators import TableProgram, TableTask, Timeline
from workloads.wordcount import Lower, program, word_count

pytestmark = [pytest.mark.cluster, pytest.mark.spark, pytest.mark.slow]

SPEC = ClusterSpec(
    racks=2, workers_per_rack=1, nodes_per_worker=2, cores_per_worker=2, memory_mb_per_worker=512
)
PARAMETERS = {"checkpoint_s": 1.0, "suspect_s": 2.0}
WORDS = word_count(text=[__file__], window_s=2, slide_s=1, depth=4)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        with LocalCluster(SPEC) as cluster:
            cluster.start(silent)
            yield cluster
        assert marked(cluster.run) == []


@pytest.fixture(scope="module")
def engine(cluster: LocalCluster) -> Iterator[TaskEngine]:
    """Processes that any scheme can use: a pass brings its own."""
    setup = Setup(scheme="checkpoint", parameters=PARAMETERS)
    with running_engine(setup, cluster) as engine:
        yield engine


def trial(engine: TaskEngine, directory: Path, scheme: str, seconds: float = 6) -> Trial:
    engine.setup = Setup(scheme=scheme, parameters=PARAMETERS)
    engine.check()
    return Trial(engine, WORDS, directory, rate_per_s=200, seconds=seconds)


def kill(at_s: float, target: str) -> Disturbance:
    return Disturbance(at_s=at_s, kind=Disturb.KILL, target=target)


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


def test_a_replica_takes_over(engine: TaskEngine, tmp_path: Path) -> None:
    done = trial(engine, tmp_path, "active").run([kill(3, "r1n1")])
    assert done.kills == 1
    assert done.failures == 0, done
    events = {noted.note.event for noted in engine.notes()}
    assert CopyEvent.PROMOTED in events


@pytest.mark.parametrize("scheme", ["replay", "global", "ppa", "rppg", "dpc"])
def test_every_other_scheme_survives_a_kill(
    engine: TaskEngine, tmp_path: Path, scheme: str
) -> None:
    done = trial(engine, tmp_path, scheme).run([kill(3, "r1n1")])
    assert done.kills == 1
    assert done.failures == 0, done


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
    engine.setup = Setup(scheme="checkpoint", parameters=PARAMETERS)
    engine.check()
    trial = Trial(engine, replace(broken, reference=carried), tmp_path, rate_per_s=200, seconds=6)
    with pytest.raises(UsageError, match=r"task lower\.\d on node r\dn\d raised") as caught:
        trial.run()
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
