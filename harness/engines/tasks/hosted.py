"""One pass on a node: its `NodeMachine`, and everything that the machine asks for.

Operators run here; messages, sources and output go through Kafka, checkpoints through Redis,
heartbeats and notes over the control connection. All answers come back through one event loop.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from confluent_kafka import Message
from redis.exceptions import RedisError

from harness.engines.codec import Encoded, decode, encode, to_parts
from harness.engines.hosting import (
    NoRoom,
    claim_output,
    load_checkpoint,
    process,
    publish_output,
    rebuild,
    store_checkpoint,
)
from harness.engines.tasks.exchange import (
    EARLIEST,
    FOR_COPY,
    NEWEST,
    OutputTail,
    Sender,
    SourceReader,
    Tail,
    header,
    message_of,
)
from harness.engines.tasks.job import Job
from harness.engines.tasks.pacing import Lane, Speed
from harness.engines.tasks.store import Store, StoreFull
from harness.protocol import effects as do
from harness.protocol import inputs as told
from harness.protocol.node import NodeMachine
from harness.protocol.output import OutputBatch, OutputClaim, OutputReader


def now_us() -> int:
    """This process's clock: monotonic, so that a wall clock that jumps changes nothing."""
    return time.monotonic_ns() // 1000


class Reporter(Protocol):
    """The way to the coordinator."""

    def send(self, document: Mapping[str, Any]) -> None:
        """It may get lost."""

    def problem(self, error: BaseException) -> None:
        """Something that this node cannot go on with, or without."""


