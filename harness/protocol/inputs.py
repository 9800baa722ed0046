"""What has happened: everything that a machine can be told. Past participles, all frozen.

Every input carries its ``cause``: the name of the outside event (a record cut, a timer, a
failure) that set off the chain of inputs and effects it belongs to.

Two kinds travel from machine to machine as messages, which may be lost, repeated, delayed and
reordered at will (`BatchArrived` ... `CopyRetired`); the others are a host's answers to effects.
Answers name the copy that asked (task and incarnation) and come at most once; one that arrives
after that copy was replaced is ignored."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from harness.protocol.operators import Payload, State

LOG = -1
"""The upstream "task" of a source task: its log partition."""


class Run(StrEnum):
    """One of a task's two computations."""

    STABLE = "stable"
    TENTATIVE = "tentative"


STABLE, TENTATIVE = Run
"""Constants for checks on every batch (as in `harness.protocol.task.lifecycle`)."""


class Caused(Struct, frozen=True, kw_only=True):
    """The common field of inputs and effects."""

    cause: str


class ToTask(Caused, frozen=True, kw_only=True):
    """The common fields of messages to a task."""

    task: int


class OfCopy(ToTask, frozen=True, kw_only=True):
    """The common fields of inputs and effects that concern one copy of a task."""

    incarnation: int


class Checkpoint(Struct, frozen=True, kw_only=True):
    """The stored part of a copy, from which another one can continue."""

    task: int
    position: int
    """The next batch to process."""
    state: State
    outputs: tuple[tuple[int, tuple[Payload, ...]], ...]
    """The output buffer: (batch, output per downstream task), ascending."""
    acknowledged: tuple[int, ...]
    """The first batch that each downstream task may still request."""
    term: int
    """The term of the primary that stored it; the store refuses lower ones from then on."""


# -- messages between tasks ----------------------------------------------------------------


class BatchArrived(ToTask, frozen=True, kw_only=True):
    """One batch from one upstream task: its data and the boundary of the batch in one."""

    upstream: int
    batch: int
    stable: bool
    """False: computed from partial input, to be replaced by a stable one of the same number."""
    payload: Payload
    term: int
    """The term of the sender; tentative batches of an older term than one seen before are
    dropped."""


class ReplayRequested(ToTask, frozen=True, kw_only=True):
    """A downstream copy lacks batches. Answered by `BatchArrived` or `ReplayRefused`."""

    downstream: int
    asking: int
    """The incarnation of the requesting copy; the answer goes to it alone."""
    from_batch: int
    from_tentative: int
    """Tentative batches before this one are not needed."""
    acknowledged: int
    """Repeated from `BatchesAcknowledged`, which may have been lost."""
    reloads: bool
    """True for a replica with a state: a source does not go back for it, because it can load its
    primary's checkpoint."""


class ReplayRefused(ToTask, frozen=True, kw_only=True):
    """The upstream task has no batch before ``oldest`` any more: a checkpoint covers them."""

    upstream: int
    oldest: int


class BatchesAcknowledged(ToTask, frozen=True, kw_only=True):
    """A downstream task will never request a batch before ``below`` again."""

    downstream: int
    below: int


class UpstreamResumed(ToTask, frozen=True, kw_only=True):
    """An upstream task has a new primary, ready to answer requests."""

    upstream: int
    term: int


class UpstreamClosed(ToTask, frozen=True, kw_only=True):
    """The coordinator closes batches, up to ``last_batch``, on behalf of a lost upstream task."""

    upstream: int
    last_batch: int
    before_term: int
    """On behalf of primaries with a lower term than this."""
    back_at: int
    """The position of the lost task. A primary of that term that has sent the batch before this
    one, or a later one, is back: the coordinator had no report of it yet, and nothing is closed."""


class ProgressReported(ToTask, frozen=True, kw_only=True):
    """The primary reports to its replica the progress of its output (trimming every s)."""

    sent_below: int


class PostponementRequested(ToTask, frozen=True, kw_only=True):
    """A replica that was blocked has its input: its primary shall postpone its reconciliation.

    Answered by `PostponementGranted`, or not at all."""

    by: int
    """The incarnation of the replica, as in the other messages between the copies of a task."""


class PostponementGranted(ToTask, frozen=True, kw_only=True):
    """The primary leaves the corrections from ``from_batch`` on to its replica."""

    by: int
    from_batch: int
    term: int
    """The primary's, which the replica's output bears."""


class CorrectionsServed(ToTask, frozen=True, kw_only=True):
    """The replica has sent all stable output before ``below`` downstream, and goes on so."""

    by: int
    below: int


class ServiceEnded(ToTask, frozen=True, kw_only=True):
    """The primary is stable again: its replica sends nothing any more."""

    by: int


class EpochCompleted(ToTask, frozen=True, kw_only=True):
    """No batch before ``position`` is needed any more.

    Every task has stored the coordinated checkpoint there or, with source replay, has processed all
    batches before it."""

    incarnation: int
    """The copy that may trim; one that has gone back since must not."""
    position: int


# -- the coordinator's orders, as a node receives them -------------------------------------


class Start(StrEnum):
    """The source of a new copy's state."""

    CHECKPOINT = "checkpoint"
    """The task's latest checkpoint; the initial state if there is none."""
    EPOCH = "epoch"
    """The checkpoint at exactly ``position``."""
    EMPTY = "empty"
    """The initial state at ``position``; its output counts from ``send_from`` on."""


