"""A node hosts each ordered copy once, in the boot that the order names."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from harness.protocol import effects as do
from harness.protocol import inputs as told
from harness.protocol.node import NodeMachine
from harness.protocol.scheme import Recovery, Scheme
from harness.simulator.topologies import chain

CAUSE = "test"
WIRING = chain(3, memory=2)


def node(
    boot: int = 1, recovery: Recovery = Recovery.LOCAL, notes_progress: bool = False
) -> NodeMachine:
    scheme = Scheme(name="test", recovery=recovery, checkpoint_every=3)
    return NodeMachine(
        node=0,
        boot=boot,
        wiring=WIRING,
        scheme=scheme,
        initial=lambda _: (),
        notes_progress=notes_progress,
    )


def order(incarnation: int = 1, boot: int = 1, position: int = 0) -> told.CopyOrdered:
    return told.CopyOrdered(
        cause=CAUSE,
        boot=boot,
        task=1,
        incarnation=incarnation,
        term=incarnation,
        start=told.Start.EMPTY,
        position=position,
        send_from=position,
        coordinator=1,
    )


def retire(
    machine: NodeMachine, incarnation: int, *, now: int, coordinator: int = 1
) -> Sequence[do.Effect]:
    item = told.CopyRetired(cause=CAUSE, task=1, incarnation=incarnation, coordinator=coordinator)
    return machine.handle(item, now=now)


def arrived(batch: int) -> told.BatchArrived:
    return told.BatchArrived(
        cause=CAUSE, task=1, upstream=0, batch=batch, stable=True, payload="in", term=1
    )


def hosted(machine: NodeMachine) -> list[tuple[int, int]]:
    return list(machine.copies)


def test_an_order_for_another_life_is_not_obeyed() -> None:
    """Else a copy that died with its node would be started again under the same number."""
    machine = node(boot=2)
    assert machine.handle(order(boot=1), now=0) == ()
    assert hosted(machine) == []
    machine.handle(order(boot=2), now=0)
    assert hosted(machine) == [(1, 1)]


def test_two_copies_of_a_task_if_both_are_wanted_whichever_is_ordered_first() -> None:
    for first, second in ((1, 2), (2, 1)):
        machine = node()
        machine.handle(replace(order(first), beside=second), now=0)
        machine.handle(replace(order(second), beside=first, term=None), now=1)
        assert hosted(machine) == [(1, 1), (1, 2)]
        begun = [e for e in machine.handle(arrived(0), now=2) if isinstance(e, do.ProcessBatch)]
        assert [effect.incarnation for effect in begun] == [1, 2], "each computes on its own"
        retire(machine, first, now=3)
        assert hosted(machine) == [(1, second)]
        machine.handle(order(3), now=4)
        assert hosted(machine) == [(1, 3)], "an order names all that it lets be"


def test_an_earlier_copy_is_started_once_a_later_one_is_gone() -> None:
    """Its order was lost; the other copy, decided later, was there and is gone."""
    machine = node()
    machine.handle(replace(order(5), beside=3), now=0)
    machine.handle(order(3), now=1)
    assert hosted(machine) == [(1, 5)], "it may have been retired since"
    retire(machine, 5, now=2)
    machine.handle(order(3), now=3)
    assert hosted(machine) == [(1, 3)]


def test_a_coordinator_that_was_replaced_is_not_obeyed() -> None:
    """It would retire copies of the later one for good: a number is never used twice."""
    machine = node()
    machine.handle(replace(order(2), coordinator=5), now=0)
    retire(machine, 2, now=1, coordinator=4)
    assert hosted(machine) == [(1, 2)]
    effects = machine.handle(told.TimerFired(cause=CAUSE, key=("beat", 0)), now=2)
    [beat] = [effect for effect in effects if isinstance(effect, do.SendHeartbeat)]
    assert beat.heartbeat.coordinator == 5
    retire(machine, 2, now=3, coordinator=5)
    assert hosted(machine) == []


def test_an_order_that_comes_twice_starts_one_copy() -> None:
    machine = node()
    machine.handle(order(), now=0)
    copy = machine.copies_of(1)[0]
    assert machine.handle(order(), now=1) == ()
    assert machine.copies_of(1)[0] is copy


def test_a_late_order_does_not_bring_a_retired_copy_back() -> None:
    machine = node()
    machine.handle(order(), now=0)
    retire(machine, 1, now=1)
    assert hosted(machine) == []
    assert machine.handle(order(), now=2) == ()
    assert hosted(machine) == []


def test_nor_an_earlier_copy_in_a_later_ones_place() -> None:
    machine = node()
    machine.handle(order(2), now=0)
    machine.handle(order(1), now=1)
    retire(machine, 1, now=2)
    assert hosted(machine) == [(1, 2)]


def test_a_fenced_copy_is_gone_after_the_next_heartbeat() -> None:
    machine = node()
    machine.handle(order(), now=0)
    machine.handle(told.CheckpointRefused(cause=CAUSE, task=1, incarnation=1), now=1)
    effects = machine.handle(told.TimerFired(cause=CAUSE, key=("beat", 0)), now=2)
    [beat] = [effect for effect in effects if isinstance(effect, do.SendHeartbeat)]
    assert beat.heartbeat.copies == ()
    assert hosted(machine) == []


def gone(effects: Sequence[do.Effect]) -> tuple[tuple[int, int], ...]:
    """Return the copies that the heartbeat among ``effects`` reports as gone."""
    [beat] = [effect for effect in effects if isinstance(effect, do.SendHeartbeat)]
    return beat.heartbeat.gone


def test_a_node_that_has_forgotten_its_copies_says_so_and_says_it_again_when_asked() -> None:
    """A heartbeat may get lost. What is gone does not come back under its number."""
    machine, beat = node(), told.TimerFired(cause=CAUSE, key=("beat", 0))
    machine.handle(order(), now=0)
    assert gone(machine.handle(beat, now=1)) == ()
    machine.handle(told.CopiesForgotten(cause=CAUSE), now=2)
    assert hosted(machine) == []
    assert gone(machine.handle(beat, now=3)) == ((1, 1),)
    assert gone(machine.handle(beat, now=4)) == ()
    machine.handle(order(), now=5)
    assert hosted(machine) == []
    assert gone(machine.handle(beat, now=6)) == ((1, 1),)
    machine.handle(order(incarnation=2), now=7)
    assert hosted(machine) == [(1, 2)]
    assert gone(machine.handle(beat, now=8)) == ()
