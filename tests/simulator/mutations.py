"""Deliberate mistakes in the protocol, which the simulator must find.

Each mutation replaces one method by one that forgets something, from the table at the end.
``schemes`` are those that use the mechanism in question."""

# ruff: noqa: E501 - the table reads best as a table

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from inspect import signature
from typing import Any
from unittest.mock import patch

from msgspec.structs import replace

from harness.protocol.coordinator import machine as coordinator_module
from harness.protocol.coordinator import placing
from harness.protocol.coordinator.assignments import Assignments
from harness.protocol.coordinator.epochs import Epochs
from harness.protocol.coordinator.losses import Losses, OperatorFailures
from harness.protocol.coordinator.machine import CoordinatorMachine
from harness.protocol.coordinator.membership import Membership
from harness.protocol.coordinator.placement import Role, Spread
from harness.protocol.coordinator.placing import Placer
from harness.protocol.effects import Kind
from harness.protocol.node import NodeMachine
from harness.protocol.output import OutputBatch, OutputReader
from harness.protocol.scheme import Method, Policy, Recovery
from harness.protocol.task import machine as task_module
from harness.protocol.task.computation import Computation
from harness.protocol.task.durability import Durability
from harness.protocol.task.inlet import Inbox, Inlet
from harness.protocol.task.lifecycle import Lifecycle, Phase
from harness.protocol.task.machine import TaskMachine
from harness.protocol.task.outlet import Outbox, Outlet, Publisher
from harness.protocol.task.partnership import Partnership
from harness.protocol.task.reconciliation import FOREVER, Basis, TentativeRun
from harness.protocol.wiring import Wiring
from harness.simulator.draw import draw
from harness.simulator.run import SimulatedRun, simulate
from harness.simulator.store import Store

TABLES: tuple[dict[Any, Any], ...] = (
    task_module._HANDLERS,
    coordinator_module._HANDLERS,
    placing._RESTORE,
)
LOCAL = ("checkpoint", "active", "rppg", "ppa", "dpc")
REPLICAS = ("active", "rppg", "ppa", "dpc")
TENTATIVE = ("ppa", "dpc")


@dataclass(frozen=True, slots=True)
class Mutation:
    """One thing that is wrong."""

    name: str
    owner: Any
    attribute: str
    wrong: Any
    """In its place; a first parameter ``right`` is the right method."""
    schemes: tuple[str, ...]
    seed: int
    """The first of 0..999 whose schedule betrayed it when this was written."""

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Replace the method, and its entries in the machines' tables."""
        right, wrong = getattr(self.owner, self.attribute), self.wrong
        if callable(wrong) and "right" in signature(wrong).parameters:
            wrong = lambda *some, **more: self.wrong(right, *some, **more)  # noqa: E731
        with ExitStack() as stack:
            stack.enter_context(patch.object(self.owner, self.attribute, wrong))
            for table in TABLES:
                entries = {key: wrong for key, value in table.items() if value is right}
                stack.enter_context(patch.dict(table, entries))
            yield


def always(value: Any) -> Callable[..., Any]:
    """Return a method that does nothing and returns ``value``."""
    return lambda *_, **__: value


# -- input ---------------------------------------------------------------------------------


def takes_duplicates(self: Inlet, index: int, batch: int, payload: Any, **_: Any) -> None:
    self.inbox.put_stable(index, batch, payload, self._context.now)


def other_order(self: Inbox, batch: int) -> tuple[Any, ...]:
    return tuple(sorted(self.slots[batch].stable))


def never_asks_again(self: TaskMachine, *, cause: str, now: int) -> list[Any]:
    effects = self.context.begin(cause, now)
    if self.phase is Phase.LOADING:
        self.life.load()
    elif self.phase is Phase.READY:
        self._repeat()
    return effects


def source_ignores_requests(right: Any, self: Lifecycle, item: Any) -> None:
    if not self._inlet.source:
        right(self, item)


def takes_every_source_for_one_without_a_state(self: Wiring, task: int) -> bool:
    return not self.upstream[task]


# -- checkpoints and trimming --------------------------------------------------------------


def acknowledges_before_it_is_stored(right: Any, self: Any, checkpoint: Any) -> None:
    right(self, checkpoint)
    self._inlet.acknowledge(checkpoint.position)


def forgets_output_buffer(right: Any, self: Any, checkpoint: Any) -> None:
    right(self, replace(checkpoint, outputs=()))


