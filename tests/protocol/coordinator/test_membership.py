"""Nodes that come late, early, never, again, or unannounced."""

from __future__ import annotations

from harness.protocol import inputs as told
from harness.protocol.coordinator.membership import RETURN_US
from harness.simulator.topologies import chain
from tests.protocol.clusters import (
    BEAT_US,
    SUSPECT_US,
    Cluster,
    in_a_row,
    joined,
    node,
    report,
)


def test_a_connection_that_closes_before_the_registry_is_read_is_a_loss() -> None:
    first = joined(0, 1, 2)
    cluster = Cluster(loads=False)
    cluster.beat(0, 1, 2, now=1)
    cluster.disconnect(0, now=2)
    cluster.load(first.stored[-1], now=3)
    assert cluster.hosts() == [2, 1]


def test_a_connection_of_a_life_that_was_not_reported_yet_ends_the_one_before() -> None:
    cluster = joined(0, 1, 2)
    cluster.disconnect(0, now=1, boot=2)
    assert cluster.hosts() == [2, 1]
    cluster.beat(0, now=2, boot=1)
    assert cluster.machine.members[0].alive is False, "a late heartbeat of that life"


def test_the_replica_that_is_given_up_is_the_last_in_the_planners_order() -> None:
    cluster = in_a_row(spare=2, replicated=(0, 1), recovery_order=(1, 2, 0))
    assert None not in cluster.replicas()[:2]
    given_up = cluster.replicas()[0]
    cluster.disconnect(2, now=1)
    cluster.sweep(1 + BEAT_US)
    assert cluster.hosts() == [0, 1, given_up]
    assert cluster.replicas()[0] is None
    assert cluster.replicas()[1] is not None
    copy = cluster.primary(2)
    cluster.beat(copy.node, now=2 + BEAT_US, copies=[report(copy)])


def test_a_scheme_that_keeps_replicas_lets_a_lost_task_wait_for_a_node() -> None:
    cluster = in_a_row(spare=2, replicated=(0, 1), keeps_replicas=True)
    replicas = cluster.replicas()
    cluster.disconnect(2, now=1)
    cluster.sweep(1 + BEAT_US)
    assert cluster.hosts() == [0, 1, None]
    assert cluster.replicas() == replicas


def test_what_is_still_catching_up_is_given_up_before_what_was_planned() -> None:
    cluster = in_a_row(spare=3, replicated=(0, 1), recovery_order=(0, 1, 2))
    planned = cluster.replicas()[1]
    cluster.disconnect(0, now=1)
    assert None not in cluster.replicas()[:2], "the promoted task has a new replica"
    cluster.disconnect(2, now=2)
    cluster.sweep(2 + BEAT_US)
    assert None not in cluster.hosts()
    assert cluster.replicas() == [None, planned, None], "task 1 is last in the planner's order"


def test_nodes_that_return_to_a_new_coordinator_all_at_once_have_time_to_do_so() -> None:
    """Each connection takes the coordinator a while; one that has been heard has none left."""
    count = 200
    nodes, places = [node(n) for n in range(count)], range(count)
    first = joined(*places, wiring=chain(count - 1), nodes=nodes, placement=places)
    cluster = Cluster(
        wiring=chain(count - 1), nodes=nodes, placement=places, registry=first.stored[-1]
    )
    grace_us = count * RETURN_US
    cluster.beat(*places[1:], now=1)
    cluster.sweep(SUSPECT_US + grace_us)
    assert cluster.hosts()[0] == 0
    assert None in cluster.hosts()[1:], "they had been heard"
    cluster.sweep(SUSPECT_US + grace_us + 1)
    assert cluster.hosts()[0] is None


def test_a_heartbeat_before_the_registry_is_read_places_nothing() -> None:
    first = joined(0, 1, 2)
    cluster = Cluster(loads=False)
    cluster.beat(0, 1, 2, now=1)
    assert cluster.stored == []
    cluster.load(first.stored[-1], now=2)
    assert cluster.stored == [], "there was nothing to decide"
    assert cluster.hosts() == [0, 1]


def test_what_was_given_up_long_ago_is_no_news() -> None:
    cluster = joined(0, 1, 2)
    cluster.disconnect(0, now=1)
    moved = cluster.primary(0)
    forgetful = told.HeartbeatReceived(
        cause="beat", node=0, boot=1, copies=(), coordinator=1, gone=((0, 1),)
    )
    cluster.tell(forgetful, now=2)
    assert cluster.primary(0) == moved
