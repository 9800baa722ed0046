"""The engine's processes whole, in virtual time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from harness.engines.tasks import control, copies, exchange, hosted
from harness.engines.tasks.coordinator import Deciding
from harness.engines.tasks.copies import Copies, Following
from harness.engines.tasks.hosted import Hosted
from harness.engines.tasks.node import CoordinatorLink
from harness.engines.tasks.operations import NEVER_US
from harness.engines.tasks.pacing import now_us
from harness.engines.tasks.virtual.cluster import HostWorld
from harness.engines.tasks.virtual.draw import HostOptions, draw_faults, draw_host
from harness.engines.tasks.virtual.loop import VirtualLoop
from harness.engines.tasks.virtual.run import HOST, simulate_host
from harness.engines.tasks.virtual.server import VirtualStore
from harness.hosting import codec, frames
from harness.hosting.codec import from_parts
from harness.protocol.effects import NoteCopy, SetTimer
from harness.protocol.schemes import SCHEMES
from harness.simulator.campaign import Choice
from harness.simulator.faults import OF_THE_HOST, Fault, FaultKind, Peer


def short(seed: int, scheme: str, shape: str = "chain") -> HostOptions:
    """Return a run of eight batches without faults."""
    drawn = draw_host(seed, scheme=scheme, topology=shape)
    return replace(drawn, faults=(), batches=8, store_replicas=1)


def fault(kind: FaultKind, at_s: float, for_s: float, target: int = 0, **more: Any) -> Fault:
    """Return a fault from its begin and its length."""
    at_us = round(at_s * 1e6)
    until_us = at_us + round(for_s * 1e6)
    given: dict[str, Any] = {"target": target, "peer": Peer.ALL, **more}
    return Fault(kind=kind, at_us=at_us, until_us=until_us, **given)


def test_every_fault_is_drawn() -> None:
    drawn = [fault for seed in range(500) for fault in draw_faults(seed, 5)]
    assert {fault.kind for fault in drawn} == set(OF_THE_HOST)
    assert {fault.peer for fault in drawn if fault.kind is FaultKind.DEAF} == set(Peer)


def test_another_kind_of_fault_changes_no_other_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    before = [draw_faults(seed, 5) for seed in range(100)]
    monkeypatch.delitem(OF_THE_HOST, FaultKind.KILL)
    for with_it, without in zip(before, map(draw_faults, range(100), [5] * 100), strict=True):
        assert {fault for fault in with_it if fault.kind is not FaultKind.KILL} <= set(without)


@pytest.mark.parametrize("scheme", ["checkpoint", "active"])
def test_without_faults_every_batch_comes(scheme: str) -> None:
    report = simulate_host(short(1, scheme))
    assert report.violation is None, report.violation
    assert report.tentative_outputs == 0


def test_a_run_is_a_function_of_its_seed() -> None:
    options = replace(draw_host(3, scheme="ppa", topology="diamond"), batches=8)
    assert simulate_host(options) == simulate_host(options)


@pytest.mark.parametrize("kind", list(OF_THE_HOST))
def test_each_fault_alone_is_survived(kind: FaultKind) -> None:
    scheme = list(SCHEMES)[list(OF_THE_HOST).index(kind) % len(SCHEMES)]
    one = fault(kind, 6.5, 3.0, target=0, other=1, amount=6)
    report = simulate_host(replace(short(5, scheme), faults=(one,)))
    assert report.violation is None, report.violation
    assert report.faults == {kind: 1}


def test_a_choice_of_faults() -> None:
    whole = Choice(seeds=range(9, 10), fidelity=HOST).options(9)
    choice = Choice(seeds=range(9, 10), faults=(0,), fidelity=HOST)
    assert choice.options(9).faults == whole.faults[:1]


def broken_by(kind: FaultKind) -> str | None:
    """Return the invariant that a run with one fault violates."""
    one = fault(kind, 6.5, 3.0, target=0, other=1, amount=6)
    report = simulate_host(replace(short(5, "checkpoint"), faults=(one,)))
    return report.violation.invariant if report.violation is not None else None


def test_an_error_of_a_client_that_is_dropped_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert broken_by(FaultKind.LOG_REFUSES) is None
    monkeypatch.setattr(copies, "READ_BACK_WITHIN_US", NEVER_US)
    assert broken_by(FaultKind.LOG_REFUSES) is None, "the error is a reason to repeat it"
    monkeypatch.setattr(Copies, "_not_appended", lambda self, sink, error: None)
    assert broken_by(FaultKind.LOG_REFUSES) == "convergence"


def losses(*faults: Fault) -> int:
    """Return how many copies are given up in a run that survives these faults."""
    lost: list[NoteCopy] = []

    def note(world: HostWorld, event: Mapping[str, Any]) -> None:
        if event["event"] == "note" and (found := from_parts(event["note"])).event == "lost":
            lost.append(found)
        heard(world, event)

    heard = HostWorld._heard
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(HostWorld, "_heard", note)
        report = simulate_host(replace(short(5, "checkpoint"), faults=faults))
    assert report.violation is None, "it is no mistake, but work for nothing"
    return len(lost)


def test_a_coordinator_that_was_stopped_gives_no_living_node_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stop = fault(FaultKind.STOP_COORDINATOR, 6.5, 8.0)
    assert losses(stop) == 0
    monkeypatch.setattr(Deciding, "_set_timer", hasty)
    assert losses(stop)


@pytest.mark.parametrize("hours", [-1, 1])
def test_a_step_of_a_wall_clock_gives_no_living_node_up(
    monkeypatch: pytest.MonkeyPatch, hours: int
) -> None:
    step = fault(FaultKind.CLOCK, 6.5, 4.0, amount=hours)
    assert losses(step) == 0
    monkeypatch.setattr(VirtualLoop, "monotonic_us", VirtualLoop.wall_us)
    assert losses() == 0
    assert losses(step)


def test_a_node_that_does_not_hear_the_coordinator_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its heartbeats come, but no order would arrive."""
    deaf = fault(FaultKind.DEAF, 6.5, 8.0, peer=Peer.COORDINATOR)
    cut = replace(deaf, kind=FaultKind.NO_CONTROL)
    assert losses(deaf)
    monkeypatch.setattr(control, "attentive", lambda connected: None)
    assert losses(cut), "its heartbeats do not come"
    assert losses(deaf) == 0


