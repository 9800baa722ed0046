"""What goes wrong around the processes of a run in virtual time, drawn from its seed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from random import Random

from harness.engines.tasks.virtual.loop import EPOCH_S
from harness.engines.tasks.virtual.program import SHAPES, Load
from harness.protocol.coordinator.registry import NodeInfo
from harness.protocol.scheme import Scheme
from harness.protocol.schemes import SCHEMES
from harness.protocol.wiring import Wiring
from harness.seeds import derive_seed
from harness.simulator.draw import draw_nodes, draw_scheme

BATCH_US, BATCHES = 1_000_000, 16
BEGIN_S = 3.0
"""The start of batch 0, by the virtual clock."""


class Kind(StrEnum):
    """The kinds of faults; each lasts for a while, unless it is over at once."""

    KILL = "kill"
    """A node's process is killed; another one starts when this is over."""
    COORDINATOR = "coordinator"
    """The coordinator's process is killed; another one starts when this is over."""
    POWER = "power"
    """A node's machine loses its power: no end of any connection is sent."""
    FREEZE = "freeze"
    """A node's process is stopped, then goes on."""
    STOP_COORDINATOR = "stop-coordinator"
    """The coordinator's process is stopped, then goes on."""
    CUT = "cut"
    """A node's machine reaches nobody; nothing is reset."""
    LINK = "link"
    """Two nodes do not reach each other."""
    NO_CONTROL = "no-control"
    """A node does not reach the coordinator."""
    NO_STORE = "no-store"
    """A node does not reach Redis."""
    NO_LOG = "no-log"
    """A node does not reach Kafka."""
    MUTE = "mute"
    """What a node sends to its ``peer`` is lost; what it is sent arrives."""
    DEAF = "deaf"
    """What a node is sent by its ``peer`` is lost; what it sends arrives."""
    WIRE = "wire"
    """Some of what a node's machine sends and gets has a wrong bit, which TCP overlooks."""
    CLOCK = "clock"
    """The wall clock of a node's machine is ``amount`` hours ahead; a negative one is behind."""
    RESET = "reset"
    """Every connection of a node is reset at one end."""
    TEAR = "tear"
    """A node's connections end within a frame."""
    TRICKLE = "trickle"
    """All that a node sends and gets comes a byte a second."""
    BUSY = "busy"
    """Each batch of an operator takes a node seconds."""
    DESCRIPTORS = "descriptors"
    """A node can open nothing."""
    STORE_AWAY = "store-away"
    """Redis is gone, and comes back with what it had."""
    STORE_SILENT = "store-silent"
    """Redis answers nothing, then everything."""
    STORE_SLOW = "store-slow"
    """Each script of Redis takes a second."""
    STORE_FULL = "store-full"
    """Redis has no room for checkpoints."""
    STORE_CROWDED = "store-crowded"
    """Redis accepts no more clients."""
    FAILOVER = "failover"
    """Redis fails over to a replica, which lacks the last second but for what was waited for."""
    STORE_DAMAGE = "store-damage"
    """Some of Redis' answers have a wrong bit."""
    ROT = "rot"
    """All that Redis holds in bytes gets a wrong bit."""
    THREAD = "thread"
    """A node's readers raise an error that nobody expects, which ends the run with a message."""
    STORE_LOSSY = "store-lossy"
    """Some of Redis' answers get lost."""
    LOG_AWAY = "log-away"
    """Kafka is gone, and comes back with what it had."""
    LOG_SILENT = "log-silent"
    """Kafka answers nothing, then everything."""
    LOG_FULL = "log-full"
    """Kafka's disk takes no record."""
    LOG_REFUSES = "log-refuses"
    """Kafka refuses every record, with the error code in ``amount``."""
    LOG_LOSSY = "log-lossy"
    """Some of Kafka's acknowledgements get lost, so that records are appended twice."""
    LOG_SLOW = "log-slow"
    """Kafka's disk takes a second for each record, and keeps what its client has given up, too."""
    LOG_DAMAGE = "log-damage"
    """Some of what is read from Kafka has a wrong bit."""
    LEADER = "leader"
    """The followers of the out topic lag. When this is over one of them leads, and lacks the rest,
    which was acknowledged (``acks=1``) and which nobody could read."""
    RETENTION = "retention"
    """Kafka forgets the records of the out topic whose end is stored."""
    INPUT_RETENTION = "input-retention"
    """Kafka forgets the records of sources but for the last seconds, whether or not they are due
    again: where they are, that ends the run with a message."""


class Peer(StrEnum):
    """The other end of what a cut cuts."""

    ALL = "everybody"
    NODE = "another node"
    COORDINATOR = "the coordinator"
    STORE = "the store"
    LOG = "the log"


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFault:
    """One thing that goes wrong."""

    kind: Kind
    at_s: float
    for_s: float
    node: int = 0
    other: int = 0
    amount: int = 0
    peer: Peer = Peer.ALL
    """Matters to `Kind.MUTE` and `Kind.DEAF` alone."""

    def __str__(self) -> str:
        other = f"-{self.other}" if self.kind is Kind.LINK or self.peer is Peer.NODE else ""
        amount = f" ({self.amount})" if self.amount else ""
        amount += f" with {self.peer}" if self.kind in ONE_WAY else ""
        return f"{self.kind} {self.node}{other}{amount} at {self.at_s:.3f} s for {self.for_s:.3f} s"


