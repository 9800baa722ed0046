"""The output a task keeps so that downstream tasks can ask for it again."""

from __future__ import annotations

from harness.protocol.operators import Payload


class Outbox:
    """Stable outputs of consecutive batches, trimmed behind what every neighbour acknowledged."""

    __slots__ = ("acknowledged", "outputs")

    def __init__(self, width: int, position: int = 0) -> None:
        assert width > 0, "a task without downstream tasks publishes, which counts as one"
        assert position >= 0, f"position {position}"
        self.acknowledged = [position] * width
        """Per downstream task, the first batch it may still ask for."""
        self.outputs: dict[int, tuple[Payload, ...]] = {}

    @property
    def oldest(self) -> int:
        """Nobody may ask for a batch before this one."""
        return min(self.acknowledged)

    def put(self, batch: int, outputs: tuple[Payload, ...]) -> None:
        """Keep a batch's output, unless nobody can ask for it any more."""
        assert len(outputs) == len(self.acknowledged), "one output per downstream task"
        assert batch not in self.outputs, f"batch {batch} was computed twice"
        if batch >= self.oldest:
            self.outputs[batch] = outputs

    def trim(self, index: int, below: int) -> None:
        """Downstream task ``index`` will not ask for a batch before ``below`` again."""
        assert 0 <= index < len(self.acknowledged), f"neighbour {index}"
        if below <= self.acknowledged[index]:
            return
        if not self.outputs:
            self.acknowledged[index] = below
            return
        before = self.oldest
        self.acknowledged[index] = below
        for batch in range(before, self.oldest):
            self.outputs.pop(batch, None)

    def trim_all(self, below: int) -> None:
        """No downstream task will ask for a batch before ``below`` again."""
        for index in range(len(self.acknowledged)):
            self.trim(index, below)

    def since(self, batch: int) -> list[tuple[int, tuple[Payload, ...]]]:
        """(batch, outputs) from ``batch`` on, ascending."""
        return [
            (number, self.outputs[number]) for number in sorted(self.outputs) if number >= batch
        ]

    def contents(self) -> tuple[tuple[int, tuple[Payload, ...]], ...]:
        """Everything that is kept, as a checkpoint holds it."""
        return tuple(sorted(self.outputs.items()))

    def validate(self, position: int, window: int) -> None:
        """Only for an outbox that keeps something."""
        kept = sorted(self.outputs)
        first, last, count = kept[0], kept[-1], len(kept)
        assert count <= window, f"{count} outputs where {window} may be"
        assert last < position, f"output {last} is kept although {position} comes next"
        assert first >= min(self.acknowledged), f"output {first} should have been trimmed"
        assert count == last - first + 1, "the kept outputs have a gap"
