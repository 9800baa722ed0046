"""The faults of both virtual worlds: names, promises, and how often each is drawn.

The protocol alone (`harness.simulator`) and the task engine's processes over models of TCP, Kafka
and Redis (`harness.engines.tasks.virtual`) fail by the same names. Under every fault no output is
wrong, repeated or left out, and no computation starts from wrong input or state; the output is
complete after the faults have ended. Exceptions: a run of whole processes may end with a message
after the faults of `MAY_END`, after two nodes that never reach each other, and after input that is
deleted while it is due (`harness.engines.tasks.virtual` has the promises one by one)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

FOR_GOOD = 1 << 50
"""The end of a fault that never heals: beyond every run."""


class FaultKind(StrEnum):
    """The kinds of faults; each lasts for a while, unless it is over at once."""

    KILL = "kill"
    """A node loses everything; it comes back empty afterwards."""
    RACK = "rack"
    """All nodes of a rack are killed at once."""
    LATE = "late"
    """A node does not start before this is over."""
    POWER = "power"
    """A node's machine loses its power: no end of any connection is sent."""
    FORGET = "forget"
    """A node's process lives, and what its copies kept is gone; it heals as soon as it is seen."""
    FREEZE = "freeze"
    """A node does nothing, and then goes on as if no time had passed."""
    BUSY = "busy"
    """A node computes ``amount`` times slower; in a whole process each batch takes seconds."""
    RAISE = "raise"
    """A node's operators raise, for any input."""
    THREAD = "thread"
    """A node's readers raise an error that nobody expects, which ends the run with a message."""
    DESCRIPTORS = "descriptors"
    """A node can open nothing."""
    DRIFT = "drift"
    """A node's clock runs ``amount`` per mille fast."""
    CLOCK = "clock"
    """The wall clock of a node's machine is ``amount`` hours ahead; a negative one is behind."""
    COORDINATOR = "coordinator"
    """The coordinator is killed; it comes back with what it had stored."""
    STOP_COORDINATOR = "stop-coordinator"
    """The coordinator's process is stopped, then goes on."""
    RIVAL = "rival"
    """Another coordinator starts while one runs; what is left of two in the end is the later."""
    REPLAN = "replan"
    """Not a fault: the plan is changed for good, to the tasks numbered in ``plan``."""
    CUT = "cut"
    """A node reaches nobody, and nobody reaches it; it goes on computing. Nothing is reset."""
    LINK = "link"
    """Two nodes do not reach each other."""
    NO_CONTROL = "no-control"
    """A node does not reach the coordinator."""
    NO_STORE = "no-store"
    """A node does not reach the store."""
    NO_LOG = "no-log"
    """A node does not reach the log."""
    MUTE = "mute"
    """What a node sends to its ``peer`` is lost; what it is sent arrives."""
    DEAF = "deaf"
    """What a node is sent by its ``peer`` is lost; what it sends arrives."""
    WEATHER = "weather"
    """``amount`` per cent of all messages get lost, as many repeated, and more reordered."""
    WIRE = "wire"
    """Some of what a node's machine sends and gets has a wrong bit, which TCP overlooks."""
    RESET = "reset"
    """Every connection of a node is reset at one end."""
    TEAR = "tear"
    """A node's connections end within a frame."""
    TRICKLE = "trickle"
    """All that a node sends and gets comes a byte a second."""
    STORE_AWAY = "store-away"
    """The store is gone, and comes back with what it had."""
    STORE_SILENT = "store-silent"
    """The store answers nothing, then everything."""
    STORE_SLOW = "store-slow"
    """Each script of the store takes a second."""
    STORE_FULL = "store-full"
    """The store has no room: it refuses checkpoints and answers everything else."""
    STORE_CROWDED = "store-crowded"
    """The store accepts no more clients."""
    STORE_LOSSY = "store-lossy"
    """Some of the store's answers get lost."""
    STORE_DAMAGE = "store-damage"
    """Some of the store's answers have a wrong bit."""
    ROT = "rot"
    """All that the store holds in bytes gets a wrong bit."""
    FAILOVER = "failover"
    """A replica of the store takes over, and lacks the last second but for what was waited for."""
    LOG_AWAY = "log-away"
    """The log is gone, and comes back with what it had."""
    LOG_SILENT = "log-silent"
    """The log answers nothing, then everything."""
    LOG_FULL = "log-full"
    """The log's disk takes no record."""
    LOG_REFUSES = "log-refuses"
    """The log refuses every record, with the error code in ``amount``."""
    LOG_LOSSY = "log-lossy"
    """Some of the log's acknowledgements get lost, so that records are appended twice."""
    LOG_SLOW = "log-slow"
    """The log takes a second for each record, and keeps what its client has given up, too."""
    LOG_DAMAGE = "log-damage"
    """Some of what is read from the log has a wrong bit."""
    LEADER = "leader"
    """The followers of the out topic lag. When this is over one of them leads, and lacks the rest,
    which was acknowledged (``acks=1``) and which nobody could read."""
    RETENTION = "retention"
    """The log forgets the records of the out topic whose end is stored."""
    INPUT_RETENTION = "input-retention"
    """The log forgets the records of sources but for the last seconds, whether or not they are due
    again: where they are, that ends the run with a message."""


