"""The engine's processes whole, in virtual time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
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
from harness.engines.tasks.virtual.run import simulate_host
from harness.engines.tasks.virtual.server import VirtualStore
from harness.hosting import codec, frames
from harness.hosting.codec import from_parts
from harness.protocol.effects import NoteCopy, SetTimer
from harness.protocol.schemes import SCHEMES
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


def violated(options: HostOptions, *faults: Fault) -> str | None:
    """Return the invariant that a run with these faults violates."""
    violation = simulate_host(replace(options, faults=faults)).violation
    return violation.invariant if violation is not None else None


@pytest.mark.parametrize("kind", list(OF_THE_HOST))
def test_each_fault_alone_is_survived(kind: FaultKind) -> None:
    scheme = list(SCHEMES)[list(OF_THE_HOST).index(kind) % len(SCHEMES)]
    one = fault(kind, 6.5, 3.0, target=0, other=1, amount=6)
    report = simulate_host(replace(short(5, scheme), faults=(one,)))
    assert report.violation is None, report.violation
    assert report.faults == {kind: 1}


def test_an_error_of_a_client_that_is_dropped_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    options = short(5, "checkpoint")
    refuses = fault(FaultKind.LOG_REFUSES, 6.5, 3.0, target=0, other=1, amount=6)
    monkeypatch.setattr(copies, "READ_BACK_WITHIN_US", NEVER_US)
    assert violated(options, refuses) is None, "the error is a reason to repeat it"
    monkeypatch.setattr(Copies, "_not_appended", lambda self, sink, error: None)
    assert violated(options, refuses) == "convergence"


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


BLIND = SimpleNamespace(crc32=lambda *data: 0)
"""A module of checksums that finds every bit right."""


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


async def finds_no_end(self: Following) -> None:
    """Begin at the first record, which may be deleted."""


def tells_once(self: CoordinatorLink, error: Any) -> None:
    self.send({"problem": {"what": str(error), "remedy": "", "usage": False}})


SETTINGS, STORE = exchange.consumer_settings, VirtualStore.__init__


@dataclass(frozen=True)
class Mistake:
    """One thing that is wrong, and the faults with which a run shows it."""

    kind: FaultKind
    owner: Any
    attribute: str
    wrong: Any
    """In its place."""
    invariant: str
    """Violated by the mistake."""
    seed: int = 5
    shape: str = "chain"
    task: int = 1
    """The faults are of its node; -1: of the sink's."""
    at_s: float = 6.5
    for_s: float = 3.0
    others: Sequence[tuple[FaultKind, float, float]] = ()
    """Faults that must come with it: kind, begin and length."""


MISTAKES = {
    "ask for no lost message again": Mistake(
        FaultKind.CUT, Hosted, "_may_ask", lambda *_: False, "convergence"
    ),
    "frames without checksums": Mistake(
        FaultKind.WIRE, frames, "zlib", BLIND, "convergence", seed=17, shape="full", for_s=10.0
    ),
    "control frames without": Mistake(
        FaultKind.WIRE, control, "zlib", BLIND, "ended", seed=11, for_s=10.0
    ),
    "checkpoints without": Mistake(
        FaultKind.STORE_DAMAGE, codec, "zlib", BLIND, "equal-state", seed=22, shape="diamond",
        at_s=8.0, for_s=6.0, others=[(FaultKind.KILL, 8.0, 0.5)],
    ),
    "a damaged checkpoint is loaded for ever": Mistake(
        FaultKind.ROT, hosted, "READ_AGAIN", NEVER_US, "convergence", seed=7,
        at_s=8.0, others=[(FaultKind.KILL, 8.01, 0.5)],
    ),
    "records without checks": Mistake(
        FaultKind.LOG_DAMAGE, exchange, "consumer_settings", unchecked, "equal-state"
    ),
    "go on behind damaged records": Mistake(
        FaultKind.LOG_DAMAGE, exchange.Tail, "_read_again", lambda *_: True, "equal-state"
    ),
    "trust an acknowledgement": Mistake(
        FaultKind.LEADER, copies, "READ_BACK_WITHIN_US", NEVER_US, "convergence"
    ),
    "wait for no replica": Mistake(
        FaultKind.FAILOVER, VirtualStore, "__init__", waits_for_no_replica, "one-life", seed=7,
        others=[(FaultKind.KILL, 6.4, 0.5), (FaultKind.COORDINATOR, 6.6, 1.0)],
    ),
    "input that is gone counts as empty": Mistake(
        FaultKind.INPUT_RETENTION, exchange.Tail, "_position", begins_where_records_are,
        "equal-state", seed=16, task=0, at_s=8.0, others=[(FaultKind.KILL, 8.01, 0.5)],
    ),
    "a sink begins at the first record": Mistake(
        FaultKind.RETENTION, Following, "_stored_end", finds_no_end, "ended", task=-1,
        at_s=7.9, for_s=0.0, others=[(FaultKind.KILL, 8.0, 1.0)],
    ),
    "an error that ends a reader is lost": Mistake(
        FaultKind.THREAD, CoordinatorLink, "problem", tells_once, "convergence", task=0,
        others=[(FaultKind.COORDINATOR, 6.4, 3.0)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_that_one_kind_of_fault_shows(
    monkeypatch: pytest.MonkeyPatch, mistake: Mistake
) -> None:
    options = short(mistake.seed, "checkpoint", mistake.shape)
    node = options.placement[mistake.task]
    one = fault(mistake.kind, mistake.at_s, mistake.for_s, target=node)
    others = [fault(kind, at_s, for_s, target=node) for kind, at_s, for_s in mistake.others]
    assert violated(options, one, *others) is None
    monkeypatch.setattr(mistake.owner, mistake.attribute, mistake.wrong)
    assert not others or violated(options, *others) is None
    assert violated(options, one, *others) == mistake.invariant


def test_a_store_without_replicas_may_lose_a_checkpoint_and_no_output_is_wrong() -> None:
    """The run may stand still then."""
    kill = fault(FaultKind.KILL, 6.4, 0.5)
    failover = fault(FaultKind.FAILOVER, 6.5, 0.0)
    crash = fault(FaultKind.COORDINATOR, 6.6, 1.0)
    for replicas in (1, 0):
        options = replace(short(7, "checkpoint"), store_replicas=replicas)
        assert violated(options, kill, failover, crash) is None
