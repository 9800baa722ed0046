"""One pass on a node: its `NodeMachine`, and the effects of the machine.

Operators run here; messages, sources and output go through Kafka, checkpoints through Redis,
heartbeats and notes over the control connection. All answers come back through one event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from msgspec.structs import replace
from redis.exceptions import RedisError

from harness.engines.tasks.copies import Copies
from harness.engines.tasks.exchange import Sender
from harness.engines.tasks.job import Job
from harness.engines.tasks.pacing import Lane, now_us
from harness.engines.tasks.spares import Spares
from harness.engines.tasks.store import Store, StoreFull
from harness.hosting.answers import NoRoom, load_checkpoint, process, rebuild, store_checkpoint
from harness.hosting.codec import Encoded, decode, encode, to_parts
from harness.protocol import effects as do
from harness.protocol import inputs as told
from harness.protocol.node import BEAT, NodeMachine

DUE_AFTER, MOST_PATIENCE_US = 1.25, 1_250_000
"""Batches that a copy may be without a new one before its node requests it, and the longest time:
until then it is on its way, if it has ended at all."""


class Reporter(Protocol):
    """The way to the coordinator."""

    def send(self, document: Mapping[str, Any]) -> None:
        """Send a frame, which may get lost."""

    def problem(self, error: BaseException) -> None:
        """Something that this node cannot go on with, or without."""


class Hosted(Copies):
    """One pass on this node: the machine, and what its copies read."""

    def __init__(
        self,
        node: int,
        boot: int,
        job: Job,
        client: Mapping[str, Any],
        spares: Spares,
        store: Store,
        link: Reporter,
    ) -> None:
        super().__init__(node, boot, job, client, spares, Sender(client, node))
        self._store, self._link = store, link
        self._loop = asyncio.get_running_loop()
        self._speed, self._links = job.speed, job.links
        self._lane, self._store_lane = Lane(), Lane()
        self._running: set[asyncio.Task[None]] = set()
        self._over = False
        self._beating = False
        """True while the machine's heartbeat is followed."""
        self._patience_us = min(round(DUE_AFTER * job.batch_us), MOST_PATIENCE_US)
        self._began_us: dict[int, int] = {}
        """Task to when a copy here began its newest batch."""
        self.machine = NodeMachine(
            node=node,
            boot=boot,
            wiring=job.wiring,
            scheme=job.scheme,
            initial=lambda task: self._operators[task].initial(),
            info=job.nodes[node],
            notes_progress=job.notes_progress,
        )

    def start(self) -> None:
        self._perform(self.machine.start(now=now_us()))

    def stop(self) -> None:
        """Let go of everything; nothing is handed to the machine any more."""
        self._over = True
        self.let_all_go()
        for running in self._running:
            running.cancel()

    def hear(self, frame: Callable[[Any], None], item: Any) -> None:
        """Handle the coordinator's message, after the delay of its link."""
        delay = self._links.delay_us(-1, self.node)
        if delay:
            self._loop.call_later(delay / 1e6, frame, item)
        else:
            frame(item)

    def tell(self, item: told.NodeInput) -> None:
        """Hand an input to the machine, and carry out its effects."""
        if self._over:
            return
        self._beating = type(item) is told.TimerFired and item.key == BEAT
        self._perform(self.machine.handle(item, now=now_us()))

    def _perform(self, effects: Sequence[do.Effect]) -> None:
        for effect in effects:
            _PERFORMERS[type(effect)](self, effect)

    def at(self, when_us: int, item: told.NodeInput) -> None:
        """Hand ``item`` over at an instant of this process's clock, not before."""
        left = when_us - now_us()
        if left > 0:
            self._loop.call_later(left / 1e6, self.at, when_us, item)
        else:
            self.tell(item)

    def _set_timer(self, effect: do.SetTimer) -> None:
        """Set the timer; heartbeats fall on whole multiples of their interval.

        The nodes of a machine, which share its clock, wake one after the other, and the coordinator
        gets all heartbeats at once."""
        due, every = effect.at, self.job.scheme.heartbeat_us
        if effect.key == BEAT:
            due = (due + every // 2) // every * every
        self.at(due, told.TimerFired(cause=effect.cause, key=effect.key))

    def _send(self, effect: do.Send) -> None:
        """Send a message, unless it is a needless request.

        With each heartbeat a copy requests the batch that it lacks, as messages may get lost. Where
        batches are longer than heartbeats it mostly lacks it because the batch is not over yet:
        such a request is dropped here, or idle nodes would send nothing else."""
        message = effect.message
        if self._beating and type(message) is told.ReplayRequested:
            since_us = now_us() - self._began_us.get(message.downstream, 0)
            if since_us < self._patience_us:
                return
        self._sender.send(self.job.data_topic, effect.to, effect.incarnation, message, now_us())

    def _note(self, effect: do.NoteCopy) -> None:
        self.noted(effect)
        self._link.send({"note": to_parts(effect)[0].decode()})

    def _beat(self, effect: do.SendHeartbeat) -> None:
        self._link.send({"heartbeat": to_parts(effect.heartbeat)[0].decode()})
        self._sender.tend()

    def _process(self, effect: do.ProcessBatch) -> None:
        operator = self._operators[effect.task]
        bare = replace(effect, inputs=tuple(_bare(part) for part in effect.inputs))
        cost = self._speed.tuples_us(operator.tuples(bare.inputs))
        if effect.copies_state:
            cost += self._speed.copies_us(operator.state_tuples(effect.state))
        began = self._began_us[effect.task] = now_us()
        answer = process(bare, operator)
        if isinstance(answer, told.BatchProcessed):
            answer = replace(answer, outputs=tuple(Encoded(part) for part in answer.outputs))
        self._answer_at(began, cost, answer)

    def _rebuild(self, effect: do.RebuildState) -> None:
        operator = self._operators[effect.task]
        inputs = tuple(tuple(_bare(part) for part in batch) for batch in effect.inputs)
        tuples = sum(operator.tuples(batch) for batch in inputs)
        cost = self._speed.tuples_us(tuples)
        cost += self._speed.copies_us(operator.state_tuples(effect.state))
        began = now_us()
        self._answer_at(began, cost, rebuild(replace(effect, inputs=inputs), operator))

    def _answer_at(self, began_us: int, cost_us: int, answer: told.NodeInput) -> None:
        """Answer after the time of the declared speed.

        It is a turn of the loop of its own, so that a long queue of batches does not delay messages
        and orders."""
        due = self._lane.occupy(began_us, cost_us) if cost_us else 0
        if due > now_us():
            self.at(due, answer)
        else:
            self._loop.call_soon(self.tell, answer)

    def _store_checkpoint(self, effect: do.StoreCheckpoint) -> None:
        self._run(self._put(effect))

    async def _put(self, effect: do.StoreCheckpoint) -> None:
        checkpoint = effect.checkpoint
        data = encode(checkpoint)
        await self._pace_bytes(len(data))
        await self._cross(len(data))
        answered = Answered()
        try:
            answered.accepted = await self._store.put(
                checkpoint.task,
                term=checkpoint.term,
                position=checkpoint.position,
                checkpoint=data,
                forget_below=effect.forget_below,
            )
        except StoreFull as full:
            answered.full = full
        await self._cross(0)
        self.tell(store_checkpoint(effect, answered))

    def _load_checkpoint(self, effect: do.LoadCheckpoint) -> None:
        self._run(self._get(effect))

    async def _get(self, effect: do.LoadCheckpoint) -> None:
        await self._cross(0)
        found = await self._store.get(effect.task, term=effect.term, position=effect.position)
        await self._cross(len(found.checkpoint or b""))
        await self._pace_bytes(len(found.checkpoint or b""))
        checkpoint = None if found.checkpoint is None else decode(found.checkpoint)
        answered = Answered()
        answered.accepted, answered.checkpoint = not found.refused, checkpoint
        self.tell(load_checkpoint(effect, answered))

    async def _pace_bytes(self, size: int) -> None:
        cost = self._speed.bytes_us(size)
        if cost:
            await asyncio.sleep((self._lane.occupy(now_us(), cost) - now_us()) / 1e6)

    async def _cross(self, size: int) -> None:
        """Wait for the way of these bytes between this node and the store."""
        if not self._links:
            return
        passed = self._store_lane.occupy(now_us(), self._links.transfer_us(size))
        await asyncio.sleep((passed - now_us() + self._links.way_to_store_us(self.node)) / 1e6)

    def _run(self, work: Any) -> None:
        """Run a request to the store; without an answer the protocol repeats it."""

        async def guarded() -> None:
            try:
                await work
            except (RedisError, OSError):
                return

        running = self._loop.create_task(guarded())
        self._running.add(running)
        running.add_done_callback(self._running.discard)


_PERFORMERS: dict[type, Callable[[Hosted, Any], None]] = {
    do.Send: Hosted._send,
    do.SendHeartbeat: Hosted._beat,
    do.SetTimer: Hosted._set_timer,
    do.ProcessBatch: Hosted._process,
    do.RebuildState: Hosted._rebuild,
    do.StoreCheckpoint: Hosted._store_checkpoint,
    do.LoadCheckpoint: Hosted._load_checkpoint,
    do.FenceOutput: Hosted._ask_output,
    do.PublishOutput: Hosted._ask_output,
    do.ReadSource: Hosted._read_source,
    do.ReadOn: Hosted._read_on,
    do.StopReading: Hosted._stop_reading,
    do.NoteCopy: Hosted._note,
}


class Answered:
    """Redis' answers, in the form that `harness.hosting.answers` expects of a store."""

    def __init__(self) -> None:
        self.accepted = True
        self.full: StoreFull | None = None
        self.checkpoint: told.Checkpoint | None = None

    def fence(self, task: int, term: int | None) -> bool:
        return self.accepted

    def put(self, checkpoint: told.Checkpoint) -> bool:
        if self.full is not None:
            raise NoRoom(str(self.full)) from self.full
        return self.accepted

    def get(self, task: int, position: int | None) -> told.Checkpoint | None:
        return self.checkpoint

    def forget(self, task: int | None, below: int) -> None:
        """Was done in the same step as `put`."""


def _bare(part: Any) -> Any:
    return part.value if isinstance(part, Encoded) else part


def _with(item: Any, **changes: Any) -> Any:
    """Return a copy of a protocol value with other fields (`dataclasses.replace` is slower)."""
    kind = type(item)
    return kind(**{n: changes.get(n, getattr(item, n)) for n in kind.__slots__})
