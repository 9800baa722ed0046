"""Two coordinators: the later one decides, the earlier one finds out and steps down."""

from __future__ import annotations

from harness.protocol import inputs as told
from harness.protocol.effects import SendOrder, StepDown, StoreRegistry
from harness.protocol.scheme import Recovery
from harness.simulator.store import Store
from tests.protocol.clusters import CAUSE, Cluster, joined, node, report, sent


def test_the_store_gives_every_owner_a_higher_term_and_the_same_one_again() -> None:
    store = Store()
    assert [store.take_registry(owner)[0] for owner in (7, 9, 7, 8, 9)] == [1, 2, 1, 3, 2]


def test_the_store_takes_nothing_from_a_term_that_is_not_the_highest() -> None:
    store = Store()
    store.take_registry(7)
    assert store.put_registry(1, 1, "first") is None
    assert store.put_registry(1, 1, "again") is None, "the answer was lost: that is no harm"
    store.take_registry(8)
    assert store.put_registry(1, 2, "late") == 2
    assert store.take_registry(8) == (2, "first")


def test_a_coordinator_whose_registry_is_refused_steps_down() -> None:
    cluster = joined(0, 1)
    effects = cluster.tell(told.RegistryRefused(cause=CAUSE, term=2), now=1)
    assert [type(effect) for effect in effects] == [StepDown]
    assert cluster.disconnect(0, now=2) == [], "and does nothing any more"
    assert cluster.sweep(3) == []


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
    cluster = joined(0, 1, recovery=Recovery.GLOBAL, loads=True)
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