def skips_a_batch(right: Any, self: Any, item: Any) -> None:
    if item.checkpoint is not None:
        item = replace(
            item, checkpoint=replace(item.checkpoint, position=item.checkpoint.position + 1)
        )
    right(self, item)


def no_warm_up(right: Any, wiring: Any, lost: Any, positions: Any, published: Any) -> Any:
    starts = right(wiring, lost, positions, published)
    return {task: (needed, needed) for task, (_, needed) in starts.items()}


def completes_epochs_early(right: Any, self: Any) -> Any:
    if self._recovery is not Recovery.GLOBAL:
        return right(self)
    before = self.complete
    stored = [r.stored for _, member in self._members for r in member.reports.values()]
    self.complete = max([before, *stored])
    return bool(self.complete > before)


def keeps_what_comes_early(
    right: Any, self: Any, index: int, batch: int, *args: Any, **options: Any
) -> None:
    window, self.window = self.window, 1 << 60
    right(self, index, batch, *args, **options)
    self.window = window


def takes_a_refusal_for_a_confirmation(self: Durability, item: Any) -> None:
    self.confirmed(item)


def forgets_what_was_refused(self: Durability, item: Any) -> None:
    """Treat it as stored, without notifying any upstream task."""
    self.unstored.clear()
    self._store_after = 1 << 60


# -- replicas ------------------------------------------------------------------------------


def replica_trims_what_was_sent(self: Outlet, item: Any) -> None:
    if self._context.term is None:
        self.outbox.trim_all(item.sent_below)


def reports_what_is_not_published(right: Any, self: Outlet, position: int) -> None:
    confirmed, self.publisher.confirmed = self.publisher.confirmed, position
    right(self, position)
    self.publisher.confirmed = confirmed


def promotes_without_a_term(right: Any, self: Assignments, task: int) -> Any:
    replica = right(self, task)
    assignment = self.tasks[task]
    assert assignment.primary is not None
    promoted = replace(assignment.primary, term=1)
    self.tasks[task] = replace(assignment, primary=promoted)
    self.members[replica.node].copies[task, promoted.incarnation] = promoted
    return replica


def reuses_numbers(right: Any, self: Assignments, task: int, node: int, **options: Any) -> None:
    before = self.tasks[task].used
    right(self, task, node, **options)
    assignment = self.tasks[task]
    if before > 2 and assignment.primary is not None and not options.get("replica"):
        copy = replace(assignment.primary, incarnation=before, term=before)
        self.tasks[task] = replace(assignment, primary=copy, used=before)
        del self.members[node].copies[task, assignment.primary.incarnation]
        self.members[node].copies[task, before] = copy


# -- the coordinator -----------------------------------------------------------------------


def orders_before_it_is_stored(right: Any, self: Any, node: int) -> None:
    stored, self.ledger.stored = self.ledger.stored, self.ledger.version
    right(self, node)
    self.ledger.stored = stored


def keeps_copies_of_earlier_lives(right: Any, self: Any) -> list[int]:
    """Keep them, as a new coordinator once did."""
    right(self)
    return []


def overlooks_a_reboot(right: Any, self: Any, item: Any) -> None:
    member = self.members.sender(item)
    if member is not None:
        member.boot = item.boot
    right(self, item)


def takes_all_for_joined(right: Any, self: Membership, nodes: Any) -> None:
    """Count all nodes as alive in their first life, as was once done, started or not."""
    right(self, nodes)
    for _, member in self:
        member.boot, member.alive = 1, True


def waits_for_every_node(right: Any, self: Any) -> None:
    if not self.placer.awaits(self.replicated):
        right(self)


def takes_any_batch_for_being_back(run: Any, index: int, term: int, back_at: int) -> bool:
    return index in run._reached


def ignores_new_machines(right: Any, self: Membership, item: Any) -> Any:
    return right(self, replace(item, info=None))


# -- tentative output ----------------------------------------------------------------------


def loses_the_undo(right: Any, self: Publisher, batch: int, payload: Any) -> None:
    if batch >= self.next_stable:
        self.next_tentative = batch
        right(self, batch, payload)


def never_corrects(right: Any, self: Publisher, batch: int, payload: Any) -> None:
    if batch < self.next_tentative:
        self.next_stable = batch + 1
    else:
        right(self, batch, payload)


def calls_it_stable(self: Outlet, batch: int, outputs: tuple[Any, ...]) -> None:
    for task, payload in zip(self.downstream, outputs, strict=not self.sink):
        self._send(task, None, batch, payload, stable=True)
    if self.sink and self.publisher.owned:
        self.publisher.tentative(batch, outputs[0])


