"""The cases in which the coordinator closes a task, or first waits for a heartbeat."""

from __future__ import annotations

from harness.protocol import inputs as told
from harness.protocol.scheme import Tentative
from tests.protocol.clusters import BEAT_US, Cluster, joined, report, sent

LOST_AT_US = 1400


def lost(*, replicated: tuple[int, ...] = (0,)) -> Cluster:
    """Lose the node of a source with a replica, before any report of the replica.

    The source has one downstream task."""
    cluster = joined(0, 1, 2, replicated=replicated, tentative=Tentative())
    cluster.disconnect(0, now=LOST_AT_US)
    return cluster


def closings(cluster: Cluster, now: int) -> list[int]:
    """Return the tasks that the coordinator closes at a sweep."""
    return [item.upstream for item in sent(cluster.sweep(now), told.UpstreamClosed)]


def test_a_replica_that_was_not_reported_yet_may_be_there() -> None:
    """The sweep comes before its node's heartbeat: closing its task would be needless."""
    cluster = lost()
    primary = cluster.primary(0)
    assert primary.term != primary.incarnation, "the replica was promoted"
    assert closings(cluster, 2000) == []
    cluster.beat(primary.node, now=2001, copies=[report(primary, position=4, term=None)])
    assert closings(cluster, 3000) == [], "it is there: the loss is over"


def test_a_replica_that_is_there_may_be_behind_its_primary() -> None:
    """It was not reported before the loss, and its first report is two batches behind."""
    cluster = joined(0, 1, 2, replicated=(0,), tentative=Tentative())
    cluster.beat(0, now=1000, copies=[report(cluster.primary(0), position=6)])
    cluster.disconnect(0, now=LOST_AT_US)
    primary = cluster.primary(0)
    heard = cluster.beat(primary.node, now=1500, copies=[report(primary, position=4, term=None)])
    assert sent(heard, told.UpstreamClosed) == [], "it goes on where its primary was"
    assert closings(cluster, 2000) == []


def test_a_replica_that_its_node_does_not_have_is_not_waited_for() -> None:
    cluster = lost()
    cluster.beat(2, now=1500)
    assert closings(cluster, 2000) == [0]


def test_a_replica_whose_heartbeat_is_late_after_a_restart_is_waited_for() -> None:
    """A new coordinator has no reports.

    The primary's connection ends at once; the heartbeat that would show the replica comes more than
    an interval after the one before."""
    first = joined(0, 1, 2, replicated=(0,), tentative=Tentative())
    again = Cluster(replicated=(0,), tentative=Tentative(), owner=2, registry=first.stored[-1])
    again.disconnect(0, now=1)
    primary = again.primary(0)
    late = BEAT_US + BEAT_US // 2
    assert closings(again, late) == []
    heard = again.beat(primary.node, now=late, copies=[report(primary, position=4, term=None)])
    assert sent(heard, told.UpstreamClosed) == []
    assert closings(again, 3 * BEAT_US) == []


def test_an_order_to_go_on_without_a_task_says_where_it_was() -> None:
    """So a late order can be ignored if the task is back; a replica may be anywhere."""
    cluster = joined(0, 1, 2, tentative=Tentative())
    cluster.beat(0, now=1000, copies=[report(cluster.primary(0), position=6)])
    [told_] = sent(cluster.disconnect(0, now=LOST_AT_US), told.UpstreamClosed)
    assert told_.back_at == 6
    [told_] = sent(lost().beat(2, now=1500), told.UpstreamClosed)
    assert told_.back_at == 0


def test_a_task_that_starts_anew_is_closed_at_once_with_a_bound_of_nothing() -> None:
    """It had no replica, so no copy has its state or its position in the input."""
    cluster = joined(0, 1, 2, tentative=Tentative())
    effects = cluster.disconnect(0, now=LOST_AT_US)
    assert cluster.hosts()[0] == 2
    assert [item.upstream for item in sent(effects, told.UpstreamClosed)] == [0]
    assert closings(cluster, 2000) == [0], "and again at every sweep"


def test_the_heartbeat_that_does_not_name_the_replica_closes_its_task() -> None:
    """The time to wait for it is over then: not one sweep later."""
    cluster = lost()
    effects = cluster.beat(2, now=1500)
    assert [item.upstream for item in sent(effects, told.UpstreamClosed)] == [0]


def test_an_order_is_repeated_until_a_heartbeat_says_that_it_was_obeyed() -> None:
    cluster = joined(0, 1)
    for now in (1000, 2000):
        assert [order.task for order in sent(cluster.beat(0, now=now), told.CopyOrdered)] == [0]
    obeyed = [report(cluster.primary(0))]
    for now in (3000, 4000):
        assert sent(cluster.beat(0, now=now, copies=obeyed), told.CopyOrdered) == []
    lost_again = cluster.beat(0, now=5000)
    assert [order.task for order in sent(lost_again, told.CopyOrdered)] == [0]


def test_a_heartbeat_that_says_nothing_new_is_judged_by_what_was_decided_since() -> None:
    """The replica is as wanted, twice; then its primary is lost, and the order gets lost."""
    cluster = joined(0, 1, 2, replicated=(0,))
    replica = cluster.machine.tasks[0].replica
    assert replica is not None
    there = [report(replica, position=4)]
    for now in (1000, 2000):
        assert sent(cluster.beat(replica.node, now=now, copies=there), told.CopyPromoted) == []
    cluster.disconnect(0, now=2500)
    for now in (3000, 4000):
        promoted = sent(cluster.beat(replica.node, now=now, copies=there), told.CopyPromoted)
        assert [order.incarnation for order in promoted] == [replica.incarnation]