def hasty(self: Deciding, effect: SetTimer) -> None:
    """Fire whatever is due, however late it is."""
    left = effect.at - now_us()
    if left > 0:
        self._loop.call_later(left / 1e6, self._set_timer, effect)
    else:
        self._fire(effect)


def test_a_sink_that_begins_at_the_first_record_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    async def nothing(self: Following) -> None:
        return None

    kill = fault(FaultKind.KILL, 8.0, 1.0, target=0)
    retention = fault(FaultKind.RETENTION, 7.9, 0.0)
    options = short(5, "checkpoint")
    sink_node = options.placement[options.wiring.sinks[0]]
    options = replace(options, faults=(retention, replace(kill, target=sink_node)))
    assert simulate_host(options).violation is None
    monkeypatch.setattr(Following, "_stored_end", nothing)
    report = simulate_host(options)
    assert report.violation is not None
    assert report.violation.invariant == "ended"
    assert "retention" in report.violation.what or "is due" in report.violation.what


@pytest.mark.parametrize(
    ("first", "message"),
    [
        pytest.param(11, "", id="a record before those that are due is left"),
        pytest.param(12, "is due", id="nobody can tell what was deleted"),
        pytest.param(14, "is due", id="records that are due are deleted"),
    ],
)
def test_input_that_the_broker_has_deleted_is_not_read_as_empty(
    monkeypatch: pytest.MonkeyPatch, first: int, message: str
) -> None:
    """The node of a source is killed; its next copy begins with batch 4, of records 12 to 14."""
    drawn = short(5, "checkpoint")
    (source,) = drawn.wiring.sources
    kill = fault(FaultKind.KILL, 8.0, 1.0, target=drawn.placement[source])
    times = {(source, batch): (0, 300_000, 600_000) for batch in range(drawn.batches)}
    options = replace(drawn, faults=(kill,), load=replace(drawn.load, times_us=times))
    strike = HostWorld._strike

    def after_retention(world: HostWorld, fault: Fault) -> None:
        world.broker.forget(world.job.source(source), below=first)
        strike(world, fault)

    monkeypatch.setattr(HostWorld, "_strike", after_retention)
    report = simulate_host(options)
    assert report.faults == {FaultKind.KILL: 1}
    if not message:
        assert report.violation is None, report.violation
    else:
        assert report.violation is not None
        assert message in report.violation.what


class Blind:
    """A module of checksums that finds every bit right."""

    crc32 = staticmethod(lambda *data: 0)


def unchecked(client: exchange.Settings) -> dict[str, Any]:
    """Return the settings of a consumer that delivers wrong bits."""
    return {**SETTINGS(client), "check.crcs": False}


def waits_for_no_replica(self: VirtualStore, server: Any, run: str, replicas: int = 1) -> None:
    STORE(self, server, run, 0)


def begins_where_records_are(self: exchange.Tail, consumer: Any) -> bool:
    """Take the first records from an instant on for all that there were."""
    place = TopicPartition(*self._place, self._begin.at_ms or self._begin.offset)
    if self._begin.at_ms is not None:
        (found,) = consumer.offsets_for_times([place], timeout=10)
        _, high = consumer.get_watermark_offsets(place, timeout=10)
        place.offset = found.offset if found.offset >= 0 else high
    consumer.assign([place])
    return True


