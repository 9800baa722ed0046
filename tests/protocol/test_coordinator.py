"""When the coordinator closes a task, and when it waits for a heartbeat first."""

from __future__ import annotations

from harness.protocol import inputs as told
from harness.protocol.scheme import Tentative
from tests.protocol.clusters import BEAT_US, Cluster, report, sent

LOST_AT_US = 1400


def lost(*, replicated: tuple[int, ...] = (0,)) -> Cluster:
    """A source with a replica and its downstream task; the source's node is lost before anything
    was reported of the replica."""
    cluster = Cluster(replicated=replicated, tentative=Tentative())
    cluster.beat(0, 1, 2, now=0)
    cluster.disconnect(0, now=LOST_AT_US)
    return cluster


def closings(cluster: Cluster, now: int) -> list[int]:
    """Whom the coordinator closes at a sweep."""
    return [item.upstream for item in sent(cluster.sweep(now), told.UpstreamClosed)]


def test_a_replica_that_was_not_reported_yet_may_be_there() -> None:
    """The sweep comes before its node's heartbeat: closing its task would be needless."""
    cluster = lost()
    primary = cluster.primary(0)
    assert primary is not None
    assert primary.term != primary.incarnation, "the replica was promoted"
    assert closings(cluster, 2000) == []
    cluster.beat(primary.node, now=2001, copies=[report(primary, position=4, term=None)])
    assert closings(cluster, 3000) == [], "it is there: the loss is over"


def test_a_replica_that_its_node_does_not_have_is_not_waited_for() -> None:
    cluster = lost()
    cluster.beat(2, now=1500)
    assert closings(cluster, 2000) == [0]


def test_a_replica_of_which_nothing_is_heard_is_waited_for_one_heartbeat() -> None:
    cluster = lost()
    assert closings(cluster, LOST_AT_US + BEAT_US) == []
    assert closings(cluster, LOST_AT_US + BEAT_US + 1) == [0]


def test_a_task_that_starts_anew_is_closed_at_the_next_sweep() -> None:
    """It had no replica, so nobody has its state or its place in the input."""
    cluster = lost(replicated=())
    assert cluster.hosts()[0] == 2
    assert closings(cluster, 2000) == [0]
