"""A node hosts each ordered copy once, in the boot that the order names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.protocol import effects as do
from harness.protocol import inputs as told
from harness.protocol.node import NodeMachine
from harness.protocol.scheme import Recovery, Scheme
from harness.simulator.topologies import chain
from tests.protocol.machines import CAUSE, arrived, ordered


class Node:
    """A node whose inputs come a microsecond apart."""

    def __init__(self, boot: int = 1) -> None:
        self.machine = NodeMachine(
            node=0,
            boot=boot,
            wiring=chain(3, memory=2),
            scheme=Scheme(name="test", recovery=Recovery.LOCAL, checkpoint_every=3),
            initial=lambda _: (),
        )
        self._now = 0

    def tell(self, item: told.NodeInput) -> Sequence[do.Effect]:
        self._now += 1
        return self.machine.handle(item, now=self._now)

    def order(self, incarnation: int = 1, **fields: Any) -> Sequence[do.Effect]:
        """Order a primary of task 1, or another copy by other fields."""
        return self.tell(ordered(incarnation=incarnation, **{"term": incarnation, **fields}))

    def retire(self, incarnation: int = 1, *, coordinator: int = 1) -> None:
        self.tell(
            told.CopyRetired(cause=CAUSE, task=1, incarnation=incarnation, coordinator=coordinator)
        )

    def beat(self) -> told.HeartbeatReceived:
        """Return the next heartbeat."""
        effects = self.tell(told.TimerFired(cause=CAUSE, key=("beat", 0)))
        [beat] = [effect for effect in effects if isinstance(effect, do.SendHeartbeat)]
        return beat.heartbeat

    def hosted(self) -> list[tuple[int, int]]:
        """Return the copies, by task and incarnation."""
        return list(self.machine.copies)


def test_an_order_for_another_life_is_not_obeyed() -> None:
    """Else a copy that died with its node would be started again under the same number."""
    node = Node(boot=2)
    assert node.order(boot=1) == ()
    assert node.hosted() == []
    node.order(boot=2)
    assert node.hosted() == [(1, 1)]


def test_two_copies_of_a_task_if_both_are_wanted_whichever_is_ordered_first() -> None:
    for first, second in ((1, 2), (2, 1)):
        node = Node()
        node.order(first, beside=second)
        node.order(second, beside=first, term=None)
        assert node.hosted() == [(1, 1), (1, 2)]
        begun = [e for e in node.tell(arrived()) if isinstance(e, do.ProcessBatch)]
        assert [effect.incarnation for effect in begun] == [1, 2], "each computes on its own"
        node.retire(first)
        assert node.hosted() == [(1, second)]
        node.order(3)
        assert node.hosted() == [(1, 3)], "an order names all that it lets be"


def test_an_earlier_copy_is_started_once_a_later_one_is_gone() -> None:
    """Its order was lost; the other copy, decided later, was there and is gone."""
    node = Node()
    node.order(5, beside=3)
    node.order(3)
    assert node.hosted() == [(1, 5)], "it may have been retired since"
    node.retire(5)
    node.order(3)
    assert node.hosted() == [(1, 3)]


def test_a_coordinator_that_was_replaced_is_not_obeyed() -> None:
    """It would retire copies of the later one for good: a number is never used twice."""
    node = Node()
    node.order(2, coordinator=5)
    node.retire(2, coordinator=4)
    assert node.hosted() == [(1, 2)]
    assert node.beat().coordinator == 5
    node.retire(2, coordinator=5)
    assert node.hosted() == []


def test_an_order_that_comes_twice_starts_one_copy() -> None:
    node = Node()
    node.order()
    [copy] = node.machine.copies_of(1)
    assert node.order() == ()
    assert node.machine.copies_of(1)[0] is copy


def test_a_late_order_brings_neither_a_retired_copy_back_nor_an_earlier_one() -> None:
    node = Node()
    node.order(2)
    node.order(1)
    node.retire(1)
    assert node.hosted() == [(1, 2)]
    node.retire(2)
    assert node.order(2) == ()
    assert node.hosted() == []


def test_a_fenced_copy_is_gone_after_the_next_heartbeat() -> None:
    node = Node()
    node.order()
    node.tell(told.CheckpointRefused(cause=CAUSE, task=1, incarnation=1))
    assert node.beat().copies == ()
    assert node.hosted() == []


def test_a_node_that_has_forgotten_its_copies_says_so_and_says_it_again_when_asked() -> None:
    """A heartbeat may get lost. What is gone does not come back under its number."""
    node = Node()
    node.order()
    assert node.beat().gone == ()
    node.tell(told.CopiesForgotten(cause=CAUSE))
    assert node.hosted() == []
    assert node.beat().gone == ((1, 1),)
    assert node.beat().gone == ()
    node.order()
    assert node.hosted() == []
    assert node.beat().gone == ((1, 1),)
    node.order(2)
    assert node.hosted() == [(1, 2)]
    assert node.beat().gone == ()
