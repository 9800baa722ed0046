"""The edge paper's figures live: the engine's setup of a deployment, and what is counted."""

from __future__ import annotations

import pandas as pd
import pytest

from experiments.edge import latency as edge_latency
from experiments.edge import resources as edge_resources
from experiments.edge import success, throughput
from experiments.edge._deployment import MECHANISMS, deploy
from experiments.edge._live import TASKS, Scale, by_run, setup, with_room
from experiments.live._plans import topology_of
from experiments.ppa._topology import SPEC
from harness.claims import Finding, Foregone, found, paper
from harness.engines.tasks.choices import parameters_of
from tests.experiments.judging import claim_of
from workloads.accident import accidents

SCALE = Scale(input_s=17, fail_at_s=6)


def measured(outage: range, late_s: float) -> dict[str, float]:
    """Measure results of one second each, with 10 reports; those of an outage come late."""
    seconds = range(17)
    results = pd.DataFrame(
        {
            "window_start_s": [float(second) for second in seconds],
            "arrival_s": [second + 1.5 + (late_s if second in outage else 0) for second in seconds],
            "car_ids": [" ".join(map(str, range(10)))] * len(seconds),
        }
    )
    return edge_latency.measures(edge_latency.reports(results), SCALE, offered_per_s=10)


def test_latency_is_from_sending_to_the_first_result() -> None:
    found = measured(range(0), 0.0)
    assert found["overall_s"] == pytest.approx(1.0), "a second's middle to its result"
    assert found["overall_p5_s"] == pytest.approx(0.55)
    assert found["overall_p95_s"] == pytest.approx(1.45)
    assert found["success"] == found["in_time"] == pytest.approx(1.0)
    assert found["throughput_per_s"] == pytest.approx(10.0)


def test_an_outage_weighs_what_it_weighs_in_the_paper_s_minute() -> None:
    found = measured(range(6, 11), 6.0)
    assert found["recovery_s"] == pytest.approx(1.0 + 3.0), "half of the ten seconds are 6 s late"
    assert found["overall_s"] == pytest.approx(1.0 + 3.0 / 6)
    assert found["success"] == pytest.approx(1.0), "late is not lost"
    assert found["in_time"] == pytest.approx(1 - 0.5 / 6)
    gone = measured(range(6, 11), 100.0)
    assert gone["success"] == pytest.approx(1 - 0.5 / 6), "thirty seconds are over"
    assert gone["throughput_per_s"] < 10


def test_resources_are_those_of_the_testbed_s_nodes() -> None:
    node, other, spare = SPEC.node_names[0], SPEC.node_names[1], SPEC.node_names[-1]
    usage = pd.DataFrame(
        [
            {"who": who, "at_s": at_s, "cpu_s": share * at_s, "resident_bytes": 50e6}
            for who, share in ((node, 0.1), (other, 0.2), (spare, 5.0), ("coordinator", 1.0))
            for at_s in (1.0, 4.0, 9.0, 14.0)
        ]
    )
    found = edge_resources.used(usage, [node, other], from_s=4, until_s=14)
    assert found["cores"] == pytest.approx(0.3)
    assert found["memory_mb"] == pytest.approx(100)
    few = usage[usage["at_s"].isin([1.0, 14.0])]
    busy = edge_resources.used(few, [node, other], from_s=4, until_s=14)
    assert busy["cores"] == pytest.approx(0.3), "also from few samples"


def test_tasks_have_the_numbers_of_the_workload() -> None:
    topology = topology_of(accidents(seed=1, partitions=14), 1_000)
    assert topology.task_count == len(TASKS)
    kinds = {"filter": "filter", "aggregate": "aggregate", "table": "sink"}
    for number, name in enumerate(TASKS):
        operator, index = topology.place(number)
        assert name.startswith(kinds[operator])
        assert operator == "table" or name.endswith(str(index))


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_deployment_as_the_engine_reads_it(mechanism: str) -> None:
    deployment = deploy(mechanism, throughput.RATE)
    given = parameters_of(setup(deployment, replicated=deployment.useful()))
    names = [node.name for node in deployment.network.nodes]
    assert len(names) <= len(SPEC.node_names)
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
    found = throughput.arrivals(results, Scale(input_s=4, fail_at_s=2))
    calm = found[~found["failure"]].set_index("second")["tuples_per_s"]
    broken = found[found["failure"]].set_index("second")["tuples_per_s"]
    assert calm.to_dict() == {29: 3, 30: 0, 31: 0}
    assert broken.to_dict() == {29: 1, 30: 3, 31: 0}


