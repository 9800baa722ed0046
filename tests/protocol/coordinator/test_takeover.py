"""Takeovers that wait for no store, and a coordinator that ends before one is stored."""

from __future__ import annotations

import pytest

from harness.protocol import inputs as told
from harness.protocol.coordinator.registry import Assignment, Copy
from harness.protocol.effects import NoteCopy, StoreRegistry
from tests.protocol.clusters import CAUSE, Cluster, joined, report, sent

TASK = 1


def replicated(**options: object) -> Cluster:
    """Return a coordinator of tasks on nodes 0 and 1, with a replica of the second on node 2."""
    return joined(0, 1, 2, replicated=(TASK,), **options)


def copies(cluster: Cluster) -> tuple[Copy, Copy]:
    """Return the primary and the replica of the task."""
    both = cluster.machine.tasks[TASK]
    assert both.primary is not None
    assert both.replica is not None
    return both.primary, both.replica


def test_a_replica_is_placed_with_the_term_under_which_it_may_take_over() -> None:
    cluster = replicated()
    primary, replica = copies(cluster)
    assert primary.grant == 0
    assert replica.grant > max(replica.incarnation, primary.term or 0)
    assert cluster.stored[-1].tasks[TASK].replica == replica


def test_a_replica_takes_over_before_that_is_stored() -> None:
    cluster = replicated()
    primary, replica = copies(cluster)
    lost = told.NodeDisconnected(cause=CAUSE, node=primary.node, boot=1)
    effects = list(cluster.machine.handle(lost, now=2))
    [order] = sent(effects, told.CopyPromoted)
    assert (order.incarnation, order.term) == (replica.incarnation, replica.grant)
    assert any(isinstance(effect, StoreRegistry) for effect in effects), "and that is stored"
    assert cluster.primary(TASK).term == replica.grant


@pytest.mark.parametrize("heard_first", [False, True])
def test_a_later_coordinator_learns_of_a_takeover_from_a_heartbeat(heard_first: bool) -> None:
    """The earlier one had ordered it, and ended before it was stored."""
    earlier = replicated()
    primary, replica = copies(earlier)
    stored = earlier.stored[-1]
    later = Cluster(replicated=(TASK,), owner=2, loads=not heard_first, registry=stored)
    effects = later.beat(replica.node, now=1, copies=[report(replica, term=replica.grant)])
    if heard_first:
        effects = later.load(stored, now=2)
    assert later.primary(TASK).node == replica.node
    assert later.primary(TASK).term == replica.grant
    assert [note.incarnation for note in effects if isinstance(note, NoteCopy)] == [
        primary.incarnation
    ]
    [order] = sent(later.beat(primary.node, now=3, copies=[report(primary)]), told.CopyOrdered)
    assert order.incarnation > replica.grant, "a new replica replaces the primary that was"


def test_the_takeover_of_a_copy_that_then_fails_is_no_takeover() -> None:
    earlier = replicated()
    _, replica = copies(earlier)
    later = Cluster(replicated=(TASK,), owner=2, registry=earlier.stored[-1])
    later.beat(0, 1, 2, now=1)
    failed = [report(replica, term=replica.grant, failed="MemoryError")]
    later.beat(replica.node, now=2, copies=failed)
    assert later.primary(TASK).incarnation > replica.grant, "both copies are gone"


def test_a_grant_is_above_every_term() -> None:
    cluster = replicated()
    primary, replica = copies(cluster)
    used = cluster.machine.tasks[TASK].used
    Assignment(primary=primary, replica=replica, used=used).validate(TASK)
    with pytest.raises(AssertionError, match="a term nobody gave"):
        Assignment(primary=primary, replica=replica, used=replica.incarnation).validate(TASK)
