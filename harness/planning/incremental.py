"""Orders in which to restore failed tasks (ppa TKDE, section 5).

Resources come back one by one; the measure is the area under the output fidelity until all
tasks are back. INC restores whole MC-trees, those first whose segments many failed MC-trees
share (Algorithms 4 and 5); TO, the paper's baseline, restores in topological order.

Readings of the printed algorithms:

* Algorithm 5 ranks a structured candidate by ``gain / sum(cost(g) / f_g)``, with f_g the number
  of failed MC-trees that share segment g. Here it is per failed task, its cost divided by the
  number of segments that contain it: the same where segments do not overlap, and no task is paid
  for twice where they do. f counts what is still failed, as line 20 updates it; `Incremental`
  can count all segments instead, once and for all.
* For full sub-topologies f is garbled in print, and as a step is one task it would only favour
  narrow operators. The gain of the whole objective decides, as between all parts.
* Sub-topologies without a whole MC-tree come first (S1 of Algorithm 4), since nothing comes out
  before all are connected: a step that gains nothing alone is completed to an MC-tree."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar

import numpy as np

from harness.planning.base import flags
from harness.planning.greedy import single_failure_values
from harness.planning.parts import Part, Step, Structured
from harness.planning.readings import PRINTED, Readings
from harness.planning.structure_aware import Ranking, Search
from harness.topology.fidelity import Booleans, Evaluator, Floats, Objective
from harness.topology.model import Topology


class RecoveryOrder(ABC):
    """One way to order restoration; the same input always gives the same order."""

    name: ClassVar[str]

    def order(
        self, topology: Topology, *, alive: Sequence[int] = (), objective: Objective = Objective.OF
    ) -> tuple[int, ...]:
        """Return the failed tasks, all but ``alive``, in the order in which to restore them."""
        found = self._order(Evaluator(topology, objective), flags(topology, tuple(alive)))
        assert sorted((*found, *set(alive))) == list(range(topology.task_count)), "each task once"
        return tuple(found)

    @abstractmethod
    def _order(self, evaluator: Evaluator, alive: Booleans) -> list[int]:
        """Return the tasks that are not ``alive``, each once."""


class TopologicalOrder(RecoveryOrder):
    """TO: of the tasks with everything upstream running, the one whose failure hurts most."""

    name = "to"

    def _order(self, evaluator: Evaluator, alive: Booleans) -> list[int]:
        hurts = single_failure_values(evaluator)
        readers = _readers(evaluator.topology)
        missing = np.zeros(len(alive), dtype=np.int64)
        """Failed upstream tasks of each task."""
        for failed in np.flatnonzero(~alive).tolist():
            missing[readers[failed]] += 1
        pool: set[int] = set(np.flatnonzero(~alive & (missing == 0)).tolist())
        order: list[int] = []
        while pool:
            task = min(pool, key=lambda candidate: (hurts[candidate], candidate))
            pool.remove(task)
            order.append(task)
            for reader in readers[task]:
                missing[reader] -= 1
                assert missing[reader] >= 0
                if missing[reader] == 0 and not alive[reader]:
                    pool.add(reader)
        return order


class Incremental(RecoveryOrder):
    """INC: whole MC-trees, the densest first, weighted by how many failed trees they help."""

    name = "inc"

    def __init__(self, *, updated: bool = True, readings: Readings = PRINTED) -> None:
        """Set the readings.

        With ``updated``, f_g falls as trees come back (Algorithm 5, line 20); ``readings`` are
        those of the search for steps, which INC shares with SA."""
        self._updated, self._readings = updated, readings

    def _order(self, evaluator: Evaluator, alive: Booleans) -> list[int]:
        topology = evaluator.topology
        missing = int(topology.costs[~alive].sum())
        ranking = _shared_first(topology, updated=self._updated)
        search = Search(evaluator, missing, plan=alive, ranking=ranking, readings=self._readings)
        rank = {name: position for position, name in enumerate(topology.order)}
        order: list[int] = []
        while steps := search.best_steps():
            for step in steps:
                new = np.flatnonzero(step.tasks & ~search.plan).tolist()
                order += sorted(new, key=lambda task: (rank[topology.place(task)[0]], task))
                search.take(step)
        # The other tasks give no output: they are in no query, or carry nothing.
        return order + np.flatnonzero(~search.plan).tolist()


def fidelity_curve(
    topology: Topology, order: Sequence[int], *, alive: Sequence[int] = ()
) -> tuple[Floats, Floats]:
    """Return the output fidelity while resources arrive one by one.

    The first array is the share of the missing resources that has arrived, from 0 to 1, the second
    the output fidelity then; both have length ``len(order) + 1``."""
    plans = np.repeat(flags(topology, tuple(alive))[None], len(order) + 1, axis=0)
    for position, task in enumerate(order, start=1):
        plans[position:, task] = True
    spent = np.concatenate([[0.0], np.cumsum(topology.costs[list(order)])])
    return spent / max(spent[-1], 1.0), Evaluator(topology).values(plans)


def area(arrived: Floats, values: Floats) -> float:
    """Return the mean objective until all is restored, if resources arrive evenly (Definition 3).

    A value holds until the next task's resources are there."""
    assert len(arrived) == len(values)
    return float((np.diff(arrived) * values[:-1]).sum())


def _shared_first(topology: Topology, *, updated: bool) -> Ranking:
    """Rank steps by gain per unit, where a task that many failed segments share costs less."""

    def ranking(part: Part, plan: Booleans) -> Callable[[Step], float]:
        if not isinstance(part, Structured):
            return lambda step: step.density
        shared = part.segments_per_task(plan if updated else None)
        weighted = topology.costs / np.maximum(shared, 1)
        return lambda step: step.gain / max(float(weighted[step.tasks & ~plan].sum()), 1e-12)

    return ranking


def _readers(topology: Topology) -> list[list[int]]:
    """Return the tasks that read from each task, once for each substream."""
    readers: list[list[int]] = [[] for _ in range(topology.task_count)]
    for edge in topology.edges:
        senders, receivers = topology.substream_tasks(edge)
        for sender, receiver in zip(senders.tolist(), receivers.tolist(), strict=True):
            readers[sender].append(receiver)
    return readers
