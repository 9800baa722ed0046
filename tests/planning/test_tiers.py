"""RPPG and the schedulers: budgets, risk, and forbidden places."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import UsageError
from harness.planning.rppg import FaultToleranceCosts, acker_count, rppg
from harness.planning.schedulers import STORE, acker, dra, ras, replica_of
from harness.planning.tiers import (
    Link,
    PlacedTask,
    RecoveryModel,
    Tier,
    TieredNetwork,
    TieredNode,
    failure_probability,
    paper_network,
    recovery_time_s,
)
from tests.topology.strategies import SMALL

NETWORK = paper_network()


def application(gateways: int = 14) -> list[PlacedTask]:
    """Return the paper's accident detection: a filter per gateway, two aggregators, a sink."""
    filters = [
        PlacedTask(
            name=f"filter{number}", demand=0.4, input_rate=100, pinned=f"gateway{number}",
            failure_probability=0.01,
        )
        for number in range(gateways)
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


def with_capacity(name: str, capacity: float) -> TieredNetwork:
    """Return the paper's network with another capacity of one node."""
    nodes = tuple(
        replace(node, capacity=capacity) if node.name == name else node for node in NETWORK.nodes
    )
    return replace(NETWORK, nodes=nodes)


def seconds(
    task: PlacedTask, node: str, model: RecoveryModel, network: TieredNetwork = NETWORK
) -> float:
    """Return equation 1 for ``task`` on ``node``, with store and monitor in the cloud."""
    return recovery_time_s(
        task, placement={task.name: node}, network=network, store="cloud", monitor="cloud",
        model=model,
    )  # fmt: skip


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
    model = RecoveryModel(heartbeat_timeout_s=5, restart_s=2, checkpoint_bytes_per_s=1e6)
    found = seconds(application()[14], "mdc0", model)
    assert found == pytest.approx(5 + 0.05 + 2 + 5 + 0.05 + 0.001 * 5 * 700)


def test_either_failure_is_a_failure() -> None:
    task = PlacedTask(name="t", demand=1, failure_probability=0.1)
    node = TieredNode(name="n", tier=Tier.CLOUD, capacity=1, failure_probability=0.2)
    assert failure_probability(task, node) == pytest.approx(0.28)


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


@pytest.mark.parametrize(("budget", "count"), [(0.74, 0), (0.75, 1), (1.24, 1), (1.25, 2)])
def test_a_replica_may_take_the_last_of_the_budget(budget: float, count: int) -> None:
    tasks = [PlacedTask(name=name, demand=0.5, failure_probability=0.5) for name in "ab"]
    plan = rppg(
        tasks, budget=budget, placement=dict.fromkeys("ab", "cloud"), network=NETWORK,
        store="cloud", monitor="cloud", costs=FaultToleranceCosts(store=0.25, acker=0),
    )  # fmt: skip
    assert plan.replicated == tuple("ab"[:count])


@pytest.mark.parametrize(("demand", "fits"), [(1.0, True), (1.0 + 1e-9, True), (1.1, False)])
def test_a_task_may_fill_its_node_rounding_aside(demand: float, fits: bool) -> None:
    nodes = tuple(TieredNode(name=name, tier=Tier.CLOUD, capacity=1) for name in "nm")
    network = TieredNetwork(nodes=nodes, links=(Link(ends=("n", "m"), latency_s=0.1),))
    for scheduler in (dra, ras):
        tasks = [PlacedTask(name="t", demand=demand, pinned="n")]
        if fits:
            assert scheduler(tasks, network)["t"] == "n"
        else:
            with pytest.raises(UsageError, match=r"t takes 1\.1, and no node"):
                scheduler(tasks, network)


def test_ackers_are_rounded_up() -> None:
    assert acker_count(application(), FaultToleranceCosts(tuples_per_s_per_acker=1000)) == 3


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


def test_dra_puts_a_replica_where_its_primary_is_if_there_is_room() -> None:
    tasks = application()
    replicated = [task.name for task in tasks]
    placement = dra(tasks, NETWORK, replicated=replicated)
    shared = [name for name in replicated if placement[name] == placement[replica_of(name)]]
    assert set(shared) >= {task.name for task in tasks if task.pinned}
    full = with_capacity("gateway0", 0.4)
    moved = dra(tasks, full, replicated=["filter0"])
    assert moved[replica_of("filter0")] == "mdc0", "the nearest node with room"


def test_a_stateless_task_need_not_ask_the_store() -> None:
    task = application()[0]
    literal, sparing = (
        seconds(task, "gateway0", RecoveryModel(stateless_tasks_ask_the_store=ask))
        for ask in (True, False)
    )
    assert literal - sparing == pytest.approx(NETWORK.latency_s("gateway0", "cloud"))


def test_a_checkpoint_comes_no_faster_than_the_narrowest_link_on_its_way() -> None:
    links = tuple(
        replace(link, bandwidth_bytes_per_s=1e6) if "gateway0" in link.ends else link
        for link in NETWORK.links
    )
    narrow = replace(NETWORK, links=links)
    assert narrow.bandwidth("gateway0", "cloud") == 1e6
    assert narrow.bandwidth("gateway1", "cloud") == 12.5e6
    task = PlacedTask(name="t", demand=1, stateful=True, state_bytes=5e6)
    limited, plain = (
        seconds(task, "gateway0", RecoveryModel(by_bandwidth=limit), narrow)
        for limit in (True, False)
    )
    assert limited - plain == pytest.approx(5e6 / 1e6 - 5e6 / 12.5e6)


def test_ras_places_by_the_network_what_finds_no_neighbour_with_room() -> None:
    """The neighbour of gateway0 is mdc0 alone.

    Where that is full, the way to what the replica reads and sends decides."""
    tasks = application()
    full = with_capacity("mdc0", 0)
    placement = ras(tasks, full, replicated=["filter0"])
    reader = placement["aggregate0"]
    chosen = placement[replica_of("filter0")]
    assert chosen not in ("gateway0", "mdc0")
    assert full.latency_s(chosen, reader) == min(
        full.latency_s(node.name, reader) for node in full.nodes if node.name != "mdc0"
    )
    nearest = ras(tasks, full, replicated=["filter0"], linked_only=False)
    assert nearest[replica_of("filter0")] == "gateway5", "the next gateway of the same datacenter"


def test_ras_puts_the_store_where_the_stateful_tasks_are() -> None:
    tasks = application()
    placement = ras(tasks, NETWORK, ackers=2)
    options = [
        sum(NETWORK.latency_s(placement[f"aggregate{n}"], node.name) for n in range(2))
        for node in NETWORK.nodes
    ]
    here = sum(NETWORK.latency_s(placement[f"aggregate{n}"], placement[STORE]) for n in range(2))
    assert here == pytest.approx(min(options))
    assert acker(0) in placement
    assert acker(1) in placement


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
