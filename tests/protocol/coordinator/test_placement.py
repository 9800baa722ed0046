"""Strategies: where first primaries, replicas and restored tasks go."""

from __future__ import annotations

from typing import Any

from harness.protocol import inputs as told
from harness.protocol.coordinator.placement import (
    Near,
    Planned,
    Preferring,
    SameTier,
    Spread,
    Standby,
    in_order,
    other_rack,
    same_rack,
)
from harness.simulator.topologies import chain
from tests.protocol.clusters import BEAT_US, Cluster, joined, node, report, sent

RACKS = "abab"


def cluster(placement: Any, *, slots: int = 3, racks: str = RACKS, **options: Any) -> Cluster:
    """Return a chain of a source and two tasks on a node per rack letter; all have joined."""
    nodes = [node(n, slots=slots, rack=rack) for n, rack in enumerate(racks)]
    return joined(*range(len(nodes)), wiring=chain(2), nodes=nodes, placement=placement, **options)


def test_spread_takes_the_least_loaded_node_and_another_rack_for_a_replica() -> None:
    made = cluster(Spread((0, 1, 1)), replicated=(0, 1))
    assert (made.hosts(), made.replicas()) == ([0, 1, 1], [3, 2, None])
    made.disconnect(0, now=1)
    assert made.hosts()[0] == 3, "its replica"
    made.disconnect(1, now=2)
    assert made.hosts()[2] in (2, 3)


def test_a_standby_node_on_another_rack_can_be_asked_for() -> None:
    strategy = Preferring(primaries=(0, 1, 1), restored=(Standby(frozenset({2, 3})), other_rack))
    made = cluster(strategy)
    made.disconnect(0, now=1)
    assert made.hosts() == [3, 1, 1]
    made.disconnect(1, now=2)
    assert made.hosts() == [3, 2, 2]


def test_what_the_resilience_aware_scheduler_does_near_the_primary() -> None:
    way = Near(lambda a, b: abs(a - b))
    made = cluster(Preferring(primaries=(0, 3, 3), replica=(way,)), replicated=(0, 1))
    assert made.replicas() == [1, 2, None]


def test_what_storms_scheduler_does_lost_with_its_primary() -> None:
    """Replicas as near as may be, in the order of nodes: one rack's failure takes both copies."""
    strategy = Preferring(primaries=(0, 0, 1), replica=(same_rack, in_order))
    made = cluster(strategy, replicated=(0, 1, 2))
    assert made.replicas() == [2, 2, 3]
    for number in (0, 2):
        made.disconnect(number, now=1)
    rack_b = {1, 3}
    assert set(made.hosts()) <= rack_b
    copies = [made.primary(task) for task in (0, 1)]
    assert all(copy.incarnation > 2 for copy in copies), "both begin anew"


def test_a_lost_task_stays_in_its_tier_and_near_its_neighbours() -> None:
    tiers = SameTier(("edge", "cloud", "edge", "edge"))
    way = Near(lambda a, b: abs(a - b))
    made = cluster(Preferring(primaries=(0, 2, 1), restored=(tiers, way)))
    made.disconnect(2, now=1)
    assert made.hosts() == [0, 0, 1], "node 0 is as near as node 3 to both, and its source's"


def test_a_plan_of_replicas_and_what_it_cannot_place() -> None:
    strategy = Planned(replicas={0: 3, 1: 1, 2: 2}, otherwise=Spread((0, 1, 1)))
    made = cluster(strategy, replicated=(0, 1, 2))
    assert made.replicas() == [3, 1, 2], "task 1 has its primary where its replica was planned"
    full = cluster(strategy, replicated=(0, 1, 2), slots=2)
    assert full.replicas() == [3, 2, 2], "node 1 has two primaries already"


def test_both_copies_of_a_task_on_one_node_and_the_end_of_either() -> None:
    strategy = Planned(replicas={0: 0}, otherwise=Spread((0, 1, 1)))
    made = cluster(strategy, replicated=(0,))
    primary, replica = made.primary(0), made.replica(0)
    assert (primary.node, replica.node) == (0, 0)
    orders = sent(made.beat(0, now=1), told.CopyOrdered)
    assert [(order.incarnation, order.beside) for order in orders] == [(1, 2), (2, 1)]
    assert made.beat(0, now=2, copies=[report(primary), report(replica)]) == []
    gone = sent(made.beat(0, now=3, copies=[report(replica)]), told.CopyOrdered)
    assert [order.incarnation for order in gone] == [1], "a heartbeat says what is missing"
    failed = [report(primary, failed="MemoryError"), report(replica)]
    effects = made.beat(0, now=4, copies=failed)
    promoted, *_ = sent(effects, told.CopyPromoted)
    assert promoted.incarnation == 2
    [replaced] = [order for order in sent(effects, told.CopyOrdered) if order.task == 0]
    assert replaced.incarnation > 2, "a new replica, as planned"
    assert replaced.beside == 2, "so the copy whose operator has raised makes way"
    made.disconnect(0, now=5)
    assert made.hosts()[0] != 0, "both were lost, and the task is restored"


def test_no_replica_is_given_up_while_its_primary_may_be_dying_too() -> None:
    """Nodes of one rack are found dead one after the other.

    The first one's task finds no free slot; the only replica is all that is left of the second
    one's task."""
    made = cluster(Spread((0, 1, 2)), slots=1, racks="aabb", replicated=(1,))
    assert made.replicas() == [None, 3, None]
    made.disconnect(0, now=10)
    assert made.hosts() == [None, 1, 2]
    assert made.replicas() == [None, 3, None], "it waits"
    made.disconnect(1, now=20)
    assert made.hosts() == [None, 3, 2], "taken over, not restored"
    made.sweep(20 + BEAT_US)
    assert made.hosts() == [None, 3, 2], "there is no slot for the source until a node is back"
    made.beat(0, now=21 + BEAT_US, boot=2)
    assert made.hosts() == [0, 3, 2]


def test_a_replica_is_spared_for_a_heartbeat_and_only_on_a_rack_that_is_failing() -> None:
    made = cluster(Spread((0, 1, 2)), slots=1, racks="aabb", replicated=(1,))
    made.disconnect(0, now=10)
    made.sweep(9 + BEAT_US)
    assert made.hosts() == [None, 1, 2]
    made.sweep(10 + BEAT_US)
    assert (made.hosts(), made.replicas()) == ([3, 1, 2], [None, None, None])
    apart = cluster(Spread((0, 1, 2)), slots=1, racks="abab", replicated=(1,))
    assert apart.replicas()[1] is not None
    apart.disconnect(2, now=10)
    assert None not in apart.hosts(), "at once: its primary is on the rack that lives"


def test_any_free_slot_is_found_however_the_nodes_are_liked() -> None:
    """A strategy may prefer; it may not leave a lost task without a node that there is."""
    for restored in ((other_rack,), (same_rack, in_order), (Standby(frozenset({0})),)):
        made = cluster(Preferring(primaries=(0, 1, 2), restored=restored), slots=1)
        made.disconnect(1, now=1)
        assert made.hosts() == [0, 3, 2]