def redoes_from_the_tentative_state(right: Any, self: Computation, item: Any) -> None:
    if self.tentative is not None and self.tentative.state is not None:
        item = replace(item, state=self.tentative.state)
    right(self, item)


def remembers_too_little(right: Any, self: Basis, rules: Any, *, memory: int, initial: Any) -> None:
    right(self, rules, memory=memory, initial=initial)
    if rules.method is Method.UNDO and memory > 1:
        self._history = deque(maxlen=memory - 1)


def covers_what_an_empty_state_needs(self: Durability) -> int:
    return self.stored if self._local else 0


def answers_before_its_state_is_full(
    right: Any, self: Outlet, batch: int, outputs: tuple[Any, ...]
) -> None:
    filled_from, self.filled_from = self.filled_from, 0
    right(self, batch, outputs)
    self.filled_from = filled_from


def publishes_again(right: Any, self: Outlet) -> None:
    if self.sink and self._context.term is not None and self.publisher.in_flight:
        self.publisher.sequence += 1
    right(self)


def waits_longer_than_the_bound(
    right: Any, self: TentativeRun, slot: Any, policy: Any, now: int, *, redoes: bool
) -> Any:
    due = right(self, slot, policy, now, redoes=redoes)
    return due if due in (now, FOREVER) else due + 500_000


def suspends_regardless(right: Any, self: Any, run: Any, redoes: bool) -> None:
    if run.active:
        right(self, run, redoes)


def queues_tentative_output(right: Any, self: Publisher) -> Any:
    if all(record.kind is Kind.TENTATIVE for record in self.queue):
        return ()
    return right(self)


def closes_late(right: Any, self: Losses, loss: Any, primary: Any) -> Any:
    return right(self, loss, primary) + 20_000_000


def closes_at_a_sweep(
    right: Any, self: Losses, *, cause: str, now: int, again: bool = False
) -> Any:
    return right(self, cause=cause, now=now, again=True) if again else ()


def waits_for_a_replica_for_good(right: Any, self: Losses, loss: Any, primary: Any) -> Any:
    if primary is not None and primary.term != primary.incarnation:
        return FOREVER
    return right(self, loss, primary)


def takes_plans_for_copies(self: Losses, replica: Any) -> None:
    """Repeat a mistake that the checker of lateness found when it was written."""
    self.tasks.pop(replica.task, None)


def waits_for_nobody_farther_away(
    right: Any, self: TentativeRun, index: int, batch: int, term: int, position: int
) -> None:
    """Repeat a mistake: a part that always comes last was never waited for again."""
    if batch >= position:
        right(self, index, batch, term, position)


def does_not_delay(
    right: Any, self: TentativeRun, slot: Any, policy: Policy, now: int, *, redoes: bool
) -> Any:
    if slot is not None and self.active:
        return now
    return right(self, slot, policy, now, redoes=redoes)


def replaces_stable_parts(
    right: Any, self: Inbox, index: int, batch: int, payload: Any, now: int
) -> Any:
    slot = self._slot(batch, now)
    if slot.stable[index] is None:
        return right(self, index, batch, payload, now)
    slot.stable[index] = payload
    return True


def takes_over_silently(self: Any, item: Any) -> None:
    self._context.term = item.term


def opens_too_far(right: Any, self: Publisher, next_stable: int, next_tentative: int) -> None:
    right(self, next_stable + 1, max(next_tentative, next_stable + 1))


def trims_beyond_the_epoch(self: Any, item: Any) -> None:
    if not self.sink:
        self.outbox.trim_all(item.position + 1)


def any_node(right: Any, self: Spread, need: Any, room: Any) -> Any:
    return room.least_loaded() if need.role is Role.REPLICA else right(self, need, room)


def tells_once_how_far_to_trim(right: Any, self: Inlet, needs: Any) -> None:
    """Never repeat a lost acknowledgement."""
    right(self, needs._replace(acknowledged=0))


def lets_every_coordinator_store(
    right: Any, self: Store, _term: int, version: int, registry: object
) -> Any:
    """Drop older versions and confirm them as stored, as was once done."""
    return right(self, len(self.registry_terms), version, registry)


def passes_on_everything(self: NodeMachine, item: Any, now: int) -> Any:
    return [e for copy in self.copies_of(item.task) for e in copy.handle(item, now=now)]


def counts_what_needs_an_undo(self: OutputReader, record: Any) -> bool:
    return bool(record.batch >= self.next_stable and self._note(record))