class Hosted:
    """One pass on this node: the machine, and what its copies read."""

    def __init__(
        self,
        node: int,
        boot: int,
        job: Job,
        client: Mapping[str, Any],
        store: Store,
        link: Reporter,
    ) -> None:
        self.node, self.boot, self.job = node, boot, job
        self._client, self._store, self._link = client, store, link
        self._loop = asyncio.get_running_loop()
        self._operators = job.program.operators
        self._speed, self._lane = Speed(**job.speed), Lane()
        self._sender = Sender(client, node)
        self._tails: dict[int, list[Tail]] = {}
        """Task to what is read for its copy here."""
        self._incarnations: dict[int, int] = {}
        """Task to the copy that `_tails` belong to."""
        self._sources: dict[int, tuple[SourceReader, Tail]] = {}
        self._read_below: dict[int, int] = {}
        """Source to the first batch that its copy has not asked for."""
        self._outputs: dict[int, OutputTail] = {}
        self._waiting: dict[int, list[do.ClaimOutput | do.PublishOutput]] = {}
        """Sink to what it asked of its partition and was not answered yet."""
        self._positioning: dict[int, list[told.Order]] = {}
        """Task to the orders that wait until its copy's reader has a position."""
        self._running: set[asyncio.Task[None]] = set()
        self._over = False
        self.machine = NodeMachine(
            node=node,
            boot=boot,
            wiring=job.wiring,
            scheme=job.scheme,
            initial=lambda task: self._operators[task].initial(),
            info=job.nodes[node],
            notes_progress=True,
        )

    def start(self) -> None:
        self._perform(self.machine.start(now=now_us()))

    def stop(self) -> None:
        """Let go of everything; nothing is handed to the machine any more."""
        self._over = True
        for tails in self._tails.values():
            for tail in tails:
                tail.stop()
        for running in self._running:
            running.cancel()

    def order(self, order: told.Order) -> None:
        """An order from the coordinator. A copy's reader is positioned before the copy exists,
        so that no answer to what it asks first can be missed."""
        waiting = self._positioning.get(order.task)
        if waiting is not None:
            waiting.append(order)
        elif self._is_new(order):
            self._position(order)
        else:
            self.tell(order)

    def tell(self, item: told.NodeInput) -> None:
        """Hand something to the machine, and do what it asks for."""
        if self._over:
            return
        self._perform(self.machine.handle(item, now=now_us()))

    # -- copies and what they read -----------------------------------------------------------

    def _is_new(self, order: told.Order) -> bool:
        return (
            isinstance(order, told.CopyOrdered)
            and order.boot == self.boot
            and order.incarnation > self._incarnations.get(order.task, 0)
        )

    def _position(self, order: told.Order) -> None:
        task = order.task
        self._positioning[task] = [order]
        self._let_go(task)
        self._incarnations[task] = order.incarnation
        missing = 2 if task in self.job.wiring.sinks else 1

        def ready(_end: int) -> None:
            nonlocal missing
            missing -= 1
            if not missing and self._incarnations.get(task) == order.incarnation:
                for waiting in self._positioning.pop(task, []):
                    self.order(waiting) if waiting is not order else self.tell(waiting)

        mine = Tail(
            self._client,
            self.job.data_topic,
            task,
            NEWEST,
            deliver=lambda messages: self._arrived(task, messages),
            ready=ready,
        )
        self._tails[task] = [mine]
        if task in self.job.wiring.sinks:
            self._tails[task].append(self._follow_output(task, ready))

    def _follow_output(self, sink: int, ready: Callable[[int], None]) -> Tail:
        output = OutputTail(sink, lambda reader: self._output_moved(sink, reader))
        self._outputs[sink] = output
        partition = self.job.out_partition(sink)
        return Tail(
            self._client,
            self.job.out_topic,
            partition,
            EARLIEST,
            deliver=output.take,
            ready=ready,
        )

    def _note(self, effect: do.NoteCopy) -> None:
        gone = effect.event is do.CopyEvent.RETIRED
        if gone and self._incarnations.get(effect.task) == effect.incarnation:
            self._let_go(effect.task)
        self._link.send({"note": to_parts(effect)[0].decode()})

    def _let_go(self, task: int) -> None:
        for tail in self._tails.pop(task, ()):
            tail.stop()
        self._sources.pop(task, None)
        self._outputs.pop(task, None)
        self._waiting.pop(task, None)

    def _arrived(self, task: int, messages: Sequence[Message]) -> None:
        for message in messages:
            meant = header(message, FOR_COPY)
            if meant is not None and meant != self._incarnations.get(task):
                continue
            found = message_of(message)
            if found is not None:
                self.tell(found)

    # -- effects ---------------------------------------------------------------------------------

    def _perform(self, effects: Sequence[do.Effect]) -> None:
        for effect in effects:
            _PERFORMERS[type(effect)](self, effect)

    def _at(self, when_us: int, item: told.NodeInput) -> None:
        """Hand ``item`` over at an instant of this process's clock, not before."""
        left = when_us - now_us()
        if left > 0:
            self._loop.call_later(left / 1e6, self._at, when_us, item)
        else:
            self.tell(item)

    def _set_timer(self, effect: do.SetTimer) -> None:
        self._at(effect.at, told.TimerFired(cause=effect.cause, key=effect.key))

    def _send(self, effect: do.Send) -> None:
        self._sender.send(
            self.job.data_topic, effect.to, effect.incarnation, effect.message, now_us()
        )

    def _beat(self, effect: do.SendHeartbeat) -> None:
        self._link.send({"heartbeat": to_parts(effect.heartbeat)[0].decode()})
        self._sender.tend()

    def _process(self, effect: do.ProcessBatch) -> None:
        operator = self._operators[effect.task]
        bare = _with(effect, inputs=tuple(_bare(part) for part in effect.inputs))
        cost = self._speed.tuples_us(operator.tuples(bare.inputs))
        if effect.copies_state:
            cost += self._speed.tuples_us(operator.state_tuples(effect.state))
        began = now_us()
        answer = process(bare, operator)
        if isinstance(answer, told.BatchProcessed):
            answer = _with(answer, outputs=tuple(Encoded(part) for part in answer.outputs))
        self._answer_at(began, cost, answer)

    def _rebuild(self, effect: do.RebuildState) -> None:
        operator = self._operators[effect.task]
        inputs = tuple(tuple(_bare(part) for part in batch) for batch in effect.inputs)
        tuples = sum(operator.tuples(batch) for batch in inputs)
        cost = self._speed.tuples_us(tuples + operator.state_tuples(effect.state))
        began = now_us()
        self._answer_at(began, cost, rebuild(_with(effect, inputs=inputs), operator))

    def _answer_at(self, began_us: int, cost_us: int, answer: told.NodeInput) -> None:
        """After what the declared speed takes; in a turn of the loop of its own, so that a long
        queue of batches does not keep messages and orders waiting."""
        due = self._lane.occupy(began_us, cost_us) if cost_us else 0
        if due > now_us():
            self._at(due, answer)
        else:
            self._loop.call_soon(self.tell, answer)

    def _store_checkpoint(self, effect: do.StoreCheckpoint) -> None:
        self._run(self._put(effect))

    async def _put(self, effect: do.StoreCheckpoint) -> None:
        checkpoint = effect.checkpoint
        data = encode(checkpoint)
        await self._pace_bytes(len(data))
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
        self.tell(store_checkpoint(effect, answered))

    def _load_checkpoint(self, effect: do.LoadCheckpoint) -> None:
        self._run(self._get(effect))

    async def _get(self, effect: do.LoadCheckpoint) -> None:
        found = await self._store.get(effect.task, term=effect.term, position=effect.position)
        await self._pace_bytes(len(found.checkpoint or b""))
        checkpoint = None if found.checkpoint is None else decode(found.checkpoint)
        answered = Answered()
        answered.accepted, answered.checkpoint = not found.refused, checkpoint
        self.tell(load_checkpoint(effect, answered))

    async def _pace_bytes(self, size: int) -> None:
        cost = self._speed.bytes_us(size)
        if cost:
            await asyncio.sleep((self._lane.occupy(now_us(), cost) - now_us()) / 1e6)

    def _run(self, work: Any) -> None:
        """Do something that waits for the store; without an answer the protocol asks again."""

        async def guarded() -> None:
            try:
                await work
            except (RedisError, OSError):
                return

        running = self._loop.create_task(guarded())
        self._running.add(running)
        running.add_done_callback(self._running.discard)

    # -- sources ---------------------------------------------------------------------------------

    def _read_source(self, effect: do.ReadSource) -> None:
        task = effect.task
        self._read_below[task] = effect.below
        reading = self._sources.get(task)
        if reading is not None:
            if reading[0].next == effect.from_batch:
                reading[1].hold(effect.from_batch >= effect.below)
                return  # it waits for that batch as it is
            reading[1].stop()
        topic, partition = self.job.source(task)

        def give(batch: int, table: Any) -> None:
            current = self._sources.get(task)
            if current is None or current[0] is not reader:
                return  # a later one reads what this one has fetched
            if batch >= self._read_below[task] - 1:
                current[1].hold(True)
            if batch >= self._read_below[task]:
                return  # fetched together with what was asked for; read again when it is, too
            self.tell(
                told.SourceRead(
                    cause=f"batch {batch} of {topic}[{partition}]",
                    task=effect.task,
                    incarnation=effect.incarnation,
                    batch=batch,
                    payload=Encoded(table),
                )
            )

        reader = SourceReader(
            first=effect.from_batch,
            start_us=self.job.start_us,
            batch_us=self.job.batch_us,
            partition=partition,
            with_times=getattr(self._operators[effect.task], "reads_times", True),
            give=give,
        )
        tail = Tail(self._client, topic, partition, reader.begin(), deliver=reader.take)
        self._sources[effect.task] = reader, tail
        kept = self._tails.setdefault(effect.task, [])
        kept[1:] = [tail]

    def _stop_reading(self, effect: do.StopReading) -> None:
        if self._incarnations.get(effect.task) == effect.incarnation:
            reading = self._sources.pop(effect.task, None)
            if reading is not None:
                reading[1].stop()

    def _read_on(self, effect: do.ReadOn) -> None:
        reading = self._sources.get(effect.task)
        if reading is None or self._incarnations.get(effect.task) != effect.incarnation:
            return
        before = self._read_below[effect.task]
        if reading[0].next <= before:
            self._read_below[effect.task] = effect.below
            reading[1].hold(False)
        else:
            again = do.ReadSource(
                cause=effect.cause,
                task=effect.task,
                incarnation=effect.incarnation,
                from_batch=before,
                below=effect.below,
            )
            self._read_source(again)

    # -- output ----------------------------------------------------------------------------------

    def _ask_output(self, effect: do.ClaimOutput | do.PublishOutput) -> None:
        output = self._outputs.get(effect.task)
        if output is None:
            return
        self._waiting.setdefault(effect.task, []).append(effect)
        if not self._answered(effect, output.reader):
            entry: OutputClaim | OutputBatch
            if isinstance(effect, do.ClaimOutput):
                entry = OutputClaim(term=effect.term)
            else:
                entry = OutputBatch(
                    term=effect.term, sequence=effect.sequence, records=effect.records
                )
            partition = self.job.out_partition(effect.task)
            self._sender.append(self.job.out_topic, partition, effect.task, entry)
        self._output_moved(effect.task, output.reader)

    @staticmethod
    def _answered(effect: do.ClaimOutput | do.PublishOutput, reader: OutputReader) -> bool:
        """Whether what was read so far decides about ``effect``."""
        if reader.term > effect.term:
            return True
        claimed = reader.term == effect.term
        if isinstance(effect, do.ClaimOutput):
            return claimed
        return claimed and reader.sequence >= effect.sequence

    def _output_moved(self, sink: int, reader: OutputReader) -> None:
        waiting = self._waiting.pop(sink, [])
        still = [effect for effect in waiting if not self._answered(effect, reader)]
        if still:
            self._waiting[sink] = still
        for effect in waiting:
            if effect in still:
                continue
            read = ReadBack(reader)
            if isinstance(effect, do.ClaimOutput):
                self.tell(claim_output(effect, read))
            else:
                self.tell(publish_output(effect, read))


