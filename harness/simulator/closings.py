"""The checker of the coordinator: lost tasks are closed in time.

A task without a replica whose node's connection was closed is closed when the bound has passed, to
the microsecond. A task of which no live node has had a copy for longer than detection (silence, a
heartbeat until it is noticed, two in which a promoted replica may show itself, a message's delay)
and the bound is closed at every sweep of a coordinator that has been up for as long.

There is no bound once there was `FaultKind.WEATHER` (heartbeats get lost). `lateness` checks the
tasks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from harness.hosting.restoration import Noted
from harness.protocol import effects as do
from harness.protocol import inputs as told
from harness.protocol.coordinator.registry import Registry
from harness.protocol.scheme import Closing, Tentative
from harness.simulator.checkers import InvariantBroken
from harness.simulator.faults import Fault, FaultKind
from harness.simulator.lateness import NAME
from harness.simulator.observing import Observer

if TYPE_CHECKING:
    from harness.simulator.world import World


class Closings(Observer):
    """Raises `InvariantBroken` when the coordinator keeps tasks waiting for one that is lost."""

    def __init__(self, world: World) -> None:
        options = self._options = world.options
        rules = options.scheme.tentative
        assert rules is not None, "no bound without tentative output"
        assert rules.closing is Closing.COORDINATOR, "tasks close what is late themselves"
        self._rules: Tentative = rules
        self._wiring = options.wiring
        self._world = world
        self._begun = False
        """A copy that has upstream tasks was hosted."""
        self._gone: dict[int, int] = {}
        """Task to since when no live node has been seen to have a copy."""
        self._loaded: dict[int, int] = {}
        """The time since when a coordinator has had the registry, by its term."""
        self._term = 0
        """The term of the newest coordinator, which is responsible for the reports that it got
        itself."""
        self._registry: Registry | None = None
        """The decisions of the newest coordinator."""
        self._owed: dict[int, int] = {}
        """The time by which a task must be closed after a connection was."""
        self._clear = True
        """True while no message was lost at random."""
        self.closings = 0
        """The number of sweeps that had to close a task."""

    def faulted(self, world: World, fault: Fault) -> None:
        if fault.kind is FaultKind.WEATHER:
            self._clear = False

    def noted(self, noted: Noted) -> None:
        note = noted.note
        if note.event is do.CopyEvent.HOSTED:
            self._begun = self._begun or bool(self._wiring.upstream[note.task])
            self._gone.pop(note.task, None)  # however short it lives, between two sweeps

    def decided(
        self, item: told.CoordinatorInput, effects: Sequence[do.Effect], *, newest: bool, term: int
    ) -> None:
        """Check the closings that a coordinator orders because of ``item``."""
        if not term:
            return
        now = self._world.kernel.now
        self._loaded.setdefault(term, now)
        if not newest:
            return
        if term != self._term:
            self._term = term
            self._owed.clear()
            known = item.registry if isinstance(item, told.RegistryLoaded) else None
            self._registry = cast("Registry | None", known)
        self._check_disconnected(now, item, effects)
        if not isinstance(item, told.TimerFired) or item.key[0] != "sweep":
            return
        for task, hosts in enumerate(self._world.transport.hosts):
            if hosts:
                self._gone.pop(task, None)
            elif self._begun:  # before there is any copy, nobody waits for one
                self._gone.setdefault(task, now)
        if self._clear:
            self._check_closed(now, effects)

    def _check_disconnected(
        self, now: int, item: told.CoordinatorInput, effects: Sequence[do.Effect]
    ) -> None:
        """Check that tasks lost with a connection, and without a replica, are closed in time.

        They are closed when the bound has passed since: not a microsecond later, unless they are
        there again."""
        owed = self._owed
        if isinstance(item, told.NodeDisconnected) and self._registry is not None:
            for task, wanted in enumerate(self._registry.tasks):
                copy = wanted.primary
                there = copy is not None and (copy.node, copy.boot) == (item.node, item.boot)
                spare = wanted.replica is not None and wanted.replica.node != item.node
                if there and not spare and self._wiring.downstream[task]:
                    owed.setdefault(task, now + self._rules.bound_us)
        for effect in effects:
            if isinstance(effect, do.StoreRegistry):
                self._registry = cast("Registry", effect.registry)
            elif isinstance(effect, do.Send) and isinstance(effect.message, told.UpstreamClosed):
                owed.pop(effect.message.upstream, None)
        for task, due in list(owed.items()):
            if self._world.transport.hosts[task]:
                del owed[task]
            elif now > due:
                raise InvariantBroken(
                    NAME,
                    f"{self._wiring.names[task]} was lost with a connection, and is not closed "
                    f"when it is due, {(now - due) / 1e6:.6f} s ago",
                )

    def _check_closed(self, now: int, effects: Sequence[do.Effect]) -> None:
        scheme, network = self._options.scheme, self._options.network
        patience = (
            scheme.suspect_after_us
            + 3 * scheme.heartbeat_us
            + network.delay_us
            + network.jitter_us
            + self._rules.bound_us
        )
        closed = {
            (effect.message.upstream, effect.to)
            for effect in effects
            if isinstance(effect, do.Send) and isinstance(effect.message, told.UpstreamClosed)
        }
        for task, since in self._gone.items():
            if now <= max(since, self._loaded[self._term]) + patience:
                continue
            self.closings += 1
            for below in self._wiring.downstream[task]:
                if (task, below) not in closed:
                    names = self._wiring.names
                    raise InvariantBroken(
                        NAME,
                        f"{names[task]} has been gone since {since / 1e6:.6f} s, and the "
                        f"coordinator does not close it for {names[below]}",
                    )
