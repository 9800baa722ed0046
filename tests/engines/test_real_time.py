"""Real-time mode of the stock engine: what it needs, what it orders, and its supervisor."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
import psutil
import pytest

from harness.cluster.base import Action, Cluster, ClusterSpec, Node, Prepared
from harness.cluster.processes import RUN_VARIABLE, WORKER_VARIABLE
from harness.engines.base import Engine, Setup, Targets
from harness.engines.kinds import find_engine
from harness.engines.structured import parts, real_time
from harness.engines.structured.driver import (
    LONGEST_PAUSE_S,
    RESTART_ATTEMPTS,
    Supervised,
    pause_s,
)
from harness.engines.structured.parameters import Mode, StockParameters
from harness.errors import UsageError
from harness.failures.schedule import BUSIEST
from tests.cluster.helpers import eventually
from tests.engines.toy import NODE, ToyCluster
from workloads.accident import accidents
from workloads.synthetic import synthetic
from workloads.traffic import traffic_jams
from workloads.wordcount import word_count
from workloads.worldcup import world_cup

KIND = find_engine("structured")
WORDS = word_count(text=[__file__])
SPEC = ClusterSpec(racks=2, workers_per_rack=2, cores_per_worker=2)
REAL = StockParameters(mode=Mode.REAL_TIME.value)


def setup(scheme: str = "checkpoint", **given: Any) -> Setup:
    return Setup(scheme=scheme, parameters=StockParameters(mode=Mode.REAL_TIME.value, **given))


def test_a_query_takes_a_slot_for_each_partition_and_leaves_the_spare_ones() -> None:
    assert real_time.orders(REAL, WORDS, 8, 1.0) == {
        "mode": "real-time", "trigger_s": 5.0, "shuffle_partitions": 6,
    }  # fmt: skip
    spare = StockParameters(mode=Mode.REAL_TIME.value, spare_slots=2, checkpoint_s=15)
    orders = real_time.orders(spare, WORDS, 8, 1.0)
    assert (orders["shuffle_partitions"], orders["trigger_s"]) == (4, 15)
    assert real_time.orders(StockParameters(), WORDS, 8, 1.0) == {
        "mode": "micro-batch", "trigger_s": 1.0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("given", "workload", "reason"),
    [
        (setup(), WORDS, None),
        (setup(spare_slots=5), WORDS, None),
        (setup(spare_slots=6), WORDS, "needs a slot for each of the 2 partitions"),
        (setup("active", spare_slots=1), WORDS, None),
        (setup("active", spare_slots=2), WORDS, "each application has 4"),
        (setup(), accidents(partitions=4), None),
        (setup(), synthetic(levels=1), None),
        (setup(), synthetic(levels=2), "update mode allows one"),
        (setup(), world_cup(), "update mode allows one"),
        (setup(), traffic_jams(), "it joins two streams"),
    ],
)
def test_what_cannot_run_has_a_reason(given: Setup, workload: Any, reason: str | None) -> None:
    found = KIND.lacks(given, workload, SPEC)
    assert (found is None) if reason is None else (reason in str(found)), found


def test_both_modes_share_applications() -> None:
    assert KIND.key(setup(spare_slots=2)) == KIND.key(Setup(scheme="checkpoint"))


@pytest.mark.parametrize(
    "given",
    [
        {"mode": "continuous"},
        {"checkpoint_s": 5.0},
        {"spare_slots": 1},
        {"mode": "real-time", "checkpoint_s": 1.0},
        {"mode": "real-time", "spare_slots": -1},
    ],
)
def test_settings_that_make_no_sense_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        StockParameters(**given)


def test_input_has_ended_when_a_checkpoint_has_the_markers_and_nothing_is_unread() -> None:
    done = {"behind": "", "behind_records": 0.0, "newest_event": "1970-01-01T00:00:10.000Z"}
    assert real_time.drained(done, 10.0)
    assert not real_time.drained(done, 10.1)
    assert not real_time.drained({**done, "behind": "words/1: 3"}, 10.0)
    assert not real_time.drained({**done, "behind_records": 3.0}, 10.0)
    assert not real_time.drained({**done, "newest_event": None}, 10.0)


class Query:
    """A query that has ended, with these reports."""

    isActive = False  # noqa: N815 - PySpark's name

    def __init__(self, *reports: str) -> None:
        self._reports = reports
        self._jsq = self

    def recentProgress(self) -> list[Any]:
        return []

    def exception(self) -> str:
        return "a task was lost"

    def stop(self) -> None:
        """Do nothing: it has ended."""


def test_a_query_that_always_ends_is_started_again_until_it_counts_as_dead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Spark's start succeeds, and the query ends a moment later for want of slots."""
    monkeypatch.setattr("harness.engines.structured.driver.RESTART_PAUSE_S", 0.0)
    monkeypatch.setattr("harness.engines.structured.driver.POLL_S", 0.0)
    said: list[Mapping[str, Any]] = []
    supervised = Supervised(lambda: cast(Any, Query()), said.append)
    while not said or said[-1]["event"] != "died":
        pass
    supervised.stop()
    assert [one["event"] for one in said].count("restarted") == RESTART_ATTEMPTS


