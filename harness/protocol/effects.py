"""What shall be done: everything that a machine can ask of its host. Imperatives, all frozen.

Each effect that expects an answer names the closed set of inputs that may answer it. An answer
that never comes (the store or the log is away, a message was lost) is asked for again at the
next heartbeat, so a host may drop an effect but must not invent its answer.
"""

from __future__ import annotations

from enum import StrEnum

from harness.protocol.inputs import Checkpoint, HeartbeatReceived, Order, Run, TaskMessage
from harness.protocol.operators import Payload, State
from harness.protocol.scheme import Method
from harness.protocol.values import value


class Kind(StrEnum):
    """What a record of an output partition is."""

    STABLE = "stable"
    """Final, once per batch, in ascending order."""
    TENTATIVE = "tentative"
    """From partial input: an undo and the stable output will follow."""
    UNDO = "undo"
    """Every tentative output from this batch on is void."""


@value
class OutputRecord:
    """One record of an output partition."""

    kind: Kind
    batch: int
    payload: Payload = None


class CopyEvent(StrEnum):
    """What can be noted of a copy."""

    HOSTED = "hosted"
    """The node has it: from now on, messages for its task are for it, too."""
    READY = "ready"
    """It has its state and takes part; ``why`` says where the state came from."""
    PROMOTED = "promoted"
    """It was a replica and is the primary now."""
    PROGRESSED = "progressed"
    """A primary has processed one more batch, stable; noted only where that is asked for."""
    FAILED = "failed"
    """Its operator has raised: it does nothing more. ``why`` is the traceback."""
    UNSTORED = "unstored"
    """The store has refused its checkpoint, for the reason ``why``; it will try again."""
    RETIRED = "retired"
    """The node has dropped it: nothing is for it any more. ``why`` says because of what."""
    LOST = "lost"
    """The coordinator gives it up, a primary; ``why`` says what it has noticed."""


@value
class NoteCopy:
    """Report what became of a copy: for the records, and for routing. Needs no answer.

    A host delivers messages to a copy from HOSTED to RETIRED. Recoveries are measured from what
    is noted (`harness.hosting.restoration`), not by looking into machines.
    """

    cause: str
    event: CopyEvent
    task: int
    incarnation: int
    term: int | None
    """A primary's."""
    position: int
    """The next batch of its stable computation; for LOST, as it was last reported."""
    at: int
    """By the clock of whoever notes it, in microseconds."""
    why: str = ""
    node: int = -1
    """For LOST, the node that had it."""


@value
class Send:
    """Deliver ``message`` to the copies of a task: all of them, or only one. May get lost."""

    cause: str
    to: int
    incarnation: int | None
    message: TaskMessage


@value
class SendOrder:
    """Deliver an order to a node. May get lost."""

    cause: str
    node: int
    order: Order


@value
class SendHeartbeat:
    """Deliver a heartbeat to the coordinator. May get lost."""

    cause: str
    heartbeat: HeartbeatReceived


@value
class SetTimer:
    """Answered by `TimerFired` once ``now`` has reached ``at``."""

    cause: str
    at: int
    key: tuple[str, int]


@value
class ReadSource:
    """Read the batches from ``from_batch`` to ``below``, which is left out, of a log partition.
    Answered by `SourceRead`, once a batch; it replaces what the same copy asked for before."""

    cause: str
    task: int
    incarnation: int
    from_batch: int
    below: int


@value
class ReadOn:
    """Where the copy reads already, go on to ``below``. Answered by `SourceRead`."""

    cause: str
    task: int
    incarnation: int
    below: int


@value
class StopReading:
    """This copy reads its log partition no more. Needs no answer."""

    cause: str
    task: int
    incarnation: int


@value
class ProcessBatch:
    """Run the operator. Answered by `BatchProcessed` or `BatchFailed`, always, unless the node
    dies."""

    cause: str
    task: int
    incarnation: int
    run: Run
    ticket: int
    batch: int
    state: State
    inputs: tuple[Payload | None, ...]
    copies_state: bool
    """Whether the task may have to return to ``state``: at the first batch of a tentative run,
    or where it takes a snapshot from time to time. The host then pays for a copy of the state, or
    with `Method.UNDO` for the markers in the streams that say which input rebuilds it."""


@value
class RebuildState:
    """Process ``inputs`` from ``state`` on and throw the output away. Answered by
    `StateRebuilt` or `BatchFailed`, always, unless the node dies."""

    cause: str
    task: int
    incarnation: int
    ticket: int
    method: Method
    state: State
    first_batch: int
    inputs: tuple[tuple[Payload, ...], ...]
    """One entry per batch from ``first_batch`` on; may be empty."""
    undone: int
    """How many tentative batches become void: with `Method.UNDO` their history is read back."""


@value
class StoreCheckpoint:
    """Answered by `CheckpointStored`, `CheckpointRefused` or `CheckpointFailed`, or not at all."""

    cause: str
    incarnation: int
    checkpoint: Checkpoint
    forget_below: int
    """Once it is stored, the task's checkpoints before this position can be forgotten."""


@value
class LoadCheckpoint:
    """Answered by `CheckpointLoaded` or `CheckpointRefused`, or not at all."""

    cause: str
    task: int
    incarnation: int
    term: int | None
    """A primary's: from now on the store refuses lower ones. None: just read."""
    position: int | None
    """Exactly this checkpoint; None for the latest."""


@value
class ForgetCheckpoints:
    """No task will go back to a checkpoint before ``below``. Needs no answer."""

    cause: str
    below: int


@value
class FenceOutput:
    """Fence older primaries off an output partition and read its end. Answered by
    `OutputFenced` or `OutputRefused`, or not at all."""

    cause: str
    task: int
    incarnation: int
    term: int


@value
class PublishOutput:
    """Append to an output partition, all or nothing, once per (term, sequence). Answered by
    `OutputPublished` or `OutputRefused`, or not at all."""

    cause: str
    task: int
    incarnation: int
    term: int
    sequence: int
    records: tuple[OutputRecord, ...]


@value
class StoreRegistry:
    """Answered by `RegistryStored`; by `RegistryRefused` if a higher term was given out since; or
    not at all."""

    cause: str
    term: int
    version: int
    registry: object


@value
class LoadRegistry:
    """Read the registry, and have a term that is higher than all before; the same again for an
    ``owner`` that has asked before. Answered by `RegistryLoaded`, or not at all."""

    cause: str
    owner: int


@value
class EndRun:
    """A batch fails wherever it is processed: nothing the protocol can do will help."""

    cause: str
    reason: str
    """Which task, batch and nodes, and the last traceback."""


@value
class StepDown:
    """There is a later coordinator: this one has done its work, and its process may end."""

    cause: str
    term: int
    """The later one's."""


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
