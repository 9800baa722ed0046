from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.cluster.clocks import Sample
from harness.judging import clocks
from harness.judging.clocks import PassClocks
from harness.measure.collector import Message

NEAR = Sample(offset_s=0.0004, bound_s=0.0005)


def compared(
    monkeypatch: pytest.MonkeyPatch, broker: list[Sample | None], node: list[Sample | None]
) -> PassClocks:
    """Return the clocks of a pass after samples of the broker's and a node's clock, in turn."""
    broker_clock = SimpleNamespace(compare=lambda: broker.pop(0))
    monkeypatch.setattr(clocks, "BrokerClock", lambda kafka, topic: broker_clock)
    nodes = SimpleNamespace(kafka=None, clock_limit_s=0.005, clocks=lambda: {"r1n1": node.pop(0)})
    found = PassClocks(cast(Any, nodes), "practice")
    for _ in list(node):
        found.compare()
    return found


def message(*, append_ms: int, readable_ms: int = 0) -> Message:
    return Message(
        append_ms=append_ms, readable_ms=readable_ms, partition=0, offset=0, value=b"", copy=0
    )


def test_the_worst_of_a_pass_is_in_its_record(monkeypatch: pytest.MonkeyPatch) -> None:
    worse = Sample(offset_s=-0.002, bound_s=0.004)
    found = compared(monkeypatch, [NEAR, worse, None], [NEAR, None, worse])
    assert found.conditions() == {
        "broker_offset_s": 0.002, "broker_bound_s": 0.004,
        "clock_offset_s": 0.002, "clock_bound_s": 0.004,
    }  # fmt: skip
    assert found.unclear() is None


def test_a_bound_above_the_limit_and_a_broker_that_never_answered_are_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    vague = Sample(offset_s=0.0, bound_s=0.0061)
    assert "r1n1 is known to 6.1 ms" in str(compared(monkeypatch, [NEAR], [vague]).unclear())
    assert "the broker is known to 6" in str(compared(monkeypatch, [vague], [NEAR]).unclear())
    assert "never seen" in str(compared(monkeypatch, [None], [NEAR]).unclear())


def test_append_times_are_translated_if_the_offset_is_certain(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sent = [message(append_ms=5000), message(append_ms=6000, readable_ms=7000)]
    assert compared(monkeypatch, [NEAR], [NEAR]).translated(sent) == sent
    ahead = Sample(offset_s=0.02, bound_s=0.001)
    found = compared(monkeypatch, [Sample(offset_s=0.05, bound_s=0.04), ahead], [NEAR, NEAR])
    assert [(one.append_ms, one.readable_ms) for one in found.translated(sent)] == [
        (4980, 0), (5980, 6980),
    ]  # fmt: skip
