"""Everything that one schedule did, for a comparison between revisions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.hosting.restoration import Noted
from harness.protocol import effects as do
from harness.protocol import inputs as told
from harness.simulator.draw import draw
from harness.simulator.observing import Observer
from harness.simulator.run import simulate
from harness.simulator.world import World
from tests.simulator.kit import require_right


class Recorder(Observer):
    """An observer that writes down all it sees."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def faulted(self, scene: Any, fault: Any) -> None:
        self.lines.append(f"{scene.kernel.now} {fault}")

    def sent(self, effect: do.Send) -> None:
        self.lines.append(repr(effect))

    def processing(self, node: int, effect: do.ProcessBatch) -> None:
        self.lines.append(f"{node} {effect!r}")

    def published(self, sink: int, at_us: int, records: Sequence[do.OutputRecord]) -> None:
        self.lines.append(f"{at_us} {sink} {records!r}")

    def noted(self, noted: Noted) -> None:
        self.lines.append(repr(noted))

    def decided(
        self, item: told.CoordinatorInput, effects: Sequence[do.Effect], *, newest: bool, term: int
    ) -> None:
        self.lines.append(f"{item!r} {effects!r}")


def trace(seed: int, scheme: str) -> str:
    """Return the options, the events and the result of a seed; no invariant is violated."""
    recorder = Recorder()

    def watch(world: World) -> None:
        world.watch.add(recorder)

    options = draw(seed, scheme=scheme)
    report = simulate(options, prepare=watch)
    require_right(report)
    return "\n".join([repr(options.describe()), *recorder.lines, repr(report)])
