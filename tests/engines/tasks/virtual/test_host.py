"""The engine's processes whole, in virtual time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from harness.engines.tasks import copies
from harness.engines.tasks.coordinator import Deciding
from harness.engines.tasks.copies import Copies
from harness.engines.tasks.following import Following
from harness.engines.tasks.hosted import Hosted
from harness.engines.tasks.pacing import now_us
from harness.engines.tasks.underway import NEVER_US
from harness.engines.tasks.virtual.campaign import HostChoice
from harness.engines.tasks.virtual.cluster import HostWorld
from harness.engines.tasks.virtual.faults import HostFault, HostOptions, Kind, draw_host
from harness.engines.tasks.virtual.run import simulate_host
from harness.hosting.codec import from_parts
from harness.protocol.effects import NoteCopy, SetTimer
from harness.protocol.schemes import SCHEMES


def short(seed: int, scheme: str, shape: str = "chain") -> HostOptions:
    """Return a run of eight batches without faults."""
    return replace(draw_host(seed, scheme=scheme, shape=shape), faults=(), batches=8)


@pytest.mark.parametrize("scheme", ["checkpoint", "active"])
def test_without_faults_every_batch_comes(scheme: str) -> None:
    report = simulate_host(short(1, scheme))
    assert report.violation is None, report.violation
    assert report.tentative_outputs == 0


def test_a_run_is_a_function_of_its_seed() -> None:
    options = replace(draw_host(3, scheme="ppa", shape="diamond"), batches=8)
    assert simulate_host(options) == simulate_host(options)


@pytest.mark.parametrize("kind", list(Kind))
def test_each_fault_alone_is_survived(kind: Kind) -> None:
    scheme = list(SCHEMES)[list(Kind).index(kind) % len(SCHEMES)]
    fault = HostFault(kind=kind, at_s=6.5, for_s=3.0, node=0, other=1, amount=6)
    report = simulate_host(replace(short(5, scheme), faults=(fault,)))
    assert report.violation is None, report.violation
    assert report.faults == {kind: 1}


def test_a_choice_of_faults() -> None:
    whole = HostChoice(first_seed=9, last_seed=9).options(9)
    choice = HostChoice(first_seed=9, last_seed=9, faults=(0,))
    assert choice.options(9).faults == whole.faults[:1]


def broken_by(kind: Kind) -> str | None:
    """Return the invariant that a run with one fault violates."""
    fault = HostFault(kind=kind, at_s=6.5, for_s=3.0, node=0, other=1, amount=6)
    report = simulate_host(replace(short(5, "checkpoint"), faults=(fault,)))
    return report.violation.invariant if report.violation is not None else None


def test_lost_messages_that_nobody_asks_for_again_are_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert broken_by(Kind.CUT) is None
    monkeypatch.setattr(Hosted, "_may_ask", lambda self, request: False)
    assert broken_by(Kind.CUT) == "convergence"


def test_an_error_of_a_client_that_is_dropped_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert broken_by(Kind.LOG_REFUSES) is None
    monkeypatch.setattr(copies, "READ_BACK_WITHIN_US", NEVER_US)
    assert broken_by(Kind.LOG_REFUSES) is None, "the error is a reason to repeat it"
    monkeypatch.setattr(Copies, "_not_appended", lambda self, sink, error: None)
    assert broken_by(Kind.LOG_REFUSES) == "convergence"


def test_a_coordinator_that_was_stopped_gives_no_living_node_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stop = HostFault(kind=Kind.STOP_COORDINATOR, at_s=6.5, for_s=8.0)
    options = replace(short(5, "checkpoint"), faults=(stop,))
    lost: list[NoteCopy] = []

    def note(world: HostWorld, event: Mapping[str, Any]) -> None:
        if event["event"] == "note" and (found := from_parts(event["note"])).event == "lost":
            lost.append(found)
        heard(world, event)

    heard = HostWorld._heard
    monkeypatch.setattr(HostWorld, "_heard", note)
    assert simulate_host(options).violation is None
    assert lost == []
    monkeypatch.setattr(Deciding, "_set_timer", hasty)
    assert simulate_host(options).violation is None, "it is no mistake, but work for nothing"
    assert lost


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

    kill = HostFault(kind=Kind.KILL, at_s=8.0, for_s=1.0, node=0)
    retention = HostFault(kind=Kind.RETENTION, at_s=7.9, for_s=0.0)
    options = short(5, "checkpoint")
    sink_node = options.placement[options.wiring.sinks[0]]
    options = replace(options, faults=(retention, replace(kill, node=sink_node)))
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
    kill = HostFault(kind=Kind.KILL, at_s=8.0, for_s=1.0, node=drawn.placement[source])
    times = {(source, batch): (0, 300_000, 600_000) for batch in range(drawn.batches)}
    options = replace(drawn, faults=(kill,), load=replace(drawn.load, times_us=times))
    strike = HostWorld._strike

    def after_retention(world: HostWorld, fault: HostFault) -> None:
        world.broker.forget(world.job.source(source), below=first)
        strike(world, fault)

    monkeypatch.setattr(HostWorld, "_strike", after_retention)
    report = simulate_host(options)
    assert report.faults == {Kind.KILL: 1}
    if not message:
        assert report.violation is None, report.violation
    else:
        assert report.violation is not None
        assert message in report.violation.what
