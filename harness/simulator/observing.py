"""The events of a simulated run that checkers, traces and pictures receive; they only read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from harness.hosting.restoration import Noted
from harness.protocol import effects as do
from harness.protocol import inputs as told
from harness.protocol.task.machine import TaskMachine
from harness.simulator.faults import Fault

if TYPE_CHECKING:
    from harness.simulator.world import World


class Observer:
    """A receiver of the events of a run.

    A subclass overrides the methods of those events that it needs; the others are not called
    (`Observers.add`)."""

    def striking(self, world: World, fault: Fault) -> None:
        """Handle the event that a fault is about to strike."""

    def faulted(self, world: World, fault: Fault) -> None:
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

    def computed(self, world: World, node: int, item: Any, begin_us: int, end_us: int) -> None:
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


Methods = list[Callable[..., None]]


@dataclass(slots=True)
class Observers:
    """The observers of a run: for each event, the methods to call."""

    striking: Methods = field(default_factory=list)
    faulted: Methods = field(default_factory=list)
    handed: Methods = field(default_factory=list)
    before: Methods = field(default_factory=list)
    after: Methods = field(default_factory=list)
    handled: Methods = field(default_factory=list)
    sent: Methods = field(default_factory=list)
    processing: Methods = field(default_factory=list)
    computed: Methods = field(default_factory=list)
    published: Methods = field(default_factory=list)
    noted: Methods = field(default_factory=list)
    decided: Methods = field(default_factory=list)

    def add(self, observer: Observer) -> None:
        """Call ``observer`` for those events whose methods it overrides."""
        for event in self.__slots__:
            if getattr(type(observer), event) is not getattr(Observer, event):
                getattr(self, event).append(getattr(observer, event))
