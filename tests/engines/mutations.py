"""Deliberate sabotage of the protocol: what the simulator must find, or is no good.

Each mutation replaces one method by one that forgets something. ``schemes`` are those that
use the mechanism in question.
"""

# ruff: noqa: E501 - the table reads best as a table

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

from harness.engines.simulated.run import Report, simulate
from harness.engines.simulated.schedule import draw
from harness.engines.simulated.store import Store
from harness.protocol import coordinator as coordinator_module
from harness.protocol import recovery
from harness.protocol import task as task_module
from harness.protocol.coordinator import CoordinatorMachine
from harness.protocol.durability import Durable
from harness.protocol.effects import Kind
from harness.protocol.inbox import Inbox
from harness.protocol.inputs import Start
from harness.protocol.membership import Membership
from harness.protocol.node import NodeMachine
from harness.protocol.outbox import Outbox
from harness.protocol.output import OutputBatch, OutputReader
from harness.protocol.publisher import Publisher
from harness.protocol.reconciliation import FOREVER, Basis, TentativeRun
from harness.protocol.registry import Assignment
from harness.protocol.scheme import Method, Policy, Recovery
from harness.protocol.slots import FreeSlots
from harness.protocol.state import Phase
from harness.protocol.supply import Supplying
from harness.protocol.task import TaskMachine
from harness.protocol.wiring import Wiring

