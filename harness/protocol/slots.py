"""Which live node takes the next copy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from heapq import heapify, heappop, heappush

from harness.protocol.registry import NodeInfo


class FreeSlots:
    """Nodes with room, the least loaded first; in logarithmic time, so thousands can be placed."""

    def __init__(self, nodes: Mapping[int, NodeInfo], loads: Iterable[tuple[int, int]]) -> None:
        """``loads`` are (node, copies it hosts) of the live nodes."""
        self._nodes = nodes
        self._heap = [(load, node) for node, load in loads if load < nodes[node].slots]
        heapify(self._heap)

    def take(self, *, avoid: int | None = None) -> int | None:
        """A node other than ``avoid``, in another rack if there is one; None if all are full."""
        passed: list[tuple[int, int]] = []
        chosen: tuple[int, int] | None = None
        while self._heap and chosen is None:
            entry = heappop(self._heap)
            if avoid is None or self._nodes[entry[1]].rack != self._nodes[avoid].rack:
                chosen = entry
            else:
                passed.append(entry)
        if chosen is None:
            chosen = next((entry for entry in passed if entry[1] != avoid), None)
        for entry in passed:
            if entry is not chosen:
                heappush(self._heap, entry)
        if chosen is None:
            return None
        load, node = chosen
        if load + 1 < self._nodes[node].slots:
            heappush(self._heap, (load + 1, node))
        return node
