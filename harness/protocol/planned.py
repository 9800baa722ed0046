"""From the planners' topology to the protocol's wiring."""

from __future__ import annotations

from collections.abc import Mapping

from harness.protocol.wiring import Wiring, wire
from harness.topology.model import Topology


def wiring_of(topology: Topology, memory: Mapping[str, int]) -> Wiring:
    """Return the wiring of ``topology`` with the same task numbers, so that a plan fits both.

    Neighbours are listed edge by edge in the topology's order, the tasks of one edge by number: the
    order of an operator's outputs and inputs, which is decided here and nowhere else.

    ``memory`` gives, per operator, the batches of input that its state depends on; operators that
    are left out depend on one."""
    assert all(batches > 0 for batches in memory.values()), "a task remembers one batch at least"
    edges: list[tuple[int, int]] = []
    for edge in topology.edges:
        first_up = topology.tasks(edge.upstream).start
        first_down = topology.tasks(edge.downstream).start
        ups, downs = topology.shares(edge).nonzero()
        edges += [
            (first_up + int(up), first_down + int(down))
            for up, down in zip(ups, downs, strict=True)
        ]
    places = [topology.place(task) for task in range(topology.task_count)]
    return wire(
        edges,
        names=[f"{operator}.{index}" for operator, index in places],
        memory=[memory.get(operator, 1) for operator, _ in places],
    )
