"""The clocks of the broker and the nodes, compared before, during and after a pass.

Latencies are in the harness's clock. Where round trips prove that a broker on another machine has
another one, its append times are translated. The largest offset and bound of a pass are in its
record; a bound above the cluster's limit makes times worthless, not the run.

Tests: ``tests/judging/test_clocks.py``."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from harness.cluster.base import Cluster
from harness.cluster.clocks import BrokerClock, Sample
from harness.measure.collector import Message

EVERY_S = 5.0
BROKER = "the broker"


class PassClocks:
    """The comparisons of one pass."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        """Prepare them; ``topic`` has append times, and nobody reads it."""
        self._cluster = cluster
        self._broker = BrokerClock(cluster.kafka, topic)
        self._found: dict[str, list[Sample]] = {}
        self._next_s = 0.0

    def compare(self) -> None:
        """Compare all clocks now."""
        broker = self._broker.compare()
        for name, sample in {BROKER: broker, **self._cluster.clocks()}.items():
            if sample is not None:
                self._found.setdefault(name, []).append(sample)
        self._next_s = time.monotonic() + EVERY_S

    def compare_again(self) -> None:
        """Compare all clocks if `EVERY_S` have passed."""
        if time.monotonic() >= self._next_s:
            self.compare()

    def translated(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Return messages with the broker's times by the harness's clock."""
        samples = self._found.get(BROKER, [])
        best = min(samples, key=lambda one: one.bound_s, default=None)
        if self._cluster.clock_limit_s is None or best is None or not best.certain_s:
            return messages
        shift_ms = round(best.offset_s * 1000)
        return [
            replace(
                message,
                append_ms=message.append_ms - shift_ms,
                readable_ms=message.readable_ms and message.readable_ms - shift_ms,
            )
            for message in messages
        ]

    def conditions(self) -> Mapping[str, float | None]:
        """Return the values of a record: the largest of the pass."""
        nodes = [one for name, found in self._found.items() if name != BROKER for one in found]
        return {**_largest("broker", self._found.get(BROKER, ())), **_largest("clock", nodes)}

    def unclear(self) -> str | None:
        """Return whose clock is known too badly for times, and how badly."""
        limit_s = self._cluster.clock_limit_s
        if limit_s is None:
            return None
        bounds = {name: max(one.bound_s for one in found) for name, found in self._found.items()}
        if BROKER not in bounds:
            return "the broker's clock was never seen, and every latency rests on it"
        name = max(bounds, key=lambda name: bounds[name])
        if bounds[name] <= limit_s:
            return None
        return (
            f"the clock of {name} is known to {bounds[name] * 1e3:.1f} ms only, by round trips, "
            f"and {limit_s * 1e3:g} ms are allowed"
        )


def _largest(name: str, samples: Sequence[Sample]) -> dict[str, float | None]:
    return {
        f"{name}_offset_s": max((abs(one.offset_s) for one in samples), default=None),
        f"{name}_bound_s": max((one.bound_s for one in samples), default=None),
    }