def lets_everybody_append(right: Any, self: OutputReader, entry: Any) -> Any:
    if isinstance(entry, OutputBatch) and entry.term != self.term:
        entry = OutputBatch(term=self.term, sequence=self.sequence + 1, records=entry.records)
    return right(self, entry)


def ignores_the_order(_self: Any, tasks: Any) -> list[int]:
    return sorted(tasks)


def waits_for_the_replica_alone(partner: Partnership, batch: int) -> int:
    return FOREVER if partner.served_below else 0


MUTATIONS = (
    Mutation("skip the duplicate check", Inlet, "take", takes_duplicates, LOCAL, 0),
    Mutation("take the parts of a batch in another order", Inbox, "stable", other_order, LOCAL, 0),
    Mutation("never ask again for a lost batch", TaskMachine, "tick", never_asks_again, LOCAL, 0),
    Mutation("a source ignores old requests", Lifecycle, "_cannot_replay", source_ignores_requests, LOCAL, 48),
    Mutation("begin anywhere with a source that remembers", Wiring, "begins_anywhere", takes_every_source_for_one_without_a_state, ("checkpoint", "global", "ppa"), 6),
    Mutation("process although the outbox is full", Outlet, "has_room", always(True), LOCAL, 2),
    Mutation("keep what comes too early", Inlet, "take", keeps_what_comes_early, LOCAL, 2),
    Mutation("leave a state that took over uncovered", Durability, "cover", always(None), REPLICAS, 3),
    Mutation("take a checkpoint for stored that the store has refused", Durability, "refused", takes_a_refusal_for_a_confirmation, LOCAL, 8),
    Mutation("never store again once the store was full", Durability, "refused", forgets_what_was_refused, LOCAL, 11),
    Mutation("trim before the checkpoint is durable", Durability, "_store", acknowledges_before_it_is_stored, LOCAL, 64),
    Mutation("store no output buffer", Durability, "_store", forgets_output_buffer, LOCAL, 10),
    Mutation("skip a batch on restore", Lifecycle, "loaded", skips_a_batch, LOCAL, 0),
    Mutation("source replay without warm-up", placing, "replay_starts", no_warm_up, ("replay",), 0),
    Mutation("complete an epoch too early", Epochs, "advance", completes_epochs_early, ("global",), 0),
    Mutation("a replica forgets what was sent but not acknowledged", Outlet, "progress_reported", replica_trims_what_was_sent, REPLICAS, 15),
    Mutation("a sink reports what is not published", Outlet, "report_progress", reports_what_is_not_published, REPLICAS, 712),
    Mutation("two primaries of one term", Assignments, "promote", promotes_without_a_term, REPLICAS, 17),
    Mutation("use an incarnation twice", Assignments, "place", reuses_numbers, LOCAL, 14),
    Mutation("order before the registry is stored", CoordinatorMachine, "_sync", orders_before_it_is_stored, LOCAL, 1),
    Mutation("overlook a takeover that was not stored", CoordinatorMachine, "_adopt_takeovers", always(False), REPLICAS, 28),
    Mutation("keep copies of a node's earlier life", CoordinatorMachine, "_nodes_that_ended", keeps_copies_of_earlier_lives, LOCAL, 20),
    Mutation("overlook a reboot", CoordinatorMachine, "_heartbeat", overlooks_a_reboot, LOCAL, 6),
    Mutation("wait for copies that a living node has forgotten", CoordinatorMachine, "_give_up_gone", always(False), LOCAL, 9),
    Mutation("take nodes for alive before they have joined", Membership, "__init__", takes_all_for_joined, LOCAL, 704),
    Mutation("place once all have joined, however long that takes", CoordinatorMachine, "_place_first", waits_for_every_node, LOCAL, 9),
    Mutation("let replicas keep the place that a lost task needs", Placer, "_give_up_replica", always(None), REPLICAS, 140),
    Mutation("ignore machines that join later", Membership, "sender", ignores_new_machines, LOCAL, 57),
    Mutation("forget who joined later", Membership, "came_later", property(lambda _members: ()), LOCAL, 53),
    Mutation("lose an undo", Publisher, "stable", loses_the_undo, TENTATIVE, 0),
    Mutation("never correct tentative output", Publisher, "stable", never_corrects, TENTATIVE, 0),
    Mutation("call tentative output stable", Outlet, "deliver_tentative", calls_it_stable, TENTATIVE, 0),
    Mutation("redo from the tentative state", Computation, "rebuilt", redoes_from_the_tentative_state, TENTATIVE, 0),
    Mutation("trim what an empty state is filled from", Durability, "covered", property(covers_what_an_empty_state_needs), ("dpc",), 2),
    Mutation("answer before an empty state is full", Outlet, "produced", answers_before_its_state_is_full, ("dpc",), 289),
    Mutation("keep one batch too little for undo", Basis, "__init__", remembers_too_little, ("dpc",), 10),
    Mutation("publish again after a lost answer", Outlet, "repeat", publishes_again, LOCAL, 0),
    Mutation("suspend longer than the bound", TentativeRun, "due_at", waits_longer_than_the_bound, ("dpc",), 0),
    Mutation("compute nothing tentative at all", Computation, "_advance_tentative", suspends_regardless, TENTATIVE, 0),
    Mutation("keep tentative output to oneself", Outlet, "deliver_tentative", always(None), TENTATIVE, 0),
    Mutation("publish tentative output with the next stable one", Publisher, "take", queues_tentative_output, TENTATIVE, 0),
    Mutation("close lost tasks too late", Losses, "_due", closes_late, ("ppa", "active"), 6),
    Mutation("close at the next sweep", Losses, "close", closes_at_a_sweep, ("ppa", "active"), 26),
    Mutation("wait for good for a replica that is not there", Losses, "_due", waits_for_a_replica_for_good, ("active",), 557),
    Mutation("take a planned replica for a live one", Losses, "note_takeover", takes_plans_for_copies, ("ppa", "active"), 557),
    Mutation("close a task that is back", TentativeRun, "is_back", always(False), ("ppa", "active"), 8),
    Mutation("take a task for back that has sent anything", TentativeRun, "is_back", takes_any_batch_for_being_back, ("ppa", "active"), 0),
    Mutation("never reopen a closed task", TentativeRun, "delivered", always(None), TENTATIVE, 3),
    Mutation("wait for nobody farther away", TentativeRun, "delivered", waits_for_nobody_farther_away, ("ppa", "active"), 0),
    Mutation("leave the reconciliation to a replica for good", Partnership, "postpones", property(always(True)), ("dpc",), 10),
    Mutation("go on for no replica that is late", Partnership, "spares_until", waits_for_the_replica_alone, ("dpc",), 337),
    Mutation("process what is to be delayed", TentativeRun, "due_at", does_not_delay, TENTATIVE, 1),
    Mutation("put a tentative part in a stable one's place", Inbox, "put_tentative", replaces_stable_parts, TENTATIVE, 20),
    Mutation("take over without sending what was held back", Lifecycle, "promoted", takes_over_silently, REPLICAS, 0),
    Mutation("take a batch for published that is not", Publisher, "open", opens_too_far, LOCAL, 0),
    Mutation("trim behind the fastest neighbour", Outbox, "oldest", property(lambda box: max(box.acknowledged)), LOCAL, 3),
    Mutation("trim beyond the epoch", Outlet, "epoch_completed", trims_beyond_the_epoch, ("global", "replay"), 24),
    Mutation("put both copies on one node", Spread, "choose", any_node, REPLICAS, 7),
    Mutation("take an answer that was meant for an earlier copy", NodeMachine, "_pass_on", passes_on_everything, ("global",), 28),
    Mutation("ignore the planner's order of recovery", Placer, "in_order", ignores_the_order, LOCAL, 18),
    Mutation("end the run at the first operator that raises", OperatorFailures, "note", always(True), LOCAL, 14),
    Mutation("let a copy whose operator raised be", Assignments, "wanted", always(None), LOCAL, 20),
    Mutation("tell nobody again how far to trim", Inlet, "request_missing", tells_once_how_far_to_trim, LOCAL, 3),
    Mutation("a registry that any coordinator writes", Store, "put_registry", lets_every_coordinator_store, LOCAL, 38),
    Mutation("a store that does not fence", Store, "fence", always(True), LOCAL, 130),
    Mutation("count output of a fence that needs an undo", OutputReader, "_continues", counts_what_needs_an_undo, TENTATIVE, 703),
    Mutation("an output partition that does not fence", OutputReader, "accept", lets_everybody_append, LOCAL, 3),
)  # fmt: skip


def first_caught(mutation: Mutation, seeds: Iterable[int]) -> SimulatedRun | None:
    """Return the first schedule among ``seeds`` that shows ``mutation``; None if none does."""
    with mutation.applied():
        for seed in seeds:
            scheme = mutation.schemes[seed % len(mutation.schemes)]
            report = simulate(draw(seed, scheme=scheme))
            if report.violation is not None:
                return report
    return None
