"""What the log and the store answer, and when."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from harness.engines.hosting import EFFECTS
from harness.engines.simulated.hosting import Hosting, SimulatedNode
from harness.engines.simulated.kernel import ANSWER
from harness.engines.simulated.synthetic import source_batch
from harness.protocol import effects as do
from harness.protocol import inputs as told
from harness.protocol.output import OutputPartition


class Serving(Hosting):
    """Requests of nodes to the store, the output partitions and the source log."""

    def _ask_store(
        self, node: SimulatedNode, effect: do.StoreCheckpoint | do.LoadCheckpoint
    ) -> None:
        if isinstance(effect, do.StoreCheckpoint):
            latency = self._write_us(node, effect.checkpoint)
        else:
            latency = self._read_us(node, effect)
        self._request(node, latency, effect, lambda: None if self.store_away else self.store)

    def _write_us(self, node: SimulatedNode, checkpoint: told.Checkpoint) -> int:
        """Until a checkpoint is at the store; the node computes nothing while it writes."""
        size = self.operators[checkpoint.task].state_tuples(checkpoint.state)
        cost = self.options.costs.store_us * size * node.slowness
        self.copy_us[checkpoint.task] += cost
        node.free_at[0] = max(self.kernel.now, node.free_at[0]) + cost
        self.carried_tuples += size
        latency = node.free_at[0] - self.kernel.now + self.options.network.transfer_us(size)
        return latency + self._store_us(node)

    def _read_us(self, node: SimulatedNode, effect: do.LoadCheckpoint) -> int:
        found = self.store.get(effect.task, effect.position)
        size = self.operators[effect.task].state_tuples(found.state) if found else 0
        self.carried_tuples += size
        transfer = self.options.network.transfer_us(size)
        return self._store_us(node) + transfer + self.options.costs.load_us * size

    def _store_us(self, node: SimulatedNode) -> int:
        """One way between a node and the store."""
        network = self.options.network
        far = network.store_pairs_us[node.number] if network.store_pairs_us else 0
        return network.store_us + far

    def _ask_output(self, node: SimulatedNode, effect: do.ClaimOutput | do.PublishOutput) -> None:
        partition = self.partitions[effect.task]
        self._request(
            node,
            self.options.network.log_us,
            effect,
            lambda: None if self.log_away else partition,
        )

    def _request(
        self, node: SimulatedNode, latency: int, effect: do.Effect, server: Callable[[], Any]
    ) -> None:
        """Have ``effect`` done at a server after ``latency``, and the node told after another."""
        if not node.cut:
            at = self.kernel.now + latency
            self.kernel.at(at, ANSWER, self._serve, node, node.boot, latency, effect, server)

    def _serve(
        self,
        node: SimulatedNode,
        boot: int,
        latency: int,
        effect: do.Effect,
        server: Callable[[], Any],
    ) -> None:
        found = server()
        if found is None:
            return
        before = len(found.records) if isinstance(found, OutputPartition) else 0
        perform = EFFECTS[type(effect)].perform
        assert perform is not None, "servers are asked for what they can do"
        answer = perform(effect, found)
        if isinstance(effect, do.PublishOutput) and len(found.records) > before:
            for observer in self.observers:
                observer.published(effect.task, self.kernel.now, effect.records)
        if not node.cut:
            self.kernel.at(self.kernel.now + latency, ANSWER, self._tell, node.number, boot, answer)

    def _read_source(self, node: SimulatedNode, effect: do.ReadSource) -> None:
        key = (effect.task, node.number, effect.incarnation)
        self._readers[key] = (effect.from_batch, effect.below)
        self._pump(key)

    def _read_on(self, node: SimulatedNode, effect: do.ReadOn) -> None:
        key = (effect.task, node.number, effect.incarnation)
        if key in self._readers:
            at, _ = self._readers[key]
            self._readers[key] = (at, effect.below)
            self._pump(key)

    def _stop_reading(self, node: SimulatedNode, effect: do.StopReading) -> None:
        self._readers.pop((effect.task, node.number, effect.incarnation), None)

    def _cut_batch(self, batch: int) -> None:
        self._cut_batches = batch + 1
        self._pump_all()

    def _pump_all(self) -> None:
        for key in list(self._readers):
            self._pump(key)

    def _pump(self, key: tuple[int, int, int]) -> None:
        """Deliver what a reader has not had yet."""
        source, number, incarnation = key
        node = self.nodes[number]
        if self.log_away or node.cut:
            return
        latency = self.options.network.log_us
        at, below = self._readers[key]
        end = max(at, min(below, self._cut_batches))
        self._readers[key] = (end, below)
        for batch in range(at, end):
            item = told.SourceRead(
                cause=f"batch {batch} of source {source}",
                task=source,
                incarnation=incarnation,
                batch=batch,
                payload=self._source(source, batch),
            )
            arrives = self.kernel.now + latency
            self.kernel.at(arrives, ANSWER, self._tell, number, node.boot, item)

    def _source(self, source: int, batch: int) -> Any:
        if self._given_source is not None:
            return self._given_source(source, batch)
        if self.options.counts_only:
            return self.options.tuples
        return source_batch(source, batch, self.options.tuples)
