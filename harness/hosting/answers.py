"""What a host does for each effect, and what it answers: one table for all hosts.

A host owns time, links and servers; the protocol's machines ask for things by effects. `EFFECTS`
says for each kind of effect where it is done, how, and which inputs may answer it. The how is a
function of the effect and of a server (an operator, a store, an output partition) that the host
hands in, so that a simulated store and a real one answer by the same rules. When, and whether at
all, is the host's own matter: it may drop an effect, but must not invent its answer.

What is done at a `Place` without a server (links, timers, reading) has no function here."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Protocol, TypedDict

from harness.protocol import effects as do
from harness.protocol import inputs as told
from harness.protocol.operators import TaskOperator


class Place(StrEnum):
    """The place where an effect is carried out."""

    OPERATOR = "operator"
    """On the node, by the task's operator; takes its time."""
    STORE = "store"
    """At the store of checkpoints and the registry."""
    OUTPUT = "output"
    """At a sink's output partition."""
    LOG = "log"
    """At a source's log partition, for as long as the copy reads."""
    TASKS = "tasks"
    """On its way to the copies of a task, as a message."""
    NODE = "node"
    """On its way to a node, as an order."""
    COORDINATOR = "coordinator"
    """On its way to the coordinator, as a heartbeat."""
    CLOCK = "clock"
    """At the clock of the requesting machine."""
    RECORD = "record"
    """In the record of the run; a host also sends messages to the copies that are recorded."""


LONGEST_ERROR = 4_000
"""Characters of a traceback; it travels in every heartbeat until the copy is retired."""


class NoRoom(Exception):
    """A store cannot keep a checkpoint, now or ever: it is too large, or the store full."""


class CheckpointStore(Protocol):
    """The operations of a store on checkpoints; each call is atomic."""

    def fence(self, task: int, term: int | None) -> bool:
        """Refuse lower terms of ``task`` from now on; return False if this one is refused.

        None fences nothing and is never refused."""

    def put(self, checkpoint: told.Checkpoint) -> bool:
        """Keep ``checkpoint``; return False if its term is refused. Raises `NoRoom`."""

    def get(self, task: int, position: int | None) -> told.Checkpoint | None:
        """Return the checkpoint at ``position``, or the latest one; None if there is none."""

    def forget(self, task: int | None, below: int) -> None:
        """Drop the checkpoints of ``task``, or of all tasks, before position ``below``."""


class RegistryStore(Protocol):
    """The operations of a store on the registry; each call is atomic."""

    def take_registry(self, owner: int) -> tuple[int, object | None]:
        """Return a term higher than all before, and the registry, None if there is none.

        An ``owner`` that has a term gets the same one again."""

    def put_registry(self, term: int, version: int, registry: object) -> int | None:
        """Keep ``registry``, unless a higher term than ``term`` was given out: then return that.

        A version that is not newer than the stored one changes nothing."""


class Output(Protocol):
    """An output partition that follows the rules of `harness.protocol.output`."""

    next_stable: int
    next_tentative: int

    def fence(self, term: int, records: tuple[do.OutputRecord, ...]) -> bool:
        """Fence lower terms off; return False if a higher one has a fence.

        Of ``records``, those that continue the partition are appended."""

    def append(self, term: int, sequence: int, records: tuple[do.OutputRecord, ...]) -> bool:
        """Append once per (term, sequence); return False if the term is fenced off."""


@dataclass(frozen=True, slots=True)
class Deed:
    """The way in which a host carries out one kind of effect."""

    place: Place
    answers: tuple[type[told.Input], ...] = ()
    """The inputs that may answer; all but an operator's may be missing."""
    perform: Callable[[Any, Any], Any] | None = None
    """(effect, server) to the answer, if there is one; None where the host passes it on."""


class _Copy(TypedDict):
    cause: str
    task: int
    incarnation: int


def _copy_of(effect: told.OfCopy) -> _Copy:
    """Return the fields that an answer repeats."""
    return _Copy(cause=effect.cause, task=effect.task, incarnation=effect.incarnation)


# -- operators -----------------------------------------------------------------------------


def process(
    effect: do.ProcessBatch, operator: TaskOperator
) -> told.BatchProcessed | told.BatchFailed:
    """Run one batch."""
    assert effect.batch >= 0, f"batch {effect.batch}"
    try:
        state, outputs = operator.process(effect.state, effect.batch, effect.inputs)
    except Exception:  # whatever a user's code raises is the protocol's business
        return _failed(effect, effect.run, effect.batch)
    return told.BatchProcessed(
        **_copy_of(effect),
        run=effect.run,
        ticket=effect.ticket,
        batch=effect.batch,
        state=state,
        outputs=outputs,
    )


def rebuild(
    effect: do.RebuildState, operator: TaskOperator
) -> told.StateRebuilt | told.BatchFailed:
    """Run batches for their state alone."""
    assert effect.first_batch >= 0, f"batch {effect.first_batch}"
    state, batch = effect.state, effect.first_batch
    try:
        for batch, inputs in enumerate(effect.inputs, effect.first_batch):
            state, _ = operator.process(state, batch, inputs)
    except Exception:
        return _failed(effect, told.Run.STABLE, batch)
    return told.StateRebuilt(**_copy_of(effect), ticket=effect.ticket, state=state)


def _failed(
    effect: do.ProcessBatch | do.RebuildState, run: told.Run, batch: int
) -> told.BatchFailed:
    """Return the failure that is being handled, with the end of its traceback."""
    return told.BatchFailed(
        **_copy_of(effect),
        run=run,
        ticket=effect.ticket,
        batch=batch,
        error=traceback.format_exc()[-LONGEST_ERROR:],
    )


