"""The parameters of a setup fitted to a cluster and a program: scheme, places, speed and links."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import fields, replace

from harness.cluster.base import Node
from harness.engines.base import Setup
from harness.engines.tasks.job import slots_per_node, spread
from harness.engines.tasks.pacing import US_PER_S, Links, Speed
from harness.engines.tasks.parameters import Borealis, TaskParameters
from harness.errors import UsageError
from harness.protocol.coordinator.registry import NodeInfo
from harness.protocol.scheme import Scheme, Tentative
from harness.protocol.schemes import SCHEMES, make_scheme
from harness.protocol.wiring import Wiring


def parameters_of(setup: Setup) -> TaskParameters:
    """Return the setup's parameters, the defaults if it has none."""
    given = setup.parameters or TaskParameters()
    assert isinstance(given, TaskParameters), given
    return given


def scheme_of(setup: Setup, wiring: Wiring, interval_s: float) -> Scheme:
    """Return the protocol's scheme for a setup."""
    given = parameters_of(setup)
    tentative = None
    if SCHEMES[setup.scheme].closing is not None:
        tentative = Tentative(bound_us=round(given.bound_s * US_PER_S))
        if given.borealis is not None:
            chosen = {each.name: getattr(given.borealis, each.name) for each in fields(Borealis)}
            tentative = replace(tentative, interval_us=round(interval_s * US_PER_S), **chosen)
    return make_scheme(
        setup.scheme,
        wiring,
        checkpoint_every=max(1, round(given.checkpoint_s / interval_s)),
        plan=tuple(sorted(given.plan)),
        tentative=tentative,
        recovery_order=tuple(given.recovery_order),
        keeps_replicas=given.keeps_replicas,
        heartbeat_us=round(given.heartbeat_s * US_PER_S),
        suspect_after_us=round(given.suspect_s * US_PER_S),
        trim_every_us=round(given.trim_s * US_PER_S),
    )


def infos(
    given: TaskParameters, nodes: Sequence[Node], wiring: Wiring, scheme: Scheme
) -> tuple[NodeInfo, ...]:
    """Return the nodes with their slots; raise `UsageError` where the tasks do not fit on them."""
    tasks = len(wiring.names)
    slots = given.slots
    if slots is None:
        racks = Counter(node.rack for node in nodes)
        slots = slots_per_node(tasks + len(scheme.replicated), racks)
    each = [slots] * len(nodes) if isinstance(slots, int) else list(slots)
    if len(each) != len(nodes) or sum(each) < tasks:
        raise UsageError(
            f"{tasks} tasks on {len(nodes)} nodes with slots {each}, {sum(each)} in all: they do "
            "not fit",
            remedy="give more slots (a node takes any number of copies), one number or as many as "
            "there are nodes, or leave slots out",
        )
    return tuple(
        NodeInfo(name=node.name, rack=node.rack, slots=most)
        for node, most in zip(nodes, each, strict=True)
    )


def placement_of(
    given: TaskParameters, nodes: Sequence[NodeInfo], wiring: Wiring
) -> tuple[int, ...]:
    """Return, for each task, the node of its first primary.

    By default the nodes that are there from the start take turns."""
    chosen = tuple(given.placement)
    if not chosen:
        return spread(wiring, nodes, late=late_of(given, len(nodes)))
    if len(chosen) != len(wiring.names) or max(chosen) >= len(nodes):
        raise UsageError(
            f"the placement {chosen} is for {len(chosen)} tasks; the program has "
            f"{len(wiring.names)}, on nodes 0 to {len(nodes) - 1}",
            remedy="make the placement for this topology and this cluster",
        )
    return chosen


def late_of(given: TaskParameters, nodes: int) -> frozenset[int]:
    """Return the nodes for which a pass does not wait."""
    late = frozenset(given.late)
    if not late < set(range(nodes)):
        raise UsageError(
            f"nodes {sorted(late)} are late, of nodes 0 to {nodes - 1}",
            remedy="name nodes of this cluster, and leave one that is there from the start",
        )
    return late


def replicas_of(
    given: TaskParameters, nodes: Sequence[NodeInfo], scheme: Scheme, wiring: Wiring
) -> tuple[int, ...]:
    """Return, for each task, the node of its replica.

    It is -1 where any node will do; the whole is empty where that is so everywhere."""
    if not given.replicas_at:
        return ()
    for task, node in given.replicas_at.items():
        if task not in scheme.replicated or node not in range(len(nodes)):
            raise UsageError(
                f"replicas_at puts task {task} on node {node}; the plan replicates "
                f"{scheme.replicated}, and there are nodes 0 to {len(nodes) - 1}",
                remedy="name tasks of the plan and nodes of this cluster",
            )
    return tuple(given.replicas_at.get(task, -1) for task in wiring.tasks)


def speed_of(given: TaskParameters, nodes: int) -> Speed:
    """Return the declared speed; raise `UsageError` for a wrong number of nodes."""
    away = given.restart_s
    each = (float(away),) * nodes if isinstance(away, int | float) else tuple(away)
    if len(each) != nodes:
        raise UsageError(
            f"restart_s is {each}, and there are {nodes} nodes",
            remedy="give one number of seconds, or one for each node: (2, 4, 6)",
        )
    return Speed(
        tuples_per_s=given.tuples_per_s,
        copied_tuples_per_s=given.copied_tuples_per_s,
        checkpoint_bytes_per_s=given.checkpoint_bytes_per_s,
        restart_s=each,
    )


def links_of(given: TaskParameters, nodes: Sequence[NodeInfo]) -> Links:
    """Return the declared links; raise `UsageError` if they are for another cluster."""
    rows = len(given.links.pairs_us)
    if rows and rows != len(nodes) + 1:
        raise UsageError(
            f"the links are for {rows - 1} nodes and the cluster has {len(nodes)}",
            remedy="make them for this cluster: a row for every node and for the coordinator",
        )
    return given.links