def tells_once(self: CoordinatorLink, error: Any) -> None:
    self.send({"problem": {"what": str(error), "remedy": "", "usage": False}})


SETTINGS, STORE = exchange.consumer_settings, VirtualStore.__init__
MISTAKES = {
    "ask for no lost message again": (
        FaultKind.CUT, "chain", 5, Hosted, "_may_ask", lambda *_: False, "convergence"
    ),
    "frames without checksums": (FaultKind.WIRE, "full", 17, frames, "zlib", Blind, "convergence"),
    "control frames without": (FaultKind.WIRE, "chain", 11, control, "zlib", Blind, "ended"),
    "checkpoints without": (
        FaultKind.STORE_DAMAGE, "diamond", 22, codec, "zlib", Blind, "equal-state"
    ),
    "a damaged checkpoint is loaded for ever": (
        FaultKind.ROT, "chain", 7, hosted, "READ_AGAIN", NEVER_US, "convergence"
    ),
    "records without checks": (
        FaultKind.LOG_DAMAGE, "chain", 5, exchange, "consumer_settings", unchecked, "equal-state"
    ),
    "go on behind damaged records": (
        FaultKind.LOG_DAMAGE, "chain", 5, exchange.Tail, "_read_again", lambda *_: True,
        "equal-state",
    ),
    "trust an acknowledgement": (
        FaultKind.LEADER, "chain", 5, copies, "READ_BACK_WITHIN_US", NEVER_US, "convergence"
    ),
    "wait for no replica": (
        FaultKind.FAILOVER, "chain", 7, VirtualStore, "__init__", waits_for_no_replica, "one-life"
    ),
    "input that is gone counts as empty": (
        FaultKind.INPUT_RETENTION, "chain", 16, exchange.Tail, "_position",
        begins_where_records_are, "equal-state",
    ),
    "an error that ends a reader is lost": (
        FaultKind.THREAD, "chain", 5, CoordinatorLink, "problem", tells_once, "convergence"
    ),
}  # fmt: skip
TOGETHER = {
    FaultKind.STORE_DAMAGE: ((FaultKind.KILL, 1.5, 0.5),),
    FaultKind.ROT: ((FaultKind.KILL, 1.51, 0.5),),
    FaultKind.INPUT_RETENTION: ((FaultKind.KILL, 1.51, 0.5),),
    FaultKind.FAILOVER: ((FaultKind.KILL, -0.1, 0.5), (FaultKind.COORDINATOR, 0.1, 1.0)),
    FaultKind.THREAD: ((FaultKind.COORDINATOR, -0.1, 3.0),),
}
"""Faults that must come with one, how much later, and their length."""


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_that_one_kind_of_fault_shows(
    monkeypatch: pytest.MonkeyPatch, mistake: str
) -> None:
    kind, shape, seed, owner, name, wrong, invariant = MISTAKES[mistake]
    options = short(seed, "checkpoint", shape)
    of_source = kind in (FaultKind.THREAD, FaultKind.INPUT_RETENTION)
    node = options.placement[0 if of_source else 1]
    later_ones = (FaultKind.STORE_DAMAGE, FaultKind.ROT, FaultKind.INPUT_RETENTION)
    late_s = 1.5 if kind in later_ones else 0.0
    long_s = {FaultKind.WIRE: 10.0, FaultKind.STORE_DAMAGE: 6.0}.get(kind, 3.0)
    one = fault(kind, 6.5 + late_s, long_s, target=node)
    others = tuple(
        fault(other, 6.5 + later, for_s, target=node)
        for other, later, for_s in TOGETHER.get(kind, ())
    )

    def broken(*faults: Fault) -> str | None:
        report = simulate_host(replace(options, faults=faults))
        return report.violation.invariant if report.violation is not None else None

    assert broken(one, *others) is None
    monkeypatch.setattr(owner, name, wrong)
    assert broken(*others) is None
    assert broken(one, *others) == invariant


def test_a_store_without_replicas_may_lose_a_checkpoint_and_no_output_is_wrong() -> None:
    """The run may stand still then."""
    kill = fault(FaultKind.KILL, 6.4, 0.5)
    failover = fault(FaultKind.FAILOVER, 6.5, 0.0)
    crash = fault(FaultKind.COORDINATOR, 6.6, 1.0)
    options = replace(short(7, "checkpoint"), faults=(kill, failover, crash))
    assert simulate_host(options).violation is None
    assert simulate_host(replace(options, store_replicas=0)).violation is None
