"""RPPG and the schedulers: budgets, risk, and forbidden places."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import UsageError
from harness.planning.rppg import rppg
from harness.planning.schedulers import STORE, acker, dra, ras, replica_of
from harness.planning.tiers import (
    Link,
    PlacedTask,
    RecoveryModel,
    Tier,
    TieredNetwork,
    TieredNode,
    paper_network,
    recovery_time_s,
)
from tests.topology.strategies import SMALL

NETWORK = paper_network()


def application() -> list[PlacedTask]:
    """Return the paper's accident detection: a filter per gateway, two aggregators, a sink."""
    filters = [
        PlacedTask(
            name=f"filter{number}", demand=0.4, input_rate=100, pinned=f"gateway{number}",
            failure_probability=0.01,
        )
        for number in range(14)
    ]  # fmt: skip
    aggregators = [
        PlacedTask(
            name=f"aggregate{number}", demand=1.0, input_rate=700, stateful=True, state_bytes=5e6,
            seconds_per_tuple=0.001, upstream=tuple(task.name for task in filters[number::2]),
            failure_probability=0.02,
        )
        for number in range(2)
    ]  # fmt: skip
    sink = PlacedTask(name="sink", demand=0.5, upstream=("aggregate0", "aggregate1"), input_rate=10)
    return [*filters, *aggregators, sink]


def test_the_papers_testbed() -> None:
    assert Counter(node.tier for node in NETWORK.nodes) == {
        Tier.GATEWAY: 14,
        Tier.MICRO_DATACENTER: 5,
        Tier.CLOUD: 1,
    }
    assert NETWORK.latency_s("gateway0", "mdc0") == pytest.approx(0.02)
    assert NETWORK.latency_s("gateway0", "gateway1") == pytest.approx(0.02 + 0.05 + 0.05 + 0.02)
    assert NETWORK.latency_s("gateway0", "gateway5") == pytest.approx(0.04)


def test_equation_1_by_hand() -> None:
    found = recovery_time_s(
        application()[14],
        placement={"aggregate0": "mdc0"},
        network=NETWORK,
        store="cloud",
        monitor="cloud",
        model=RecoveryModel(heartbeat_timeout_s=5, restart_s=2, checkpoint_bytes_per_s=1e6),
    )
    assert found == pytest.approx(5 + 0.05 + 2 + 5 + 0.05 + 0.001 * 5 * 700)


def test_the_riskiest_tasks_are_replicated_and_a_dear_one_is_passed_over() -> None:
    tasks = application()
    placement = dra(tasks, NETWORK)
    plan = rppg(
        tasks, budget=1.1, placement=placement, network=NETWORK, store="cloud", monitor="cloud"
    )
    riskiest = max(plan.risks, key=lambda name: plan.risks[name])
    assert riskiest.startswith("aggregate")
    assert plan.replicated == ("filter0", "filter1")  # 0.9 is left: no aggregator fits
    assert plan.spent <= 1.1


def test_a_budget_below_the_fixed_parts_is_refused() -> None:
    tasks = application()
    with pytest.raises(UsageError, match="does not pay"):
        rppg(
            tasks, budget=0.1, placement=dra(tasks, NETWORK), network=NETWORK, store="cloud",
            monitor="cloud",
        )  # fmt: skip


def test_ras_puts_replicas_next_to_their_primaries_and_dra_on_them() -> None:
    tasks = application()
    replicated = [task.name for task in tasks[:5]]
    near, far = (
        scheduler(tasks, NETWORK, replicated=replicated, ackers=1) for scheduler in (ras, dra)
    )
    for placement, distance_s in ((near, 0.02), (far, 0.0)):
        for name in replicated:
            apart_s = NETWORK.latency_s(placement[name], placement[replica_of(name)])
            assert apart_s == pytest.approx(distance_s), "0: on the primaries' own gateways"
    assert {task.name: near[task.name] for task in tasks} == {
        task.name: far[task.name] for task in tasks
    }


@st.composite
def networks(draw: st.DrawFn) -> TieredNetwork:
    count = draw(st.integers(2, 6))
    nodes = tuple(
        TieredNode(
            name=f"n{number}",
            tier=draw(st.sampled_from(Tier)),
            capacity=draw(st.integers(1, 6)),
            failure_probability=draw(st.floats(0, 1)),
        )
        for number in range(count)
    )
    links = tuple(
        Link(
            ends=(f"n{draw(st.integers(0, number - 1))}", f"n{number}"),
            latency_s=draw(st.integers(0, 5)) / 100,
        )
        for number in range(1, count)
    )
    return TieredNetwork(nodes=nodes, links=links)


@st.composite
def applications(draw: st.DrawFn) -> list[PlacedTask]:
    return [
        PlacedTask(
            name=f"t{number}",
            demand=draw(st.integers(1, 4)) / 2,
            input_rate=draw(st.integers(0, 100)),
            upstream=(f"t{number - 1}",) if number else (),
            stateful=draw(st.booleans()),
            state_bytes=draw(st.integers(0, 10**7)),
            seconds_per_tuple=draw(st.integers(0, 9)) / 1000,
            failure_probability=draw(st.floats(0, 1)),
        )
        for number in range(draw(st.integers(1, 5)))
    ]


@given(st.data())
@SMALL
def test_no_node_is_over_its_capacity_and_ras_keeps_replicas_apart(data: st.DataObject) -> None:
    network, tasks = data.draw(networks()), data.draw(applications())
    replicated = data.draw(st.lists(st.sampled_from([t.name for t in tasks]), unique=True))
    for scheduler in (ras, dra):
        try:
            placement = scheduler(tasks, network, replicated=replicated, ackers=1)
        except UsageError:  # something fits nowhere: no placement to check
            continue
        demand = {task.name: task.demand for task in tasks}
        demand |= {replica_of(name): demand[name] for name in replicated}
        demand |= {STORE: 0.1, acker(0): 0.1}
        assert set(placement) == set(demand)
        if scheduler is ras:
            assert all(placement[name] != placement[replica_of(name)] for name in replicated)
        for node in network.nodes:
            used = sum(demand[what] for what, where in placement.items() if where == node.name)
            assert used <= node.capacity + 1e-6


@given(st.data())
@SMALL
def test_rppg_never_exceeds_the_budget(data: st.DataObject) -> None:
    network, tasks = data.draw(networks()), data.draw(applications())
    placement = {task.name: network.nodes[0].name for task in tasks}
    budget = data.draw(st.floats(0.3, 10))
    plan = rppg(
        tasks, budget=budget, placement=placement, network=network, store="n0", monitor="n1"
    )
    demand = {task.name: task.demand for task in tasks}
    fixed = 0.1 + 0.1 * plan.ackers
    assert sum(demand[name] for name in plan.replicated) + fixed <= budget + 1e-9
    risks = [plan.risks[name] for name in plan.replicated]
    assert risks == sorted(risks, reverse=True)
    left = budget - fixed - sum(demand[name] for name in plan.replicated)
    assert all(demand[name] > left - 1e-9 for name in demand if name not in plan.replicated)


def test_a_network_in_two_pieces_is_refused() -> None:
    nodes = tuple(TieredNode(name=name, tier=Tier.CLOUD, capacity=1) for name in "ab")
    with pytest.raises(UsageError, match="no links lead from node 'a' to 'b'"):
        TieredNetwork(nodes=nodes, links=())
    with pytest.raises(UsageError, match="'c', which is no node"):
        TieredNetwork(nodes=nodes, links=(Link(ends=("a", "c"), latency_s=0.1),))
