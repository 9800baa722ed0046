"""What the log and the store answer, and when."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from harness.engines.simulated.hosting import Hosting, SimulatedNode
from harness.engines.simulated.kernel import ANSWER
from harness.engines.simulated.synthetic import source_batch
from harness.protocol import effects as do
from harness.protocol import inputs as told


class Serving(Hosting):
    """Requests of nodes to the store, the output partitions and the source log."""

    def _request(self, node: SimulatedNode, latency: int, action: Callable[[], Any]) -> None:
        """Perform ``action`` at a server after ``latency``; its result is told to the node."""
        if not node.cut:
            at = self.kernel.now + latency
            self.kernel.at(at, ANSWER, self._serve, node.number, node.boot, latency, action)

    def _serve(self, number: int, boot: int, latency: int, action: Callable[[], Any]) -> None:
        answer = action()
        if answer is not None and not self.nodes[number].cut:
            self.kernel.at(self.kernel.now + latency, ANSWER, self._tell, number, boot, answer)

    def _store_checkpoint(self, node: SimulatedNode, effect: do.StoreCheckpoint) -> None:
        checkpoint = effect.checkpoint
        size = self.operators[checkpoint.task].state_tuples(checkpoint.state)
        cost = self.options.costs.store_us * size * node.slowness
        self.copy_us[checkpoint.task] += cost
        node.free_at[0] = max(self.kernel.now, node.free_at[0]) + cost
        network = self.options.network
        latency = node.free_at[0] - self.kernel.now + network.store_us + network.transfer_us(size)

        def put() -> told.NodeInput | None:
            if self.store_away:
                return None
            kind = told.CheckpointStored if self.store.put(checkpoint) else None
            if kind is None:
                return told.CheckpointRefused(
                    cause=effect.cause, task=checkpoint.task, incarnation=effect.incarnation
                )
            return told.CheckpointStored(
                cause=effect.cause,
                task=checkpoint.task,
                incarnation=effect.incarnation,
                position=checkpoint.position,
            )

        self._request(node, latency, put)

    def _load_checkpoint(self, node: SimulatedNode, effect: do.LoadCheckpoint) -> None:
        found = self.store.get(effect.task, effect.position)
        size = self.operators[effect.task].state_tuples(found.state) if found else 0
        network = self.options.network
        latency = network.store_us + network.transfer_us(size) + self.options.costs.load_us * size

        def get() -> told.NodeInput | None:
            if self.store_away:
                return None
            if not self.store.claim(effect.task, effect.term):
                return told.CheckpointRefused(
                    cause=effect.cause, task=effect.task, incarnation=effect.incarnation
                )
            return told.CheckpointLoaded(
                cause=effect.cause,
                task=effect.task,
                incarnation=effect.incarnation,
                checkpoint=self.store.get(effect.task, effect.position),
            )

        self._request(node, latency, get)

    def _claim(self, node: SimulatedNode, effect: do.ClaimOutput) -> None:
        def claim() -> told.NodeInput | None:
            if self.log_away:
                return None
            partition = self.partitions[effect.task]
            if not partition.claim(effect.term):
                return told.OutputRefused(
                    cause=effect.cause, task=effect.task, incarnation=effect.incarnation
                )
            return told.OutputClaimed(
                cause=effect.cause,
                task=effect.task,
                incarnation=effect.incarnation,
                next_stable=partition.next_stable,
                next_tentative=partition.next_tentative,
            )

        self._request(node, self.options.network.log_us, claim)

    def _publish(self, node: SimulatedNode, effect: do.PublishOutput) -> None:
        def append() -> told.NodeInput | None:
            if self.log_away:
                return None
            partition = self.partitions[effect.task]
            before = len(partition.records)
            now = self.kernel.now
            if not partition.append(now, effect.term, effect.sequence, effect.records):
                return told.OutputRefused(
                    cause=effect.cause, task=effect.task, incarnation=effect.incarnation
                )
            if len(partition.records) > before:
                for observer in self.observers:
                    observer.published(effect.task, now, effect.records)
            return told.OutputPublished(
                cause=effect.cause,
                task=effect.task,
                incarnation=effect.incarnation,
                sequence=effect.sequence,
            )

        self._request(node, self.options.network.log_us, append)

    def _read_source(self, node: SimulatedNode, effect: do.ReadSource) -> None:
        key = (effect.task, node.number, effect.incarnation)
        self._readers[key] = effect.from_batch
        self._pump(key)

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
        if self._hosts[source].get(number) != incarnation:
            del self._readers[key]
            return
        if self.log_away or node.cut:
            return
        latency = self.options.network.log_us
        for batch in range(self._readers[key], self._cut_batches):
            item = told.SourceRead(
                cause=f"batch {batch} of source {source}",
                task=source,
                incarnation=incarnation,
                batch=batch,
                payload=self._source(source, batch),
            )
            at = self.kernel.now + latency
            self.kernel.at(at, ANSWER, self._tell, number, node.boot, item)
        self._readers[key] = max(self._readers[key], self._cut_batches)

    def _source(self, source: int, batch: int) -> Any:
        if self._given_source is not None:
            return self._given_source(source, batch)
        if self.options.counts_only:
            return self.options.tuples
        return source_batch(source, batch, self.options.tuples)
