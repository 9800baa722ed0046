"""A plan that follows the load: rates are measured, the planner is called again, replicas move.

The rates are those at the sources: how fast the ends of their partitions move. When the rates have
drifted, the cheapest change of the running plan that is good enough at the new ones is looked for
(`harness.planning.adaptation`) and handed to the coordinator, which retires replicas and starts
others from checkpoints while the pass goes on. What a change cost and kept is an `Adaptation`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition

from harness.planning.adaptation import adapt
from harness.topology.model import Topology

DRIFT = 0.2
"""Relative change of a source's share of all records since the last call of the planner with which
the planner is called again."""
_WITHIN_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Adaptation:
    """One change of a running plan."""

    at_us: int
    """Instant on the machine's monotonic clock."""
    rates: Mapping[str, float]
    """Source task to records per second, as measured."""
    retired: tuple[int, ...]
    """Tasks whose replica was stopped."""
    started: tuple[int, ...]
    """Tasks that got one: each costs a checkpoint's way and the replay of what came since."""
    plan: tuple[int, ...]
    """The replicated tasks."""
    cost: int
    """Resource units of the replicas that were started."""
    value_before: float
    """Output fidelity at the new rates if all other tasks failed: of the plan that ran, ..."""
    value_after: float
    """... and of the one that runs now."""


class SourceRates:
    """Records per second that arrive at every source task."""

    def __init__(
        self, client: Mapping[str, Any], places: Mapping[int, tuple[str, int]], marker_s: float
    ) -> None:
        """Follow the sources at these ``places``: source task to topic and partition.

        Each partition gets a record without content every ``marker_s`` (0: never), which does not
        count.
        """
        self._consumer = Consumer({**client, "group.id": "rates", "log_level": 2})
        self._places = {task: TopicPartition(*place) for task, place in places.items()}
        self._markers_per_s = 1 / marker_s if marker_s else 0.0
        self._seen: tuple[float, dict[int, int]] | None = None

    def look(self) -> dict[int, float] | None:
        """Return the rates since the last call; None at the first one, or without the broker."""
        try:
            ends = {
                task: int(self._consumer.get_watermark_offsets(place, timeout=_WITHIN_S)[1])
                for task, place in self._places.items()
            }
        except KafkaException:
            return None
        now, before = time.monotonic(), self._seen
        self._seen = (now, ends)
        if before is None:
            return None
        seconds, were = now - before[0], before[1]
        return {
            task: max(0.0, (end - were[task]) / seconds - self._markers_per_s)
            for task, end in ends.items()
        }

    def close(self) -> None:
        self._consumer.close()


def with_rates(topology: Topology, rates: Mapping[int, float]) -> Topology:
    """Return the topology at other rates of its source tasks."""
    operators = []
    for operator in topology.operators:
        if operator.rate is not None:
            first = topology.tasks(operator.name).start
            measured = tuple(rates[first + index] for index in range(operator.parallelism))
            operator = replace(operator, rate=measured)
        operators.append(operator)
    return replace(topology, operators=tuple(operators))


def drifted(planned: Mapping[int, float] | None, rates: Mapping[int, float]) -> bool:
    """Return True if the shares of the sources differ from those that were planned for."""
    total = sum(rates.values())
    if not total or planned is None:
        return bool(total)
    before = sum(planned.values())
    shares = ((planned[task] / before, rate / total) for task, rate in rates.items())
    return any(abs(now - was) > DRIFT * max(was, now) for was, now in shares)


class Adapting:
    """Looks at the rates every so often and adapts the plan. Use it as a context manager."""

    def __init__(
        self,
        topology: Topology,
        rates: SourceRates,
        apply: Callable[[tuple[int, ...]], None],
        *,
        plan: tuple[int, ...],
        budget: int,
        every_s: float,
    ) -> None:
        """``apply`` puts a plan in force; ``budget`` is in the topology's resource units."""
        self._topology, self._rates, self._apply = topology, rates, apply
        self._plan, self._budget, self._every_s = plan, budget, every_s
        self._planned_for: dict[int, float] | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="adapt the plan", daemon=True)
        self.done: list[Adaptation] = []
        """The changes so far."""
        self.asked = 0
        """The number of calls of the planner."""

    def __enter__(self) -> Adapting:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()
        self._rates.close()

    def _run(self) -> None:
        while not self._stopping.wait(self._every_s):
            rates = self._rates.look()
            if rates is not None:
                self.step(rates)

    def step(self, rates: dict[int, float]) -> None:
        """Call the planner if these rates differ from those of its last call; apply its plan."""
        if not drifted(self._planned_for, rates):
            return
        self._planned_for, self.asked = rates, self.asked + 1
        change = adapt(with_rates(self._topology, rates), self._plan, self._budget)
        if not change.retire and not change.start:
            return
        kept = set(self._plan) - set(change.retire)
        self._plan = tuple(sorted(kept | set(change.start)))
        at_us = time.monotonic_ns() // 1000
        self._apply(self._plan)
        names = {task: "{}.{}".format(*self._topology.place(task)) for task in rates}
        self.done.append(
            Adaptation(
                at_us=at_us,
                rates={names[task]: rate for task, rate in rates.items()},
                retired=change.retire,
                started=change.start,
                plan=self._plan,
                cost=change.cost,
                value_before=change.value_before,
                value_after=change.value_after,
            )
        )
