"""Every contender of the papers, live, on two workloads, with nodes and racks killed.

Whatever dies, the stable output equals every batch computed once and in order; what was tentative
was corrected; and each scheme recovered by the means that make it that scheme.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from harness.engines.tasks.contenders import CONTENDERS, setup_of
from harness.engines.tasks.engine import TaskEngine
from harness.engines.tasks.trial import Trial, Verdict
from harness.protocol.effects import CopyEvent
from tests.tasks.live import PARAMETERS, WORDS, kill
from workloads.base import Workload
from workloads.worldcup import world_cup

pytestmark = [pytest.mark.cluster, pytest.mark.spark, pytest.mark.slow]

RATE_PER_S, SECONDS = 200.0, 6.0
WORKLOADS: dict[str, Workload] = {
    "word-count": WORDS,
    "world-cup": world_cup(partitions=4, mergers=2, window_s=2, slide_s=1),
}
"""Seven tasks each, the last one the sink."""
KILLS = (kill(1.6, "r1n2"), kill(1.7, "r2n1"), kill(3.2, "r1"))
"""A node, another while its tasks are being restored, and a worker with all that runs on it."""
TENTATIVE = ("ppa", "dpc")


def run(engine: TaskEngine, directory: Path, workload: Workload, contender: str) -> Verdict:
    parameters = dict(PARAMETERS)
    if contender in TENTATIVE:
        # What has no replica stands on node 1, and finds no other place until that is back.
        parameters |= {"slots": 3, "restart_s": 2.5}
    setup = setup_of(
        contender, workload, engine.fleet.nodes, rate_per_s=RATE_PER_S, parameters=parameters
    )
    if contender in TENTATIVE:
        plan = [int(task) for task in str(setup.parameters["plan"]).split(",")]
        places = ["02"[task // 2 % 2] if task in plan else "1" for task in range(7)]
        chosen = {**setup.parameters, "placement": ",".join(places)}
        setup = replace(setup, parameters=chosen)
    engine.setup = setup
    engine.check()
    return Trial(engine, workload, directory, rate_per_s=RATE_PER_S, seconds=SECONDS).run(KILLS)


@pytest.mark.parametrize("workload", list(WORKLOADS))
@pytest.mark.parametrize("contender", list(CONTENDERS))
def test_killed_nodes_and_racks_change_nothing(
    engine: TaskEngine, tmp_path: Path, contender: str, workload: str
) -> None:
    done = run(engine, tmp_path, WORKLOADS[workload], contender)
    assert done.failures == 0, done
    assert done.results >= 6
    assert done.kills >= 3
    assert len(engine.lost_primaries()) >= 3
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
    else:
        assert done.tentative == 0
    began = {note.why for note in notes if note.event is CopyEvent.READY and note.position > 0}
    if contender.startswith("checkpoint"):
        assert "checkpoint" in began
    if contender == "source-replay":
        assert "checkpoint" not in began


def test_lost_tasks_come_back_as_nodes_do(engine: TaskEngine, tmp_path: Path) -> None:
    """Incremental recovery: one free slot in all, so of three lost tasks one is restored at once
    and two wait for their node; meanwhile output is tentative."""
    setup = setup_of(
        "ppa", WORDS, engine.fleet.nodes, rate_per_s=RATE_PER_S,
        parameters={**PARAMETERS, "slots": 3, "restart_s": 2.5, "placement": "0,1,2,1,0,1,2"},
    )  # fmt: skip
    engine.setup = setup
    engine.check()
    one = Trial(engine, WORDS, tmp_path, rate_per_s=RATE_PER_S, seconds=SECONDS)
    done = one.run([kill(2, "r1n2")])
    assert done.failures == 0, done
    assert 0 < done.corrected <= done.tentative
    left = [event for event in engine.fleet.events("left") if event["node"] == 1][-1]["at_us"]
    lost = sorted({noted.note.task for noted in engine.lost_primaries()})
    assert lost == [1, 3, 5]
    again = sorted(
        min(
            noted.at_us
            for noted in engine.notes()
            if noted.note.event is CopyEvent.HOSTED
            and noted.note.task == task
            and noted.at_us > left
        )
        for task in lost
    )
    assert again[0] < left + 2_500_000 <= again[1] <= again[2]