class Peer(StrEnum):
    """The other end of what `FaultKind.MUTE` and `FaultKind.DEAF` cut."""

    ALL = "everybody"
    NODE = "another node"
    COORDINATOR = "the coordinator"
    STORE = "the store"
    LOG = "the log"


TO_A_NODE = (FaultKind.LINK, FaultKind.MUTE, FaultKind.DEAF)
ONE_WAY = (FaultKind.MUTE, FaultKind.DEAF)
AT_ONCE = (
    FaultKind.RESET, FaultKind.TEAR, FaultKind.RETENTION, FaultKind.INPUT_RETENTION,
    FaultKind.FAILOVER, FaultKind.ROT,
)  # fmt: skip
MAY_END: Mapping[FaultKind, str] = {
    FaultKind.STORE_DAMAGE: "damaged",
    FaultKind.LOG_DAMAGE: "damaged",
    FaultKind.ROT: "damaged",
    FaultKind.THREAD: "an error that nobody expects",
}
"""Faults after which a run may end, with a part of its message."""

OF_THE_PROTOCOL = {
    FaultKind.KILL: 6, FaultKind.RACK: 2, FaultKind.FREEZE: 3, FaultKind.CUT: 3, FaultKind.LINK: 2,
    FaultKind.BUSY: 2, FaultKind.DRIFT: 1, FaultKind.WEATHER: 2, FaultKind.STORE_AWAY: 1,
    FaultKind.LOG_AWAY: 1, FaultKind.COORDINATOR: 2, FaultKind.REPLAN: 1, FaultKind.LATE: 0,
    FaultKind.FORGET: 0, FaultKind.RAISE: 0, FaultKind.STORE_FULL: 0, FaultKind.MUTE: 0,
    FaultKind.RIVAL: 0,
}  # fmt: skip
"""Weights for the protocol alone; those of weight 0 are drawn by themselves in some schedules."""
OF_THE_HOST = {
    FaultKind.KILL: 8, FaultKind.COORDINATOR: 3, FaultKind.POWER: 2, FaultKind.FREEZE: 3,
    FaultKind.STOP_COORDINATOR: 1, FaultKind.CUT: 3, FaultKind.LINK: 2, FaultKind.NO_CONTROL: 2,
    FaultKind.NO_STORE: 1, FaultKind.NO_LOG: 1, FaultKind.RESET: 3, FaultKind.TEAR: 2,
    FaultKind.TRICKLE: 1, FaultKind.BUSY: 2, FaultKind.DESCRIPTORS: 1, FaultKind.STORE_AWAY: 2,
    FaultKind.STORE_SILENT: 1, FaultKind.STORE_SLOW: 1, FaultKind.STORE_FULL: 1,
    FaultKind.STORE_CROWDED: 1, FaultKind.STORE_LOSSY: 1, FaultKind.FAILOVER: 2,
    FaultKind.LOG_AWAY: 2, FaultKind.LOG_SILENT: 1, FaultKind.LOG_FULL: 1, FaultKind.LOG_REFUSES: 1,
    FaultKind.LOG_LOSSY: 1, FaultKind.RETENTION: 1, FaultKind.THREAD: 1, FaultKind.MUTE: 2,
    FaultKind.DEAF: 2, FaultKind.WIRE: 2, FaultKind.CLOCK: 1, FaultKind.STORE_DAMAGE: 1,
    FaultKind.ROT: 1, FaultKind.LOG_SLOW: 1, FaultKind.LOG_DAMAGE: 1, FaultKind.LEADER: 2,
    FaultKind.INPUT_RETENTION: 1,
}  # fmt: skip
"""Weights for whole processes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One thing that goes wrong, and when it heals."""

    kind: FaultKind
    at_us: int
    until_us: int
    target: int = 0
    """A node, or a rack's number; unused by kinds that hit everything."""
    other: int = 0
    """The other end of a link."""
    amount: int = 0
    plan: tuple[int, ...] = ()
    peer: Peer = Peer.NODE
    """What a fault of `ONE_WAY` separates the target from."""

    @property
    def heals(self) -> bool:
        """True if it ends."""
        return self.until_us < FOR_GOOD

    def __str__(self) -> str:
        to_a_node = self.kind in TO_A_NODE and self.peer is Peer.NODE
        return (
            f"{self.kind} {self.target}"
            + (f"-{self.other}" if to_a_node else "")
            + (f" x{self.amount}" if self.amount else "")
            + (f" with {self.peer}" if self.kind in ONE_WAY and not to_a_node else "")
            + f" from {self.at_us / 1e6:.3f} s "
            + (f"to {self.until_us / 1e6:.3f} s" if self.heals else "for good")
        )
