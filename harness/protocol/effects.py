"""What shall be done: everything that a machine can ask of its host. Imperatives, all frozen.

Each effect that expects an answer names the closed set of inputs that may answer it. An answer
that never comes (the store or the log is away, a message was lost) is asked for again at the
next heartbeat, so a host may drop an effect but must not invent its answer."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from harness.protocol.inputs import (
    Caused,
    Checkpoint,
    HeartbeatReceived,
    OfCopy,
    Order,
    Run,
    TaskMessage,
)
from harness.protocol.operators import Payload, State
from harness.protocol.scheme import Method


class Kind(StrEnum):
    """The kind of a record of an output partition."""

    STABLE = "stable"
    """Final, once per batch, in ascending order."""
    TENTATIVE = "tentative"
    """From partial input: an undo and the stable output will follow."""
    UNDO = "undo"
    """Every tentative output from this batch on is void."""


class OutputRecord(Struct, frozen=True, kw_only=True):
    """One record of an output partition."""

    kind: Kind
    batch: int
    payload: Payload = None


class CopyEvent(StrEnum):
    """The events of a copy that are reported."""

    HOSTED = "hosted"
    """The node has it: from now on it gets the messages for its task, too."""
    READY = "ready"
    """It has its state and takes part; ``why`` names the source of the state."""
    PROMOTED = "promoted"
    """It was a replica and has become the primary."""
    PROGRESSED = "progressed"
    """A primary has processed one more stable batch; reported only on request."""
    FAILED = "failed"
    """Its operator has raised: it does nothing more. ``why`` is the traceback."""
    UNSTORED = "unstored"
    """The store has refused its checkpoint, for the reason ``why``; it will try again."""
    RETIRED = "retired"
    """The node has dropped it: it gets no more messages. ``why`` gives the reason."""
    LOST = "lost"
    """The coordinator gives it up, a primary; ``why`` gives the reason."""


class NoteCopy(Caused, frozen=True, kw_only=True):
    """Report an event of a copy, for the records and for routing. Needs no answer.

    A host delivers messages to a copy from HOSTED to RETIRED. Recoveries are measured from these
    reports (`harness.hosting.restoration`), not by looking into machines."""

    event: CopyEvent
    task: int
    incarnation: int
    term: int | None
    """The term of a primary; None for a replica."""
    position: int
    """The next batch of its stable computation; for LOST, as it was last reported."""
    at: int
    """In microseconds, by the clock of the reporting machine."""
    why: str = ""
    node: int = -1
    """The former node of a LOST copy."""


class Send(Caused, frozen=True, kw_only=True):
    """Deliver ``message`` to the copies of a task: all of them, or only one. May get lost."""

    to: int
    incarnation: int | None
    message: TaskMessage


class SendOrder(Caused, frozen=True, kw_only=True):
    """Deliver an order to a node. May get lost."""

    node: int
    order: Order


class SendHeartbeat(Caused, frozen=True, kw_only=True):
    """Deliver a heartbeat to the coordinator. May get lost."""

    heartbeat: HeartbeatReceived


class SetTimer(Caused, frozen=True, kw_only=True):
    """Answered by `TimerFired` once ``now`` has reached ``at``."""

    at: int
    key: tuple[str, int]


class ReadSource(OfCopy, frozen=True, kw_only=True):
    """Read the batches from ``from_batch`` until before ``below`` of a log partition.

    Answered by `SourceRead`, once a batch. It replaces the copy's earlier request."""

    from_batch: int
    below: int


class ReadOn(OfCopy, frozen=True, kw_only=True):
    """Continue the copy's reading until before ``below``. Answered by `SourceRead`."""

    below: int


class StopReading(OfCopy, frozen=True, kw_only=True):
    """End the copy's reading of its log partition. Needs no answer."""


class ProcessBatch(OfCopy, frozen=True, kw_only=True):
    """Run the operator.

    Answered by `BatchProcessed` or `BatchFailed`, always, unless the node dies."""

    run: Run
    ticket: int
    batch: int
    state: State
    inputs: tuple[Payload | None, ...]
    copies_state: bool
    """True if the task may have to return to ``state``: at the first batch of a tentative run, or
    where it takes a snapshot from time to time. The host then pays for a copy of the state, or with
    `Method.UNDO` for the markers in the streams from which the state is rebuilt."""


class RebuildState(OfCopy, frozen=True, kw_only=True):
    """Process ``inputs`` from ``state`` on and discard the output.

    Answered by `StateRebuilt` or `BatchFailed`, always, unless the node dies."""

    ticket: int
    method: Method
    state: State
    first_batch: int
    inputs: tuple[tuple[Payload, ...], ...]
    """One entry per batch from ``first_batch`` on; may be empty."""
    undone: int
    """The number of tentative batches that become void: with `Method.UNDO` their history is read
    back."""


class StoreCheckpoint(Caused, frozen=True, kw_only=True):
    """Store a checkpoint.

    Answered by `CheckpointStored`, `CheckpointRefused` or `CheckpointFailed`, or not at all."""

    incarnation: int
    checkpoint: Checkpoint
    forget_below: int
    """Once it is stored, the task's checkpoints before this position can be forgotten."""


class LoadCheckpoint(OfCopy, frozen=True, kw_only=True):
    """Load a checkpoint. Answered by `CheckpointLoaded` or `CheckpointRefused`, or not at all."""

    term: int | None
    """The term of a primary: from now on the store refuses lower ones. None: read only."""
    position: int | None
    """Exactly this checkpoint; None for the latest."""


class ForgetCheckpoints(Caused, frozen=True, kw_only=True):
    """Delete checkpoints before ``below``: no task will go back to them. Needs no answer."""

    below: int


class FenceOutput(OfCopy, frozen=True, kw_only=True):
    """Fence older primaries off an output partition and read its end.

    Answered by `OutputFenced` or `OutputRefused`, or not at all."""

    term: int
    records: tuple[OutputRecord, ...] = ()
    """Stable output that the partition may lack, in order: the fence is a publication, too."""


class PublishOutput(OfCopy, frozen=True, kw_only=True):
    """Append to an output partition, all or nothing, once per (term, sequence).

    Answered by `OutputPublished` or `OutputRefused`, or not at all."""

    term: int
    sequence: int
    records: tuple[OutputRecord, ...]


class StoreRegistry(Caused, frozen=True, kw_only=True):
    """Store the registry.

    Answered by `RegistryStored`; by `RegistryRefused` if a higher term was given out since; or not
    at all."""

    term: int
    version: int
    registry: object


class LoadRegistry(Caused, frozen=True, kw_only=True):
    """Read the registry, and get a term that is higher than all before.

    An ``owner`` that has a term gets the same one again. Answered by `RegistryLoaded`, or not at
    all."""

    owner: int


class EndRun(Caused, frozen=True, kw_only=True):
    """End the run: a batch fails wherever it is processed, and no recovery will help."""

    reason: str
    """The task, the batch, the nodes, and the last traceback."""


class StepDown(Caused, frozen=True, kw_only=True):
    """End this coordinator: there is a later one. Its process may end."""

    term: int
    """The term of the later one."""


TaskEffect = (
    Send
    | SetTimer
    | NoteCopy
    | ReadSource
    | ReadOn
    | StopReading
    | ProcessBatch
    | RebuildState
    | StoreCheckpoint
    | LoadCheckpoint
    | FenceOutput
    | PublishOutput
)
Effect = (
    TaskEffect
    | SendOrder
    | SendHeartbeat
    | StoreRegistry
    | LoadRegistry
    | StepDown
    | EndRun
    | ForgetCheckpoints
)
