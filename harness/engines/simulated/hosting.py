"""Nodes that compute, links that lose, and the coordinator's process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, ClassVar, Protocol

from harness.engines.hosting import EFFECTS
from harness.engines.restoration import Noted
from harness.engines.simulated.coordinators import Coordinators
from harness.engines.simulated.kernel import ANSWER, MESSAGE, TIMER, Kernel
from harness.engines.simulated.options import Fault, Options
from harness.engines.simulated.store import Store
from harness.engines.simulated.synthetic import RAISES, CountOperator, DigestOperator
from harness.protocol import effects as do
from harness.protocol import inputs as told
from harness.protocol.node import BEAT, NodeMachine
from harness.protocol.operators import TaskOperator
from harness.protocol.output import OutputPartition
from harness.protocol.scheme import Method
from harness.protocol.story import KEPT
from harness.protocol.task import TaskMachine
from harness.seeds import derive_seed


class Observer(Protocol):
    """Is told what the simulated hosts and servers do, for checkers and for the trace of a seed."""

    def faulted(self, world: Any, fault: Any) -> None:
        """Called once the fault has struck."""

    def sent(self, effect: do.Send) -> None: ...
    def processing(self, node: int, effect: do.ProcessBatch) -> None: ...
    def published(self, sink: int, at_us: int, records: Sequence[do.OutputRecord]) -> None: ...
    def decided(self, item: told.CoordinatorInput, effects: Sequence[do.Effect]) -> None: ...
    def noted(self, noted: Noted) -> None: ...
    def handled(self, node: int, copy: TaskMachine) -> None: ...


class Tracer(Protocol):
    """Is told when each thing happens and for how long, for the picture of a run."""

    def computed(self, world: Any, node: int, item: Any, begin: int, end: int) -> None: ...
    def told(self, at: int, item: Any) -> None: ...
    def fault(self, world: Any, fault: Any) -> None: ...


class Watcher(Protocol):
    """Is told every input of a machine and the effects it answers with, for the checker of
    lateness."""

    def before(self, number: int, task: int, item: told.NodeInput, clock: int) -> None:
        """Node ``number``, by its ``clock``, is about to hand ``item`` to its copy of a task."""

    def after(
        self,
        number: int,
        copy: TaskMachine | None,
        item: told.NodeInput,
        effects: Sequence[do.Effect],
        clock: int,
    ) -> None: ...
    def decided(self, item: told.CoordinatorInput, effects: Sequence[do.Effect]) -> None: ...
    def faulted(self, fault: Fault) -> None: ...


class SimulatedNode:
    """A machine that can crash, stop, slow down and tell the wrong time."""

    __slots__ = (
        "alive", "boot", "clock_base", "copies", "cut", "deferred", "disturbed", "drift", "free_at",
        "machine", "number", "paused", "raises", "slowness", "true_base",
    )  # fmt: skip

    def __init__(self, number: int, lanes: int) -> None:
        self.number = number
        self.boot = 0
        self.alive = False
        self.machine: NodeMachine | None = None
        self.free_at = [0] * lanes
        self.paused = False
        self.cut = False
        self.slowness = 1
        self.raises = False
        self.drift = 0
        self.clock_base = self.true_base = 0
        self.disturbed = -1
        """When, by its clock, it last went on after a pause or began to drift otherwise."""
        self.deferred: list[tuple[Callable[..., None], tuple[Any, ...]]] = []
        self.copies: dict[int, int] = {}
        """Task to incarnation of the copies it hosts."""

    def clock(self, now: int) -> int:
        """What this node takes the time for."""
        passed = now - self.true_base
        if not self.drift:
            return self.clock_base + passed
        return self.clock_base + passed + passed * self.drift // 1000

    def true_time(self, clock: int) -> int:
        """When this node's clock will show ``clock``."""
        ahead = clock - self.clock_base
        if not self.drift:
            return self.true_base + ahead
        return self.true_base + -(-ahead * 1000 // (1000 + self.drift))

    def set_drift(self, drift: int, now: int) -> None:
        self.clock_base, self.true_base, self.drift = self.clock(now), now, drift
        self.disturbed = self.clock_base


class Hosting:
    """The machines of one run, and what passes between them."""

    performers: ClassVar[dict[type, Callable[[Any, SimulatedNode, Any], None]]] = {}
    """How each effect of a node is done, by where that is; `World` fills it."""

    def __init__(
        self,
        options: Options,
        *,
        observers: Sequence[Observer] = (),
        operators: Sequence[TaskOperator] | None = None,
        sources: Callable[[int, int], Any] | None = None,
        validate: bool = True,
        kept: int = KEPT,
        notes_progress: bool = False,
    ) -> None:
        """``kept`` is how many inputs every machine's story holds; ``notes_progress`` makes
        primaries note each batch, so that recoveries can be measured."""
        self.options = options
        self.kernel = Kernel()
        self.wiring = options.wiring
        self.scheme = options.scheme
        self.operators = list(operators) if operators is not None else make_operators(options)
        self._given_source = sources
        self._random = Random(derive_seed(options.seed, "world"))
        self.observers = observers
        self.validate = validate
        self.kept = kept
        self._notes_progress = notes_progress
        self.store = Store()
        self.partitions = {
            sink: OutputPartition(lambda: self.kernel.now) for sink in self.wiring.sinks
        }
        self.nodes = [SimulatedNode(n, options.lanes) for n in range(len(options.nodes))]
        self.coordinators = Coordinators(self)
        self.ended = ""
        """Why the coordinator has ended the run; empty while it has not."""
        self._hosts: list[dict[int, int]] = [{} for _ in self.wiring.tasks]
        """Task to {node: incarnation} of the copies that are there."""
        self._readers: dict[tuple[int, int, int], tuple[int, int]] = {}
        """(source, node, incarnation) to the next batch to read, and where to stop."""
        self._cut_batches = 0
        self.store_away = self.log_away = 0
        self.loss_percent = 0
        self._costs = options.costs
        network = options.network
        far, near, local = network.delay_us, network.rack_delay_us, network.local_delay_us
        self._far_us = far
        self._rack_us = far if near is None else near
        self._local_us = far if local is None else local
        self._pairs_us = network.pairs_us
        self._jitter_us = network.jitter_us
        self._limited = network.bytes_per_s > 0
        self._racks = [info.rack for info in options.nodes]
        self._blocked: Counter[tuple[int, int]] = Counter()
        """By how many faults a link is cut; links that are not cut are left out."""
        self.sent_messages = 0
        self.carried_tuples = 0
        """What crossed a link between two nodes, or a node and the store, where links are
        limited (`Network.bytes_per_s`)."""
        self.fault_counts: Counter[str] = Counter()
        self.compute_us = [0] * len(self.wiring.names)
        self.copy_us = [0] * len(self.wiring.names)
        self.notes: list[Noted] = []
        """What the machines have noted of copies, in the order of time."""
        self.tracer: Tracer | None = None
        self.watcher: Watcher | None = None

    def _tell(self, number: int, boot: int, item: told.NodeInput) -> None:
        """Hand ``item`` to a node, if it still lives the life it is meant for."""
        node = self.nodes[number]
        if not node.alive or node.boot != boot:
            return
        if node.paused:
            node.deferred.append((self._tell, (number, boot, item)))
            return
        machine = node.machine
        assert machine is not None
        if self.tracer is not None:
            self.tracer.told(self.kernel.now, item)
        clock = node.clock(self.kernel.now)
        if type(item) is told.TimerFired and item.key == BEAT:
            effects = machine.handle(item, now=clock)
        else:
            effects = self._tell_copy(node, machine, item, clock)
        performers = self.performers
        for effect in effects:
            performers[type(effect)](self, node, effect)

    def _tell_copy(
        self, node: SimulatedNode, machine: NodeMachine, item: told.NodeInput, clock: int
    ) -> Sequence[do.Effect]:
        watcher = self.watcher
        task: int = item.key[1] if type(item) is told.TimerFired else item.task  # type: ignore[union-attr]
        if watcher is not None:
            watcher.before(node.number, task, item, clock)
        effects = machine.handle(item, now=clock)
        copy = machine.copies.get(task)
        if watcher is not None:
            watcher.after(node.number, copy, item, effects, clock)
        if copy is not None and self.validate:
            copy.validate()
            for observer in self.observers:
                observer.handled(node.number, copy)
        return effects

    def validate_all(self) -> None:
        """Every copy and the coordinator. An input touches one copy, and what must hold is a
        matter of one copy's fields, so after an input that copy alone is looked at."""
        for node in self.nodes:
            if node.machine is not None:
                node.machine.validate()
        self.coordinators.validate()

    def _note(self, node: SimulatedNode, effect: do.NoteCopy) -> None:
        """Record it, and send messages to where copies are."""
        task, number = effect.task, node.number
        if effect.event is do.CopyEvent.HOSTED:
            node.copies[task] = self._hosts[task][number] = effect.incarnation
        elif effect.event is do.CopyEvent.RETIRED:
            del node.copies[task], self._hosts[task][number]
        self.record(number, effect)

    def record(self, number: int, effect: do.NoteCopy) -> None:
        noted = Noted(at_us=self.kernel.now, node=number, note=effect)
        self.notes.append(noted)
        for observer in self.observers:
            observer.noted(noted)

    def _forget_copies(self, node: SimulatedNode) -> None:
        for task in node.copies:
            del self._hosts[task][node.number]
        for key in [key for key in self._readers if key[1] == node.number]:
            del self._readers[key]
        node.copies = {}

    def _set_timer(self, node: SimulatedNode, effect: do.SetTimer) -> None:
        at = max(self.kernel.now, node.true_time(effect.at))
        self.kernel.at(at, TIMER, self._fire, node.number, node.boot, effect)

    def _fire(self, number: int, boot: int, effect: do.SetTimer) -> None:
        """The timer's instant has come, unless the clock has slowed down since it was set."""
        node = self.nodes[number]
        if node.alive and node.boot == boot and node.clock(self.kernel.now) < effect.at:
            self._set_timer(node, effect)
            return
        self._tell(number, boot, told.TimerFired(cause=effect.cause, key=effect.key))

    def _compute(
        self, node: SimulatedNode, cost_us: int, item: told.NodeInput, lane: int = 0
    ) -> None:
        """Occupy a lane, then hand ``item`` back."""
        if lane:
            lane = min(lane, len(node.free_at) - 1)
        begin = max(self.kernel.now, node.free_at[lane])
        done = begin + cost_us * node.slowness
        node.free_at[lane] = done
        if self.tracer is not None:
            self.tracer.computed(self, node.number, item, begin, done)
        self.kernel.at(done, ANSWER, self._tell, node.number, node.boot, item)

    def _operate(self, node: SimulatedNode, effect: do.ProcessBatch | do.RebuildState) -> None:
        """Run the operator at once; its answer comes when the node has had the time for it."""
        operator = self.operators[effect.task]
        if isinstance(effect, do.ProcessBatch):
            for observer in self.observers:
                observer.processing(node.number, effect)
            cost = self._process_us(effect, operator)
            self.compute_us[effect.task] += cost
            lane = 1 if effect.run is told.Run.TENTATIVE else 0
        else:
            cost, lane = self._rebuild_us(effect, operator), 0
        perform = EFFECTS[type(effect)].perform
        assert perform is not None
        answer = perform(effect, RAISES if node.raises else operator)
        self._compute(node, cost, answer, lane)

    def _process_us(self, effect: do.ProcessBatch, operator: TaskOperator) -> int:
        costs = self._costs
        cost = costs.batch_us
        if costs.tuple_us:
            cost += costs.tuple_us * operator.tuples(effect.inputs)
        if effect.copies_state:
            rules = self.scheme.tentative
            undo = rules is not None and rules.method is Method.UNDO
            each = costs.compare_us if undo else costs.copy_us
            copying = each * operator.state_tuples(effect.state)
            self.copy_us[effect.task] += copying
            cost += copying
        return cost

    def _rebuild_us(self, effect: do.RebuildState, operator: TaskOperator) -> int:
        costs = self._costs
        cost = costs.copy_us * operator.state_tuples(effect.state)
        each = costs.tuple_us + (costs.compare_us if effect.method is Method.UNDO else 0)
        for offset, inputs in enumerate(effect.inputs):
            count = operator.tuples(inputs)
            cost += each * count
            if effect.method is Method.UNDO and offset == len(effect.inputs) - 1:
                cost += costs.compare_us * count * effect.undone
        return cost

    def _send(self, node: SimulatedNode, effect: do.Send) -> None:
        for observer in self.observers:
            observer.sent(effect)
        if not node.cut:
            self.deliver(node.number, effect)

    def deliver(self, sender: int, effect: do.Send) -> None:
        meant, message = effect.incarnation, effect.message
        for number, incarnation in self._hosts[effect.to].items():
            if meant is None or meant == incarnation:
                self.transmit(sender, number, message)

    def transmit(self, sender: int, receiver: int, message: told.NodeInput) -> None:
        node = self.nodes[receiver]
        if node.cut or (self._blocked and (sender, receiver) in self._blocked):
            return
        link = self._link_us(sender, receiver)
        if self._limited and sender != receiver and isinstance(message, told.BatchArrived):
            tuples = self.operators[message.task].tuples((message.payload,))
            self.carried_tuples += tuples
            link += self.options.network.transfer_us(tuples)
        kernel = self.kernel
        for delay in self._delays(link):
            kernel.at(kernel.now + delay, MESSAGE, self._tell, receiver, node.boot, message)

    def _link_us(self, sender: int, receiver: int) -> int:
        """The delay between two nodes, by pair or by rack; -1 is the coordinator."""
        if self._pairs_us:
            return self._pairs_us[sender][receiver]
        if sender == receiver:
            return self._local_us
        if sender >= 0 and self._racks[sender] == self._racks[receiver]:
            return self._rack_us
        return self._far_us

    def _delays(self, link_us: int) -> Sequence[int]:
        """One delay per delivery: none if lost, two if repeated."""
        self.sent_messages += 1
        delay = link_us + int(self._random.random() * self._jitter_us)
        if not self.loss_percent:
            return (delay,)
        luck = self._random.random() * 100
        if luck < self.loss_percent:
            return ()
        late = delay + int(self._random.random() * 50 * self._jitter_us)
        return (delay, late) if luck < 2 * self.loss_percent else (late,)

    def _beat(self, node: SimulatedNode, effect: do.SendHeartbeat) -> None:
        if not node.cut:
            kernel, tell = self.kernel, self.coordinators.tell
            for life in self.coordinators.lives:
                for delay in self._delays(self._link_us(-1, node.number)):
                    kernel.at(kernel.now + delay, MESSAGE, tell, effect.heartbeat, life)


def make_operators(options: Options) -> list[TaskOperator]:
    """The synthetic operators that ``options`` name."""
    wiring = options.wiring
    operators: list[TaskOperator] = []
    for task in wiring.tasks:
        percent = options.percent if wiring.upstream[task] else 100
        fan_out = len(wiring.downstream[task])
        memory = wiring.memory[task]
        if options.counts_only:
            operators.append(CountOperator(memory=memory, fan_out=fan_out, percent=percent))
        else:
            operators.append(
                DigestOperator(task=task, memory=memory, fan_out=fan_out, percent=percent)
            )
    return operators
