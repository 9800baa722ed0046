"""Small topologies to break, by name, as wirings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from random import Random

from harness.errors import UsageError
from harness.protocol.planned import wiring_of
from harness.protocol.wiring import Wiring, wire
from harness.text import did_you_mean
from harness.topology import named as drawn
from harness.topology.partitioning import Partitioning, routes

_KINDS = {
    "one": Partitioning.ONE_TO_ONE,
    "merge": Partitioning.MERGE,
    "split": Partitioning.SPLIT,
    "full": Partitioning.FULL,
}


def layered(
    sizes: list[int], pairs: list[tuple[int, int, str]], *, memory: int, names: list[str]
) -> Wiring:
    """Operators with ``sizes`` tasks, joined by (upstream, downstream, partitioning) pairs.

    Partitionings are those of the papers: "one" to one, "merge", "split" and "full". A merge or
    a split of degrees that `harness.topology` refuses (two into three, say) is cut the same way:
    the protocol does not mind."""
    first = [sum(sizes[:i]) for i in range(len(sizes) + 1)]
    edges: list[tuple[int, int]] = []
    for up, down, kind in pairs:
        routed = routes(_KINDS[kind], sizes[up], sizes[down])
        edges += [(first[up] + int(i), first[down] + int(j)) for i, j in zip(*routed, strict=True)]
    receiving = {down for _, down, _ in pairs}
    memories = [
        memory if operator in receiving else 1
        for operator, size in enumerate(sizes)
        for _ in range(size)
    ]
    titles = [f"{name}.{i}" for name, size in zip(names, sizes, strict=True) for i in range(size)]
    return wire(edges, names=titles, memory=memories)


@cache
def recovery(memory: int = 3) -> Wiring:
    """Return the recovery topology of the PPA papers (ICDE Fig. 6): 16 sources, then 8, 4, 2, 1."""
    topology = drawn.recovery()
    inner = {operator.name: memory for operator in topology.operators if not operator.rate}
    return wiring_of(topology, inner)


def chain(length: int = 3, memory: int = 3) -> Wiring:
    """One source, then ``length`` tasks in a row."""
    sizes = [1] * (length + 1)
    pairs = [(i, i + 1, "one") for i in range(length)]
    return layered(
        sizes, pairs, memory=memory, names=["source", *(f"O{i + 1}" for i in range(length))]
    )


def join(memory: int = 3) -> Wiring:
    """Two streams of two sources, partitioned fully, joined by two tasks, merged into a sink."""
    return layered(
        [2, 2, 2, 2, 1],
        [(0, 2, "one"), (1, 3, "one"), (2, 4, "full"), (3, 4, "full")],
        memory=memory,
        names=["left", "right", "L", "R", "join"],
    )


def diamond(memory: int = 3) -> Wiring:
    """Return a split and a merge: source, A, then B and C side by side, D."""
    return layered(
        [1, 1, 2, 2, 1],
        [(0, 1, "one"), (1, 2, "split"), (1, 3, "split"), (2, 4, "full"), (3, 4, "full")],
        memory=memory,
        names=["source", "A", "B", "C", "D"],
    )


def full(memory: int = 3) -> Wiring:
    """Three layers of two, each joined fully, with two sinks."""
    return layered(
        [2, 2, 2, 2],
        [(0, 1, "full"), (1, 2, "full"), (2, 3, "full")],
        memory=memory,
        names=["source", "O1", "O2", "O3"],
    )


def borealis(memory: int = 1) -> Wiring:
    """Return the single node of dpc: three input streams into one join."""
    return layered([3, 1], [(0, 1, "full")], memory=memory, names=["stream", "join"])


def random_wiring(random: Random) -> Wiring:
    """Two to four operators of one to three tasks behind one to three sources."""
    depth = random.randint(2, 4)
    sizes = [random.randint(1, 3) for _ in range(depth)]
    pairs: list[tuple[int, int, str]] = []
    for down in range(1, depth):
        ups = [down - 1]
        if down > 1 and random.random() < 0.3:
            ups.append(random.randrange(down - 1))
        for up in ups:
            kinds = ["full"]
            if sizes[up] == sizes[down]:
                kinds.append("one")
            elif sizes[up] > sizes[down]:
                kinds.append("merge")
            else:
                kinds.append("split")
            pairs.append((up, down, random.choice(kinds)))
    return layered(sizes, pairs, memory=random.randint(1, 4), names=[f"O{i}" for i in range(depth)])


NAMED: Mapping[str, Callable[[], Wiring]] = {
    "chain": chain,
    "diamond": diamond,
    "join": join,
    "full": full,
    "borealis": borealis,
    "recovery": recovery,
}


def named(name: str, random: Random) -> Wiring:
    """Return the topology called ``name``; ``random`` is drawn from for "random" alone."""
    if name == "random":
        return random_wiring(random)
    if name not in NAMED:
        raise UsageError(
            f"there is no topology {name!r} to simulate", remedy=did_you_mean(name, TOPOLOGIES)
        )
    return NAMED[name]()


TOPOLOGIES = (*NAMED, "random")
