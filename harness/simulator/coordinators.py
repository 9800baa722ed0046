"""The coordinator's processes: one, none, or (a fault) two at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from harness.hosting.answers import EFFECTS
from harness.protocol import effects as do
from harness.protocol import inputs as told
from harness.protocol.coordinator.machine import CoordinatorMachine
from harness.simulator.kernel import ANSWER, MESSAGE, TIMER
from harness.simulator.transport import COORDINATOR

if TYPE_CHECKING:
    from harness.simulator.world import World

RESTART_US = 1_000_000
"""The time after which a supervisor replaces a coordinator that stepped down."""
NOBODY = (0,)
"""Stands for the lives that a message meant for a coordinator reaches when there is none."""


class Coordinators:
    """Starts, crashes and hosts them; each one that is started gets a term of its own."""

    def __init__(self, world: World) -> None:
        """Begin without a coordinator."""
        self._world, self._options, self._kernel = world, world.options, world.kernel
        self._transport, self._watch = world.transport, world.watch
        self._machines: dict[int, CoordinatorMachine] = {}
        """By life, ascending."""
        self._lives = 0
        self.ended = ""
        """Why one of them has ended the run; empty while none has."""

    @property
    def newest(self) -> CoordinatorMachine | None:
        """The live coordinator with the highest number, which an older one may not know of."""
        return self._machines[max(self._machines)] if self._machines else None

    @property
    def lives(self) -> Sequence[int]:
        """The coordinators that receive messages of nodes: all that are alive."""
        return tuple(self._machines) or NOBODY

    def start(self) -> None:
        """One more."""
        options = self._options
        self._lives += 1
        machine = CoordinatorMachine(
            wiring=options.wiring,
            scheme=options.scheme,
            nodes=options.nodes[: len(options.nodes) - options.unknown_nodes],
            placement=options.strategy or options.placement,
            owner=self._lives,
            kept=self._world.kept,
        )
        self._machines[self._lives] = machine
        self._perform(machine.start(now=self._kernel.now), self._lives)

    def crash(self) -> None:
        """All of them."""
        self._machines.clear()

    def restart(self) -> None:
        """Start a coordinator if there is none."""
        if not self._machines:
            self.start()

    def end_rivals(self) -> None:
        """End every coordinator but the newest."""
        for life in list(self._machines)[:-1]:
            del self._machines[life]

    def tell(self, item: told.CoordinatorInput, life: int) -> None:
        """Hand ``item`` to one of them, if it is still there."""
        machine = self._machines.get(life)
        if machine is None:
            return
        effects = machine.handle(item, now=self._kernel.now)
        if self._watch.decided:
            newest, term = machine is self.newest, machine.ledger.term
            for decided in self._watch.decided:
                decided(item, effects, newest=newest, term=term)
        if self._world.validate:
            machine.validate()
        self._perform(effects, life)

    def tell_all(self, item: told.CoordinatorInput) -> None:
        """At once, and without loss."""
        for life in self.lives:
            self.tell(item, life)

    def send(self, item: told.CoordinatorInput, at_us: int) -> None:
        """Tell those that are there now, later."""
        for life in self.lives:
            self._kernel.at(at_us, MESSAGE, self.tell, item, life)

    def validate(self) -> None:
        """Raise `ProtocolViolation` unless every coordinator's state makes sense."""
        for machine in self._machines.values():
            machine.validate()

    def _perform(self, effects: Sequence[do.Effect], life: int) -> None:
        kernel = self._kernel
        for effect in effects:
            if isinstance(effect, do.SetTimer):
                fired = told.TimerFired(cause=effect.cause, key=effect.key)
                kernel.at(effect.at, TIMER, self.tell, fired, life)
            elif isinstance(effect, do.SendOrder):
                self._transport.order(effect.node, effect.order)
            elif isinstance(effect, do.Send):
                self._transport.deliver(COORDINATOR, effect)
            elif isinstance(effect, do.NoteCopy):
                self._world.record(COORDINATOR, effect)
            elif isinstance(effect, do.EndRun):
                self.ended = effect.reason
                self.crash()
            elif isinstance(effect, do.StepDown):
                del self._machines[life]
                kernel.at(kernel.now + RESTART_US, MESSAGE, self.restart)
            else:
                at = kernel.now + self._options.network.store_us
                kernel.at(at, ANSWER, self._serve, effect, life)

    def _serve(self, effect: do.Effect, life: int) -> None:
        """At the store: the registry, or what is of no use any more."""
        if self._world.servers.store_away:
            return
        perform = EFFECTS[type(effect)].perform
        assert perform is not None, "the store is asked for what it can do"
        answer = perform(effect, self._world.store)
        if answer is not None:
            at = self._kernel.now + self._options.network.store_us
            self._kernel.at(at, ANSWER, self.tell, answer, life)
