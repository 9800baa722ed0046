"""A fault-tolerance scheme as a value: which mechanisms are on, and with what intervals.

All times are integer microseconds, all other intervals are counted in batches."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from harness.errors import UsageError
from harness.protocol.wiring import Wiring


class Recovery(StrEnum):
    """The recovery of a task without a replica."""

    REPLAY = "replay"
    """No checkpoint: it and its ancestors recompute its state from the sources."""
    LOCAL = "local"
    """From its own latest checkpoint, then the output buffers of its upstream tasks (PPA)."""
    GLOBAL = "global"
    """Every task goes back to the last checkpoint that all of them have stored (Flink)."""


class Policy(StrEnum):
    """The treatment of new batches while a task cannot process them as stable ones."""

    SUSPEND = "suspend"
    """They wait until the failure has healed."""
    DELAY = "delay"
    """Each is processed tentatively once it has waited for the availability bound."""
    PROCESS = "process"
    """After the first has waited for the bound, the others are processed as they come."""


class Closing(StrEnum):
    """The part that closes a batch on behalf of an upstream task that does not deliver it."""

    COORDINATOR = "coordinator"
    """The coordinator closes lost tasks once the loss has lasted for the bound (PPA)."""
    TASK = "task"
    """Each task itself, once a batch has waited for the bound (Borealis)."""


class Method(StrEnum):
    """The return of a task to the state before its first tentative batch."""

    CHECKPOINT = "checkpoint"
    """From a copy of that state, or an earlier one and the input since (checkpoint/redo)."""
    UNDO = "undo"
    """By rebuilding it from the input it depends on (undo/redo)."""


class Corrections(StrEnum):
    """The time at which a reconciling task sends its corrections downstream."""

    STREAM = "stream"
    """Each as soon as it is computed."""
    DONE = "done"
    """All of them once it is stable again (Borealis: boundaries follow REC_DONE)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tentative:
    """Availability before consistency: when to answer from partial input, and how to repair it."""

    closing: Closing = Closing.COORDINATOR
    bound_us: int = 0
    """αX: how long a batch, or a failure, must last before anything tentative is computed."""
    during_failure: Policy = Policy.PROCESS
    during_stabilization: Policy = Policy.PROCESS
    method: Method = Method.CHECKPOINT
    snapshot_every: int = 0
    """Batches between copies of the state, or between stream markers (Method.UNDO); 0: there is
    one only before the first tentative batch."""
    logs_tentative: bool = True
    """Method.UNDO: True if tentative input is in the history, which is then read back over it."""
    corrections: Corrections = Corrections.STREAM
    interval_us: int = 0
    """The interval of batches in tuple time; 0 if unknown. While a task stabilizes, a batch that
    came late in a burst has then waited since the time at which it was due."""
    partners: bool = False
    """True if the two copies of a task are each other's second version (`task.partnership`): the
    replica stabilizes while the primary goes on. False: each copy runs both versions itself."""
    converges: bool = False
    """True if a replica begins with an empty state, which becomes its primary's by processing the
    input that the operator remembers (dpc, section 3.4: convergent-capable operators). Output
    buffers keep that input, too. False: it begins with its primary's latest checkpoint."""
    at_once: tuple[int, ...] = ()
    """Tasks that take whatever comes at once, such as a client at the end of a chain."""

    def of(self, task: int) -> Tentative:
        """Return the rules for ``task``."""
        assert task >= 0, f"task {task}"
        if task not in self.at_once:
            return self
        return replace(
            self,
            bound_us=0,
            during_failure=Policy.PROCESS,
            during_stabilization=Policy.SUSPEND,  # what has come stable costs such a task nothing
            corrections=Corrections.STREAM,
        )

    def __post_init__(self) -> None:
        if min(self.bound_us, self.snapshot_every, self.interval_us) < 0:
            raise UsageError(
                f"a bound of {self.bound_us} µs, a copy every {self.snapshot_every} batches, one "
                f"every {self.interval_us} µs",
                remedy="use 0 or more for each",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheme:
    """All choices about fault tolerance."""

    name: str
    recovery: Recovery
    checkpoint_every: int = 0
    """c: batches between checkpoints; 0 only with `Recovery.REPLAY`."""
    replicated: tuple[int, ...] = ()
    """The plan: tasks with an active replica, ascending."""
    window: int = 1_000
    """The most batches that a copy's inbox, or its outbox, holds. A copy whose outbox is full
    processes nothing until a neighbour acknowledges, so back-pressure reaches the sources, which
    stop reading. Input that comes too early for an inbox is dropped and requested again. Tentative
    output stops with it: choose more batches than come in the longest failure to be bridged."""
    trim_every_us: int = 5_000_000
    """s: the interval at which a primary reports the progress of its output to its replica."""
    sends_buffer: bool = False
    """True if a promoted replica sends what it has buffered since its primary's last report, as in
    the PPA papers (section V-B of ICDE). False: its neighbours request what they miss."""
    tentative: Tentative | None = None
    """None: output is stable or does not come."""
    recovery_order: tuple[int, ...] = ()
    """The planner's order for tasks that wait for a node; others follow by number."""
    keeps_replicas: bool = False
    """True if a lost task without a free slot waits for a node, and takes no replica's place."""
    heartbeat_us: int = 1_000_000
    suspect_after_us: int = 5_000_000
    """The silence after which a node is treated as lost."""
    join_within_us: int = 60_000_000
    """The longest wait of the first placement for the nodes that it names."""

    def __post_init__(self) -> None:
        if (self.checkpoint_every > 0) == (self.recovery is Recovery.REPLAY):
            raise UsageError(
                f"{self.name}: {self.recovery} recovery with a checkpoint every "
                f"{self.checkpoint_every} batches",
                remedy="source replay has checkpoint_every=0, the others at least 1",
            )
        if self.recovery is not Recovery.LOCAL and (self.replicated or self.tentative):
            raise UsageError(
                f"{self.name}: replicas and tentative output need tasks that recover one by one",
                remedy=f"use recovery={Recovery.LOCAL} with a checkpoint interval",
            )
        if list(self.replicated) != sorted(set(self.replicated)):
            raise UsageError(
                f"{self.name}: the plan {self.replicated} is not ascending",
                remedy="list each replicated task once, in ascending order",
            )
        if self.window <= self.checkpoint_every:
            raise UsageError(
                f"{self.name}: buffers of {self.window} batches and a checkpoint every "
                f"{self.checkpoint_every}: output is kept from one checkpoint to the next",
                remedy="use a window of more batches than checkpoint_every",
            )
        if not 0 < self.heartbeat_us < self.suspect_after_us or self.trim_every_us <= 0:
            raise UsageError(
                f"{self.name}: heartbeats every {self.heartbeat_us} µs, suspicion after "
                f"{self.suspect_after_us} µs, trimming every {self.trim_every_us} µs",
                remedy="use positive intervals, and suspect after more than one heartbeat",
            )
        if self.join_within_us < 0:
            raise UsageError(
                f"{self.name}: nodes have to join within {self.join_within_us} µs",
                remedy="use 0 (whoever is there at once) or more",
            )

    def kept(self, memory: int) -> int:
        """Return the batches before a checkpoint that stay upstream, to fill an empty state.

        ``memory``: the batches that the operator remembers."""
        assert memory > 0, "a state depends on one batch at least"
        return memory if self.tentative is not None and self.tentative.converges else 0

    def check(self, wiring: Wiring) -> None:
        """Raise `UsageError` if this scheme cannot serve ``wiring``."""
        assert wiring.tasks, "a wiring has tasks"
        strange = [t for t in (*self.replicated, *self.recovery_order) if t not in wiring.tasks]
        if strange:
            raise UsageError(
                f"{self.name}: the plan names task {strange[0]} of {len(wiring.names)}",
                remedy="make the plan for this topology",
            )
        kept = self.kept(max(wiring.memory))
        if self.window <= self.checkpoint_every + kept:
            raise UsageError(
                f"{self.name}: buffers of {self.window} batches, a checkpoint every "
                f"{self.checkpoint_every}, and {kept} batches to fill an empty state from",
                remedy=f"use a window of more than {self.checkpoint_every + kept} batches",
            )
