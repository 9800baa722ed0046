"""What has happened: everything that a machine can be told. Past participles, all frozen.

Every input carries its ``cause``: the name of the outside event (a record cut, a timer, a
failure) that set off the chain of inputs and effects it belongs to.

Two kinds travel from machine to machine as messages, which may be lost, repeated, delayed and
reordered at will (`BatchArrived` ... `CopyRetired`); the others are a host's answers to effects.
Answers name the copy that asked (task and incarnation) and come at most once; one that arrives
after that copy was replaced is ignored.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from harness.protocol.operators import Payload, State

LOG = -1
"""Stands for a source task's log partition where an upstream task is named."""


class Run(StrEnum):
    """Which of a task's two computations."""

    STABLE = "stable"
    TENTATIVE = "tentative"


STABLE, TENTATIVE = Run
"""For what is asked with every batch (as in `harness.protocol.task.lifecycle`)."""


class Checkpoint(Struct, frozen=True, kw_only=True):
    """What a copy stores so that another one can go on from there."""

    task: int
    position: int
    """The next batch to process."""
    state: State
    outputs: tuple[tuple[int, tuple[Payload, ...]], ...]
    """The output buffer: (batch, output per downstream task), ascending."""
    acknowledged: tuple[int, ...]
    """Per downstream task, the first batch it may still ask for."""
    term: int
    """Of the primary that stored it; the store refuses a lower one than it has seen."""


# -- messages between tasks ----------------------------------------------------------------


class BatchArrived(Struct, frozen=True, kw_only=True):
    """One batch from one upstream task: its data and "no more of this batch from me" in one."""

    cause: str
    task: int
    upstream: int
    batch: int
    stable: bool
    """False: computed from partial input, to be replaced by a stable one of the same number."""
    payload: Payload
    term: int
    """The sender's; tentative batches of an older term than one seen before are dropped."""


class ReplayRequested(Struct, frozen=True, kw_only=True):
    """A downstream copy lacks batches. Answered by `BatchArrived` or `ReplayRefused`."""

    cause: str
    task: int
    downstream: int
    asking: int
    """The incarnation of the copy that asks; the answer goes to it alone."""
    from_batch: int
    from_tentative: int
    """It does not need tentative batches before this one."""
    acknowledged: int
    """As in `BatchesAcknowledged`, which may have been lost."""
    reloads: bool
    """A replica: rather than have a source go back for it, it loads its primary's checkpoint."""


class ReplayRefused(Struct, frozen=True, kw_only=True):
    """The upstream task has no batch before ``oldest`` any more: a checkpoint covers them."""

    cause: str
    task: int
    upstream: int
    oldest: int


class BatchesAcknowledged(Struct, frozen=True, kw_only=True):
    """A downstream task will never ask for a batch before ``below`` again."""

    cause: str
    task: int
    downstream: int
    below: int


class UpstreamResumed(Struct, frozen=True, kw_only=True):
    """An upstream task has a new primary, ready to answer requests."""

    cause: str
    task: int
    upstream: int
    term: int


class UpstreamClosed(Struct, frozen=True, kw_only=True):
    """The coordinator forges a lost upstream task's boundaries, ``last_batch`` the last of them."""

    cause: str
    task: int
    upstream: int
    last_batch: int
    before_term: int
    """On behalf of primaries with a lower term than this."""
    back_at: int
    """Where the lost task was. A primary of that very term that has sent the batch before this one,
    or a later one, is back: the coordinator had not heard of it yet, and nothing is closed."""


class ProgressReported(Struct, frozen=True, kw_only=True):
    """The primary tells its replica how far its output has got (trimming every s)."""

    cause: str
    task: int
    sent_below: int


class EpochCompleted(Struct, frozen=True, kw_only=True):
    """No batch before ``position`` is needed any more: every task has stored the coordinated
    checkpoint there or, with source replay, has processed all before it."""

    cause: str
    task: int
    incarnation: int
    """The copy that may trim; one that has gone back since must not."""
    position: int


