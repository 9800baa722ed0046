"""Expected output fidelity for drawn failures, an extension of the papers.

Both PPA papers plan for the worst case: every task outside the plan dies at once. Most failures
take a node or two, some a rack. Here a plan is judged by a list of failures with their
probabilities, the primaries that each takes, and the replicas that die with them. The worst case
is the list of one failure that takes every primary and no replica.

Tests: ``tests/planning/test_refined.py``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from harness.errors import UsageError
from harness.topology.fidelity import Booleans, Evaluator, Floats
from harness.topology.model import Topology

_FLAGS_AT_ONCE = 1 << 22
"""Plans times failures times tasks that are judged together: bounds the memory."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Failures:
    """Sets of tasks that fail together, with their probabilities given that something fails."""

    primaries: Booleans
    """True where a primary dies, shape ``(failures, tasks)``."""
    replicas: Booleans
    """True where the task's replica, if it has one, dies with it; same shape."""
    weights: Floats
    """Probabilities, shape ``(failures,)``; they add up to 1."""

    def __post_init__(self) -> None:
        if self.primaries.shape != self.replicas.shape or len(self.primaries) == 0:
            raise UsageError(
                f"failures of shape {self.primaries.shape} with replicas of shape "
                f"{self.replicas.shape}",
                remedy="give at least one failure, and for each a flag per task in both",
            )
        if abs(self.weights.sum() - 1) > 1e-9 or (self.weights < 0).any():
            raise UsageError(
                f"the failures' weights add up to {self.weights.sum():g}",
                remedy="give probabilities of 0 or more that add up to 1",
            )

    @classmethod
    def worst_case(cls, topology: Topology) -> Failures:
        """Return the failure of every primary and no replica."""
        every = np.ones((1, topology.task_count), dtype=np.bool_)
        return cls(primaries=every, replicas=~every, weights=np.ones(1))

    @classmethod
    def of_nodes(
        cls, failed: Booleans, *, primary: Sequence[int], replica: Sequence[int]
    ) -> Failures:
        """Build from sampled failures of nodes, shape ``(samples, nodes)``, each equally likely.

        ``primary`` and ``replica`` are the nodes of every task's two copies. Samples that take
        the same copies are one failure of their common weight; those that take no primary are
        harmless and are kept as one failure too."""
        tasks = len(primary)
        assert tasks == len(replica), "a node for both copies of every task"
        both = np.hstack([failed[:, list(primary)], failed[:, list(replica)]])
        # A replica whose primary lives does not matter.
        both[:, tasks:] &= both[:, :tasks]
        unique, counts = np.unique(both, axis=0, return_counts=True)
        return cls(
            primaries=unique[:, :tasks], replicas=unique[:, tasks:], weights=counts / counts.sum()
        )


class Expected:
    """The objective of ``evaluator`` averaged over ``failures``; judges plans as it does."""

    def __init__(self, evaluator: Evaluator, failures: Failures) -> None:
        self.topology, self.failures = evaluator.topology, failures
        self._evaluator = evaluator
        self._saved = failures.primaries & ~failures.replicas
        """True where a replica saves the task in the failure; shape ``(failures, tasks)``."""

    def values(self, plans: ArrayLike) -> Floats:
        """Return the expected objective of every plan, in [0, 1]; shape ``(plans,)``."""
        chosen = np.atleast_2d(np.asarray(plans, dtype=np.bool_))
        each = max(1, _FLAGS_AT_ONCE // self._saved.size)
        return np.concatenate(
            [self._some(chosen[first : first + each]) for first in range(0, len(chosen), each)]
        )

    def _some(self, plans: Booleans) -> Floats:
        alive = ~self.failures.primaries | (plans[:, None, :] & self._saved)
        values = self._evaluator.values(alive.reshape(-1, plans.shape[1]))
        return np.asarray(values.reshape(len(plans), -1) @ self.failures.weights)

    def value(self, plan: ArrayLike) -> float:
        """Return the expected objective of one plan."""
        return float(self.values(plan)[0])

    def gains(self, plan: ArrayLike) -> Floats:
        """Return the change by one replica more or less of each task; shape ``(1, tasks)``."""
        alive = ~self.failures.primaries | (np.asarray(plan, dtype=np.bool_) & self._saved)
        saved = np.where(self._saved, self._evaluator.gains(alive), 0.0)
        return np.asarray((self.failures.weights @ saved)[None])
