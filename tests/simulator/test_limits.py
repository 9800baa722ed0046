"""The failures that the protocol cannot survive, each with a schedule that shows it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from msgspec.structs import replace as replace_struct

from harness.protocol.coordinator import machine
from harness.protocol.coordinator.ledger import orders_for
from harness.protocol.coordinator.registry import Registry
from harness.simulator.faults import Fault, FaultKind
from harness.simulator.options import Options
from harness.simulator.synthetic import digests
from harness.simulator.topologies import chain
from harness.simulator.world import World
from tests.simulator.kit import NEVER_US, calm, local

CRASH_US = 12_500_000


def options(*faults: Fault, standby: int = 2, replicated: tuple[int, ...] = ()) -> Options:
    """Return a chain of a source and three tasks."""
    scheme = local(replicated=replicated)
    return calm(chain(3, memory=2), spare=standby, scheme=scheme, faults=faults)


def crash(node: int, until_us: int = NEVER_US) -> Fault:
    return Fault(kind=FaultKind.KILL, at_us=CRASH_US, until_us=until_us, target=node)


def away(kind: FaultKind, until_us: int = NEVER_US) -> Fault:
    return Fault(kind=kind, at_us=CRASH_US - 1, until_us=until_us)


def completes(given: Options, meanwhile: Callable[[World], None] = lambda _: None) -> bool:
    """Return True if the output is complete within two minutes.

    ``meanwhile`` acts before the crash."""
    world = World(given, digests(given))
    world.start()
    world.kernel.run(until=CRASH_US - 2)
    meanwhile(world)
    return world.kernel.run(until=120_000_000, stop=world.finished)


def forget_everything(world: World) -> None:
    world.store.checkpoints.clear()


def test_it_survives_a_crash() -> None:
    assert completes(options(crash(2)))


def test_not_a_store_that_loses_checkpoints() -> None:
    """Upstream buffers were trimmed behind a checkpoint that is gone."""
    assert not completes(options(crash(2)), forget_everything)


def test_unless_every_task_has_a_replica() -> None:
    given = options(crash(2), standby=4, replicated=(0, 1, 2, 3))
    assert completes(given, forget_everything)


def test_not_too_few_slots_until_a_node_comes_back() -> None:
    assert not completes(options(crash(2), standby=0))
    assert completes(options(crash(2, until_us=60_000_000), standby=0))


def test_no_restoration_while_the_store_is_away() -> None:
    """The decision is stored before it is acted upon, and the checkpoint is there, too."""
    assert not completes(options(crash(2), away(FaultKind.STORE_AWAY), standby=4))
    healed = options(crash(2), away(FaultKind.STORE_AWAY, 60_000_000), standby=4)
    assert completes(healed)


def test_a_replica_takes_over_while_the_store_is_away() -> None:
    """Its term was stored when it was placed."""
    given = options(crash(2), away(FaultKind.STORE_AWAY), standby=4, replicated=(0, 1, 2, 3))
    assert completes(given)


def test_no_recovery_without_a_coordinator_but_work_goes_on() -> None:
    assert completes(options(away(FaultKind.COORDINATOR)))
    assert not completes(options(crash(2), away(FaultKind.COORDINATOR)))
    assert completes(options(crash(2), away(FaultKind.COORDINATOR, 60_000_000)))


def replan(at_us: int) -> Fault:
    return Fault(kind=FaultKind.REPLAN, at_us=at_us, until_us=at_us, plan=(2,))


def replicated_at_the_end(*faults: Fault) -> bool:
    """Return True if task 2 gets a replica within a minute after the plan changes."""
    given = options(*faults)
    world = World(given, digests(given))
    world.start()
    world.kernel.run(until=60_000_000)
    registry = world.store.registry
    assert isinstance(registry, Registry)
    assert registry.replicated == ((2,) if registry.tasks[2].replica else ())
    return registry.tasks[2].replica is not None


def test_no_change_of_plan_that_the_coordinator_has_not_stored() -> None:
    """Its sender gets no answer; the coordinator cannot request what it never had."""
    told_us, back_us = CRASH_US + 1_000_000, CRASH_US + 3_000_000
    away_then = away(FaultKind.COORDINATOR, back_us)
    assert replicated_at_the_end(replan(told_us))
    assert not replicated_at_the_end(away_then, replan(told_us))
    assert replicated_at_the_end(away_then, replan(told_us), replan(back_us + 1_000_000))


def test_nor_one_that_it_was_told_and_could_not_store_before_it_crashed() -> None:
    told_us = CRASH_US + 1_000_000
    store = away(FaultKind.STORE_AWAY, CRASH_US + 10_000_000)
    restart = replace(away(FaultKind.COORDINATOR, told_us + 2_000_000), at_us=told_us + 1_000_000)
    assert replicated_at_the_end(store, replan(told_us))
    assert not replicated_at_the_end(store, replan(told_us), restart)


def test_an_order_to_a_node_that_is_heard_and_does_not_hear_is_repeated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Only one direction is cut: the heartbeats of the standby nodes go on."""
    lost = [
        Fault(kind=FaultKind.MUTE, at_us=CRASH_US, until_us=20_000_000, target=-1, other=node)
        for node in (4, 5)
    ]
    assert completes(options(crash(2), *lost))
    given: set[str] = set()

    def once(*arguments: Any, **more: Any) -> Any:
        for order in orders_for(*arguments, **more):
            name = repr(replace_struct(order, cause=""))
            if name not in given:
                given.add(name)
                yield order

    monkeypatch.setattr(machine, "orders_for", once)
    assert completes(options(crash(2)))
    given.clear()
    assert not completes(options(crash(2), *lost))
