"""Every contender of the papers, live, on two workloads, with nodes and racks killed.

Whatever dies, the stable output equals every batch computed once and in order; what was tentative
was corrected; and each scheme recovered by the means that make it that scheme."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from harness.endurance.trial import Disturbance, Trial, Verdict
from harness.engines.tasks.choices import parameters_of
from harness.engines.tasks.engine import TaskEngine
from harness.engines.tasks.systems import SYSTEMS, setup_of
from harness.protocol.effects import CopyEvent
from tests.engines.tasks.live import PARAMETERS, WORDS, OnceRestorable, kill, trial
from workloads.base import Workload
from workloads.worldcup import world_cup

pytestmark = [pytest.mark.cluster, pytest.mark.spark]

SECONDS, TENTATIVE_SECONDS = 4.5, 6.5
WORKLOADS: dict[str, Workload] = {
    "word-count": WORDS,
    "world-cup": world_cup(partitions=4, mergers=2, window_s=2, slide_s=1),
}
"""Seven tasks each, the last one the sink."""
NODES_AND = (kill(1.1, "r1n2"), kill(1.2, "r2n1"))
KILLS: dict[str, Sequence[Disturbance]] = {
    "word-count": (*NODES_AND, kill(2.6, "r1")),
    "world-cup": (*NODES_AND, kill(2.6, "r1n1+r1n2")),
}
"""A node, another while its tasks are being restored, and a rack: once its worker with all that
runs on it, once its nodes at one instant, which are back sooner. Where tasks are restored from
checkpoints the last kill waits for these."""
TENTATIVE = ("ppa", "dpc")
TENTATIVE_KILLS: dict[str, Sequence[Disturbance]] = {
    "word-count": (kill(1.6, "r1"), kill(5.5, "r2n1")),
    "world-cup": (kill(1.6, "r1n1+r1n2"), kill(5.5, "r2n1")),
}
"""A rack, and a node when its tasks are back. The nodes stay away for a while, and three slots a
node are too few for seven tasks on two nodes: one task waits, and output goes on without it."""
AWAY_S = 2.5


def run(engine: TaskEngine, directory: Path, name: str, contender: str) -> Verdict:
    """Run a pass of the workload of that name."""
    workload = WORKLOADS[name]
    kills, seconds, parameters = KILLS[name], SECONDS, PARAMETERS
    if contender in TENTATIVE:
        kills, seconds = TENTATIVE_KILLS[name], TENTATIVE_SECONDS
        parameters = replace(parameters, slots=3, restart_s=AWAY_S)
    setup = setup_of(contender, workload, engine.fleet.nodes, rate_per_s=200, parameters=parameters)
    if contender in TENTATIVE:
        chosen = parameters_of(setup)
        setup = replace(setup, parameters=replace(chosen, placement=apart(chosen.plan)))
    of = OnceRestorable if setup.scheme in ("checkpoint", "global") else Trial
    return trial(engine, directory, setup, seconds, workload=workload, of=of).run(kills)


def apart(plan: Sequence[int]) -> list[int]:
    """Place replicated tasks on nodes 0 and 2 in turn, the sink on the second, the rest on 1.

    Nodes 0 and 2 are on different racks."""
    node = {task: 2 * (place % 2) for place, task in enumerate(sorted(plan))}
    return [node.get(task, 1) for task in range(7)]


AFTER_A_CHANGE = {("active", "world-cup"), ("ppa", "word-count")}
"""Replicas alone, and replicas with checkpoints; `test_live` kills under contenders in turn."""


def level(contender: str, workload: str) -> Sequence[pytest.MarkDecorator]:
    """Return the marks of a pair: in the whole suite a scheme has one workload, in turn."""
    if (contender, workload) in AFTER_A_CHANGE:
        return ()
    first = {system.scheme: name for name, system in list(SYSTEMS.items())[::-1]}
    others = set(first.values()) - {name for name, _ in AFTER_A_CHANGE}
    turn = list(SYSTEMS).index(contender) % 2 == list(WORKLOADS).index(workload)
    return (pytest.mark.deep,) if turn and contender in others else (pytest.mark.long,)


@pytest.mark.parametrize(
    ("contender", "workload"),
    [pytest.param(*both, marks=level(*both)) for both in product(SYSTEMS, WORKLOADS)],
)
def test_killed_nodes_and_racks_change_nothing(
    engine: TaskEngine, tmp_path: Path, contender: str, workload: str
) -> None:
    done = run(engine, tmp_path, workload, contender)
    assert done.failures == 0, done
    assert done.results >= 6
    assert done.kills >= 3
    lost = engine.lost_primaries()
    assert len(lost) >= 3
    # A machine that is too busy may take a living node for dead as well; that changes nothing.
    assert any("connection" in noted.note.why for noted in lost)
    notes = [noted.note for noted in engine.notes()]
    promoted = {note.task for note in notes if note.event is CopyEvent.PROMOTED}
    assert engine.job is not None
    plan = engine.job.scheme.replicated
    assert promoted <= set(plan)
    if plan:
        assert promoted, "a replica took over"
    if contender in TENTATIVE:
        assert done.tentative > 0, "output went on without what was lost"
        assert done.corrected > 0, "and was taken back for what is right"
    elif engine.job.scheme.tentative is None:
        assert done.tentative == 0
    # With replicas of all tasks nothing is tentative while a copy of each lives: that is checked
    # in the simulator (`no-tentative`). A machine that takes 0.2 s to host a copy loses both copies
    # of a task in these schedules; `failures` counts what was not corrected then.
    began = {note.why for note in notes if note.event is CopyEvent.READY and note.position > 0}
    if contender.startswith("checkpoint"):
        assert "checkpoint" in began
    if contender == "source-replay":
        assert "checkpoint" not in began


@pytest.mark.long
def test_lost_tasks_come_back_as_nodes_do(engine: TaskEngine, tmp_path: Path) -> None:
    """Recover incrementally, as nodes come back.

    The dead rack's replicated tasks are taken over; of the other three two find a place at once
    (one of them a replica's), and the last when a node is back."""
    one = trial(
        engine, tmp_path, "ppa", TENTATIVE_SECONDS,
        slots=3, restart_s=AWAY_S, placement=(0, 1, 2, 1, 0, 1, 2), plan=(0, 2, 4, 6),
    )  # fmt: skip
    done = one.run([kill(2, "r1")])
    assert done.failures == 0, done
    assert 0 < done.corrected <= done.tentative
    left_us = min(
        event["at_us"] for event in engine.fleet.events("left")[-2:] if event["node"] in (0, 1)
    )
    back_us = min(
        event["at_us"]
        for event in engine.fleet.events("joined")
        if event["node"] in (0, 1) and event["at_us"] > left_us
    )
    assert back_us >= left_us + AWAY_S * 1e6
    notes = engine.notes()
    hosted = [n for n in notes if n.note.event is CopyEvent.HOSTED and n.at_us > left_us]
    again = [next(n for n in hosted if n.note.task == task) for task in (1, 3, 5)]
    late = [n for n in again if n.node in (0, 1)]
    assert len(late) == 1, "the other two were given places on the rack that lives"
    assert late[0].at_us >= back_us, "it waited for a node"
    assert {0, 4} <= {n.note.task for n in notes if n.note.event is CopyEvent.PROMOTED}
