"""The task engine before anything is started: `engine`, `parameters`, `choices`, `job`."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import Any

import pytest

from harness.cluster.base import ClusterSpec
from harness.engines.base import Setup
from harness.engines.tasks import job as jobs
from harness.engines.tasks.choices import (
    infos,
    links_of,
    placement_of,
    replicas_of,
    scheme_of,
    speed_of,
)
from harness.engines.tasks.driver import STARTING_S, placed_after_s
from harness.engines.tasks.engine import TaskEngineKind
from harness.engines.tasks.job import Job, slots_per_node, spread
from harness.engines.tasks.pacing import Links, Speed
from harness.engines.tasks.parameters import TaskParameters
from harness.errors import UsageError
from harness.protocol.coordinator.registry import NodeInfo
from tests.engines.tasks.kit import WIRING, WORDS, machines
from tests.engines.tasks.kit import job as make_job
from workloads.base import Reference

NODES = tuple(NodeInfo(name=one.name, rack=one.rack, slots=4) for one in machines(2, 2))


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (ClusterSpec(racks=1), "2 nodes"),
        (ClusterSpec(nodes_per_worker=3, cores_per_worker=2), "3 nodes on 2 slots"),
    ],
)
def test_a_cluster_that_it_cannot_use_is_a_reason(spec: ClusterSpec, words: str) -> None:
    assert words in (TaskEngineKind().lacks(Setup(scheme="checkpoint"), WORDS, spec) or "")


def given(scheme: str, **parameters: Any) -> Setup:
    return Setup(scheme=scheme, parameters=TaskParameters(**parameters))


def test_parameters_are_plain_values() -> None:
    whole = TaskParameters(
        plan=[0, 6],
        replicas_at={6: 2},
        slots=[3, 4],
        restart_s=(1, 2.5),
        links=Links(pairs_us=((0, 1), (1, 0)), store_us=(3,), bytes_per_s=1e6),
    )
    assert TaskParameters(**json.loads(json.dumps(asdict(whole)))) == whole


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"plan": "0,1"}, "plan is '0,1'"),
        ({"placement": (0, -1)}, "placement is"),
        ({"slots": (1.5,)}, "slots is"),
        ({"checkpoint_s": 0}, "checkpoint_s is 0"),
        ({"tuples_per_s": -1}, "tuples_per_s is -1"),
    ],
)
def test_parameters_that_no_cluster_could_use_are_refused(wrong: Any, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        TaskParameters(**wrong)


def test_lost_tasks_get_nodes_in_the_given_order() -> None:
    scheme = scheme_of(given("ppa", recovery_order=(6, 2, 0)), WIRING, 0.1)
    assert scheme.recovery_order == (6, 2, 0)
    with pytest.raises(UsageError, match="names task 7"):
        scheme_of(given("ppa", recovery_order=(7,)), WIRING, 0.1)


def test_each_node_may_stay_away_for_a_time_of_its_own() -> None:
    assert speed_of(TaskParameters(), 3).restart_s == (0.0, 0.0, 0.0)
    assert speed_of(TaskParameters(restart_s=2), 3).restart_s == (2.0, 2.0, 2.0)
    assert speed_of(TaskParameters(restart_s=(1, 2.5, 4)), 3).restart_s == (1.0, 2.5, 4.0)
    with pytest.raises(UsageError, match="restart_s is"):
        speed_of(TaskParameters(restart_s=(1, 2)), 3)


def test_a_node_that_stays_away_is_started_so_that_it_is_there_in_time() -> None:
    away_s = (0.5, STARTING_S + 4.0)
    assert placed_after_s(away_s, 0) == 0, "starting takes longer than that"
    assert placed_after_s(away_s, 1) == 4.0
    assert placed_after_s((), 1) == 0, "no pass is running"


def test_the_racks_take_turns_and_leave_room_for_the_loss_of_one() -> None:
    placement = spread(WIRING, NODES)
    assert [NODES[n].rack for n in placement[:4]] == ["r1", "r2", "r1", "r2"]
    assert slots_per_node(14, {"r1": 2, "r2": 2}) == 7
    assert slots_per_node(14, {"r1": 3}) == 7
    with pytest.raises(UsageError, match="its own loss"):
        slots_per_node(3, {"r1": 1})


def test_places_that_do_not_fit_are_refused() -> None:
    scheme = scheme_of(given("ppa", plan=(0, 6)), WIRING, 0.1)
    tasks = len(WIRING.names)
    assert placement_of(TaskParameters(placement=(0, 1) * 3 + (3,)), NODES, WIRING)[-1] == 3
    replicas = replicas_of(TaskParameters(replicas_at={6: 2}), NODES, scheme, WIRING)
    assert replicas == (-1,) * 6 + (2,)
    with pytest.raises(UsageError, match=rf"{tasks} tasks on 2 nodes with slots \[3, 3\]"):
        infos(TaskParameters(slots=3), machines(1, 2), WIRING, scheme)
    with pytest.raises(UsageError, match="the program has 7, on nodes 0 to 3"):
        placement_of(TaskParameters(placement=(0, 1, 2, 3, 4, 0, 1)), NODES, WIRING)
    with pytest.raises(UsageError, match="plan replicates"):
        replicas_of(TaskParameters(replicas_at={5: 2}), NODES, scheme, WIRING)
    with pytest.raises(UsageError, match="links are for 1 nodes"):
        links_of(TaskParameters(links=Links(pairs_us=((0, 1), (1, 0)))), NODES)


def test_a_job_crosses_a_connection() -> None:
    job = make_job(
        nodes=NODES, placement=spread(WIRING, NODES), replicas_at=(-1,) * 6 + (2,),
        speed=Speed(tuples_per_s=1_000, restart_s=(2.0, 3.5)), links=Links(bytes_per_s=1e6),
        out_partitions=2,
    )  # fmt: skip
    again = Job.from_json(json.loads(json.dumps(job.to_json())))
    assert again == job
    assert again.source(1) == ("in", 1)
    assert again.out_partition(WIRING.sinks[0]) == 0


def test_a_job_that_no_node_would_take_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    job = make_job(workload=Reference(target="own.py:W"), files={"own.py": "x" * 2_000})
    assert json.loads(job.begin)["begin"]["files"] == {"own.py": "x" * 2_000}
    monkeypatch.setattr(jobs, "MOST_BYTES", 2_000)
    with pytest.raises(UsageError, match=r"own\.py:W is .* MB with its parameters"):
        replace(job).begin  # noqa: B018
