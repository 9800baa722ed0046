from __future__ import annotations

from collections.abc import Mapping

import pytest

from harness.cluster.clocks import Sample
from harness.cluster.endpoints import KafkaEndpoint
from harness.judging import clocks
from harness.judging.clocks import PassClocks
from harness.measure.collector import Message

NEAR = Sample(offset_s=0.0004, bound_s=0.0005)


class Brokers:
    """A broker whose clock gives these samples, one after the other."""

    samples: list[Sample | None]

    def __init__(self, kafka: KafkaEndpoint, topic: str) -> None:
        assert topic == "practice"

    def compare(self) -> Sample | None:
        return self.samples.pop(0)


class Nodes:
    kafka = KafkaEndpoint(bootstrap="broker:9092")
    clock_limit_s: float | None = 0.005

    def __init__(self, *found: Sample | None) -> None:
        self._found = list(found)

    def clocks(self) -> Mapping[str, Sample | None]:
        return {"r1n1": self._found.pop(0)}


def compared(
    monkeypatch: pytest.MonkeyPatch, broker: list[Sample | None], node: list[Sample | None]
) -> PassClocks:
    monkeypatch.setattr(clocks, "BrokerClock", Brokers)
    monkeypatch.setattr(Brokers, "samples", broker, raising=False)
    found = PassClocks(Nodes(*node), "practice")  # type: ignore[arg-type]
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
