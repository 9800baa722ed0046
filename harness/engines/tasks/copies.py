"""Readers of the copies on a node: messages of a task, a source's records, a sink's output.

A copy's reader is positioned before the copy exists, so that no answer to its first requests can be
missed. A sink follows its own output partition: a fence or a publication is answered once it has
been read back, by the rules of every reader.

Tests: ``tests/engines/tasks/test_live.py``."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from confluent_kafka import Message

from harness.engines.tasks import exchange
from harness.engines.tasks.job import Job
from harness.engines.tasks.pacing import Arrivals
from harness.engines.tasks.records import RESEND_S
from harness.engines.tasks.sources import SourceReader
from harness.engines.tasks.spares import Spares
from harness.hosting.answers import fence_output, publish_output
from harness.hosting.codec import Encoded
from harness.protocol import effects as do
from harness.protocol import inputs as told
from harness.protocol.output import OutputBatch, OutputFence, OutputReader


class Copies:
    """Readers by task, which serve both of its copies where there are two.

    A subclass hands the messages to the machine (`tell`)."""

    def __init__(
        self,
        node: int,
        boot: int,
        job: Job,
        client: Mapping[str, Any],
        spares: Spares,
        sender: exchange.Sender,
    ) -> None:
        self.node, self.boot, self.job = node, boot, job
        self._arrivals = Arrivals(job.links, node) if job.links else None
        """None where no link is declared: most runs."""
        self._spares, self._sender = spares, sender
        patience_s = min(exchange.MOST_PATIENCE_S, exchange.SHARE_OF_BATCH * job.batch_us / 1e6)
        self._patient_client = exchange.source_settings(client, patience_s)
        self._operators = job.program.operators
        self._tails: dict[int, list[exchange.Tail]] = {}
        """Task to what is read for its copies here."""
        self._incarnations: dict[int, set[int]] = {}
        """Task to its copies here, one that is just being started among them."""
        self._known: set[tuple[int, int]] = set()
        """(task, incarnation) of every copy that was ever here."""
        self._sources: dict[tuple[int, int], tuple[SourceReader, exchange.Tail]] = {}
        """By source and incarnation: each copy has its own position."""
        self._read_below: dict[tuple[int, int], int] = {}
        """The first batch that it has not requested."""
        self._outputs: dict[int, exchange.OutputTail] = {}
        self._waiting: dict[int, list[do.FenceOutput | do.PublishOutput]] = {}
        """Sink to its requests to its partition without an answer so far."""
        self._sent: dict[int, tuple[tuple[int, int, int] | None, float]] = {}
        """Sink to its newest publication of ordinary records, and when it was sent."""
        self._positioning: dict[int, list[told.Order]] = {}
        """Task to the orders that wait until its copy's reader has a position."""

    def tell(self, item: told.NodeInput) -> None:
        """Hand an input to the machine, and carry out its effects."""
        raise NotImplementedError

    def at(self, when_us: int, item: told.NodeInput) -> None:
        """`tell` at an instant of this process's clock, not before."""
        raise NotImplementedError

    def let_all_go(self) -> None:
        """End every reader when the pass is over."""
        for task in list(self._tails):
            self._let_go(task)
        for _, tail in self._sources.values():
            tail.stop()

    def order(self, order: told.Order) -> None:
        """Carry out an order of the coordinator.

        A copy's reader is positioned before the copy exists, so that no answer to its first
        requests can be missed."""
        waiting = self._positioning.get(order.task)
        if waiting is not None:
            waiting.append(order)
        elif not isinstance(order, told.CopyOrdered) or not self._is_new(order):
            self.tell(order)
        elif order.task in self._tails:
            self._start(order)
        else:
            self._position(order)

    def _is_new(self, order: told.CopyOrdered) -> bool:
        return order.boot == self.boot and (order.task, order.incarnation) not in self._known

    def _start(self, order: told.CopyOrdered) -> None:
        """Its reader has a position. The machine may refuse: then nobody needs the reader."""
        self._incarnations.setdefault(order.task, set()).add(order.incarnation)
        self.tell(order)
        if (order.task, order.incarnation) not in self._known:
            self.gone(order.task, order.incarnation)

    def noted(self, note: do.NoteCopy) -> None:
        """Handle the machine's note about a copy."""
        if note.event is do.CopyEvent.HOSTED:
            self._known.add((note.task, note.incarnation))
        elif note.event is do.CopyEvent.RETIRED:
            self.gone(note.task, note.incarnation)

    def gone(self, task: int, incarnation: int) -> None:
        """Forget a copy, and the readers that only it needed."""
        left = self._incarnations.get(task, set())
        left.discard(incarnation)
        self._stop_source((task, incarnation))
        waiting = self._waiting.pop(task, [])
        if left:
            self._waiting[task] = [e for e in waiting if e.incarnation != incarnation]
        else:
            self._let_go(task)

    def _position(self, order: told.CopyOrdered) -> None:
        task = order.task
        self._positioning[task] = [order]
        missing = 2 if task in self.job.wiring.sinks else 1

        def ready(_end: int) -> None:
            nonlocal missing
            missing -= 1
            if not missing:
                for waiting in self._positioning.pop(task, []):
                    self.order(waiting) if waiting is not order else self._start(order)

        mine = exchange.Tail(
            self._spares.take,
            self.job.data_topic,
            task,
            exchange.NEWEST,
            deliver=lambda messages: self._arrived(task, messages),
            ready=ready,
        )
        self._tails[task] = [mine]
        if task in self.job.wiring.sinks:
            self._tails[task].append(self._follow_output(task, ready))

    def _follow_output(self, sink: int, ready: Callable[[int], None]) -> exchange.Tail:
        output = exchange.OutputTail(sink, lambda reader: self._output_moved(sink, reader))
        self._outputs[sink] = output
        partition = self.job.out_partition(sink)
        return exchange.Tail(
            self._spares.take,
            self.job.out_topic,
            partition,
            exchange.EARLIEST,
            deliver=output.take,
            ready=ready,
        )

    def _let_go(self, task: int) -> None:
        for tail in self._tails.pop(task, ()):
            tail.stop()
        self._outputs.pop(task, None)

    def _arrived(self, task: int, messages: Sequence[Message]) -> None:
        for message in messages:
            meant = exchange.header(message, exchange.FOR_COPY)
            if meant is not None and meant not in self._incarnations.get(task, ()):
                continue
            found = exchange.message_of(message)
            if found is None:
                continue
            if self._arrivals is None:
                self.tell(found)
            else:
                self.at(self._due_us(message, self._arrivals), found)

    @staticmethod
    def _due_us(message: Message, arrivals: Arrivals) -> int:
        sent_us, sender = (
            exchange.header(message, exchange.SENT_AT),
            exchange.header(message, exchange.FROM_NODE),
        )
        if sent_us is None or sender is None:
            return 0  # none of ours
        return arrivals.due_us(sent_us, sender, len(message.value()))

    # -- sources ---------------------------------------------------------------------------------

    def _read_source(self, effect: do.ReadSource) -> None:
        key = effect.task, effect.incarnation
        self._read_below[key] = effect.below
        reading = self._sources.get(key)
        if reading is not None:
            if reading[0].next == effect.from_batch:
                reading[1].hold(effect.from_batch >= effect.below)
                return  # it waits for that batch as it is
            reading[1].stop()
        topic, partition = self.job.source(effect.task)

        def give(batch: int, table: Any) -> None:
            current = self._sources.get(key)
            if current is None or current[0] is not reader:
                return  # a later one reads what this one has fetched
            if batch >= self._read_below[key] - 1:
                current[1].hold(True)
            if batch >= self._read_below[key]:
                return  # fetched with the requested part; read again when it is requested, too
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
        tail = exchange.Tail(
            self._spares.take,
            topic,
            partition,
            reader.begin(),
            deliver=reader.take,
            prepare=reader.cut,
            due=reader.completes,
            patient=self._patient_client,
        )
        self._sources[key] = reader, tail

    def _stop_reading(self, effect: do.StopReading) -> None:
        self._stop_source((effect.task, effect.incarnation))

    def _stop_source(self, key: tuple[int, int]) -> None:
        self._read_below.pop(key, None)
        reading = self._sources.pop(key, None)
        if reading is not None:
            reading[1].stop()

    def _read_on(self, effect: do.ReadOn) -> None:
        key = effect.task, effect.incarnation
        reading = self._sources.get(key)
        if reading is None:
            return
        before = self._read_below[key]
        if reading[0].next <= before:
            self._read_below[key] = effect.below
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

    def _ask_output(self, effect: do.FenceOutput | do.PublishOutput) -> None:
        output = self._outputs.get(effect.task)
        if output is None:
            return
        self._waiting.setdefault(effect.task, []).append(effect)
        if not self._answered(effect, output.reader) and self._may_send(effect):
            entry: OutputFence | OutputBatch
            if isinstance(effect, do.FenceOutput):
                entry = OutputFence(term=effect.term)
            else:
                entry = OutputBatch(
                    term=effect.term, sequence=effect.sequence, records=effect.records
                )
            partition = self.job.out_partition(effect.task)
            columns = self.job.ordinary_columns
            self._sender.append(self.job.out_topic, partition, effect.task, entry, columns)
        self._output_moved(effect.task, output.reader)

    def _may_send(self, effect: do.FenceOutput | do.PublishOutput) -> bool:
        """Return False if many records of the same publication were sent a moment ago."""
        if not self.job.ordinary_columns or isinstance(effect, do.FenceOutput):
            return True
        which, now_s = (effect.incarnation, effect.term, effect.sequence), time.monotonic()
        sent, at_s = self._sent.get(effect.task, (None, 0.0))
        if sent == which and now_s - at_s < RESEND_S:
            return False
        self._sent[effect.task] = which, now_s
        return True

    @staticmethod
    def _answered(effect: do.FenceOutput | do.PublishOutput, reader: OutputReader) -> bool:
        """Return True if the entries read so far decide about ``effect``."""
        if reader.term > effect.term:
            return True
        owned = reader.term == effect.term
        if isinstance(effect, do.FenceOutput):
            return owned
        return owned and reader.sequence >= effect.sequence

    def _output_moved(self, sink: int, reader: OutputReader) -> None:
        waiting = self._waiting.pop(sink, [])
        still = [effect for effect in waiting if not self._answered(effect, reader)]
        if still:
            self._waiting[sink] = still
        for effect in waiting:
            if effect in still:
                continue
            read = ReadBack(reader)
            if isinstance(effect, do.FenceOutput):
                self.tell(fence_output(effect, read))
            else:
                self.tell(publish_output(effect, read))


class ReadBack:
    """The answers to fences and publications, as read back from a partition."""

    def __init__(self, reader: OutputReader) -> None:
        self._term = reader.term
        self.next_stable, self.next_tentative = reader.next_stable, reader.next_tentative

    def fence(self, term: int) -> bool:
        return term == self._term

    def append(self, term: int, sequence: int, records: tuple[do.OutputRecord, ...]) -> bool:
        return term == self._term
