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


class Failures:
    """In memory: a new coordinator sees the next failure as the first."""

    def __init__(self) -> None:
        self._nodes: dict[int, tuple[int, frozenset[int]]] = {}
        """Task to the batch that failed last, and the nodes on which it did."""

    def note(self, report: CopyReport, node: int) -> bool:
        """A copy on ``node`` has given up; True if its batch fails everywhere."""
        batch, nodes = self._nodes.get(report.task, (report.position, frozenset()))
        if batch != report.position:
            nodes = frozenset()
        self._nodes[report.task] = report.position, nodes | {node}
        return len(nodes | {node}) >= EVERYWHERE

    def nodes(self, task: int) -> Set[int]:
        """Where ``task`` had better not go again."""
        return self._nodes[task][1] if task in self._nodes else frozenset()
