"""What the parameters of a setup mean: a scheme, places, declared speed and links.

All of them are scalars, so that they stand in a record and on a command line as they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from harness.cluster.base import Node
from harness.engines.base import Setup
from harness.engines.tasks.job import slots_per_node, spread
from harness.engines.tasks.pacing import Links, Speed
from harness.errors import UsageError
from harness.protocol.coordinator.registry import NodeInfo
from harness.protocol.scheme import Scheme, Tentative
from harness.protocol.schemes import SCHEMES, make_scheme
from harness.protocol.wiring import Wiring

PARAMETERS: Mapping[str, str] = {
    "checkpoint_s": "seconds between checkpoints (5)",
    "heartbeat_s": "seconds between a node's heartbeats (0.25)",
    "suspect_s": "seconds of silence after which a node is treated as lost (1)",
    "trim_s": "seconds between a primary's reports of its progress to its replica (5)",
    "by_connection": "whether the end of a connection counts as a death (true)",
    "notes_progress": "whether every batch is noted, as recoveries are measured by (true)",
    "plan": "the tasks with a replica, by number and comma, for rppg, ppa and dpc (none)",
    "adapt_s": "how often the rates are measured and the plan adapted to them, for rppg, ppa and "
    "dpc (0: never)",
    "alternate_s": "how often replicas move from one half of the plan to the other, to see what a "
    "change takes, for rppg, ppa and dpc (0: never)",
    "budget": "the most replicas of an adapted plan (as many as the plan has)",
    "bound_s": "how long a failure must last before output is tentative (0)",
    "recovery_order": "the order in which lost tasks get a node, by number and comma; the others "
    "follow by number (by number)",
    "placement": "task to the node of its first primary, by number and comma (in turn, by rack)",
    "replicas_at": "where replicas go, task:node by number and comma (any node, by rack and load)",
    "late": "nodes that may join while the pass runs, by number and comma (none)",
    "slots": "how many copies a node takes, one number or one for each node with commas (so many "
    "that the loss of the largest rack is borne)",
    "tuples_per_s": "the declared speed of a node (0: as fast as it is)",
    "copied_tuples_per_s": "the declared speed at which state is copied before the first tentative "
    "batch (that of the node)",
    "checkpoint_bytes_per_s": "the declared speed of checkpoints (0: as fast as they are)",
    "restart_s": "how long a dead node stays away at least, one number or one for each node with "
    "commas (0)",
    "links": "declared delays and bandwidth between nodes, as pacing.Links.to_text writes them "
    "(none)",
}


def number(given: Mapping[str, Any], name: str, default: float) -> float:
    """A parameter, or the default where it is left out or None."""
    found = given.get(name)
    return default if found is None else float(found)


def numbers(given: Mapping[str, Any], name: str) -> tuple[int, ...]:
    """A list of whole numbers; raises `UsageError` if it is none."""
    text = str(given.get(name, "") or "")
    try:
        return tuple(int(part) for part in text.split(",") if part.strip())
    except ValueError as error:
        raise UsageError(
            f"{name} is {text!r}", remedy="give whole numbers with commas between them: 0,3,4"
        ) from error


def scheme_of(setup: Setup, wiring: Wiring, interval_s: float) -> Scheme:
    """The protocol's scheme for what an engine was opened with."""
    given = setup.parameters
    family = SCHEMES[setup.scheme]
    tentative = None
    if family.closing is not None:
        tentative = Tentative(bound_us=round(number(given, "bound_s", 0.0) * 1e6))
    every = max(1, round(number(given, "checkpoint_s", 5.0) / interval_s))
    return make_scheme(
        setup.scheme,
        wiring,
        checkpoint_every=every,
        plan=tuple(sorted(numbers(given, "plan"))),
        tentative=tentative,
        recovery_order=numbers(given, "recovery_order"),
        heartbeat_us=round(number(given, "heartbeat_s", 0.25) * 1e6),
        suspect_after_us=round(number(given, "suspect_s", 1.0) * 1e6),
        trim_every_us=round(number(given, "trim_s", 5.0) * 1e6),
    )


