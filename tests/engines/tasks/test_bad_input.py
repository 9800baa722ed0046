"""Faulty input: it ends a run with one message, or changes no result."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from harness.cluster.backends import remove_made
from harness.cluster.local.cluster import LocalCluster
from harness.endurance.trial import Disturb, Disturbance
from harness.engines.tasks.engine import TaskEngine
from harness.errors import EnvironmentFailure, UsageError
from tests.engines.tasks.live import SPEC, WORDS, kill, started, trial
from tests.workloads.kit import loaded
from workloads.base import TASKS, Reference, Workload
from workloads.toolkit.operators import TableProgram, TableTask, Timeline
from workloads.wordcount import Lower, program

pytestmark = [pytest.mark.cluster, pytest.mark.spark]

HERE = Path(__file__).resolve()


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
    """Return the workload with a program that breaks."""
    return replace(WORDS, forms={TASKS: Reference(target=f"{HERE}:broken_program")})


def test_an_operator_that_raises_is_one_message(engine: TaskEngine, tmp_path: Path) -> None:
    broken = replace(broken_workload(), reference=Reference(target=f"{HERE}:broken_workload"))
    with pytest.raises(UsageError, match=r"task lower\.\d on node r\dn\d raised") as caught:
        trial(engine, tmp_path, "checkpoint", workload=broken).run()
    assert "this word is too much" in str(caught.value)


OWN = """
import os

from workloads.base import Reference
from workloads.wordcount import program, word_count

if os.environ.get("FAULTLINE_WORKER") == {unlucky!r}:
    import only_on_my_machine

WORKLOAD = word_count(text=[{text!r}], window_s=2, slide_s=1, depth=4)
"""


def own_workload(directory: Path, unlucky: str) -> Workload:
    """Load a user's own file, as ``--workload FILE`` does; it cannot be imported on a worker."""
    return loaded(directory / "own_words.py", OWN.format(unlucky=unlucky, text=str(HERE)))


def test_a_file_that_an_executor_cannot_import_is_one_message(
    engine: TaskEngine, tmp_path: Path
) -> None:
    own = own_workload(tmp_path, unlucky="r2w1")
    with pytest.raises(
        UsageError, match=r"node r2n\d: .*own_words.py:WORKLOAD cannot be"
    ) as caught:
        trial(engine, tmp_path, "checkpoint", workload=own).run()
    assert "No module named 'only_on_my_machine'" in caught.value.what
    assert "carried to the executors" in caught.value.remedy


@pytest.mark.deep
def test_a_workload_of_a_users_file_is_carried_to_the_nodes(
    engine: TaskEngine, tmp_path: Path
) -> None:
    """Nodes get its text with the pass: the file is gone before any of them could read it."""
    own = own_workload(tmp_path, unlucky="none")
    one = trial(engine, tmp_path, "checkpoint", workload=own)
    done = one.run([kill(3, "r1n1")])
    assert done.results > 100
    assert done.failures == 0, done
    assert engine.job is not None
    assert list(engine.job.files) == [str(tmp_path / "own_words.py")]


@pytest.mark.long  # a cluster of its own each
@pytest.mark.parametrize(
    ("server", "message"),
    [
        ("redis", "Redis is dead"),
        ("driver", "the driver of the task engine has ended"),
        ("kafka", "the Kafka broker is dead"),
    ],
)
def test_a_server_that_is_killed_ends_the_run_with_one_message(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, server: str, message: str
) -> None:
    """Kill a server of an own cluster, which is gone afterwards with every process.

    A driver takes its executors along, and the nodes on them."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    dead = Disturbance(at_s=1, kind=Disturb.SERVER, target=server)
    before = {thread.name for thread in threading.enumerate()}
    with (
        started(LocalCluster(SPEC, remove=remove_made)) as engine,
        pytest.raises(EnvironmentFailure, match=message),
    ):
        trial(engine, tmp_path, "checkpoint").run([dead])
    assert {thread.name for thread in threading.enumerate()} <= before