# -- the coordinator's orders, as a node receives them -------------------------------------


class Start(StrEnum):
    """Where a new copy's state comes from."""

    CHECKPOINT = "checkpoint"
    """The task's latest checkpoint; the initial state if there is none."""
    EPOCH = "epoch"
    """The checkpoint at exactly ``position``."""
    EMPTY = "empty"
    """The initial state at ``position``; its output counts from ``send_from`` on."""


class CopyOrdered(Struct, frozen=True, kw_only=True):
    """This node shall host a copy of a task."""

    cause: str
    boot: int
    """The boot that it is meant for: after a later one, the node must not start this copy again."""
    task: int
    incarnation: int
    """Which copy; never used twice for one task."""
    term: int | None
    """A primary's; None for a replica. Each primary of a task has a higher one than the last."""
    start: Start
    position: int
    send_from: int
    coordinator: int
    """The term of the coordinator that says so; a node obeys none before the latest."""
    beside: int | None = None
    """The task's other copy that this node shall keep, if both are to be here. All earlier ones
    make way."""


class CopyPromoted(Struct, frozen=True, kw_only=True):
    """The replica that this node hosts takes over."""

    cause: str
    task: int
    incarnation: int
    term: int
    coordinator: int


class CopyRetired(Struct, frozen=True, kw_only=True):
    """This node shall no longer host that copy."""

    cause: str
    task: int
    incarnation: int
    coordinator: int


# -- what a host says of itself ------------------------------------------------------------


class CopiesForgotten(Struct, frozen=True, kw_only=True):
    """The node's process is the same, and what its copies kept is lost: it drops them, and none of
    them may come back under its incarnation number."""

    cause: str


# -- a host's answers to a task's effects --------------------------------------------------


class SourceRead(Struct, frozen=True, kw_only=True):
    """Answers `ReadSource` and `ReadOn`, once per batch in ascending order, as they become
    complete."""

    cause: str
    task: int
    incarnation: int
    batch: int
    payload: Payload


class BatchProcessed(Struct, frozen=True, kw_only=True):
    """Answers `ProcessBatch`."""

    cause: str
    task: int
    incarnation: int
    run: Run
    ticket: int
    batch: int
    state: State
    outputs: tuple[Payload, ...]


class StateRebuilt(Struct, frozen=True, kw_only=True):
    """Answers `RebuildState`."""

    cause: str
    task: int
    incarnation: int
    ticket: int
    state: State


class BatchFailed(Struct, frozen=True, kw_only=True):
    """Answers `ProcessBatch` and `RebuildState`: the operator has raised."""

    cause: str
    task: int
    incarnation: int
    run: Run
    ticket: int
    batch: int
    error: str
    """Its traceback."""


class CheckpointStored(Struct, frozen=True, kw_only=True):
    """Answers `StoreCheckpoint`: it is durable."""

    cause: str
    task: int
    incarnation: int
    position: int


class CheckpointRefused(Struct, frozen=True, kw_only=True):
    """Answers `StoreCheckpoint` or `LoadCheckpoint`: a primary with a higher term exists."""

    cause: str
    task: int
    incarnation: int


class CheckpointFailed(Struct, frozen=True, kw_only=True):
    """Answers `StoreCheckpoint`: the store cannot keep it, as it is too large, say."""

    cause: str
    task: int
    incarnation: int
    position: int
    reason: str


class CheckpointLoaded(Struct, frozen=True, kw_only=True):
    """Answers `LoadCheckpoint`; None when the task has never stored one."""

    cause: str
    task: int
    incarnation: int
    checkpoint: Checkpoint | None


class OutputFenced(Struct, frozen=True, kw_only=True):
    """Answers `FenceOutput`: no primary with a lower term can publish any more."""

    cause: str
    task: int
    incarnation: int
    next_stable: int
    """The first batch whose stable output is not in the partition."""
    next_tentative: int
    """One past the last tentative output that no undo covers; ``next_stable`` if there is none."""