class CopyOrdered(Caused, frozen=True, kw_only=True):
    """The node must host a copy of a task."""

    boot: int
    """The boot that it is meant for; after a later one, the node must not start this copy again."""
    task: int
    incarnation: int
    """The number of the copy; never used twice for one task."""
    term: int | None
    """The term of a primary, higher than that of the primary before; None for a replica."""
    start: Start
    position: int
    send_from: int
    coordinator: int
    """The term of the coordinator that gives the order; a node obeys none before the latest."""
    beside: int | None = None
    """The task's other copy that the node must keep, if it hosts both. Earlier copies are
    dropped."""


class CopyPromoted(OfCopy, frozen=True, kw_only=True):
    """The replica that this node hosts takes over."""

    term: int
    coordinator: int


class CopyRetired(OfCopy, frozen=True, kw_only=True):
    """The node must no longer host that copy."""

    coordinator: int


# -- what a host says of itself ------------------------------------------------------------


class CopiesForgotten(Caused, frozen=True, kw_only=True):
    """The node's process lives, and the content of its copies is lost.

    It drops them, and none of them may come back under its incarnation number."""


# -- a host's answers to a task's effects --------------------------------------------------


class SourceRead(OfCopy, frozen=True, kw_only=True):
    """Answers `ReadSource` and `ReadOn`, once per complete batch in ascending order."""

    batch: int
    payload: Payload


class BatchProcessed(OfCopy, frozen=True, kw_only=True):
    """Answers `ProcessBatch`."""

    run: Run
    ticket: int
    batch: int
    state: State
    outputs: tuple[Payload, ...]


class StateRebuilt(OfCopy, frozen=True, kw_only=True):
    """Answers `RebuildState`."""

    ticket: int
    state: State


class BatchFailed(OfCopy, frozen=True, kw_only=True):
    """Answers `ProcessBatch` and `RebuildState`: the operator has raised."""

    run: Run
    ticket: int
    batch: int
    error: str
    """The traceback."""


class CheckpointStored(OfCopy, frozen=True, kw_only=True):
    """Answers `StoreCheckpoint`: it is durable."""

    position: int


class CheckpointRefused(OfCopy, frozen=True, kw_only=True):
    """Answers `StoreCheckpoint` or `LoadCheckpoint`: a primary with a higher term exists."""


class CheckpointFailed(OfCopy, frozen=True, kw_only=True):
    """Answers `StoreCheckpoint`: the store cannot keep it, for example because of its size."""

    position: int
    reason: str


class CheckpointLoaded(OfCopy, frozen=True, kw_only=True):
    """Answers `LoadCheckpoint`; None when the task has never stored one."""

    checkpoint: Checkpoint | None


class OutputFenced(OfCopy, frozen=True, kw_only=True):
    """Answers `FenceOutput`: no primary with a lower term can publish any more."""

    next_stable: int
    """The first batch whose stable output is not in the partition."""
    next_tentative: int
    """One past the last tentative output that no undo covers; ``next_stable`` if there is none."""


class OutputPublished(OfCopy, frozen=True, kw_only=True):
    """Answers `PublishOutput`."""

    sequence: int


class OutputRefused(OfCopy, frozen=True, kw_only=True):
    """Answers `FenceOutput` or `PublishOutput`: a higher term has fenced it."""


class TimerFired(Caused, frozen=True, kw_only=True):
    """Answers `SetTimer`, not before its instant."""

    key: tuple[str, int]
    """("beat", 0), ("sweep", 0) and ("close", 0), or ("due", task)."""


# -- what the coordinator is told ----------------------------------------------------------


class NodeInfo(Struct, frozen=True, kw_only=True):
    """A node that may host copies."""

    name: str
    rack: str
    slots: int
    """The number of copies that it can host."""


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
    """True if it has its state and takes part."""
    failed: str = ""
    """The traceback of the operator that stopped this copy; empty while there is none."""


class HeartbeatReceived(Caused, frozen=True, kw_only=True):
    """A node is alive, under boot number ``boot``, and hosts these copies (ascending by task)."""

    node: int
    boot: int
    copies: tuple[CopyReport, ...]
    info: NodeInfo | None = None
    """The description of a node, for a coordinator that does not have it."""
    coordinator: int = 0
    """The term of the latest coordinator from which the node had an order."""
    gone: tuple[tuple[int, int], ...] = ()
    """(task, incarnation) of former copies that the node was ordered to host again, or has just
    forgotten: they will not come back."""


class NodeDisconnected(Caused, frozen=True, kw_only=True):
    """The connection to a node's process was closed: it is dead or cut off, no timeout needed.

    If the process lives, its next heartbeat shows it."""

    node: int
    boot: int


class RegistryStored(Caused, frozen=True, kw_only=True):
    """Answers `StoreRegistry`."""

    version: int


class RegistryRefused(Caused, frozen=True, kw_only=True):
    """Answers `StoreRegistry`: a coordinator with a higher term exists."""

    term: int
    """The highest term that was given out."""


class RegistryLoaded(Caused, frozen=True, kw_only=True):
    """Answers `LoadRegistry`; None on the first start."""

    term: int
    """The term of the requesting coordinator."""
    registry: object | None


class PlanAdapted(Caused, frozen=True, kw_only=True):
    """Rates have drifted: these tasks must have replicas from now on, ascending."""

    replicated: tuple[int, ...]


TaskMessage = (
    BatchArrived
    | ReplayRequested
    | ReplayRefused
    | BatchesAcknowledged
    | UpstreamResumed
    | UpstreamClosed
    | ProgressReported
    | PostponementRequested
    | PostponementGranted
    | CorrectionsServed
    | ServiceEnded
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
