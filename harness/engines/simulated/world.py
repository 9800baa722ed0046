"""Nodes, links, log and store in virtual time, hosting the protocol's machines.

The world does what effects ask for and nothing else: it decides when things happen and what gets
lost, never what they mean. Everything random comes from one generator seeded by the options, and
is drawn in the order of events, so a run is a function of its options.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from harness.engines.hosting import EFFECTS, Place
from harness.engines.simulated.hosting import SimulatedNode
from harness.engines.simulated.kernel import FAULT, MESSAGE
from harness.engines.simulated.options import Fault, FaultKind
from harness.engines.simulated.servers import Serving
from harness.protocol import effects as do
from harness.protocol import inputs as told
from harness.protocol.coordinator import CoordinatorMachine
from harness.protocol.node import NodeMachine


class World(Serving):
    """One run: what comes from outside, on top of what its nodes and servers do."""

    def start(self) -> None:
        """Schedule everything that comes from outside."""
        self.coordinators.start()
        late = {fault.target for fault in self.options.faults if fault.kind is FaultKind.LATE}
        for node in self.nodes:
            if node.number not in late:
                self._boot(node.number)
        for batch in range(self.options.batches):
            self.kernel.at((batch + 1) * self.options.interval_us, MESSAGE, self._cut_batch, batch)
        for fault in self.options.faults:
            self.kernel.at(fault.at_us, FAULT, self._begin, fault)
            if fault.heals and fault.kind is not FaultKind.REPLAN:
                self.kernel.at(fault.until_us, FAULT, self._end, fault)

    @property
    def coordinator(self) -> CoordinatorMachine | None:
        """The newest one."""
        return self.coordinators.newest

    @property
    def _known_nodes(self) -> int:
        return len(self.options.nodes) - self.options.unknown_nodes

    def finished(self) -> bool:
        """Every batch's stable output is in its partition."""
        last = self.options.batches
        for partition in self.partitions.values():  # noqa: SIM110 - asked after every event
            if partition.next_stable < last:
                return False
        return True

    def _begin(self, fault: Fault) -> None:
        self.fault_counts[str(fault.kind)] += 1
        if self.tracer is not None:
            self.tracer.fault(self, fault)
        self._strike(fault)
        for observer in self.observers:
            observer.faulted(self, fault)
        if self.watcher is not None:
            self.watcher.faulted(fault)

    def _strike(self, fault: Fault) -> None:
        match fault.kind:
            case FaultKind.CRASH:
                self._crash(fault.target)
            case FaultKind.RACK:
                for node in self.options.rack(fault.target):
                    self._crash(node)
            case FaultKind.PAUSE:
                self.nodes[fault.target].paused = True
            case FaultKind.CUT:
                if self.nodes[fault.target].alive:
                    self._close_connection(self.nodes[fault.target])
                self.nodes[fault.target].cut = True
            case FaultKind.LINK:
                self._blocked.update(self._ends(fault))
            case FaultKind.SLOW:
                self.nodes[fault.target].slowness = fault.amount
            case FaultKind.RAISE:
                self.nodes[fault.target].raises = True
            case FaultKind.DRIFT:
                self.nodes[fault.target].set_drift(fault.amount, self.kernel.now)
            case FaultKind.WEATHER:
                self.loss_percent += fault.amount
            case FaultKind.STORE:
                self.store_away += 1
            case FaultKind.FULL:
                self.store.full += 1
            case FaultKind.LOG:
                self.log_away += 1
            case FaultKind.COORDINATOR:
                self.coordinators.crash()
            case FaultKind.RIVAL:
                self.coordinators.start()
            case FaultKind.LATE:
                pass  # `start` has left it out
            case FaultKind.REPLAN:
                self.coordinators.tell_all(
                    told.PlanAdapted(cause="plan adapted", replicated=fault.plan)
                )

    def _end(self, fault: Fault) -> None:
        match fault.kind:
            case FaultKind.CRASH | FaultKind.LATE:
                self._boot(fault.target)
            case FaultKind.RACK:
                for node in self.options.rack(fault.target):
                    self._boot(node)
            case FaultKind.PAUSE:
                self._resume(fault.target)
            case FaultKind.CUT:
                self.nodes[fault.target].cut = False
            case FaultKind.LINK:
                self._blocked -= Counter(self._ends(fault))  # drops what is no longer cut
            case FaultKind.SLOW:
                self.nodes[fault.target].slowness = 1
            case FaultKind.RAISE:
                self.nodes[fault.target].raises = False
            case FaultKind.DRIFT:
                self.nodes[fault.target].set_drift(0, self.kernel.now)
            case FaultKind.WEATHER:
                self.loss_percent -= fault.amount
            case FaultKind.STORE:
                self.store_away -= 1
            case FaultKind.FULL:
                self.store.full -= 1
            case FaultKind.LOG:
                self.log_away -= 1
                self._pump_all()
            case FaultKind.COORDINATOR:
                self.coordinators.restart()
            case FaultKind.RIVAL:
                self.coordinators.end_rivals()

    @staticmethod
    def _ends(fault: Fault) -> tuple[tuple[int, int], tuple[int, int]]:
        return (fault.target, fault.other), (fault.other, fault.target)

    def _crash(self, number: int) -> None:
        node = self.nodes[number]
        if not node.alive:
            return
        node.alive = node.paused = False
        node.deferred.clear()
        self._forget_copies(node)
        node.machine = None
        self._close_connection(node)

    def _close_connection(self, node: SimulatedNode) -> None:
        """The coordinator is told once what was under way has come, as by a stream's end."""
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
            info=self.options.nodes[number] if number >= self._known_nodes else None,
            notes_progress=self._notes_progress,
        )
        for effect in node.machine.start(now=node.clock(self.kernel.now)):
            self.performers[type(effect)](self, node, effect)

    def _resume(self, number: int) -> None:
        node = self.nodes[number]
        if not node.paused:
            return
        node.paused = False
        node.disturbed = node.clock(self.kernel.now)
        deferred, node.deferred = node.deferred, []
        for action, arguments in deferred:
            action(*arguments)


_BY_PLACE: dict[Place, Callable[..., None]] = {
    Place.OPERATOR: World._operate,
    Place.STORE: World._ask_store,
    Place.OUTPUT: World._ask_output,
    Place.LOG: World._read_source,
    Place.TASKS: World._send,
    Place.COORDINATOR: World._beat,
    Place.CLOCK: World._set_timer,
    Place.RECORD: World._note,
}
World.performers = {
    kind: _BY_PLACE[deed.place] for kind, deed in EFFECTS.items() if deed.place in _BY_PLACE
} | {do.ReadOn: World._read_on, do.StopReading: World._stop_reading}