def infos(
    given: Mapping[str, Any], nodes: Sequence[Node], wiring: Wiring, scheme: Scheme
) -> tuple[NodeInfo, ...]:
    """The nodes with their slots; raises `UsageError` where the tasks do not fit on them."""
    tasks = len(wiring.names)
    if given.get("slots") is None:
        racks = Counter(node.rack for node in nodes)
        slots = [slots_per_node(tasks + len(scheme.replicated), racks)] * len(nodes)
    else:
        slots = [int(part) for part in str(given["slots"]).split(",")]
        slots = slots * len(nodes) if len(slots) == 1 else slots
    if len(slots) != len(nodes) or sum(slots) < tasks:
        raise UsageError(
            f"{tasks} tasks on {len(nodes)} nodes with slots {slots}, {sum(slots)} in all: they do "
            "not fit",
            remedy="give more slots (a node takes any number of copies), one number or as many as "
            "there are nodes, or leave slots out",
        )
    return tuple(
        NodeInfo(name=node.name, rack=node.rack, slots=most)
        for node, most in zip(nodes, slots, strict=True)
    )


def placement_of(
    given: Mapping[str, Any], nodes: Sequence[NodeInfo], wiring: Wiring
) -> tuple[int, ...]:
    """Task to the node of its first primary; by default of those that are there from the start,
    in turn."""
    chosen = numbers(given, "placement")
    if not chosen:
        return spread(wiring, nodes, late=late_of(given, len(nodes)))
    if len(chosen) != len(wiring.names) or not all(node in range(len(nodes)) for node in chosen):
        raise UsageError(
            f"the placement {chosen} is for {len(chosen)} tasks; the program has "
            f"{len(wiring.names)}, on nodes 0 to {len(nodes) - 1}",
            remedy="make the placement for this topology and this cluster",
        )
    return chosen


def late_of(given: Mapping[str, Any], nodes: int) -> frozenset[int]:
    """The nodes for which a pass does not wait."""
    late = frozenset(numbers(given, "late"))
    if not late < set(range(nodes)):
        raise UsageError(
            f"nodes {sorted(late)} are late, of nodes 0 to {nodes - 1}",
            remedy="name nodes of this cluster, and leave one that is there from the start",
        )
    return late


def replicas_of(
    given: Mapping[str, Any], nodes: Sequence[NodeInfo], scheme: Scheme, wiring: Wiring
) -> tuple[int, ...]:
    """Task to the node of its replica, -1 where any will do; empty: everywhere."""
    text = str(given.get("replicas_at", "") or "")
    if not text:
        return ()
    found = [-1] * len(wiring.names)
    for part in text.split(","):
        task, _, node = part.partition(":")
        known = task.strip().isdigit() and node.strip().isdigit()
        if not known or int(task) not in scheme.replicated or int(node) not in range(len(nodes)):
            raise UsageError(
                f"replicas_at has {part!r}; the plan replicates {scheme.replicated}, and there "
                f"are nodes 0 to {len(nodes) - 1}",
                remedy="give task:node for tasks of the plan",
            )
        found[int(task)] = int(node)
    return tuple(found)


def speed_of(given: Mapping[str, Any], nodes: int) -> Speed:
    """What the nodes are declared to be; raises `UsageError` for numbers that are none, or as
    many as there are no nodes."""
    return Speed(
        tuples_per_s=number(given, "tuples_per_s", 0.0),
        copied_tuples_per_s=number(given, "copied_tuples_per_s", 0.0),
        checkpoint_bytes_per_s=number(given, "checkpoint_bytes_per_s", 0.0),
        restart_s=restarts_of(given, nodes),
    )


def restarts_of(given: Mapping[str, Any], nodes: int) -> tuple[float, ...]:
    """Node to how long it stays away at least after a death."""
    text = str(given.get("restart_s", 0.0) or 0.0)
    try:
        found = [float(part) for part in text.split(",")]
    except ValueError:
        found = []
    if len(found) not in (1, nodes):
        raise UsageError(
            f"restart_s is {text!r}, and there are {nodes} nodes",
            remedy="give one number of seconds, or one for each node with commas: 2,4,6",
        )
    return tuple(found * nodes if len(found) == 1 else found)


def links_of(given: Mapping[str, Any], nodes: Sequence[NodeInfo]) -> Links:
    """What is declared between the nodes; raises `UsageError` if that is for another cluster."""
    links = Links.from_text(str(given.get("links", "") or ""))
    if links.pairs_us and len(links.pairs_us) != len(nodes) + 1:
        raise UsageError(
            f"the links are for {len(links.pairs_us) - 1} nodes and the cluster has {len(nodes)}",
            remedy="make them for this cluster: a row for every node and for the coordinator",
        )
    return links
