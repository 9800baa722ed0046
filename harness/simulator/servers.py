"""What the log and the store answer, and when."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from harness.hosting.answers import EFFECTS
from harness.hosting.program import Program
from harness.protocol import effects as do
from harness.protocol import inputs as told
from harness.protocol.output import OutputPartition
from harness.simulator.kernel import ANSWER
from harness.simulator.node import SimulatedNode
from harness.simulator.store import Store

if TYPE_CHECKING:
    from harness.simulator.world import World


class Servers:
    """Requests of nodes to the store, the output partitions and the source log."""

    def __init__(self, world: World, program: Program) -> None:
        options, kernel = world.options, world.kernel
        self._options, self._kernel, self._nodes = options, kernel, world.nodes
        self._program, self._computing = program, world.computing
        self._watch, self._deliver = world.watch, world.deliver
        self.store = Store()
        self.partitions = {
            sink: OutputPartition(lambda: kernel.now) for sink in options.wiring.sinks
        }
        self.store_away = self.log_away = 0
        """The number of faults because of which they do not answer."""
        self._readers: dict[tuple[int, int, int], tuple[int, int]] = {}
        """(source, node, incarnation) to the next batch to read, and where to stop."""
        self._opening: dict[tuple[int, int, int], int] = {}
        """The opening time of readers that are not open yet."""
        self._cut_batches = 0

    # -- the store -------------------------------------------------------------------------

    def ask_store(
        self, node: SimulatedNode, effect: do.StoreCheckpoint | do.LoadCheckpoint
    ) -> None:
        """Store or load a checkpoint: the answer comes when the bytes have gone there or back."""
        if isinstance(effect, do.StoreCheckpoint):
            latency = self._write_us(node, effect.checkpoint)
        else:
            latency = self._read_us(effect)
        self._request(node, latency, effect, lambda: None if self.store_away else self.store)

    def _write_us(self, node: SimulatedNode, checkpoint: told.Checkpoint) -> int:
        """Until a checkpoint is at the store."""
        now = self._kernel.now
        size, written = self._computing.write(node, now, checkpoint)
        latency = written - now + self._options.network.transfer_us(size)
        return latency + self._options.network.store_us

    def _read_us(self, effect: do.LoadCheckpoint) -> int:
        found = self.store.get(effect.task, effect.position)
        size = self._program.operators[effect.task].state_tuples(found.state) if found else 0
        transfer = self._options.network.transfer_us(size)
        return self._options.network.store_us + transfer + self._options.costs.load_us * size

    # -- output ----------------------------------------------------------------------------

    def ask_output(self, node: SimulatedNode, effect: do.FenceOutput | do.PublishOutput) -> None:
        """Fence a sink's partition or append to it."""
        partition = self.partitions[effect.task]
        latency = self._options.network.log_us
        self._request(node, latency, effect, lambda: None if self.log_away else partition)

    def _request(
        self, node: SimulatedNode, latency: int, effect: do.Effect, server: Callable[[], Any]
    ) -> None:
        """Carry out ``effect`` at a server after ``latency``, and answer the node later."""
        if not node.cut:
            at = self._kernel.now + latency
            self._kernel.at(at, ANSWER, self._serve, node, node.boot, latency, effect, server)

    def _serve(
        self,
        node: SimulatedNode,
        boot: int,
        latency: int,
        effect: do.Effect,
        server: Callable[[], Any],
    ) -> None:
        found, kernel = server(), self._kernel
        if found is None:
            return
        before = found.sequence if isinstance(found, OutputPartition) else 0
        known = len(found.records) if isinstance(found, OutputPartition) else 0
        perform = EFFECTS[type(effect)].perform
        assert perform is not None, "servers are asked for what they can do"
        answer = perform(effect, found)
        if isinstance(effect, do.PublishOutput) and found.sequence > before:
            self._show(effect.task, effect.records)
        elif isinstance(effect, do.FenceOutput) and len(found.records) > known:
            self._show(effect.task, [each.record for each in found.records[known:]])
        if not node.cut:
            kernel.at(kernel.now + latency, ANSWER, self._deliver, node.number, boot, answer)

    def _show(self, sink: int, records: Sequence[do.OutputRecord]) -> None:
        """Show to whoever watches what was appended to a partition."""
        for published in self._watch.published:
            published(sink, self._kernel.now, records)

    # -- the source log --------------------------------------------------------------------

    def read_source(self, node: SimulatedNode, effect: do.ReadSource) -> None:
        """Begin to read a source's partition for a copy, at a batch."""
        key = (effect.task, node.number, effect.incarnation)
        at, _ = self._readers.get(key, (None, 0))
        self._readers[key] = (effect.from_batch, effect.below)
        opening = self._options.costs.reader_us
        if not opening or at == effect.from_batch:  # it waits for that batch as it is
            self._pump(key)
            return
        open_at = self._opening[key] = self._kernel.now + opening
        self._kernel.at(open_at, ANSWER, self._open, key)

    def _open(self, key: tuple[int, int, int]) -> None:
        """Open a reader, unless it must begin elsewhere by now, or is gone."""
        if self._opening.get(key) == self._kernel.now:
            del self._opening[key]
            if key in self._readers:
                self._pump(key)

    def read_on(self, node: SimulatedNode, effect: do.ReadOn) -> None:
        """Let a copy's reader go further."""
        key = (effect.task, node.number, effect.incarnation)
        if key in self._readers:
            at, _ = self._readers[key]
            self._readers[key] = (at, effect.below)
            self._pump(key)

    def stop_reading(self, node: SimulatedNode, effect: do.StopReading) -> None:
        """End a copy's reader."""
        key = (effect.task, node.number, effect.incarnation)
        self._readers.pop(key, None)
        self._opening.pop(key, None)

    def forget(self, node: SimulatedNode) -> None:
        """Close the readers of a crashed node."""
        for key in [key for key in self._readers if key[1] == node.number]:
            del self._readers[key]
            self._opening.pop(key, None)

    def cut_batch(self, batch: int) -> None:
        """Complete a batch in every source partition."""
        self._cut_batches = batch + 1
        self.pump_all()

    def pump_all(self) -> None:
        """Deliver what any reader has not had yet."""
        for key in list(self._readers):
            self._pump(key)

    def _pump(self, key: tuple[int, int, int]) -> None:
        source, number, incarnation = key
        node, kernel = self._nodes[number], self._kernel
        if self.log_away or node.cut or key in self._opening:
            return
        latency = self._options.network.log_us
        at, below = self._readers[key]
        end = max(at, min(below, self._cut_batches))
        self._readers[key] = (end, below)
        for batch in range(at, end):
            item = told.SourceRead(
                cause=f"batch {batch} of source {source}",
                task=source,
                incarnation=incarnation,
                batch=batch,
                payload=self._program.read(source, batch),
            )
            kernel.at(kernel.now + latency, ANSWER, self._deliver, number, node.boot, item)
