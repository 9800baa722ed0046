"""Operators that raise: on which nodes, and whether that is everywhere.

An operator is a function of its arguments, so one that raises for a batch on two nodes will do so
on any other: going on would only move the failure around. One that raises on one node alone may
have had too little memory there; its task is given another node.
"""

from __future__ import annotations

from collections.abc import Set

from harness.protocol.inputs import CopyReport

EVERYWHERE = 2
"""Different nodes on which a batch has to fail."""
ALONE = 3
"""Failures in a row on the only node of a cluster that count as much: there is no other to try."""


class OperatorFailures:
    """In memory: a new coordinator sees the next failure as the first."""

    def __init__(self) -> None:
        self._nodes: dict[int, tuple[int, frozenset[int]]] = {}
        """Task to the batch that failed last, and the nodes on which it did."""
        self._copies: dict[int, set[int]] = {}
        """Task to the copies, by incarnation, that it failed for."""

    def note(self, report: CopyReport, node: int, *, cluster: int) -> bool:
        """A copy on ``node`` of a ``cluster`` of so many has given up; True if its batch fails
        everywhere."""
        assert cluster > 0, "the node that reports is one of the cluster's"
        batch, nodes = self._nodes.get(report.task, (report.position, frozenset()))
        if batch != report.position:
            nodes = frozenset()
            self._copies.pop(report.task, None)
        self._nodes[report.task] = report.position, nodes | {node}
        copies = self._copies.setdefault(report.task, set())
        copies.add(report.incarnation)
        return len(nodes | {node}) >= EVERYWHERE or (cluster == 1 and len(copies) >= ALONE)

    def times(self, task: int) -> int:
        """How many copies of ``task`` have failed at the batch that failed last."""
        return len(self._copies.get(task, ()))

    def nodes(self, task: int) -> Set[int]:
        """Where ``task`` had better not go again."""
        return self._nodes[task][1] if task in self._nodes else frozenset()
