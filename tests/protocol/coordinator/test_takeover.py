"""Takeovers that wait for no store, and a coordinator that ends before one is stored."""

from __future__ import annotations

import pytest

from harness.protocol.coordinator.registry import Assignment, Copy
from tests.protocol.clusters import Cluster, joined, report

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
