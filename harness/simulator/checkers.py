"""What must hold in every run, checked by code that shares nothing with the protocol.

The checkers know the wiring, the operators and the input, and see what a bystander sees: what a
task is about to process, what travels between tasks, what is appended to the output. Against
that stands the `Twin`: every batch computed once, in topological order, without failures.

========================  ==================================================================
invariant                 meaning
========================  ==================================================================
equal-output              a published stable output equals the twin's, batch by batch
stable-once               stable output is appended once per batch, in order, never undone
no-late-tentative         nothing tentative is appended for a batch that is stable already
every-correction          what was tentative has been undone and replaced when all has healed
equal-message             a stable message equals the twin's, whoever sent it
equal-state               a stable computation starts from the twin's state and input
no-tentative              with replicas of all tasks and a live copy of each, none appears
bounded-buffers           no copy keeps more batches than the scheme's window
one-life                  no copy is hosted twice under one number
ended                     the run is not given up for an operator that fails on one node alone
joined-first              copies are placed on nodes that have reported, in that life
apart                     a task's copies are on two nodes, unless a plan puts them on one
recovery-order            no lost task is placed while one before it in the plan's order waits
output-lateness           no task waits longer than the policy promises (`lateness`, `closings`)
needless-tentative        nothing is taken as empty that is neither late nor closed (`lateness`)
convergence               once everything has healed, the output is complete within the bound
endless                   a whole process waits for something, and for a while at a time
machine                   `validate()` and the machines' own assertions
========================  =================================================================="""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from harness.hosting.program import Twin
from harness.hosting.restoration import Noted
from harness.protocol import effects as do
from harness.protocol import inputs as told
from harness.protocol.coordinator.placement import Planned
from harness.protocol.coordinator.registry import Registry
from harness.protocol.scheme import Closing, Recovery
from harness.protocol.task.lifecycle import EMPTY, Phase
from harness.protocol.task.machine import TaskMachine
from harness.simulator.faults import Fault, FaultKind
from harness.simulator.observing import Observer
from harness.simulator.options import Options

if TYPE_CHECKING:
    from harness.simulator.world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """One invariant that did not hold in one run."""

    seed: int
    invariant: str
    what: str
    story: str


class InvariantBroken(Exception):
    """Raised inside a run; never leaves `harness.simulator.run`."""

    def __init__(self, invariant: str, what: str) -> None:
        super().__init__(what)
        self.invariant = invariant
        self.what = what