@pytest.mark.parametrize(("there", "why"), [(2, "this machine has too few cores: 2"), (32, None)])
def test_the_printed_cores_are_not_measured_on_fewer(there: int, why: str | None) -> None:
    used = pd.DataFrame(
        [
            {"mechanism": name, "rate": rate, "cores": 1.0, "machine_cores": there}
            for name in MECHANISMS
            for rate in (100, 200)
        ]
    )
    found = claim_of(edge_resources.LIVE_EXPERIMENT, "ranges").decide({"used": used})
    assert found.held is (None if why else False)
    assert (found.why or "").startswith(why or "")


def every_run(**columns: object) -> pd.DataFrame:
    """Return a row for each mechanism at each of three rates, in six repetitions."""
    return pd.DataFrame(
        [
            {"mechanism": name, "rate": rate, "repeat": repeat, **columns}
            for repeat in range(6)
            for rate in (60, 100, 180)
            for name in MECHANISMS
        ]
    )


def test_the_runs_decide_what_has_no_sample() -> None:
    high = paper("high", "It is high")(lambda table: found(table["x"].mean() > 1))

    def decided(*values: float) -> Finding:
        return by_run(high).decide(pd.DataFrame({"x": values, "repeat": range(len(values))}))

    assert decided(*[2.0] * 6).held is True
    assert decided(*[0.5] * 6).held is False
    split = decided(9.0, *[0.5] * 5)
    assert split.held is None, "the mean of all runs is high"
    assert split.why == "it holds in 1 of 6 runs"
    assert decided(*[2.0] * 9, 0.5).held is True, "all but one of ten are enough"
    assert by_run(high).needs == "Judge each run."
    few = decided(*[2.0] * 5)
    assert few.held is None
    assert few.samples == 5


def test_a_rate_counts_where_every_mechanism_had_room() -> None:
    table = every_run(short=False)
    assert set(with_room(table)["rate"]) == {60, 100, 180}
    table.loc[table.index[-1], "short"] = True
    kept = with_room(table)
    assert set(kept["rate"]) == {60, 100}
    assert with_room(table[~table["short"]]).equals(kept), "also where that run was left out"
    assert len(with_room(table.assign(short=True))) == len(table), "too few cores for the figure"


def test_one_run_that_counts_a_tuple_twice_is_not_made_up_for_by_another() -> None:
    rates = every_run(success=1.0, short=False)
    twice = claim_of(success.LIVE_EXPERIMENT, "none-twice")
    assert twice.decide({"rates": rates}).held is True
    rates.loc[rates.index[0], "success"] = 1.01
    rates.loc[rates.index[len(MECHANISMS) * 3], "success"] = 0.99
    assert twice.decide({"rates": rates}).held is False


def test_what_a_choice_settles_is_marked() -> None:
    marks = {each.id: each.foregone for each in throughput.LIVE_EXPERIMENT.claims}
    assert marks["rppg-dra-half"] is Foregone.CIRCULAR
    assert marks["ck-gap"] is Foregone.CONSTRUCTION
    assert marks["ras-unchanged"] is None
    hundred = claim_of(success.LIVE_EXPERIMENT, "hundred-percent")
    assert hundred.foregone is Foregone.CONSTRUCTION


def test_significantly_more_is_more_than_similar() -> None:
    used = every_run(cores=1.0, memory_mb=3000.0, network_kb_per_s=100.0)
    full = used["mechanism"] == "full-rep+DRA"
    most = claim_of(edge_resources.LIVE_EXPERIMENT, "full-most")
    used = used.assign(
        **{name: used[name].where(~full, 1.3 * used[name]) for name in edge_resources.MEASURES}
    )
    assert most.decide({"used": used}).held is True
    slightly = used.assign(memory_mb=used["memory_mb"].where(~full, 3100.0))
    assert most.decide({"used": slightly}).held is False


def test_network_without_counters_is_not_measured() -> None:
    used = every_run(cores=1.0, memory_mb=3000.0, network_kb_per_s=float("nan"))
    more = claim_of(edge_resources.LIVE_EXPERIMENT, "ras-more-network")
    found = more.decide({"used": used})
    assert found.held is None
    assert found.sample is None
