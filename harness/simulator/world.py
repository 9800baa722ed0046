"""Nodes, links, log and store in virtual time, hosting the protocol's machines.

The world does what effects ask for and nothing else: it decides when things happen and what gets
lost, never what they mean. Everything random comes from one generator seeded by the options, and
is drawn in the order of events, so a run is a function of its options.

====================  ======================================================================
part                  what it does
====================  ======================================================================
`node`                one node: alive, paused, cut off, slow, its clock
`transport`           links, and where copies are
`computing`           operators and what they cost
`servers`, `store`    the store, output partitions, the source log
`coordinators`        the coordinator's processes
`observing`           who looks at it all
this file             hands things to machines, does their effects, strikes with faults
====================  ======================================================================"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from harness.hosting.answers import EFFECTS, Place
from harness.hosting.program import Program
from harness.hosting.restoration import Noted
from harness.protocol import effects as do
from harness.protocol import inputs as told
from harness.protocol.coordinator.machine import CoordinatorMachine
from harness.protocol.node import BEAT, NodeMachine
from harness.protocol.story import KEPT
from harness.simulator.computing import Computing
from harness.simulator.coordinators import Coordinators
from harness.simulator.faults import Fault, FaultKind
from harness.simulator.kernel import ANSWER, FAULT, MESSAGE, TIMER, Kernel
from harness.simulator.node import SimulatedNode
from harness.simulator.observing import Observer, Observers
from harness.simulator.options import Options
from harness.simulator.servers import Servers
from harness.simulator.transport import COORDINATOR, Transport


class World:
    """One run: its parts, and what comes from outside."""

    def __init__(
        self,
        options: Options,
        program: Program,
        *,
        observers: Sequence[Observer] = (),
        validate: bool = True,
        kept: int = KEPT,
        notes_progress: bool = False,
    ) -> None:
        """Start ``program`` on the wiring of ``options``.

        ``kept`` is the number of inputs in the story of a machine; ``notes_progress`` makes
        primaries report each batch, so that recoveries can be measured."""
        self.options, self.wiring, self.scheme = options, options.wiring, options.scheme
        self.validate, self.kept, self.notes_progress = validate, kept, notes_progress
        self.operators = program.operators
        self.kernel = Kernel()
        self.watch = Observers()
        for observer in observers:
            self.watch.add(observer)
        self.nodes = [SimulatedNode(n, [0] * options.lanes) for n in range(len(options.nodes))]
        self.computing = Computing(options, self.operators)
        self.compute_us, self.copy_us = self.computing.compute_us, self.computing.copy_us
        self.transport = Transport(self)
        self.servers = Servers(self, program)
        self.store, self.partitions = self.servers.store, self.servers.partitions
        self.coordinators = Coordinators(self)
        self.notes: list[Noted] = []
        """The reports of the machines about copies, in the order of time."""
        self.begun: Counter[str] = Counter()
        """Faults that really began, by kind."""
        self._performers = self._by_effect()
        self._checks = options.costs.check_us > 0

    # -- reading is free -------------------------------------------------------------------

    @property
    def coordinator(self) -> CoordinatorMachine | None:
        """The newest one."""
        return self.coordinators.newest

    @property
    def ended(self) -> str:
        """Why the coordinator has ended the run; empty while it has not."""
        return self.coordinators.ended

    def finished(self) -> bool:
        """Every batch's stable output is in its partition."""
        last = self.options.batches
        for partition in self.partitions.values():  # noqa: SIM110 - asked after every event
            if partition.next_stable < last:
                return False
        return True

    def validate_all(self) -> None:
        """Validate every copy and the coordinator.

        After an input only the copy that handled it is validated, because its invariants concern
        its own fields alone."""
        for node in self.nodes:
            if node.machine is not None:
                node.machine.validate()
        self.coordinators.validate()

    # -- machines --------------------------------------------------------------------------

    def deliver(self, number: int, boot: int, item: told.NodeInput) -> None:
        """Hand ``item`` to a node, if it still lives the life it is meant for."""
        node = self.nodes[number]
        if not node.alive or node.boot != boot:
            return
        if node.paused:
            node.deferred.append((self.deliver, (number, boot, item)))
            return
        machine, now = node.machine, self.kernel.now
        assert machine is not None
        for handed in self.watch.handed:
            handed(now, item)
        clock = node.clock(now)
        if type(item) is not told.TimerFired:
            effects = self._deliver_to(item.task, node, machine, item, clock)  # type: ignore[union-attr]  # timers alone have none
        elif item.key == BEAT:
            effects = machine.handle(item, now=clock)
        else:
            effects = self._deliver_to(item.key[1], node, machine, item, clock)
        performers = self._performers
        for effect in effects:
            performers[type(effect)](node, effect)

    def _deliver_to(
        self, task: int, node: SimulatedNode, machine: NodeMachine, item: told.NodeInput, clock: int
    ) -> Sequence[do.Effect]:
        watch = self.watch
        if self._checks and type(item) is told.BatchArrived:
            copies = machine.copies_of(task)
            if any(item.batch < copy.position for copy in copies):
                self.computing.check(node, self.kernel.now, item)
        for before in watch.before:
            before(node.number, task, item, clock)
        effects = machine.handle(item, now=clock)
        for copy in machine.copies_of(task):
            for after in watch.after:
                after(node.number, copy, item, effects, clock)
            if self.validate:
                copy.validate()
                for handled in watch.handled:
                    handled(node.number, copy)
        return effects

    # -- effects ---------------------------------------------------------------------------

    def _by_effect(self) -> Mapping[type, Callable[[SimulatedNode, Any], None]]:
        """Return the way in which each effect of a node is carried out, by its place."""
        by_place: dict[Place, Callable[[SimulatedNode, Any], None]] = {
            Place.OPERATOR: self._operate,
            Place.STORE: self.servers.ask_store,
            Place.OUTPUT: self.servers.ask_output,
            Place.LOG: self.servers.read_source,
            Place.TASKS: self._send,
            Place.COORDINATOR: self._beat,
            Place.CLOCK: self._set_timer,
            Place.RECORD: self._note,
        }
        return {
            kind: by_place[deed.place] for kind, deed in EFFECTS.items() if deed.place in by_place
        } | {do.ReadOn: self.servers.read_on, do.StopReading: self.servers.stop_reading}

    def _operate(self, node: SimulatedNode, effect: do.ProcessBatch | do.RebuildState) -> None:
        """Run the operator at once; its answer comes when the node has had the time for it."""
        if type(effect) is do.ProcessBatch:
            for processing in self.watch.processing:
                processing(node.number, effect)
        answer, cost, lane = self.computing.perform(node, effect)
        begin, done = self.computing.occupy(node, self.kernel.now, cost, lane)
        for computed in self.watch.computed:
            computed(self, node.number, answer, begin, done)
        self.kernel.at(done, ANSWER, self.deliver, node.number, node.boot, answer)

    def _send(self, node: SimulatedNode, effect: do.Send) -> None:
        for sent in self.watch.sent:
            sent(effect)
        if not node.cut:
            self.transport.deliver(node.number, effect)

    def _beat(self, node: SimulatedNode, effect: do.SendHeartbeat) -> None:
        if not node.cut and self.transport.carries(node.number, COORDINATOR):
            kernel, transport, tell = self.kernel, self.transport, self.coordinators.tell
            link = transport.link_us(COORDINATOR, node.number)
            for life in self.coordinators.lives:
                for delay in transport.delays(link):
                    kernel.at(kernel.now + delay, MESSAGE, tell, effect.heartbeat, life)

    def _set_timer(self, node: SimulatedNode, effect: do.SetTimer) -> None:
        kernel, at = self.kernel, node.true_time(effect.at)
        kernel.at(max(kernel.now, at), TIMER, self._fire, node.number, node.boot, effect)

    def _fire(self, number: int, boot: int, effect: do.SetTimer) -> None:
        """Fire a timer, unless the clock has slowed down since it was set."""
        node = self.nodes[number]
        if node.alive and node.boot == boot and node.clock(self.kernel.now) < effect.at:
            self._set_timer(node, effect)
            return
        self.deliver(number, boot, told.TimerFired(cause=effect.cause, key=effect.key))

    def _note(self, node: SimulatedNode, effect: do.NoteCopy) -> None:
        self.transport.noted(node, effect)
        self.record(node.number, effect)

    def record(self, number: int, effect: do.NoteCopy) -> None:
        """Somebody has noted something of a copy."""
        noted = Noted(at_us=self.kernel.now, node=number, note=effect)
        self.notes.append(noted)
        for seen in self.watch.noted:
            seen(noted)

    # -- from outside ----------------------------------------------------------------------

    def start(self) -> None:
        """Schedule everything that comes from outside."""
        self.coordinators.start()
        late = {fault.target for fault in self.options.faults if fault.kind is FaultKind.LATE}
        for node in self.nodes:
            if node.number not in late:
                self._boot(node.number)
        for batch in range(self.options.batches):
            self.kernel.at(
                (batch + 1) * self.options.interval_us, MESSAGE, self.servers.cut_batch, batch
            )
        for fault in self.options.faults:
            self.kernel.at(fault.at_us, FAULT, self._begin, fault)
            if fault.heals and fault.kind is not FaultKind.REPLAN:
                self.kernel.at(fault.until_us, FAULT, self._change, fault, False)

    def _begin(self, fault: Fault) -> None:
        self.begun[str(fault.kind)] += 1
        for striking in self.watch.striking:
            striking(self, fault)
        self._change(fault, begins=True)
        for faulted in self.watch.faulted:
            faulted(self, fault)

    def _change(self, fault: Fault, begins: bool) -> None:
        """Let a fault begin or end."""
        more = 1 if begins else -1
        match fault.kind:
            case FaultKind.KILL:
                (self._crash if begins else self._boot)(fault.target)
            case FaultKind.RACK:
                for node in self.options.rack(fault.target):
                    (self._crash if begins else self._boot)(node)
            case FaultKind.LATE if not begins:  # `start` has left it out
                self._boot(fault.target)
            case FaultKind.FORGET if begins:
                self._forget(fault.target)
            case FaultKind.FREEZE:
                self._freeze(fault.target, begins)
            case FaultKind.CUT:
                if begins and self.nodes[fault.target].alive:
                    self._close_connection(self.nodes[fault.target])
                self.nodes[fault.target].cut = begins
            case FaultKind.LINK | FaultKind.MUTE:
                ways = 1 if fault.kind is FaultKind.MUTE else 2
                self.transport.cut(fault.target, fault.other, begins, ways=ways)
            case FaultKind.BUSY:
                self.nodes[fault.target].slowness = fault.amount if begins else 1
            case FaultKind.RAISE:
                self.nodes[fault.target].raises = begins
            case FaultKind.DRIFT:
                drift = fault.amount if begins else 0
                self.nodes[fault.target].set_drift(drift, self.kernel.now)
            case FaultKind.WEATHER:
                self.transport.loss_percent += more * fault.amount
            case FaultKind.STORE_AWAY:
                self.servers.store_away += more
            case FaultKind.STORE_FULL:
                self.servers.store.full += more
            case FaultKind.LOG_AWAY:
                self.servers.log_away += more
                if not begins:
                    self.servers.pump_all()
            case FaultKind.COORDINATOR:
                (self.coordinators.crash if begins else self.coordinators.restart)()
            case FaultKind.RIVAL:
                (self.coordinators.start if begins else self.coordinators.end_rivals)()
            case FaultKind.REPLAN:
                self.coordinators.tell_all(
                    told.PlanAdapted(cause="plan adapted", replicated=fault.plan)
                )

    def _crash(self, number: int) -> None:
        node = self.nodes[number]
        if not node.alive:
            return
        node.alive = node.paused = False
        node.deferred.clear()
        self.transport.forget(node)
        self.servers.forget(node)
        node.machine = None
        self._close_connection(node)

    def _forget(self, number: int) -> None:
        """Drop the copies of a node that is not frozen; pending requests may still be answered."""
        node = self.nodes[number]
        if node.machine is None or node.paused:
            return
        gone = told.CopiesForgotten(cause=f"node {number} forgot its copies")
        for effect in node.machine.handle(gone, now=node.clock(self.kernel.now)):
            self._performers[type(effect)](node, effect)

    def _close_connection(self, node: SimulatedNode) -> None:
        """Notify the coordinator after all messages under way have come, as by a stream's end."""
        if self.options.closes_connections and node.boot and not node.cut:
            network = self.options.network
            at = self.kernel.now + network.delay_us + network.jitter_us
            item = told.NodeDisconnected(
                cause=f"node {node.number} disconnected", node=node.number, boot=node.boot
            )
            self.coordinators.send(item, at)

    def _boot(self, number: int) -> None:
        node = self.nodes[number]
        if node.alive:
            return
        known = len(self.options.nodes) - self.options.unknown_nodes
        node.boot += 1
        node.alive = True
        node.free_at = [self.kernel.now] * self.options.lanes
        node.machine = NodeMachine(
            node=number,
            boot=node.boot,
            wiring=self.wiring,
            scheme=self.scheme,
            initial=lambda task: self.operators[task].initial(),
            kept=self.kept,
            info=self.options.nodes[number] if number >= known else None,
            notes_progress=self.notes_progress,
        )
        for effect in node.machine.start(now=node.clock(self.kernel.now)):
            self._performers[type(effect)](node, effect)

    def _freeze(self, number: int, frozen: bool) -> None:
        node = self.nodes[number]
        if frozen or not node.paused:
            node.paused = frozen
            return
        node.paused = False
        node.disturbed = node.clock(self.kernel.now)
        deferred, node.deferred = node.deferred, []
        for action, arguments in deferred:
            action(*arguments)