class Bystander(Observer):
    """Watches one run and raises `InvariantBroken` at the first thing that is wrong."""

    def __init__(self, options: Options, twin: Twin) -> None:
        self._wiring = options.wiring
        self._twin = twin
        self._places = [{t: i for i, t in enumerate(row)} for row in self._wiring.downstream]
        """The index of each downstream task among a task's outputs, by task."""
        self._strategy = options.strategy
        self._warm = options.scheme.recovery is not Recovery.REPLAY
        self._filled_from: dict[tuple[int, int], int] = {}
        """Of a copy that began with an empty state, the batch from which on its state is right."""
        sinks = options.wiring.sinks
        self._stable = dict.fromkeys(sinks, 0)
        self._standing: dict[int, dict[int, Any]] = {sink: {} for sink in sinks}
        self._window = options.scheme.window
        self._hosted: set[tuple[int, int]] = set()
        self.tentative_outputs = 0
        order = options.scheme.recovery_order
        self._rank = {task: place for place, task in enumerate(order)}
        self._heard: set[tuple[int, int]] = set()
        """(node, boot) of every life that reported to a coordinator."""
        self._registries: dict[int, Registry | None] = {}
        """The last decision of each coordinator by its term, stored or not."""
        coordinated = options.scheme.tentative
        self._covered = (
            set(options.scheme.replicated) == set(options.wiring.tasks)
            and coordinated is not None
            and coordinated.closing is Closing.COORDINATOR
        )
        """All tasks are replicated, and each has always had a healthy copy, as far as seen."""
        scheme, network = options.scheme, options.network
        self._noticed_us = (
            scheme.suspect_after_us + 2 * scheme.heartbeat_us + network.delay_us + network.jitter_us
        )
        self._doubted: dict[int, int] = {}
        """Node to when it counts as healthy again: it was cut off or frozen, and may be given up
        for that when it has long gone on."""

    def expect_tentative(self) -> None:
        """Check no longer that full replication prevents tentative output."""
        self._covered = False

    def faulted(self, world: World, fault: Fault) -> None:
        if fault.kind in (FaultKind.WEATHER, FaultKind.REPLAN, FaultKind.RAISE):
            # heartbeats get lost, the plan no longer holds all tasks, or a node cannot compute
            self._covered = False
        unheard = fault.kind is FaultKind.MUTE and fault.other == -1
        if unheard or fault.kind in (FaultKind.CUT, FaultKind.FREEZE):
            until = fault.until_us + self._noticed_us
            self._doubted[fault.target] = max(until, self._doubted.get(fault.target, 0))
        wanted, now = self._that_count(world), world.kernel.now
        healthy = {
            task
            for node in world.nodes
            if node.machine is not None and now >= self._doubted.get(node.number, 0)
            for (task, incarnation), copy in node.machine.copies.items()
            if copy.phase is Phase.READY and (task, incarnation) in wanted
        }
        self._covered = self._covered and len(healthy) == len(self._wiring.names)

    def _that_count(self, world: World) -> set[tuple[int, int]]:
        """Return (task, incarnation) of the copies that a task could continue with.

        A copy that was given up does not count, though that may not be stored yet, and while a
        takeover is on its way no other copy can have its place."""
        stored = cast("Registry | None", world.store.registry)
        decided = self._registries[max(self._registries)] if self._registries else None
        return _that_may_go_on(world, stored) & _that_may_go_on(world, decided)

    def decided(
        self, item: told.CoordinatorInput, effects: Sequence[do.Effect], *, newest: bool, term: int
    ) -> None:
        """Check the decisions that a coordinator made because of ``item``."""
        if isinstance(item, told.HeartbeatReceived):
            self._heard.add((item.node, item.boot))
        elif isinstance(item, told.RegistryLoaded):
            self._registries.setdefault(item.term, cast("Registry | None", item.registry))
        for effect in effects:
            if isinstance(effect, do.StoreRegistry):
                registry = cast("Registry", effect.registry)
                before = self._registries[effect.term]
                self._check_joined(before, registry)
                self._check_order(before, registry)
                self._check_apart(registry)
                self._registries[effect.term] = registry

    def _check_joined(self, before: Registry | None, after: Registry) -> None:
        """Check that only nodes that have reported host anything."""
        used = [was.used for was in before.tasks] if before is not None else [0] * len(after.tasks)
        for task, (most, now) in enumerate(zip(used, after.tasks, strict=True)):
            for copy in (now.primary, now.replica):
                new = copy is not None and copy.incarnation > most
                if copy is not None and new and (copy.node, copy.boot) not in self._heard:
                    raise InvariantBroken(
                        "joined-first",
                        f"{self._name(task)} is placed on node {copy.node}, which has not "
                        f"reported in its life {copy.boot}",
                    )

    def _check_order(self, before: Registry | None, after: Registry) -> None:
        """Check the order of recovery.

        Any node with a free slot can host any lost task, so a waiting task could have had the place
        of another. (A replica that is promoted takes no place.)"""
        waiting = [task for task, now in enumerate(after.tasks) if now.primary is None]
        if not waiting or before is None:
            return
        first = min(waiting, key=self._place_in_order)
        for task, (was, now) in enumerate(zip(before.tasks, after.tasks, strict=True)):
            placed = now.primary is not None and now.primary.incarnation > was.used
            if placed and self._place_in_order(task) > self._place_in_order(first):
                raise InvariantBroken(
                    "recovery-order",
                    f"{self._name(task)} is placed while {self._name(first)} waits, which comes "
                    "before it in the plan's order",
                )

    def _check_apart(self, registry: Registry) -> None:
        """Check that no replica is on its primary's node, where it dies with it, unless planned."""
        planned = self._strategy.replicas if isinstance(self._strategy, Planned) else {}
        for task, copies in enumerate(registry.tasks):
            if copies.primary is None or copies.replica is None:
                continue
            node = copies.replica.node
            if copies.primary.node == node != planned.get(task):
                raise InvariantBroken(
                    "apart",
                    f"both copies of {self._name(task)} are placed on node {node}, which no plan "
                    "has said",
                )

    def _place_in_order(self, task: int) -> tuple[int, int]:
        return self._rank.get(task, len(self._rank)), task

    def sent(self, effect: do.Send) -> None:
        message = effect.message
        if type(message) is not told.BatchArrived or not message.stable:
            return
        upstream = message.upstream
        right = self._twin.outputs[upstream][message.batch][self._places[upstream][message.task]]
        if message.payload != right:
            raise InvariantBroken(
                "equal-message",
                f"{self._name(message.upstream)} sends {message.payload} to "
                f"{self._name(message.task)} as stable batch {message.batch}; it is {right}",
            )

    def processing(self, node: int, effect: do.ProcessBatch) -> None:
        if effect.run is not told.Run.STABLE:
            return
        task, batch = effect.task, effect.batch
        if effect.inputs != self._twin.inputs[task][batch]:
            raise InvariantBroken(
                "equal-state",
                f"{self._name(task)} on node {node} takes {effect.inputs} for stable batch {batch}",
            )
        stateful = self._warm and not self._wiring.begins_anywhere(task)
        fills = batch < self._filled_from.get((task, effect.incarnation), 0)
        if stateful and not fills and effect.state != self._twin.states[task][batch]:
            raise InvariantBroken(
                "equal-state",
                f"{self._name(task)} on node {node} begins stable batch {batch} in another state "
                "than its twin",
            )

    def published(self, sink: int, at_us: int, records: Sequence[do.OutputRecord]) -> None:
        for record in records:
            if record.kind is do.Kind.STABLE:
                self._check_stable(sink, record)
            elif record.kind is do.Kind.UNDO:
                self._check_undo(sink, record)
            else:
                self._check_tentative(sink, record)

    def _check_stable(self, sink: int, record: do.OutputRecord) -> None:
        if record.batch != self._stable[sink]:
            raise InvariantBroken(
                "stable-once",
                f"{self._name(sink)} publishes stable batch {record.batch}; "
                f"{self._stable[sink]} is next",
            )
        if record.batch in self._standing[sink]:
            raise InvariantBroken(
                "every-correction",
                f"{self._name(sink)} publishes stable batch {record.batch}, whose tentative "
                "output was not undone",
            )
        if record.payload != self._twin.outputs[sink][record.batch][0]:
            raise InvariantBroken(
                "equal-output",
                f"{self._name(sink)} publishes {record.payload} for batch {record.batch}; the "
                f"twin has {self._twin.outputs[sink][record.batch][0]}",
            )
        self._stable[sink] += 1

    def _check_undo(self, sink: int, record: do.OutputRecord) -> None:
        if record.batch < self._stable[sink]:
            raise InvariantBroken(
                "stable-once", f"{self._name(sink)} undoes stable batch {record.batch}"
            )
        standing = self._standing[sink]
        for batch in [batch for batch in standing if batch >= record.batch]:
            del standing[batch]

    def _check_tentative(self, sink: int, record: do.OutputRecord) -> None:
        self.tentative_outputs += 1
        if self._covered:
            raise InvariantBroken(
                "no-tentative",
                f"{self._name(sink)} publishes tentative batch {record.batch} although every "
                "task has a replica and always had a healthy copy",
            )
        if record.batch < self._stable[sink] or record.batch in self._standing[sink]:
            raise InvariantBroken(
                "no-late-tentative",
                f"{self._name(sink)} publishes tentative batch {record.batch} again",
            )
        self._standing[sink][record.batch] = record.payload

    def handled(self, node: int, copy: TaskMachine) -> None:
        """Check a copy that has handled an input."""
        window, run = self._window, copy.computation.tentative
        inputs, outputs = copy.inlet.inbox.slots, copy.outlet.outbox.outputs
        if (
            len(inputs) > window
            or len(outputs) > window
            or len(copy.durability.unstored) > window
            or (run is not None and len(run.outputs) > window)
        ):
            raise InvariantBroken(
                "bounded-buffers",
                f"{self._name(copy.task)} on node {node} keeps more than {window} batches: "
                f"{len(inputs)} of input, {len(outputs)} of output, "
                f"{len(copy.durability.unstored)} checkpoints",
            )

    def noted(self, noted: Noted) -> None:
        note = noted.note
        if note.event is do.CopyEvent.READY:
            empty = note.why == EMPTY and note.position > 0
            filled_from = note.position + self._wiring.memory[note.task] if empty else 0
            self._filled_from[note.task, note.incarnation] = filled_from
        if note.event is not do.CopyEvent.HOSTED:
            return
        if (note.task, note.incarnation) in self._hosted:
            raise InvariantBroken(
                "one-life",
                f"{self._name(note.task)} is hosted as incarnation {note.incarnation} again, on "
                f"node {noted.node}",
            )
        self._hosted.add((note.task, note.incarnation))

    def at_end(self, batches: int) -> None:
        """After everything has healed."""
        for sink, done in self._stable.items():
            if done < batches:
                raise InvariantBroken(
                    "convergence",
                    f"{self._name(sink)} has published {done} of {batches} stable batches",
                )
            if self._standing[sink]:
                raise InvariantBroken(
                    "every-correction",
                    f"tentative output of {self._name(sink)} still stands: "
                    f"{sorted(self._standing[sink])}",
                )

    def _name(self, task: int) -> str:
        return self._wiring.names[task]


def _that_may_go_on(world: World, registry: Registry | None) -> set[tuple[int, int]]:
    """Return the copies of ``registry`` that nothing bars, by task and incarnation."""
    found: set[tuple[int, int]] = set()
    for task, assignment in enumerate(registry.tasks if registry is not None else ()):
        primary, replica = assignment.primary, assignment.replica
        takes_over = False
        if primary is not None:
            found.add((task, primary.incarnation))
            machine = world.nodes[primary.node].machine
            copy = machine.copies.get((task, primary.incarnation)) if machine else None
            takes_over = copy is not None and copy.term != primary.term
        if replica is not None and not takes_over:
            found.add((task, replica.incarnation))
    return found
