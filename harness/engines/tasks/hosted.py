"""One pass on a node: its `NodeMachine`, and the effects of the machine.

Operators run here; messages go to other nodes directly, sources and output through Kafka,
checkpoints through Redis, heartbeats and notes over the control connection. All answers come back
through one event loop. Of each kind of request a copy has one under way (`operations`)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from confluent_kafka import KafkaError
from msgspec.structs import replace
from redis.exceptions import RedisError

from harness.engines.tasks.copies import Copies
from harness.engines.tasks.exchange import KAFKA, Log, ReadError
from harness.engines.tasks.job import Job
from harness.engines.tasks.messages import Messages, Streams
from harness.engines.tasks.operations import Key, Operation, Running
from harness.engines.tasks.pacing import Lane, now_us
from harness.engines.tasks.store import READ_AGAIN, Store, StoreFull, damaged
from harness.errors import EnvironmentFailure, UsageError
from harness.hosting.answers import NoRoom, load_checkpoint, process, rebuild, store_checkpoint
from harness.hosting.codec import CorruptData, Encoded, decode, encode, to_parts
from harness.hosting.frames import Header
from harness.protocol import effects as do
from harness.protocol import inputs as told
from harness.protocol.node import BEAT, NodeMachine

TOO_LARGE = (KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE)
DUE_AFTER, MOST_PATIENCE_US = 1.25, 1_250_000
"""Batches that a copy may be without a new one before its node requests it, and the longest time:
until then it is on its way, if it has ended at all."""

SHARE_OF_BEAT = 0.6
"""Shortest time between two equal requests, as a share of the heartbeats' interval."""
LONG_US = 5_000
"""An operator that has taken longer than this runs in a thread: messages do not wait for it."""
LARGE_BYTES = 1 << 18
"""A checkpoint above this size is decoded in a thread."""


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
        streams: Streams,
        store: Store,
        link: Reporter,
        log: Log = KAFKA,
    ) -> None:
        super().__init__(node, boot, job, client, store, log)
        self._link = link
        self._loop = asyncio.get_running_loop()
        self._speed, self._links = job.speed, job.links
        self._lane, self._store_lane = Lane(), Lane()
        self._running = Running()
        self._bench = ThreadPoolExecutor(1, thread_name_prefix="compute")
        self._scribe = ThreadPoolExecutor(1, thread_name_prefix="encode")
        self._computing = 0
        """Batches that are with the thread; while there are any, all others queue behind them."""
        self._took_us: dict[int, int] = {}
        """Task to about the longest time that its operator took lately."""
        self._over = False
        self._beating = False
        """True while the machine's heartbeat is followed."""
        self._repeats_after_us = round(SHARE_OF_BEAT * job.scheme.heartbeat_us)
        self._patience_us = min(round(DUE_AFTER * job.batch_us), MOST_PATIENCE_US)
        self._corked = False
        """True while more is about to be sent."""
        self.messages = Messages(
            node,
            boot,
            job.run,
            streams,
            deliver=lambda message, due_us: self.at(due_us, message),
            soon=self._soon,
            too_large=link.problem,
            links=job.links,
        )
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
        self.messages.flush()

    def stop(self) -> None:
        """Let go of everything; nothing is handed to the machine any more."""
        self._over = True
        self.let_all_go()
        self._running.cancel()
        self._bench.shutdown(wait=False, cancel_futures=True)
        self._scribe.shutdown(wait=False, cancel_futures=True)

    def _soon(self, item: told.NodeInput) -> None:
        self._loop.call_soon(self.tell, item)

    def hear(self, item: Any) -> None:
        """Handle the coordinator's message, after the delay of its link."""
        delay = self._links.delay_us(-1, self.node)
        if delay:
            self._loop.call_later(delay / 1e6, self.tell, item)
        else:
            self.tell(item)

    def tell(self, item: told.NodeInput) -> None:
        """Hand an input to the machine, and carry out its effects."""
        if self._over:
            return
        self._beating = type(item) is told.TimerFired and item.key == BEAT
        self._perform(self.machine.handle(item, now=now_us()))
        if not self._corked:
            self.messages.flush()

    def received(self, node: int, boot: int, header: Header, body: memoryview) -> None:
        """Take a frame of another node. Raises `CorruptData`."""
        self._corked = True
        try:
            self.messages.received(node, boot, header, body)
        finally:
            self._corked = False
            self.messages.flush()

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
        such a request is dropped here, or idle nodes would send nothing else. One that was sent is
        repeated after twice the time, each time, and at once when its sender is there again."""
        message = effect.message
        if type(message) is told.ReplayRequested and not self._may_ask(message):
            return
        self.messages.send(effect.to, effect.incarnation, message)

    def _may_ask(self, request: told.ReplayRequested) -> bool:
        """Return False for a heartbeat's request that is needless or that was just sent."""
        now = now_us()
        since_us = now - self._began_us.get(request.downstream, 0)
        if self._beating and since_us < self._patience_us:
            return False
        key = f"batches of {request.task}", request.downstream, request.asking
        what = request.from_batch, request.from_tentative, request.acknowledged, request.reloads
        due = self._requests.start(key, what, now, timeout_us=self._repeats_after_us)
        return due is not None or not self._beating

    def _note(self, effect: do.NoteCopy) -> None:
        if self.noted(effect):
            here = effect.event is do.CopyEvent.HOSTED
            self.messages.hosted(effect.task, effect.incarnation, here=here)
            self._link.send({"hosts": self.where()})
        self._link.send({"note": to_parts(effect)[0].decode()})

    def where(self) -> dict[str, Any]:
        """Return the copies here, for the coordinator and other nodes."""
        return {"run": self.job.run, "hosts": list(self.messages.hosts)}

    def read_failed(self, error: ReadError) -> None:
        """Report what a reader has heard; the run cannot go on without what it does not read."""
        if error.final:
            what = f"{error.place} cannot be read any further: {error.why}"
            self._link.problem(EnvironmentFailure(what, remedy=error.remedy))
        else:
            self._link.send({"trouble": {"where": error.place, "what": error.why}})

    def append_failed(self, sink: int, error: Any) -> None:
        """Report what the broker does not take; it cannot get smaller, so the run ends then."""
        name = self.job.wiring.names[sink]
        if error.code() in TOO_LARGE:
            self._link.problem(
                UsageError(
                    f"the output of one batch of {name} is larger than a record may be: {error}",
                    remedy="use shorter batches or more sink tasks, or raise message.max.bytes of "
                    "the broker and its topics",
                )
            )
        else:
            self._link.send({"trouble": {"where": f"output of {name}", "what": str(error)}})

    def _beat(self, effect: do.SendHeartbeat) -> None:
        self._link.send({"heartbeat": to_parts(effect.heartbeat)[0].decode()})
        self.tend_output()

    def _process(self, effect: do.ProcessBatch) -> None:
        operator = self._operators[effect.task]
        bare = replace(effect, inputs=tuple(_bare(part) for part in effect.inputs))
        cost = self._speed.tuples_us(operator.tuples(bare.inputs))
        if effect.copies_state:
            cost += self._speed.copies_us(operator.state_tuples(effect.state))
        began = self._began_us[effect.task] = now_us()
        self._compute(effect.task, process, bare, partial(self._processed, began, cost))

    def _processed(self, began_us: int, cost_us: int, answer: told.NodeInput) -> None:
        if isinstance(answer, told.BatchProcessed):
            answer = replace(answer, outputs=tuple(Encoded(part) for part in answer.outputs))
        self._answer_at(began_us, cost_us, answer)

    def _rebuild(self, effect: do.RebuildState) -> None:
        operator = self._operators[effect.task]
        inputs = tuple(tuple(_bare(part) for part in batch) for batch in effect.inputs)
        tuples = sum(operator.tuples(batch) for batch in inputs)
        cost = self._speed.tuples_us(tuples)
        cost += self._speed.copies_us(operator.state_tuples(effect.state))
        began, bare = now_us(), replace(effect, inputs=inputs)
        self._compute(effect.task, rebuild, bare, partial(self._answer_at, began, cost))

    def _compute(
        self,
        task: int,
        work: Callable[[Any, Any], told.NodeInput],
        effect: Any,
        then: Callable[[told.NodeInput], None],
    ) -> None:
        """Run an operator: here, or in the node's thread if it was slow before."""
        operator = self._operators[task]

        def timed() -> told.NodeInput:
            began = now_us()
            answer = work(effect, operator)
            self._took_us[task] = max(now_us() - began, self._took_us.get(task, 0) * 9 // 10)
            return answer

        async def elsewhere() -> None:
            then(await self._loop.run_in_executor(self._bench, timed))

        if self._took_us.get(task, 0) <= LONG_US and not self._computing:
            then(timed())
            return
        self._computing += 1
        running = self._running.start(elsewhere())
        running.add_done_callback(self._computed)

    def _computed(self, _: asyncio.Task[None]) -> None:
        self._computing -= 1

    def _answer_at(self, began_us: int, cost_us: int, answer: told.NodeInput) -> None:
        """Answer after the time of the declared speed.

        It is a turn of the loop of its own, so that a long queue of batches does not delay messages
        and orders."""
        due = self._lane.occupy(began_us, cost_us) if cost_us else 0
        if due > now_us():
            self.at(due, answer)
        else:
            self._soon(answer)

    def _store_checkpoint(self, effect: do.StoreCheckpoint) -> None:
        checkpoint = effect.checkpoint
        # Coordinated checkpoints are all needed; of a task's own the newest covers the others.
        kind = "store" if effect.forget_below else f"store {checkpoint.position}"
        key = kind, checkpoint.task, effect.incarnation
        what = checkpoint.term, checkpoint.position
        operation = self._requests.start(key, what, now_us())
        if operation is not None:
            self._ask_store(key, operation, partial(self._put, effect, operation))

    async def _put(self, effect: do.StoreCheckpoint, operation: Operation) -> told.NodeInput:
        checkpoint, data = effect.checkpoint, operation.data
        if data is None:
            data = await self._loop.run_in_executor(self._scribe, encode, checkpoint)
            operation.data = data
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
        return store_checkpoint(effect, answered)

    def _load_checkpoint(self, effect: do.LoadCheckpoint) -> None:
        key = f"load for term {effect.term}", effect.task, effect.incarnation
        operation = self._requests.start(key, effect.position, now_us())
        if operation is not None:
            self._ask_store(key, operation, partial(self._get, effect))

    async def _get(self, effect: do.LoadCheckpoint) -> told.NodeInput:
        await self._cross(0)
        found = await self._store.get(effect.task, term=effect.term, position=effect.position)
        data = found.checkpoint
        size = len(data or b"")
        await self._cross(size)
        await self._pace_bytes(size)
        answered = Answered(accepted=not found.refused)
        if data is not None and size > LARGE_BYTES:
            answered.checkpoint = await self._loop.run_in_executor(self._scribe, decode, data)
        elif data is not None:
            answered.checkpoint = decode(data)
        return load_checkpoint(effect, answered)

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

    def _ask_store(
        self,
        key: Key,
        operation: Operation,
        work: Callable[[], Coroutine[Any, Any, told.NodeInput]],
    ) -> None:
        """Hand over the store's answer; after an error the protocol's next request counts."""

        async def guarded() -> None:
            try:
                answer = await work()
            except (RedisError, OSError, CorruptData) as error:
                self._requests.failed(key, operation, now_us())
                self._link.send({"trouble": {"where": f"Redis, {key[0]}", "what": str(error)}})
                if isinstance(error, CorruptData) and operation.attempts >= READ_AGAIN:
                    name = self.job.wiring.names[key[1]]
                    self._link.problem(damaged(f"the checkpoint of {name}", error))
            else:
                if isinstance(answer, told.CheckpointFailed):
                    self._requests.failed(key, operation, now_us())
                else:
                    self._requests.done(key, operation)
                self.tell(answer)

        self._running.start(guarded())


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


@dataclass(slots=True)
class Answered:
    """Redis' answers, in the form that `harness.hosting.answers` expects of a store."""

    accepted: bool = True
    full: StoreFull | None = None
    checkpoint: told.Checkpoint | None = None

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
