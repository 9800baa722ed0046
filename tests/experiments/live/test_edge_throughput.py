"""The edge figure live: the engine's setup of a deployment, and counted tuples at the sink."""

from __future__ import annotations

from itertools import product
from typing import Any

import pandas as pd
import pytest

from experiments.edge import throughput
from experiments.edge._deployment import MECHANISMS, deploy
from experiments.live import edge_throughput
from experiments.live._topology import SPEC
from experiments.live.edge_throughput import EXPERIMENT, TASKS, Scale
from harness.claims.samples import FEWEST
from harness.engines.tasks.parameters import TaskParameters
from tests.experiments.live.judging import failing, held, passes
from workloads.accident import accidents
from workloads.toolkit.operators import program_of, timeline_of


def test_tasks_have_the_numbers_of_the_workload() -> None:
    workload = accidents(seed=1, partitions=14)
    timeline = timeline_of(workload, start_us=0, batch_s=1)
    topology = program_of(workload, timeline=timeline).topology
    assert topology.task_count == len(TASKS)
    kinds = {"filter": "filter", "aggregate": "aggregate", "table": "sink"}
    for number, name in enumerate(TASKS):
        operator, index = topology.place(number)
        assert name.startswith(kinds[operator])
        assert operator == "table" or name.endswith(str(index))


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_deployment_as_the_engine_reads_it(mechanism: str) -> None:
    deployment = deploy(mechanism, throughput.RATE)
    given = edge_throughput.setup(deployment, replicated=deployment.useful()).parameters
    names = [node.name for node in deployment.network.nodes]
    assert len(names) <= len(SPEC.node_names)
    assert isinstance(given, TaskParameters)
    places = [names[node] for node in given.placement]
    assert places[-1] == "cloud"
    assert places[:14] == [f"gateway{n}" for n in range(14)]
    replicas = given.replicas_at
    assert {TASKS[task] for task in replicas} == set(deployment.useful())
    assert all(names[node] != places[task] for task, node in replicas.items())
    assert isinstance(given.slots, tuple)
    assert sum(given.slots) == len(TASKS) + len(replicas), "no room but for what is placed"
    links = given.links
    assert len(links.pairs_us) == len(SPEC.node_names) + 1
    assert len(links.store_us) == len(SPEC.node_names)
    assert max(map(max, links.pairs_us)) >= 70_000


def test_tuples_count_in_the_second_in_which_their_result_came() -> None:
    results = pd.DataFrame(
        {
            "pass": ["twin", "twin", "failed", "failed"],
            "arrival_s": [1.2, 1.9, 1.5, 2.1],
            "car_ids": ["1 2", "3", "1", "2 3 4"],
        }
    )
    found = edge_throughput.arrivals(results, Scale(input_s=4, fail_at_s=2))
    calm = found[~found["failure"]].set_index("second")["tuples_per_s"]
    broken = found[found["failure"]].set_index("second")["tuples_per_s"]
    assert calm.to_dict() == {29: 3, 30: 0, 31: 0}
    assert broken.to_dict() == {29: 1, 30: 3, 31: 0}


def made_up() -> dict[str, pd.DataFrame]:
    rows: list[dict[str, Any]] = []
    for repeat, name in product(range(FEWEST), MECHANISMS):
        for failure in (False, True):
            for second in range(19, 44):
                hit = failure and 31 <= second < 34
                share = {"ck-only+DRA": 0.0, "RPPG+DRA": 0.5}.get(name, 1.0) if hit else 1.0
                if failure and second == 34:  # all that was held back comes at once
                    share += {"ck-only+DRA": 3.0, "RPPG+DRA": 1.5}.get(name, 0.0)
                rows.append(
                    {"repeat": repeat, "mechanism": name, "failure": failure, "second": second,
                     "tuples_per_s": share * throughput.OFFERED}
                )  # fmt: skip
    each = [{"mechanism": name, "variant": "failure"} for name in MECHANISMS]
    return {"throughput": pd.DataFrame(rows), "passes": passes(*each)}


def test_the_papers_sentences_are_judged_on_the_live_rows() -> None:
    assert list(held(EXPERIMENT, made_up()).values()) == [True] * 7
    table = made_up()
    table["throughput"].loc[table["throughput"]["mechanism"] == "RPPG+RAS", "tuples_per_s"] = 1.0
    assert "ten-seconds" in failing(EXPERIMENT, table)
    part = made_up()
    part["throughput"] = part["throughput"][part["throughput"]["mechanism"] == "RPPG+RAS"]
    assert list(held(EXPERIMENT, part)) == ["equal-output"], "as in smoke"
