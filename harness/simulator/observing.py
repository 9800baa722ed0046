"""The events of a simulated run that checkers, traces and pictures receive; they only read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from harness.hosting.restoration import Noted
from harness.protocol import effects as do
from harness.protocol import inputs as told
from harness.protocol.output import OutputPartition
from harness.protocol.task.machine import TaskMachine
from harness.simulator.faults import Fault
from harness.simulator.kernel import Kernel
from harness.simulator.node import SimulatedNode
from harness.simulator.options import Options
from harness.simulator.store import Store
from harness.simulator.transport import Transport


class Scene(Protocol):
    """The part of a world that observers may read."""

    options: Options
    kernel: Kernel
    transport: Transport

    @property
    def nodes(self) -> Sequence[SimulatedNode]:
        """All of them, by number."""

    @property
    def store(self) -> Store:
        """Checkpoints and the registry."""

    @property
    def partitions(self) -> Mapping[int, OutputPartition]:
        """Every sink's output partition, by its task."""


class Observer:
    """A receiver of the events of a run.

    A subclass overrides the methods of those events that it needs; the others are not called
    (`Observers.add`)."""

    def striking(self, scene: Scene, fault: Fault) -> None:
        """Handle the event that a fault is about to strike."""

    def faulted(self, scene: Scene, fault: Fault) -> None:
        """Handle the event that a fault has struck."""

    def handed(self, at_us: int, item: told.NodeInput) -> None:
        """Handle the event that a node receives an input."""

    def before(self, node: int, task: int, item: told.NodeInput, clock: int) -> None:
        """Handle the event that a node, by its ``clock``, is about to give ``item`` to its copy."""

    def after(
        self,
        node: int,
        copy: TaskMachine,
        item: told.NodeInput,
        effects: Sequence[do.Effect],
        clock: int,
    ) -> None:
        """Handle the event that the copy has handled ``item``, with its ``effects``.

        Called for each copy of the task that the node hosts then; where there are two, with the
        effects of both together."""

    def handled(self, node: int, copy: TaskMachine) -> None:
        """Handle the event that a copy has handled an input, in a run that validates machines."""

    def sent(self, effect: do.Send) -> None:
        """Handle the event that a copy sends a message."""

    def processing(self, node: int, effect: do.ProcessBatch) -> None:
        """Handle the event that an operator is run."""

    def computed(self, scene: Scene, node: int, item: Any, begin_us: int, end_us: int) -> None:
        """Handle a computation from ``begin_us`` to ``end_us``, with ``item`` at its end."""

    def published(self, sink: int, at_us: int, records: Sequence[do.OutputRecord]) -> None:
        """Handle records that were appended to an output partition, and that no fence rejects."""

    def noted(self, noted: Noted) -> None:
        """Handle the report of a node or the coordinator about a copy."""

    def decided(
        self, item: told.CoordinatorInput, effects: Sequence[do.Effect], *, newest: bool, term: int
    ) -> None:
        """Handle the event that a coordinator has handled ``item``.

        ``newest`` unless a second one has started since. ``term``: its own, which no other one has;
        0 before it has read the registry."""


class Observers:
    """The observers of a run: for each event, the methods to call."""

    __slots__ = (
        "after", "before", "computed", "decided", "faulted", "handed", "handled", "noted",
        "processing", "published", "sent", "striking",
    )  # fmt: skip

    def __init__(self) -> None:
        self.striking: list[Callable[..., None]] = []
        self.faulted: list[Callable[..., None]] = []
        self.handed: list[Callable[..., None]] = []
        self.before: list[Callable[..., None]] = []
        self.after: list[Callable[..., None]] = []
        self.handled: list[Callable[..., None]] = []
        self.sent: list[Callable[..., None]] = []
        self.processing: list[Callable[..., None]] = []
        self.computed: list[Callable[..., None]] = []
        self.published: list[Callable[..., None]] = []
        self.noted: list[Callable[..., None]] = []
        self.decided: list[Callable[..., None]] = []

    def add(self, observer: Observer) -> None:
        """Call ``observer`` for those events whose methods it overrides."""
        for event in self.__slots__:
            if getattr(type(observer), event) is not getattr(Observer, event):
                getattr(self, event).append(getattr(observer, event))
