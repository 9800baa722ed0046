"""Losses: when the coordinator closes a task, waits for a heartbeat, steps down, and trims."""

from __future__ import annotations

import pytest

from harness.protocol import inputs as told
from harness.protocol.coordinator.assignments import Assignments
from harness.protocol.coordinator.epochs import Epochs
from harness.protocol.coordinator.membership import Membership
from harness.protocol.effects import SendOrder, StepDown, StoreRegistry
from harness.protocol.inputs import Start
from harness.protocol.scheme import Recovery, Tentative
from harness.simulator.topologies import chain
from tests.protocol.clusters import BEAT_US, CAUSE, Cluster, joined, node, report, scheme, sent

LOST_AT_US = 1400


def closings(cluster: Cluster, now: int) -> list[int]:
    """Return the tasks that the coordinator closes at a sweep."""
    return [item.upstream for item in sent(cluster.sweep(now), told.UpstreamClosed)]


def test_a_replica_that_was_not_reported_yet_may_be_there() -> None:
    """The sweep comes before its node's heartbeat: closing its task would be needless."""
    cluster = joined(0, 1, 2, replicated=(0,), tentative=Tentative())
    cluster.disconnect(0, now=LOST_AT_US)
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


def test_a_heartbeat_that_says_nothing_new_is_judged_by_what_was_decided_since() -> None:
    """The replica is as wanted, twice; then its primary is lost, and the order gets lost."""
    cluster = joined(0, 1, 2, replicated=(0,))
    replica = cluster.replica(0)
    there = [report(replica, position=4)]
    for now in (1000, 2000):
        assert sent(cluster.beat(replica.node, now=now, copies=there), told.CopyPromoted) == []
    cluster.disconnect(0, now=2500)
    for now in (3000, 4000):
        promoted = sent(cluster.beat(replica.node, now=now, copies=there), told.CopyPromoted)
        assert [order.incarnation for order in promoted] == [replica.incarnation]


def test_a_coordinator_whose_registry_is_refused_steps_down() -> None:
    cluster = joined(0, 1)
    effects = cluster.tell(told.RegistryRefused(cause=CAUSE, term=2), now=1)
    assert [type(effect) for effect in effects] == [StepDown]
    assert cluster.disconnect(0, now=2) == [], "and does nothing any more"
    assert cluster.sweep(3) == []


def test_a_loss_that_nobody_can_make_good_is_stored_as_well() -> None:
    """A later coordinator must not read lost copies in the registry (seed 1977).

    Else their node, back again, would be ordered to retire them, and would never host them under
    the same number again."""
    cluster = joined(0, 1, nodes=[node(0), node(1)], recovery=Recovery.REPLAY, checkpoint_every=0)
    stored = len(cluster.stored)
    cluster.disconnect(0, now=1)
    assert cluster.hosts() == [None, 1]
    assert len(cluster.stored) == stored + 1
    assert cluster.stored[-1].tasks[0].primary is None


def test_an_epoch_is_told_when_it_is_stored() -> None:
    """A rollback goes to the stored epoch: buffers behind it must not be trimmed before."""
    cluster = joined(0, 1, recovery=Recovery.GLOBAL)
    for task in (0, 1):
        copy = cluster.primary(task)
        cluster.beat(task, now=1, copies=[report(copy, position=7, stored=6)])
    machine = cluster.machine
    sweep = told.TimerFired(cause=CAUSE, key=("sweep", 0))
    effects = list(machine.handle(sweep, now=1000))
    [store] = [effect for effect in effects if isinstance(effect, StoreRegistry)]
    assert machine.epochs.complete == 6
    assert sent(effects, told.EpochCompleted) == []
    stored = told.RegistryStored(cause=CAUSE, version=store.version)
    messages = sent(machine.handle(stored, now=1001), told.EpochCompleted)
    assert {(item.task, item.position) for item in messages} == {(0, 6), (1, 6)}


WIRING = chain(1)


@pytest.mark.parametrize(
    ("recovery", "first", "last", "trimmed"),
    [
        pytest.param(Recovery.REPLAY, 22, 5, {5}, id="a task was sent back"),
        pytest.param(Recovery.REPLAY, 22, 21, {21}, id="a task was sent back by a batch"),
        pytest.param(Recovery.REPLAY, 30, 30, {22}, id="every task has passed it"),
        pytest.param(Recovery.GLOBAL, 0, 0, {22}, id="a stored epoch stays complete"),
        pytest.param(Recovery.LOCAL, 0, 0, set(), id="each task decides by itself"),
    ],
)
def test_a_coordinator_without_reports_trims_nothing_that_a_task_needs(
    recovery: Recovery, first: int, last: int, trimmed: set[int]
) -> None:
    """The registry has epoch 22; its tasks are placed at ``first``, and one of them at ``last``."""
    members = Membership([node(0, slots=4)])
    assigned = Assignments(members)
    positions = [first] * (len(WIRING.tasks) - 1) + [last]
    assigned.begin(len(positions))
    for task, position in enumerate(positions):
        assigned.place(task, 0, start=Start.EMPTY, position=position)
    wanted = scheme(recovery=recovery, checkpoint_every=0 if recovery is Recovery.REPLAY else 3)
    epochs = Epochs(wiring=WIRING, scheme=wanted, members=members, assigned=assigned)
    epochs.complete = 22
    messages = sent(list(epochs.orders(CAUSE)), told.EpochCompleted)
    assert {message.task for message in messages} == (set(WIRING.tasks) if trimmed else set())
    assert {message.position for message in messages} == trimmed
    assert not list(epochs.orders(CAUSE)), "once is enough"


def test_a_heartbeat_that_names_a_later_coordinator_is_news_enough() -> None:
    cluster = joined(0, 1)
    later = told.HeartbeatReceived(cause=CAUSE, node=0, boot=1, copies=(), coordinator=5)
    [down] = cluster.tell(later, now=1)
    assert isinstance(down, StepDown)
    assert down.term == 5


def test_orders_and_registries_carry_the_term() -> None:
    cluster = Cluster(owner=4)
    effects = cluster.beat(0, 1, now=0)
    assert {e.term for e in effects if isinstance(e, StoreRegistry)} == {4}
    assert {e.order.coordinator for e in effects if isinstance(e, SendOrder)} == {4}


def test_a_replica_is_placed_with_the_term_under_which_it_may_take_over() -> None:
    cluster = joined(0, 1, 2, replicated=(1,))
    primary, replica = cluster.primary(1), cluster.replica(1)
    assert primary.grant == 0
    assert replica.grant > max(replica.incarnation, primary.term or 0)
    assert cluster.stored[-1].tasks[1].replica == replica
