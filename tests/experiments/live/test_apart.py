"""Live figures that run apart, on tables made by hand."""

from __future__ import annotations

import sys
from dataclasses import replace
from subprocess import PIPE, Popen
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from experiments.live import _ballast, _cpu, _measured_costs, predicted, state
from experiments.live._cpu import CpuWatch
from experiments.live._measured_costs import MeasuredCosts, changes_us
from harness.cluster import processes
from harness.engines.tasks.job import wiring_for
from harness.errors import EnvironmentFailure
from harness.hosting.codec import decode, encode
from harness.protocol.inputs import NodeInfo
from tests.protocol.clusters import Cluster
from tests.there import there
from workloads.toolkit.operators import Timeline
from workloads.wordcount import COUNTS

TIMELINE = Timeline(start_us=0, batch_us=1, slide_us=2, window_us=4)


@pytest.mark.parametrize("scheme", [state.CHECKPOINTS, state.REPLICAS])
def test_every_kill_hits_a_counter(scheme: str) -> None:
    """The coordinator decides: the killed node is back, empty, before the next one dies."""
    given = state.parameters(state.point(scheme, state.MB, 2_000.0))
    assert isinstance(given.slots, tuple)
    nodes = [
        NodeInfo(name=f"n{number}", rack=f"r{number // 3}", slots=most)
        for number, most in enumerate(given.slots)
    ]
    wiring = wiring_for(_ballast.heavy(state_bytes=1), 100_000, {})
    plan = state.COUNTERS if scheme == state.REPLICAS else ()
    made = Cluster(wiring=wiring, nodes=nodes, placement=given.placement, replicated=plan)
    made.beat(*range(len(nodes)), now=0)
    assert made.hosts() == list(given.placement)
    boots = [1] * len(nodes)
    for number in range(12):
        victim = state.VICTIMS[number % len(state.VICTIMS)]
        assert victim in [made.hosts()[task] for task in state.COUNTERS]
        made.disconnect(victim, now=number, boot=boots[victim])
        boots[victim] += 1
        made.beat(victim, now=number, boot=boots[victim])
        assert None not in made.hosts()


def test_a_block_of_state_has_its_size_and_changes_with_every_batch() -> None:
    program = _ballast.program(
        timeline=TIMELINE, state_bytes=2_500_000, depth=4, partitions=1, counters=1
    )
    light, laden = program.task("split", 0), program.task("count", 0)
    assert not isinstance(light, _ballast.Laden)
    table = pa.table([["a"], [2]], schema=COUNTS)
    before = laden.initial()
    assert sum(piece.nbytes for piece in before[1]) == 2_500_000
    after, (result,) = laden.process(before, 3, [table])
    assert result.num_rows == 1
    changed = [not np.array_equal(a, b) for a, b in zip(before[1], after[1], strict=True)]
    assert changed == [True, False, False]
    assert all((piece == 0).all() for piece in before[1]), "a state is a value"
    again = decode(encode(after))
    assert [len(piece) for piece in again[1]] == [len(piece) for piece in after[1]]
    reference = there(_ballast.heavy(state_bytes=1_000).reference)
    assert reference.build().reference == reference


def test_cpu_between_two_instants() -> None:
    watch = CpuWatch.__new__(CpuWatch)
    watch._samples = [(10.0, {"java": 1.0}), (12.0, {"java": 2.0, "python": 1.0}),
                      (14.0, {"java": 2.0, "python": 3.0})]  # fmt: skip
    assert watch.between(11.0, 13.0) == pytest.approx({"java": 0.5, "python": 1.5})
    assert watch.between(12.0) == pytest.approx({"java": 0.0, "python": 2.0})


COSTS = MeasuredCosts(
    order_us=6_000, host_us=15_000, load_us=4_000, hop_us=3_000, batch_us=200, reader_us=9_000
)
NODES = [(f"r{rack}n{number}", f"r{rack}") for rack in (1, 2) for number in (1, 2, 3)]


def test_the_simulator_charges_a_recovery_for_what_it_needs() -> None:
    def takeover_ms(scheme: str, **changes: int) -> float:
        found = predicted.predict(scheme, NODES, replace(COSTS, **changes), [6.0, 8.537])
        assert found["tasks"].str.contains("split.0")[0]
        first = found.iloc[0]
        assert 0 < first["there_ms"] <= first["ready_ms"] <= first["takeover_ms"]
        return float(first["takeover_ms"])

    active, checkpoint = takeover_ms("active"), takeover_ms("checkpoint")
    assert 2 <= active < checkpoint, "the way of an order, at least, and no store"
    assert takeover_ms("active", host_us=90_000, reader_us=90_000) == active
    assert takeover_ms("active", order_us=26_000) == pytest.approx(active + 20, abs=1)
    assert takeover_ms("checkpoint", host_us=90_000) == pytest.approx(checkpoint + 75, abs=1)
    assert takeover_ms("checkpoint", load_us=84_000) >= checkpoint + 40


def test_costs_of_a_change_of_plan() -> None:
    """A step that did not end does not count, and too few steps give no cost."""
    rows = [(0.005, 0.020, 0.024), (0.007, 0.027, 0.030), (0.006, 0.021, 0.026), (0.1, None, None)]
    changes = pd.DataFrame(
        rows, columns=["retired_after_s", "hosted_after_s", "ready_after_s"], dtype=float
    )
    assert changes_us(changes) == (6_000, 15_000, 4_000)
    with pytest.raises(EnvironmentFailure, match="2 of 2 changes"):
        changes_us(changes.head(2))
    with pytest.raises(EnvironmentFailure, match="0 of 0 changes"):
        changes_us(pd.DataFrame())


BURNS = """
import threading, time
def burn():
    while time.thread_time() < 0.5:
        pass
thread = threading.Thread(target=burn)
thread.start()
thread.join()
print("burnt", flush=True)
input()"""


def test_the_use_of_the_main_threads_of_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither other threads nor processes outside of workers count."""
    with Popen([sys.executable, "-I", "-c", BURNS], stdin=PIPE, stdout=PIPE) as process:
        assert there(process.stdout).readline() == b"burnt\n"
        stat = there(processes.read_stat(process.pid))
        monkeypatch.setattr(processes, "members", lambda run: {"r1w1": [stat], "": [stat]})
        cluster: Any = SimpleNamespace(run="x")
        assert 0 < _cpu.loops_s(cluster) <= stat.cpu_s - 0.4
        process.communicate(b"\n")
    assert _cpu.loops_s(cluster) == 0


def test_the_replicas_that_take_turns_are_those_of_tasks_with_a_state() -> None:
    assert _measured_costs.counters(predicted._words(), 0.1) == (4, 5)