_PERFORMERS: dict[type, Callable[[Hosted, Any], None]] = {
    do.Send: Hosted._send,
    do.SendHeartbeat: Hosted._beat,
    do.SetTimer: Hosted._set_timer,
    do.ProcessBatch: Hosted._process,
    do.RebuildState: Hosted._rebuild,
    do.StoreCheckpoint: Hosted._store_checkpoint,
    do.LoadCheckpoint: Hosted._load_checkpoint,
    do.ClaimOutput: Hosted._ask_output,
    do.PublishOutput: Hosted._ask_output,
    do.ReadSource: Hosted._read_source,
    do.ReadOn: Hosted._read_on,
    do.StopReading: Hosted._stop_reading,
    do.NoteCopy: Hosted._note,
}


class Answered:
    """What Redis has said, in the form that `harness.engines.hosting` asks a store in."""

    def __init__(self) -> None:
        self.accepted = True
        self.full: StoreFull | None = None
        self.checkpoint: told.Checkpoint | None = None

    def claim(self, task: int, term: int | None) -> bool:
        return self.accepted

    def put(self, checkpoint: told.Checkpoint) -> bool:
        if self.full is not None:
            raise NoRoom(str(self.full)) from self.full
        return self.accepted

    def get(self, task: int, position: int | None) -> told.Checkpoint | None:
        return self.checkpoint

    def forget(self, task: int | None, below: int) -> None:
        """Was done in the same step as `put`."""


class ReadBack:
    """What a partition says of claims and publications that were read back from it."""

    def __init__(self, reader: OutputReader) -> None:
        self._term = reader.term
        self.next_stable, self.next_tentative = reader.next_stable, reader.next_tentative

    def claim(self, term: int) -> bool:
        return term == self._term

    def append(self, term: int, sequence: int, records: tuple[do.OutputRecord, ...]) -> bool:
        return term == self._term


def _bare(part: Any) -> Any:
    return part.value if isinstance(part, Encoded) else part


def _with(item: Any, **changes: Any) -> Any:
    """A copy of a protocol value with other fields (`dataclasses.replace` would do it slower)."""
    kind = type(item)
    return kind(**{n: changes.get(n, getattr(item, n)) for n in kind.__slots__})