def test_pauses_grow_up_to_the_longest() -> None:
    pauses = [pause_s(attempts) for attempts in range(RESTART_ATTEMPTS)]
    assert pauses == sorted(pauses)
    assert pauses[0] < pauses[1] < pauses[-1] == LONGEST_PAUSE_S


class Apart:
    """An engine with one part."""

    killed = False

    def targets(self) -> list[Node]:
        return [NODE]

    def parts(self) -> list[str]:
        return ["driver-0"]

    def prepare(self, part: str) -> Prepared:
        assert part == "driver-0"
        return Prepared(self.kill)

    def kill(self) -> list[Any]:
        self.killed = True
        return []


def test_a_schedule_reaches_parts_of_the_engine_and_nodes_of_the_cluster(tmp_path: Any) -> None:
    cluster, engine = ToyCluster(None, tmp_path), Apart()
    targets = Targets(cluster=cast(Cluster, cluster), engine=cast(Engine, engine), busiest=max)
    targets.prepare(Action.KILL, "driver-0").apply()
    assert engine.killed
    targets.prepare(Action.KILL, NODE.name).apply()
    assert cluster.dead == {NODE.name}
    with pytest.raises(UsageError, match="only kill it"):
        targets.prepare(Action.RESTART, "driver-0")


def test_the_busiest_node_is_chosen_when_it_fails_and_is_the_one_that_comes_back(
    tmp_path: Path,
) -> None:
    cluster, engine = ToyCluster(None, tmp_path), Apart()
    targets = Targets(cluster=cast(Cluster, cluster), engine=cast(Engine, engine), busiest=max)
    targets.prepare(Action.KILL, BUSIEST).apply()
    assert cluster.dead == {NODE.name}
    cluster.felt.set()
    targets.prepare(Action.RESTART, BUSIEST).apply()
    assert cluster.dead == set()


def test_an_executor_is_killed_with_its_children_and_no_other_runs_is() -> None:
    """Both have the same address: another run on this machine gives its workers the same ones."""

    def executor(run: str) -> psutil.Popen:
        return psutil.Popen(
            ["bash", "-c", "sleep 100 & wait", "CoarseGrainedExecutorBackend", "127.0.9.9"],
            env={**os.environ, RUN_VARIABLE: run, WORKER_VARIABLE: "r1w1"},
        )

    mine, others = executor("mine"), executor("another")
    here = Node(name="r1n1", rack="r1", worker="r1w1", host="127.0.9.9")

    class Here:
        backend = "local"

        def nodes(self) -> list[Node]:
            return [here]

        def driver_environment(self) -> dict[str, str]:
            return {RUN_VARIABLE: "mine"}

    assert parts.names(["r1n1"], 1) == ["driver", "driver-0", "executor-r1n1"]
    children = [child_of(mine), child_of(others)]
    with parts.prepare(
        "executor-r1n1", cast(Cluster, Here()), lambda copy: 0, lambda copy: None
    ) as prepared:
        (victim,) = prepared.apply()
    try:
        assert mine.wait(20) == -9
        assert others.is_running()
        assert victim.felt
        assert set(victim.processes) == {mine.pid, children[0].pid}
    finally:
        others.kill()
        others.wait(20)
        children[1].kill()


def child_of(process: psutil.Popen) -> psutil.Process:
    """Return its child, once it has one."""
    eventually(lambda: bool(process.children()), limit_s=20)
    return process.children()[0]


def test_contributions_are_the_windows_of_each_word() -> None:
    """A record goes into each window that holds its event time, for each of its words once."""
    workload = word_count(text=[__file__], window_s=4, slide_s=2, traced=True)
    assert workload.contributions is not None
    found = workload.contributions(
        "lines", [b"a B a", b"", b"c"], np.array([1_001_000, 1_001_000, 1_002_000])
    )
    columns = ["record", "window_start", "word"]
    rows = set(found[columns].itertuples(index=False, name=None))
    assert rows == {
        (record, start_ms, word)
        for record, starts_ms, words in ((0, (1_000_000, 998_000), "ab"),
                                         (2, (1_002_000, 1_000_000), "c"))
        for start_ms in starts_ms
        for word in words
    }  # fmt: skip
    assert word_count(text=[__file__]).contributions is None
