"""A run of the processes in virtual time with its faults, drawn from a seed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

from harness.engines.tasks.virtual.loop import EPOCH_S
from harness.engines.tasks.virtual.program import SHAPES, Load
from harness.protocol.schemes import SCHEMES
from harness.seeds import derive_seed
from harness.simulator.draw import draw_nodes, draw_scheme
from harness.simulator.faults import AT_ONCE, OF_THE_HOST, ONE_WAY, Fault, FaultKind, Peer
from harness.simulator.options import Options

BATCH_US, BATCHES = 1_000_000, 16
BEGIN_S = 3.0
"""The start of batch 0, by the virtual clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostOptions(Options):
    """A run of the processes in virtual time."""

    memory: int
    load: Load
    store_replicas: int = 1
    """Replicas of Redis that confirm checkpoints and decisions; with 0 a failover loses some."""

    @property
    def healed_s(self) -> float:
        """The end of the last fault, or of the load."""
        ends = [fault.until_us / 1e6 for fault in self.faults]
        return max([BEGIN_S + (self.batches + 1) * BATCH_US / 1e6, *ends])


MOST_S = {FaultKind.LINK: 4.0, FaultKind.BUSY: 6.0}
"""Longest times: two nodes that never reach each other end a run, and so they should."""
LENGTHS_S = (0.3, 0.3, 1.5, 1.5, 5.0, 5.0, 5.0, 5.0, 15.0, 15.0, 15.0, 60.0)
LONGEST_S = 1_200.0
"""Twenty minutes, once in a while."""
REFUSALS = (5, 6, 7, 9, 19, 20, 21, 29, 43, 72, 87)
"""Codes of Kafka's for a record: no leader, not the leader, timed out, replica unknown, too few in
sync, after append, acknowledgements, authorization, message version, listener, invalid record."""
AMOUNTS = {FaultKind.LOG_REFUSES: REFUSALS, FaultKind.CLOCK: (-1, 1)}


def draw_host(seed: int, *, scheme: str | None = None, topology: str | None = None) -> HostOptions:
    """Return the run of a seed; None as an option draws that one too."""

    def random(name: str) -> Random:
        return Random(derive_seed(seed, "host", name))

    dice = random("options")
    name = scheme or random("scheme").choice(list(SCHEMES))
    shape = topology or random("shape").choice(list(SHAPES))
    memory = dice.randint(1, 3)
    wiring = SHAPES[shape].wiring(memory)
    chosen = draw_scheme(name, wiring, random("intervals"))
    beat = dice.choice((200_000, 500_000, 1_000_000))
    chosen = replace(
        chosen,
        heartbeat_us=beat,
        suspect_after_us=beat * dice.choice((3, 5)),
        trim_every_us=1_000_000,
        join_within_us=2_000_000,
    )
    nodes, placement = draw_nodes(wiring, chosen, random("nodes"))
    times = {
        (source, batch): tuple(sorted(dice.randrange(BATCH_US) for _ in range(dice.randint(0, 3))))
        for source in wiring.sources
        for batch in range(BATCHES)
    }
    load = Load(start_us=round((EPOCH_S + BEGIN_S) * 1e6), batch_us=BATCH_US, times_us=times)
    return HostOptions(
        seed=seed,
        topology=shape,
        memory=memory,
        wiring=wiring,
        scheme=chosen,
        nodes=nodes,
        placement=placement,
        load=load,
        batches=BATCHES,
        interval_us=BATCH_US,
        tuples=1,
        closes_connections=dice.random() < 0.8,
        store_replicas=random("store").choice((0, 1, 1, 1)),
        faults=draw_faults(seed, len(nodes)),
    )


def draw_faults(seed: int, nodes: int) -> tuple[Fault, ...]:
    """Draw one to six faults, some while others last.

    The kind of a fault is the one whose own draw is the lowest: another kind in `OF_THE_HOST`
    replaces some faults of a seed, and changes nothing about the others."""
    faults: list[Fault] = []
    at_s = 0.0
    for number in range(Random(derive_seed(seed, "host", "faults")).randint(1, 6)):

        def turn(kind: FaultKind, number: int = number) -> float:
            dice = Random(derive_seed(seed, "host", "kind", number, kind.value))
            return dice.expovariate(OF_THE_HOST[kind])

        kind, dice = min(OF_THE_HOST, key=turn), Random(derive_seed(seed, "host", "fault", number))
        alone_s = dice.uniform(0.5, BEGIN_S + BATCHES)
        soon, after_s = dice.random() < 0.4, dice.uniform(0.0, 2.0)
        at_s = at_s + after_s if faults and soon else alone_s
        lasting = LONGEST_S if dice.random() < 0.01 else dice.choice(LENGTHS_S)
        peer = dice.choice(list(Peer)) if kind in ONE_WAY else Peer.NODE
        most_s = MOST_S.get(
            FaultKind.LINK if kind in ONE_WAY and peer is Peer.NODE else kind, lasting
        )
        node = dice.randrange(nodes)
        for_s = 0.0 if kind in AT_ONCE else min(lasting, most_s) * dice.uniform(0.5, 1.0)
        at_us = round(at_s * 1e6)
        faults.append(
            Fault(
                kind=kind,
                at_us=at_us,
                until_us=at_us + round(for_s * 1e6),
                target=node,
                other=(node + dice.randrange(1, nodes)) % nodes if nodes > 1 else node,
                amount=dice.choice(AMOUNTS.get(kind, (0,))),
                peer=peer,
            )
        )
    return tuple(sorted(faults, key=lambda fault: fault.at_us))
