"""Plans that change during a pass: with the load (`Adapting`), or to and fro (`Alternating`).

The rates are those at the sources: how fast the ends of their partitions move. When the rates have
drifted, the cheapest change of the running plan that is good enough at the new ones is looked for
(`harness.planning.adaptation`) and handed to the coordinator, which retires replicas and starts
others from checkpoints while the pass goes on. What a change cost and kept is an `Adaptation`."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

from confluent_kafka import Consumer, KafkaException, TopicPartition

from harness.planning.adaptation import adapt
from harness.planning.base import flags
from harness.topology.fidelity import Evaluator, Objective
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
        count."""
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


class Changing(ABC):
    """A plan that changes during a pass. Use it as a context manager around the pass."""

    def __init__(
        self,
        topology: Topology,
        apply: Callable[[tuple[int, ...]], None],
        plan: tuple[int, ...],
        every_s: float,
    ) -> None:
        """``apply`` puts a plan in force; ``plan`` is the first, looked at every ``every_s``."""
        self._topology, self._apply, self._plan = topology, apply, plan
        self._every_s = every_s
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="change the plan", daemon=True)
        self.done: list[Adaptation] = []
        """The changes so far, in order."""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()

    def _change(self, rates: Mapping[str, float], plan: tuple[int, ...], **change: Any) -> None:
        """Put a plan in force and note the change."""
        at_us = time.monotonic_ns() // 1000
        self._apply(plan)
        self._plan = plan
        self.done.append(Adaptation(at_us=at_us, rates=rates, plan=plan, **change))

    def _run(self) -> None:
        while not self._stopping.wait(self._every_s):
            self._look()

    @abstractmethod
    def _look(self) -> None:
        """Change the plan if it is time."""


class Adapting(Changing):
    """A plan that follows the measured rates."""

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
        """``budget`` is in the topology's resource units."""
        super().__init__(topology, apply, plan, every_s)
        self._rates, self._budget = rates, budget
        self._planned_for: dict[int, float] | None = None
        self.asked = 0
        """The number of calls of the planner."""

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        self._rates.close()

    def _look(self) -> None:
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
        names = {task: "{}.{}".format(*self._topology.place(task)) for task in rates}
        self._change(
            {names[task]: rate for task, rate in rates.items()},
            tuple(sorted(kept | set(change.start))),
            retired=change.retire,
            started=change.start,
            cost=change.cost,
            value_before=change.value_before,
            value_after=change.value_after,
        )


class Alternating(Changing):
    """A plan that changes to and fro, at any rates, to measure the cost of a change.

    Every so often the replicas of one half of the plan's tasks are retired and those of the other
    half started from checkpoints. The notes give the cost of orders, readers and checkpoints on
    this machine (`Noticed.adapted`), and the simulator uses these costs, none of which is of a
    recovery."""

    def __init__(
        self,
        topology: Topology,
        apply: Callable[[tuple[int, ...]], None],
        *,
        plan: tuple[int, ...],
        every_s: float,
    ) -> None:
        """At first all of ``plan`` is replicated."""
        assert len(plan) > 1, "one task cannot take turns"
        super().__init__(topology, apply, plan, every_s)
        self._halves = plan[::2], plan[1::2]

    def _look(self) -> None:
        self.step()

    def step(self) -> None:
        """Change to the other half now."""
        before, after = self._plan, self._halves[len(self.done) % 2]
        started = tuple(task for task in after if task not in before)
        topology, evaluator = self._topology, Evaluator(self._topology, Objective.OF)
        self._change(
            {},
            after,
            retired=tuple(task for task in before if task not in after),
            started=started,
            cost=int(topology.costs[list(started)].sum()),
            value_before=evaluator.value(flags(topology, before)),
            value_after=evaluator.value(flags(topology, after)),
        )
