"""Deliberate sabotage of the protocol, which the simulator must find.

Each mutation replaces one method by one that forgets something. ``schemes`` are those that
use the mechanism in question."""

# ruff: noqa: E501 - the table reads best as a table

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from harness.protocol.coordinator import machine as coordinator_module
from harness.protocol.coordinator import placing
from harness.protocol.coordinator.assignments import Assignments
from harness.protocol.coordinator.epochs import Epochs
from harness.protocol.coordinator.losses import Losses, OperatorFailures
from harness.protocol.coordinator.machine import CoordinatorMachine
from harness.protocol.coordinator.membership import Membership
from harness.protocol.coordinator.placement import Spread
from harness.protocol.coordinator.placing import Placer
from harness.protocol.node import NodeMachine
from harness.protocol.output import OutputReader
from harness.protocol.task import machine as task_module
from harness.protocol.task.computation import Computation
from harness.protocol.task.durability import Durability
from harness.protocol.task.inlet import Inbox, Inlet
from harness.protocol.task.lifecycle import Lifecycle
from harness.protocol.task.machine import TaskMachine
from harness.protocol.task.outlet import Outbox, Outlet, Publisher
from harness.protocol.task.partnership import Partnership
from harness.protocol.task.reconciliation import Basis, TentativeRun
from harness.protocol.wiring import Wiring
from harness.simulator.draw import draw
from harness.simulator.run import SimulatedRun, simulate
from harness.simulator.store import Store
from tests.simulator import sabotage as wrong

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