# -- the store -----------------------------------------------------------------------------


def store_checkpoint(
    effect: do.StoreCheckpoint, store: CheckpointStore
) -> told.CheckpointStored | told.CheckpointRefused | told.CheckpointFailed:
    """Store a checkpoint; a later term refuses it, and it fails for lack of room."""
    assert effect.checkpoint.position >= effect.forget_below, "it would be deleted at once"
    checkpoint = effect.checkpoint
    copy = _Copy(cause=effect.cause, task=checkpoint.task, incarnation=effect.incarnation)
    try:
        kept = store.put(checkpoint)
    except NoRoom as refusal:
        return told.CheckpointFailed(**copy, position=checkpoint.position, reason=str(refusal))
    if not kept:
        return told.CheckpointRefused(**copy)
    if effect.forget_below:
        store.forget(checkpoint.task, effect.forget_below)
    return told.CheckpointStored(**copy, position=checkpoint.position)


def load_checkpoint(
    effect: do.LoadCheckpoint, store: CheckpointStore
) -> told.CheckpointLoaded | told.CheckpointRefused:
    """Load the latest checkpoint, or that at a position; refused if a later term has a fence."""
    assert effect.position is None or effect.position >= 0, f"position {effect.position}"
    if not store.fence(effect.task, effect.term):
        return told.CheckpointRefused(**_copy_of(effect))
    return told.CheckpointLoaded(
        **_copy_of(effect), checkpoint=store.get(effect.task, effect.position)
    )


def forget_checkpoints(effect: do.ForgetCheckpoints, store: CheckpointStore) -> None:
    """Delete the checkpoints that no task will go back to."""
    assert effect.below > 0, f"nothing before batch {effect.below} exists"
    store.forget(None, effect.below)


def store_registry(
    effect: do.StoreRegistry, store: RegistryStore
) -> told.RegistryStored | told.RegistryRefused:
    """Store the registry; refused if a later coordinator has a term."""
    assert effect.term > 0, f"term {effect.term}"
    higher = store.put_registry(effect.term, effect.version, effect.registry)
    if higher is not None:
        return told.RegistryRefused(cause=effect.cause, term=higher)
    return told.RegistryStored(cause=effect.cause, version=effect.version)


def load_registry(effect: do.LoadRegistry, store: RegistryStore) -> told.RegistryLoaded:
    """Return a term for this coordinator, and the decisions of the one before it."""
    assert effect.owner > 0, f"owner {effect.owner}"
    term, registry = store.take_registry(effect.owner)
    return told.RegistryLoaded(cause=effect.cause, term=term, registry=registry)


# -- output --------------------------------------------------------------------------------


def fence_output(effect: do.FenceOutput, output: Output) -> told.OutputFenced | told.OutputRefused:
    """Fence a partition and return its end; refused if a later term has a fence."""
    assert effect.term > 0, f"term {effect.term}"
    if not output.fence(effect.term, effect.records):
        return told.OutputRefused(**_copy_of(effect))
    return told.OutputFenced(
        **_copy_of(effect), next_stable=output.next_stable, next_tentative=output.next_tentative
    )


def publish_output(
    effect: do.PublishOutput, output: Output
) -> told.OutputPublished | told.OutputRefused:
    """Append once; refused if a later term has fenced the partition."""
    assert effect.records, "an empty publication"
    if not output.append(effect.term, effect.sequence, effect.records):
        return told.OutputRefused(**_copy_of(effect))
    return told.OutputPublished(**_copy_of(effect), sequence=effect.sequence)


EFFECTS: Mapping[type[do.Effect], Deed] = MappingProxyType(
    {
        do.ProcessBatch: Deed(Place.OPERATOR, (told.BatchProcessed, told.BatchFailed), process),
        do.RebuildState: Deed(Place.OPERATOR, (told.StateRebuilt, told.BatchFailed), rebuild),
        do.StoreCheckpoint: Deed(
            Place.STORE,
            (told.CheckpointStored, told.CheckpointRefused, told.CheckpointFailed),
            store_checkpoint,
        ),
        do.LoadCheckpoint: Deed(
            Place.STORE, (told.CheckpointLoaded, told.CheckpointRefused), load_checkpoint
        ),
        do.ForgetCheckpoints: Deed(Place.STORE, (), forget_checkpoints),
        do.StoreRegistry: Deed(
            Place.STORE, (told.RegistryStored, told.RegistryRefused), store_registry
        ),
        do.LoadRegistry: Deed(Place.STORE, (told.RegistryLoaded,), load_registry),
        do.FenceOutput: Deed(Place.OUTPUT, (told.OutputFenced, told.OutputRefused), fence_output),
        do.PublishOutput: Deed(
            Place.OUTPUT, (told.OutputPublished, told.OutputRefused), publish_output
        ),
        do.ReadSource: Deed(Place.LOG, (told.SourceRead,)),
        do.ReadOn: Deed(Place.LOG, (told.SourceRead,)),
        do.StopReading: Deed(Place.LOG),
        do.NoteCopy: Deed(Place.RECORD),
        do.SetTimer: Deed(Place.CLOCK, (told.TimerFired,)),
        do.Send: Deed(Place.TASKS),
        do.SendOrder: Deed(Place.NODE),
        do.SendHeartbeat: Deed(Place.COORDINATOR),
        do.StepDown: Deed(Place.COORDINATOR),
        do.EndRun: Deed(Place.COORDINATOR),
    }
)