class OutputPublished(Struct, frozen=True, kw_only=True):
    """Answers `PublishOutput`."""

    cause: str
    task: int
    incarnation: int
    sequence: int


class OutputRefused(Struct, frozen=True, kw_only=True):
    """Answers `FenceOutput` or `PublishOutput`: a higher term has fenced it."""

    cause: str
    task: int
    incarnation: int


class TimerFired(Struct, frozen=True, kw_only=True):
    """Answers `SetTimer`, not before its instant."""

    cause: str
    key: tuple[str, int]
    """("beat", 0), ("sweep", 0) and ("close", 0), or ("due", task)."""


# -- what the coordinator is told ----------------------------------------------------------


class NodeInfo(Struct, frozen=True, kw_only=True):
    """A node that may host copies."""

    name: str
    rack: str
    slots: int
    """How many copies it can host."""


class CopyReport(Struct, frozen=True, kw_only=True):
    """One copy in a node's heartbeat."""

    task: int
    incarnation: int
    term: int | None
    position: int
    """The next batch of its stable computation."""
    stored: int
    """The position of its last durable checkpoint; 0 before the first."""
    published: int
    """A sink's first unpublished stable batch; 0 for other tasks."""
    ready: bool
    """It has its state and takes part."""
    failed: str = ""
    """The traceback of the operator that made this copy give up; empty while it has not."""


class HeartbeatReceived(Struct, frozen=True, kw_only=True):
    """A node is alive, under boot number ``boot``, and hosts these copies (ascending by task)."""

    cause: str
    node: int
    boot: int
    copies: tuple[CopyReport, ...]
    info: NodeInfo | None = None
    """What the node is, for a coordinator that was not told of it when it started."""
    coordinator: int = 0
    """The latest one, by its term, that the node had an order from."""
    gone: tuple[tuple[int, int], ...] = ()
    """(task, incarnation) of copies that it once had, and was ordered to host again or has just
    forgotten: they will not come back."""


class NodeDisconnected(Struct, frozen=True, kw_only=True):
    """The connection to a node's process was closed: it is dead or cut off, no timeout needed.
    A process that lives says so by its next heartbeat."""

    cause: str
    node: int
    boot: int


class RegistryStored(Struct, frozen=True, kw_only=True):
    """Answers `StoreRegistry`."""

    cause: str
    version: int


class RegistryRefused(Struct, frozen=True, kw_only=True):
    """Answers `StoreRegistry`: a coordinator with a higher term exists."""

    cause: str
    term: int
    """The highest that was given out."""


class RegistryLoaded(Struct, frozen=True, kw_only=True):
    """Answers `LoadRegistry`; None on the first start."""

    cause: str
    term: int
    """The asking coordinator's."""
    registry: object | None


class PlanAdapted(Struct, frozen=True, kw_only=True):
    """Rates have drifted: these tasks shall have replicas from now on, ascending."""

    cause: str
    replicated: tuple[int, ...]


TaskMessage = (
    BatchArrived
    | ReplayRequested
    | ReplayRefused
    | BatchesAcknowledged
    | UpstreamResumed
    | UpstreamClosed
    | ProgressReported
    | EpochCompleted
)
Order = CopyOrdered | CopyPromoted | CopyRetired
TaskAnswer = (
    SourceRead
    | BatchProcessed
    | BatchFailed
    | StateRebuilt
    | CheckpointStored
    | CheckpointRefused
    | CheckpointFailed
    | CheckpointLoaded
    | OutputFenced
    | OutputPublished
    | OutputRefused
)
TaskInput = TaskMessage | TaskAnswer | TimerFired
NodeInput = TaskInput | Order | CopiesForgotten
CoordinatorInput = (
    HeartbeatReceived
    | NodeDisconnected
    | RegistryStored
    | RegistryRefused
    | RegistryLoaded
    | PlanAdapted
    | TimerFired
)
Input = NodeInput | CoordinatorInput