MUTATIONS = (
    Mutation("skip the duplicate check", Inlet, "take", wrong.takes_duplicates, LOCAL, 0),
    Mutation("take the parts of a batch in another order", Inbox, "stable", wrong.other_order, LOCAL, 0),
    Mutation("never ask again for a lost batch", TaskMachine, "tick", wrong.never_asks_again, LOCAL, 0),
    Mutation("a source ignores old requests", Lifecycle, "_cannot_replay", wrong.source_ignores_requests, LOCAL, 48),
    Mutation("begin anywhere with a source that remembers", Wiring, "begins_anywhere", wrong.takes_every_source_for_one_without_a_state, ("checkpoint", "global", "ppa"), 6),
    Mutation("process although the outbox is full", Outlet, "has_room", wrong.always_has_room, LOCAL, 2),
    Mutation("keep what comes too early", Inlet, "take", wrong.keeps_what_comes_early, LOCAL, 2),
    Mutation("leave a state that took over uncovered", Durability, "cover", wrong.covers_nothing, REPLICAS, 3),
    Mutation("take a checkpoint for stored that the store has refused", Durability, "refused", wrong.takes_a_refusal_for_a_confirmation, LOCAL, 8),
    Mutation("never store again once the store was full", Durability, "refused", wrong.forgets_what_was_refused, LOCAL, 11),
    Mutation("trim before the checkpoint is durable", Durability, "_store", wrong.acknowledges_before_it_is_stored, LOCAL, 64),
    Mutation("store no output buffer", Durability, "_store", wrong.forgets_output_buffer, LOCAL, 10),
    Mutation("skip a batch on restore", Lifecycle, "loaded", wrong.skips_a_batch, LOCAL, 0),
    Mutation("source replay without warm-up", placing, "replay_starts", wrong.no_warm_up, ("replay",), 0),
    Mutation("complete an epoch too early", Epochs, "advance", wrong.completes_epochs_early, ("global",), 0),
    Mutation("a replica forgets what was sent but not acknowledged", Outlet, "progress_reported", wrong.replica_trims_what_was_sent, REPLICAS, 15),
    Mutation("a sink reports what is not published", Outlet, "report_progress", wrong.reports_what_is_not_published, REPLICAS, 712),
    Mutation("two primaries of one term", Assignments, "promote", wrong.promotes_without_a_term, REPLICAS, 17),
    Mutation("use an incarnation twice", Assignments, "place", wrong.reuses_numbers, LOCAL, 14),
    Mutation("order before the registry is stored", CoordinatorMachine, "_sync", wrong.orders_before_it_is_stored, LOCAL, 1),
    Mutation("overlook a takeover that was not stored", CoordinatorMachine, "_adopt_takeovers", wrong.overlooks_takeovers, REPLICAS, 28),
    Mutation("keep copies of a node's earlier life", CoordinatorMachine, "_nodes_that_ended", wrong.keeps_copies_of_earlier_lives, LOCAL, 20),
    Mutation("overlook a reboot", CoordinatorMachine, "_heartbeat", wrong.overlooks_a_reboot, LOCAL, 6),
    Mutation("wait for copies that a living node has forgotten", CoordinatorMachine, "_give_up_gone", wrong.overlooks_what_is_forgotten, LOCAL, 9),
    Mutation("take nodes for alive before they have joined", Membership, "__init__", wrong.takes_all_for_joined, LOCAL, 704),
    Mutation("place once all have joined, however long that takes", CoordinatorMachine, "_place_first", wrong.waits_for_every_node, LOCAL, 9),
    Mutation("let replicas keep the place that a lost task needs", Placer, "_give_up_replica", wrong.keeps_every_replica, REPLICAS, 140),
    Mutation("ignore machines that join later", Membership, "sender", wrong.ignores_new_machines, LOCAL, 57),
    Mutation("forget who joined later", Membership, "came_later", property(lambda _members: ()), LOCAL, 53),
    Mutation("lose an undo", Publisher, "stable", wrong.loses_the_undo, TENTATIVE, 0),
    Mutation("never correct tentative output", Publisher, "stable", wrong.never_corrects, TENTATIVE, 0),
    Mutation("call tentative output stable", Outlet, "deliver_tentative", wrong.calls_it_stable, TENTATIVE, 0),
    Mutation("redo from the tentative state", Computation, "rebuilt", wrong.redoes_from_the_tentative_state, TENTATIVE, 0),
    Mutation("trim what an empty state is filled from", Durability, "covered", property(wrong.covers_what_an_empty_state_needs), ("dpc",), 2),
    Mutation("answer before an empty state is full", Outlet, "produced", wrong.answers_before_its_state_is_full, ("dpc",), 289),
    Mutation("keep one batch too little for undo", Basis, "__init__", wrong.remembers_too_little, ("dpc",), 10),
    Mutation("publish again after a lost answer", Outlet, "repeat", wrong.publishes_again, LOCAL, 0),
    Mutation("suspend longer than the bound", TentativeRun, "due_at", wrong.waits_longer_than_the_bound, ("dpc",), 0),
    Mutation("compute nothing tentative at all", Computation, "_advance_tentative", wrong.suspends_regardless, TENTATIVE, 0),
    Mutation("keep tentative output to oneself", Outlet, "deliver_tentative", wrong.keeps_tentative_output, TENTATIVE, 0),
    Mutation("publish tentative output with the next stable one", Publisher, "take", wrong.queues_tentative_output, TENTATIVE, 0),
    Mutation("close lost tasks too late", Losses, "_due", wrong.closes_late, ("ppa", "active"), 6),
    Mutation("close at the next sweep", Losses, "close", wrong.closes_at_a_sweep, ("ppa", "active"), 26),
    Mutation("wait for good for a replica that is not there", Losses, "_due", wrong.waits_for_a_replica_for_good, ("active",), 557),
    Mutation("take a planned replica for a live one", Losses, "note_takeover", wrong.takes_plans_for_copies, ("ppa", "active"), 557),
    Mutation("close a task that is back", TentativeRun, "is_back", wrong.knows_nobody_who_is_back, ("ppa", "active"), 8),
    Mutation("take a task for back that has sent anything", TentativeRun, "is_back", wrong.takes_any_batch_for_being_back, ("ppa", "active"), 0),
    Mutation("never reopen a closed task", TentativeRun, "delivered", wrong.never_reopens, TENTATIVE, 3),
    Mutation("wait for nobody farther away", TentativeRun, "delivered", wrong.waits_for_nobody_farther_away, ("ppa", "active"), 0),
    Mutation("leave the reconciliation to a replica for good", Partnership, "postpones", property(wrong.postpones_for_good), ("dpc",), 10),
    Mutation("go on for no replica that is late", Partnership, "spares_until", wrong.waits_for_the_replica_alone, ("dpc",), 337),
    Mutation("process what is to be delayed", TentativeRun, "due_at", wrong.does_not_delay, TENTATIVE, 1),
    Mutation("put a tentative part in a stable one's place", Inbox, "put_tentative", wrong.replaces_stable_parts, TENTATIVE, 20),
    Mutation("take over without sending what was held back", Lifecycle, "promoted", wrong.takes_over_silently, REPLICAS, 0),
    Mutation("take a batch for published that is not", Publisher, "open", wrong.opens_too_far, LOCAL, 0),
    Mutation("trim behind the fastest neighbour", Outbox, "oldest", property(lambda box: max(box.acknowledged)), LOCAL, 3),
    Mutation("trim beyond the epoch", Outlet, "epoch_completed", wrong.trims_beyond_the_epoch, ("global", "replay"), 24),
    Mutation("put both copies on one node", Spread, "choose", wrong.any_node, REPLICAS, 7),
    Mutation("take an answer that was meant for an earlier copy", NodeMachine, "_pass_on", wrong.passes_on_everything, ("global",), 28),
    Mutation("ignore the planner's order of recovery", Placer, "in_order", wrong.ignores_the_order, LOCAL, 18),
    Mutation("end the run at the first operator that raises", OperatorFailures, "note", wrong.fails_everywhere_at_once, LOCAL, 14),
    Mutation("let a copy whose operator raised be", Assignments, "wanted", wrong.gives_up_nothing, LOCAL, 20),
    Mutation("tell nobody again how far to trim", Inlet, "request_missing", wrong.tells_once_how_far_to_trim, LOCAL, 3),
    Mutation("a registry that any coordinator writes", Store, "put_registry", wrong.lets_every_coordinator_store, LOCAL, 38),
    Mutation("a store that does not fence", Store, "fence", wrong.lets_everybody_store, LOCAL, 130),
    Mutation("count output of a fence that needs an undo", OutputReader, "_continues", wrong.counts_what_needs_an_undo, TENTATIVE, 703),
    Mutation("an output partition that does not fence", OutputReader, "accept", wrong.lets_everybody_append, LOCAL, 3),
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