@dataclass(frozen=True, slots=True, kw_only=True)
class HostOptions:
    """A run of the processes in virtual time."""

    seed: int
    shape: str
    memory: int
    wiring: Wiring
    scheme: Scheme
    nodes: tuple[NodeInfo, ...]
    placement: tuple[int, ...]
    load: Load
    batches: int = BATCHES
    by_connection: bool = True
    store_replicas: int = 1
    """Replicas of Redis that confirm checkpoints and decisions; with 0 a failover loses some."""
    faults: tuple[HostFault, ...] = ()

    @property
    def healed_s(self) -> float:
        """The end of the last fault, or of the load."""
        ends = [fault.at_s + fault.for_s for fault in self.faults]
        return max([BEGIN_S + (self.batches + 1) * BATCH_US / 1e6, *ends])


WEIGHTS = {
    Kind.KILL: 8, Kind.COORDINATOR: 3, Kind.POWER: 2, Kind.FREEZE: 3, Kind.STOP_COORDINATOR: 1,
    Kind.CUT: 3, Kind.LINK: 2, Kind.NO_CONTROL: 2, Kind.NO_STORE: 1, Kind.NO_LOG: 1, Kind.RESET: 3,
    Kind.TEAR: 2, Kind.TRICKLE: 1, Kind.BUSY: 2, Kind.DESCRIPTORS: 1, Kind.STORE_AWAY: 2,
    Kind.STORE_SILENT: 1, Kind.STORE_SLOW: 1, Kind.STORE_FULL: 1, Kind.STORE_CROWDED: 1,
    Kind.STORE_LOSSY: 1, Kind.FAILOVER: 2, Kind.LOG_AWAY: 2, Kind.LOG_SILENT: 1, Kind.LOG_FULL: 1,
    Kind.LOG_REFUSES: 1, Kind.LOG_LOSSY: 1, Kind.RETENTION: 1, Kind.THREAD: 1, Kind.MUTE: 2,
    Kind.DEAF: 2, Kind.WIRE: 2, Kind.CLOCK: 1, Kind.STORE_DAMAGE: 1, Kind.ROT: 1, Kind.LOG_SLOW: 1,
    Kind.LOG_DAMAGE: 1, Kind.LEADER: 2, Kind.INPUT_RETENTION: 1,
}  # fmt: skip
ONE_WAY = (Kind.MUTE, Kind.DEAF)
AT_ONCE = (
    Kind.RESET, Kind.TEAR, Kind.RETENTION, Kind.INPUT_RETENTION, Kind.FAILOVER, Kind.ROT
)  # fmt: skip
MOST_S = {Kind.LINK: 4.0, Kind.BUSY: 6.0}
"""Longest times: two nodes that never reach each other end a run, and so they should."""
LENGTHS_S = (0.3, 0.3, 1.5, 1.5, 5.0, 5.0, 5.0, 5.0, 15.0, 15.0, 15.0, 60.0)
LONGEST_S = 1_200.0
"""Twenty minutes, once in a while."""
REFUSALS = (5, 6, 7, 9, 19, 20, 21, 29, 43, 72, 87)
"""Codes of Kafka's for a record: no leader, not the leader, timed out, replica unknown, too few in
sync, after append, acknowledgements, authorization, message version, listener, invalid record."""
AMOUNTS = {Kind.LOG_REFUSES: REFUSALS, Kind.CLOCK: (-1, 1)}


def draw_host(seed: int, *, scheme: str | None = None, shape: str | None = None) -> HostOptions:
    """Return the run of a seed; None as an option draws that one too."""

    def random(name: str) -> Random:
        return Random(derive_seed(seed, "host", name))

    dice = random("options")
    name = scheme or random("scheme").choice(list(SCHEMES))
    form = shape or random("shape").choice(list(SHAPES))
    memory = dice.randint(1, 3)
    wiring = SHAPES[form].wiring(memory)
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
        shape=form,
        memory=memory,
        wiring=wiring,
        scheme=chosen,
        nodes=nodes,
        placement=placement,
        load=load,
        by_connection=dice.random() < 0.8,
        store_replicas=random("store").choice((0, 1, 1, 1)),
        faults=draw_faults(seed, len(nodes)),
    )


def draw_faults(seed: int, nodes: int) -> tuple[HostFault, ...]:
    """Draw one to six faults, some while others last.

    The kind of a fault is the one whose own draw is the lowest: another kind in `WEIGHTS` replaces
    some faults of a seed, and changes nothing about the others."""
    faults: list[HostFault] = []
    for number in range(Random(derive_seed(seed, "host", "faults")).randint(1, 6)):

        def turn(kind: Kind, number: int = number) -> float:
            dice = Random(derive_seed(seed, "host", "kind", number, kind.value))
            return dice.expovariate(WEIGHTS[kind])

        kind, dice = min(WEIGHTS, key=turn), Random(derive_seed(seed, "host", "fault", number))
        at = dice.uniform(0.5, BEGIN_S + BATCHES)
        soon, after = dice.random() < 0.4, dice.uniform(0.0, 2.0)
        if faults and soon:
            at = faults[-1].at_s + after
        lasting = LONGEST_S if dice.random() < 0.01 else dice.choice(LENGTHS_S)
        peer = dice.choice(list(Peer)) if kind in ONE_WAY else Peer.ALL
        most_s = MOST_S.get(Kind.LINK if peer is Peer.NODE else kind, lasting)
        node = dice.randrange(nodes)
        faults.append(
            HostFault(
                kind=kind,
                at_s=at,
                for_s=0.0 if kind in AT_ONCE else min(lasting, most_s) * dice.uniform(0.5, 1.0),
                node=node,
                other=(node + dice.randrange(1, nodes)) % nodes if nodes > 1 else node,
                amount=dice.choice(AMOUNTS.get(kind, (0,))),
                peer=peer,
            )
        )
    return tuple(sorted(faults, key=lambda fault: fault.at_s))