TABLES: tuple[dict[Any, Any], ...] = (
    task_module._HANDLERS,
    coordinator_module._HANDLERS,
    coordinator_module._RESTORE,
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
    schemes: tuple[str, ...]
    seed: int
    """The first of 0..999 whose schedule betrayed it when this was written."""

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Replace the method, and its entries in the machines' tables."""
        right = getattr(self.owner, self.attribute)
        with ExitStack() as stack:
            stack.enter_context(patch.object(self.owner, self.attribute, self.wrong))
            for table in TABLES:
                entries = {key: self.wrong for key, value in table.items() if value is right}
                stack.enter_context(patch.dict(table, entries))
            yield


# -- input ---------------------------------------------------------------------------------


def takes_duplicates(self: Any, index: int, batch: int, payload: Any, **_: Any) -> None:
    self.inbox.put_stable(index, batch, payload, self._now)


def other_order(self: Inbox, batch: int) -> tuple[Any, ...]:
    return tuple(sorted(self.slots[batch].stable))


def never_asks_again(self: Any, *, cause: str, now: int) -> list[Any]:
    self._effects, self._cause, self._now = [], cause, now
    if self.phase is Phase.LOADING:
        self._load()
    elif self.phase is Phase.READY:
        self._repeat_stores()
        self._report_progress()
    return list(self._effects)


def source_ignores_requests(self: Any, item: Any) -> None:
    if not self.source:
        _cannot_replay(self, item)


_cannot_replay = Supplying._cannot_replay


def takes_every_source_for_one_without_a_state(self: Wiring, task: int) -> bool:
    return not self.upstream[task]


# -- checkpoints and trimming --------------------------------------------------------------


def acknowledges_before_it_is_stored(self: Any, checkpoint: Any) -> None:
    _store(self, checkpoint)
    self._acknowledge(checkpoint.position)


def forgets_output_buffer(self: Any, checkpoint: Any) -> None:
    _store(self, replace(checkpoint, outputs=()))


_store = Durable._store


def skips_a_batch(self: Any, item: Any) -> None:
    if item.checkpoint is not None:
        item = replace(
            item, checkpoint=replace(item.checkpoint, position=item.checkpoint.position + 1)
        )
    _loaded(self, item)


_loaded = Durable._loaded


def no_warm_up(wiring: Any, lost: Any, positions: Any, published: Any) -> Any:
    right = _replay_starts(wiring, lost, positions, published)
    return {task: (needed, needed) for task, (_, needed) in right.items()}


_replay_starts = recovery.replay_starts


def completes_epochs_early(self: Any) -> None:
    if self.scheme.recovery is Recovery.GLOBAL:
        stored = [r.stored for _, member in self.members for r in member.reports.values()]
        if stored and max(stored) > self.epoch:
            self.epoch = max(stored)
            self._commit()
    else:
        _complete_epoch(self)


_complete_epoch = CoordinatorMachine._complete_epoch


def always_has_room(_self: Any) -> bool:
    return True


def keeps_what_comes_early(self: Any, index: int, batch: int, *args: Any, **options: Any) -> None:
    window, self.window = self.window, 1 << 60
    _take_part(self, index, batch, *args, **options)
    self.window = window


_take_part = TaskMachine._take


def acknowledges_once(self: Any, item: Any) -> None:
    _replay_requested(self, replace(item, acknowledged=0))


_replay_requested = Supplying._replay_requested


def covers_nothing(_self: Any) -> None:
    """A replica that took over waits for the next checkpoint's turn."""


# -- replicas ------------------------------------------------------------------------------


def replica_trims_what_was_sent(self: Any, item: Any) -> None:
    if not self.primary:
        self.sent_below = max(self.sent_below, item.sent_below)
        self.outbox.trim_all(self.sent_below)


def reports_what_is_not_published(self: Any) -> None:
    confirmed, self.publisher.confirmed = self.publisher.confirmed, self.position
    _report_progress(self)
    self.publisher.confirmed = confirmed


_report_progress = Supplying._report_progress


def promotes_without_a_term(self: Any) -> None:
    for task, assignment in enumerate(self.tasks):
        if assignment.primary is None and assignment.replica is not None:
            promoted = replace(assignment.replica, term=1)
            self.tasks[task] = replace(assignment, primary=promoted, replica=None)


def reuses_numbers(self: Any, task: int, node: int, **options: Any) -> None:
    before = self.tasks[task].used
    _place(self, task, node, **options)
    assignment: Assignment = self.tasks[task]
    if before > 2 and assignment.primary is not None:
        copy = replace(assignment.primary, incarnation=before, term=before)
        self.tasks[task] = replace(assignment, primary=copy, used=before)


_place = CoordinatorMachine._place


# -- the coordinator -----------------------------------------------------------------------


def orders_before_it_is_stored(self: Any, node: int) -> None:
    stored, self.stored_version = self.stored_version, self.version
    _sync(self, node)
    self.stored_version = stored


_sync = CoordinatorMachine._sync


def keeps_copies_of_earlier_lives(self: Any) -> list[int]:
    """As they were, once, by a new coordinator."""
    _nodes_that_ended(self)
    return []


_nodes_that_ended = CoordinatorMachine._nodes_that_ended


def overlooks_a_reboot(self: Any, item: Any) -> None:
    member = self.members.sender(item)
    if member is not None:
        member.boot = item.boot
    _heartbeat(self, item)


_heartbeat = CoordinatorMachine._heartbeat


def takes_all_for_joined(self: Membership, nodes: Any) -> None:
    """As it was once: in their first life, and alive, whether they have started or not."""
    _membership(self, nodes)
    for _, member in self:
        member.boot, member.alive = 1, True


_membership = Membership.__init__


def waits_for_every_node(self: Any) -> None:
    if not self._awaited():
        _place_first(self)


_place_first = CoordinatorMachine._place_first


def keeps_every_replica(_self: Any) -> None:
    """None of them is given up."""


def ignores_new_machines(self: Membership, item: Any) -> Any:
    return _sender(self, replace(item, info=None))


_sender = Membership.sender


# -- tentative output ----------------------------------------------------------------------


def loses_the_undo(self: Publisher, batch: int, payload: Any) -> None:
    if batch >= self.next_stable:
        self.next_tentative = batch
        _stable(self, batch, payload)


def never_corrects(self: Publisher, batch: int, payload: Any) -> None:
    if batch < self.next_tentative:
        self.next_stable = batch + 1
    else:
        _stable(self, batch, payload)


_stable = Publisher.stable


def calls_it_stable(self: Any, batch: int, outputs: tuple[Any, ...]) -> None:
    for task, payload in zip(self.downstream, outputs, strict=not self.sink):
        self._send_batch(task, None, batch, payload, stable=True)
    if self.sink and self.publisher.claimed:
        self.publisher.tentative(batch, outputs[0])


def redoes_from_the_tentative_state(self: Any, item: Any) -> None:
    if self.tentative is not None and self.tentative.state is not None:
        item = replace(item, state=self.tentative.state)
    _rebuilt(self, item)


_rebuilt = TaskMachine._rebuilt


def remembers_too_little(self: Basis, rules: Any, *, memory: int, initial: Any) -> None:
    _basis(self, rules, memory=memory, initial=initial)
    if rules.method is Method.UNDO and memory > 1:
        self._history = deque(maxlen=memory - 1)


_basis = Basis.__init__


def publishes_again(self: Any) -> None:
    if self.sink and self.primary and self.publisher.in_flight:
        self.publisher.sequence += 1
    _repeat_stores(self)


_repeat_stores = Durable._repeat_stores


def waits_longer_than_the_bound(self: TentativeRun, slot: Any, policy: Any, now: int) -> int:
    due = _due_at(self, slot, policy, now)
    return due if due in (now, FOREVER) else due + 500_000


def suspends_regardless(self: Any, run: Any) -> None:
    if run.active:
        _advance_tentative(self, run)


_due_at = TentativeRun.due_at
_advance_tentative = TaskMachine._advance_tentative


def keeps_tentative_output(_self: Any, _batch: int, _outputs: Any) -> None:
    """Computed for nothing: the neighbours wait for the stable one."""


def queues_tentative_output(self: Publisher) -> tuple[Any, ...]:
    if all(record.kind is Kind.TENTATIVE for record in self.queue):
        return ()
    return _take(self)


_take = Publisher.take


def closes_late(self: Any) -> None:
    lost = self.lost_at
    self.lost_at = {task: (at + 20_000_000, batch) for task, (at, batch) in lost.items()}
    _close_lost(self)
    self.lost_at = lost


_close_lost = CoordinatorMachine._close_lost


def waits_for_a_replica_for_good(_self: Any, primary: Any, _since: int) -> bool:
    return primary is not None and primary.term != primary.incarnation


def takes_plans_for_copies(self: Any) -> None:
    """What the checker of lateness found when it was written."""
    _promote(self)
    for task, assignment in enumerate(self.tasks):
        if assignment.primary is not None:
            self.lost_at.pop(task, None)


_promote = CoordinatorMachine._promote_replicas


def never_reopens(_self: TentativeRun, *_: Any) -> None:
    """Who was closed once stays closed."""


def does_not_delay(self: TentativeRun, slot: Any, policy: Policy, now: int) -> int:
    return now if slot is not None and self.active else _due_at(self, slot, policy, now)


def replaces_stable_parts(self: Inbox, index: int, batch: int, payload: Any, now: int) -> bool:
    slot = self._slot(batch, now)
    if slot.stable[index] is None:
        return _put_tentative(self, index, batch, payload, now)
    slot.stable[index] = payload
    return True


_put_tentative = Inbox.put_tentative


def takes_over_silently(self: Any, item: Any) -> None:
    self.term = item.term


def claims_too_much(self: Publisher, next_stable: int, next_tentative: int) -> None:
    _claim(self, next_stable + 1, max(next_tentative, next_stable + 1))


_claim = Publisher.claim


def trims_beyond_the_epoch(self: Any, item: Any) -> None:
    if not self.sink:
        self.outbox.trim_all(item.position + 1)


def any_node(self: FreeSlots, *, avoid: int | None = None) -> int | None:
    del avoid
    return _take_slot(self)


_take_slot = FreeSlots.take


def passes_on_everything(self: NodeMachine, item: Any, now: int) -> Any:
    copy = self.copies.get(item.task)
    return copy.handle(item, now=now) if copy else ()


def lets_everybody_store(_self: Store, _task: int, _term: int | None) -> bool:
    return True


def lets_everybody_append(self: OutputReader, entry: Any) -> Any:
    if isinstance(entry, OutputBatch) and entry.term != self.term:
        entry = OutputBatch(term=self.term, sequence=self.sequence + 1, records=entry.records)
    return _accept(self, entry)


_accept = OutputReader.accept


def restores_the_lost_alone(self: Any, lost: list[int]) -> None:
    nodes = self._nodes_for(lost)
    for task in lost if nodes is not None else ():
        start = Start.EPOCH if self.wiring.upstream[task] else Start.EMPTY
        sending = 0 if start is Start.EPOCH else self.epoch
        self._place(task, nodes[task], start=start, position=self.epoch, send_from=sending)


def ignores_the_order(_self: Any, tasks: Any) -> list[int]:
    return sorted(tasks)


MUTATIONS = (
    Mutation("skip the duplicate check", TaskMachine, "_take", takes_duplicates, LOCAL, 0),
    Mutation("take the parts of a batch in another order", Inbox, "stable", other_order, LOCAL, 0),
    Mutation("never ask again for a lost batch", TaskMachine, "tick", never_asks_again, LOCAL, 0),
    Mutation("a source ignores old requests", Supplying, "_cannot_replay", source_ignores_requests, LOCAL, 10),
    Mutation("begin anywhere with a source that remembers", Wiring, "begins_anywhere", takes_every_source_for_one_without_a_state, ("checkpoint", "global", "ppa"), 6),
    Mutation("process although the outbox is full", Supplying, "_has_room", always_has_room, LOCAL, 2),
    Mutation("keep what comes too early", TaskMachine, "_take", keeps_what_comes_early, LOCAL, 2),
    Mutation("lose an acknowledgement for good", Supplying, "_replay_requested", acknowledges_once, LOCAL, 2),
    Mutation("leave a state that took over uncovered", Durable, "_cover_state", covers_nothing, REPLICAS, 3),
    Mutation("trim before the checkpoint is durable", Durable, "_store", acknowledges_before_it_is_stored, LOCAL, 64),
    Mutation("store no output buffer", Durable, "_store", forgets_output_buffer, LOCAL, 0),
    Mutation("skip a batch on restore", Durable, "_loaded", skips_a_batch, LOCAL, 0),
    Mutation("source replay without warm-up", coordinator_module, "replay_starts", no_warm_up, ("replay",), 0),
    Mutation("complete an epoch too early", CoordinatorMachine, "_complete_epoch", completes_epochs_early, ("global",), 0),
    Mutation("a replica forgets what was sent but not acknowledged", Supplying, "_progress_reported", replica_trims_what_was_sent, REPLICAS, 15),
    Mutation("a sink reports what is not published", Supplying, "_report_progress", reports_what_is_not_published, REPLICAS, 155),
    Mutation("two primaries of one term", CoordinatorMachine, "_promote_replicas", promotes_without_a_term, REPLICAS, 17),
    Mutation("use an incarnation twice", CoordinatorMachine, "_place", reuses_numbers, LOCAL, 1),
    Mutation("order before the registry is stored", CoordinatorMachine, "_sync", orders_before_it_is_stored, LOCAL, 3),
    Mutation("keep copies of a node's earlier life", CoordinatorMachine, "_nodes_that_ended", keeps_copies_of_earlier_lives, LOCAL, 1),
    Mutation("overlook a reboot", CoordinatorMachine, "_heartbeat", overlooks_a_reboot, LOCAL, 3),
    Mutation("take nodes for alive before they have joined", Membership, "__init__", takes_all_for_joined, LOCAL, 704),
    Mutation("place once all have joined, however long that takes", CoordinatorMachine, "_place_first", waits_for_every_node, LOCAL, 9),
    Mutation("let replicas keep the place that a lost task needs", CoordinatorMachine, "_give_up_replica", keeps_every_replica, REPLICAS, 747),
    Mutation("ignore machines that join later", Membership, "sender", ignores_new_machines, LOCAL, 57),
    Mutation("forget who joined later", Membership, "came_later", property(lambda _members: ()), LOCAL, 29),
    Mutation("lose an undo", Publisher, "stable", loses_the_undo, TENTATIVE, 0),
    Mutation("never correct tentative output", Publisher, "stable", never_corrects, TENTATIVE, 0),
    Mutation("call tentative output stable", Supplying, "_deliver_tentative", calls_it_stable, TENTATIVE, 0),
    Mutation("redo from the tentative state", TaskMachine, "_rebuilt", redoes_from_the_tentative_state, TENTATIVE, 0),
    Mutation("keep one batch too little for undo", Basis, "__init__", remembers_too_little, ("dpc",), 10),
    Mutation("publish again after a lost answer", Durable, "_repeat_stores", publishes_again, LOCAL, 0),
    Mutation("suspend longer than the bound", TentativeRun, "due_at", waits_longer_than_the_bound, ("dpc",), 0),
    Mutation("compute nothing tentative at all", TaskMachine, "_advance_tentative", suspends_regardless, TENTATIVE, 0),
    Mutation("keep tentative output to oneself", Supplying, "_deliver_tentative", keeps_tentative_output, TENTATIVE, 0),
    Mutation("publish tentative output with the next stable one", Publisher, "take", queues_tentative_output, TENTATIVE, 0),
    Mutation("close lost tasks too late", CoordinatorMachine, "_close_lost", closes_late, ("ppa", "active"), 6),
    Mutation("wait for good for a replica that is not there", CoordinatorMachine, "_may_live", waits_for_a_replica_for_good, ("active",), 316),
    Mutation("take a planned replica for a live one", CoordinatorMachine, "_promote_replicas", takes_plans_for_copies, ("ppa", "active"), 6),
    Mutation("never reopen a closed task", TentativeRun, "delivered", never_reopens, TENTATIVE, 3),
    Mutation("process what is to be delayed", TentativeRun, "due_at", does_not_delay, TENTATIVE, 1),
    Mutation("put a tentative part in a stable one's place", Inbox, "put_tentative", replaces_stable_parts, TENTATIVE, 3),
    Mutation("take over without sending what was held back", Durable, "_promoted", takes_over_silently, REPLICAS, 0),
    Mutation("take a batch for published that is not", Publisher, "claim", claims_too_much, LOCAL, 0),
    Mutation("trim behind the fastest neighbour", Outbox, "oldest", property(lambda box: max(box.acknowledged)), LOCAL, 3),
    Mutation("trim beyond the epoch", Supplying, "_epoch_completed", trims_beyond_the_epoch, ("global", "replay"), 24),
    Mutation("put both copies on one node", FreeSlots, "take", any_node, REPLICAS, 7),
    Mutation("take an answer that was meant for an earlier copy", NodeMachine, "_pass_on", passes_on_everything, ("global",), 28),
    Mutation("ignore the planner's order of recovery", CoordinatorMachine, "_in_order", ignores_the_order, LOCAL, 7),
    Mutation("a store that does not fence", Store, "claim", lets_everybody_store, LOCAL, 149),
    Mutation("an output partition that does not fence", OutputReader, "accept", lets_everybody_append, LOCAL, 3),
)  # fmt: skip

HARMLESS = Mutation("roll back the lost task alone", CoordinatorMachine, "_restore_global", restores_the_lost_alone, ("global",), 0)  # fmt: skip
"""Under coordinated checkpoints, and no mutation, because it cannot do harm here. Let e be the
last complete epoch. Every task has stored its checkpoint at e, so every task is at e or beyond and
no neighbour will ever ask for a batch before e; and output buffers are trimmed below e only, as
the coordinator says, never behind a task's own checkpoint. So a task that goes back to e alone
finds all of its input from e on in the buffers of its upstream tasks. It is a function of that
input, hence sends what its predecessor sent, under the same numbers, and whoever has those
batches drops them. Upstream tasks lost with it go back to the same e. The epoch does not move on
before the task has stored a checkpoint beyond e. What global rollback costs is not safety but
time, and that the scheme does roll back every task is a test of its own."""


def first_caught(mutation: Mutation, seeds: Iterable[int]) -> Report | None:
    """The first schedule among ``seeds`` that betrays ``mutation``; None if none does."""
    with mutation.applied():
        for seed in seeds:
            scheme = mutation.schemes[seed % len(mutation.schemes)]
            report = simulate(draw(seed, scheme=scheme))
            if report.violation is not None:
                return report
    return None
