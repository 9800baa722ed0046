"""The checker of delays: output is never later than the policy allows (dpc, Property 1).

Over a path of k tasks, Property 1 bounds the delay of a result by kX: each task answers for one
X. So the promise is checked where it is made, task by task, on every schedule whose scheme has
tentative output, whatever fails meanwhile. Time is the node's own clock, as in the protocol.

*Begins in time.* A ready primary has processed everything below batch p, and is computing
nothing that would have to end first. Then it must begin p no later than

* at once, if all of p has come, stable;
* with `Closing.TASK`: the bound after the first part of p came, whatever is missing; if nothing
  is, and the task redoes earlier batches, after it was due by its tuple time (where the scheme
  says how far apart batches are);
* with `Closing.COORDINATOR`: once every missing part is of a task that the coordinator has closed
  (and whose new primary has not delivered p, the batch before it, or a later one since, nor been
  back where it was when the order came); with `Policy.DELAY` not before the bound after the first
  part of p came.

*Not before.* A part that is missing may be taken as empty only if it is late (`Closing.TASK`) or
its task is closed, and since then has not delivered a batch that opens it again; with
`Policy.DELAY` no tentative batch begins before the bound after its first part came. (Reported as
needless-tentative.)

*Sends at once.* The first version of a batch, stable or tentative, leaves for every downstream
task that has not acknowledged it when it has been computed; a sink appends it when it has been
computed or, if that comes later, when the partition has been fenced and the records before it are
confirmed.

*Takes over at once.* A replica that is promoted, and has its state, tells its downstream tasks, or
fences its partition, with the order. An order of an earlier coordinator than the one that gave
its node the last order promotes nobody.

*Closes in time.* The coordinator is responsible for that; `closings` checks it.

What the bound does not cover: `Policy.SUSPEND` in the state it is for; batches of which nothing
has come; what lies beyond the window of batches that a copy keeps, and a copy whose output buffer
is full; a copy that fills an empty state; sources, which wait for nothing; a node while it is
paused, and what was pending when its clock changed its rate (the simulated timer was set by the old
one).
How long computing takes is not bounded here: Property 1 is about waiting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, get_args

from harness.protocol import effects as do
from harness.protocol import inputs as told
from harness.protocol.scheme import Closing, Policy, Tentative
from harness.protocol.task.lifecycle import FAILED, FENCED, LOADING, READY
from harness.protocol.task.machine import TaskMachine
from harness.simulator.checkers import InvariantBroken
from harness.simulator.observing import Observer
from harness.simulator.waiting import BY_ITSELF, Waiting

if TYPE_CHECKING:
    from harness.simulator.world import World

NAME = "output-lateness"
NEEDLESS = "needless-tentative"
NOTED = frozenset(
    {
        told.BatchArrived,
        told.UpstreamResumed,
        told.UpstreamClosed,
        told.CheckpointLoaded,
        told.StateRebuilt,
        told.OutputFenced,
        told.OutputPublished,
        told.BatchProcessed,
        told.CorrectionsServed,
    }
)
"""Inputs that change the state of this checker."""


ORDERS = frozenset(get_args(told.Order))
SILENT = frozenset(
    {
        told.ReplayRequested,
        told.BatchesAcknowledged,
        told.ProgressReported,
        told.EpochCompleted,
        told.CheckpointStored,
        told.CopyRetired,
    }
)
"""Inputs after which a copy may send or trim at most: pending obligations do not change."""
SENDS = frozenset({do.Send})
BEGINS = frozenset({do.ProcessBatch, do.RebuildState, do.PublishOutput})
"""Effects that make a copy busy."""


class Lateness(Observer):
    """The checker of delays; raises `InvariantBroken` when a copy keeps others waiting."""

    def __init__(self, world: World) -> None:
        options = self._options = world.options
        assert options.scheme.tentative is not None, "no bound without tentative output"
        self._rules: Tentative = options.scheme.tentative
        self._wiring = options.wiring
        self._world = world
        self._waiting: dict[TaskMachine, Waiting] = {}
        """The state of every copy that has upstream tasks; sources wait for nothing."""
        self._obeys = [(0, 0) for _ in options.nodes]
        """Per node, its boot and the highest term of a coordinator that has given it orders."""
        self._loading = False
        self.begun = 0
        """The number of batches that were begun under a deadline."""

    def before(self, number: int, task: int, item: told.NodeInput, clock: int) -> None:
        """Check that nothing was due before a node handles ``item``."""
        if type(item) in ORDERS:
            told_by = (self._world.nodes[number].boot, item.coordinator)  # type: ignore[union-attr]  # orders have one
            self._obeys[number] = max(self._obeys[number], told_by)
        if not self._wiring.upstream[task]:
            return  # sources wait for nothing
        machine = self._world.nodes[number].machine
        assert machine is not None, "who is dead is handed nothing"
        for copy in machine.copies_of(task):
            waiting = self._waiting.get(copy)
            if waiting is None:
                continue
            if waiting.due is not None and clock > waiting.due:
                self._check_due(number, task, waiting, clock)
            if type(item) is told.CheckpointLoaded and item.incarnation == copy.incarnation:
                self._loading = copy.phase is LOADING

    def _check_due(self, number: int, task: int, waiting: Waiting, clock: int) -> None:
        fast = self._world.nodes[number].drift > 0  # such a clock shows not every microsecond
        if waiting.due is None or clock <= waiting.due + fast:
            return
        if self._world.nodes[number].disturbed >= waiting.first.get(waiting.next, clock):
            return
        raise InvariantBroken(
            NAME,
            f"{self._wiring.names[task]} on node {number} should have begun batch {waiting.next} "
            f"{(clock - waiting.due) / 1e6:.6f} s ago",
        )

    def after(
        self,
        number: int,
        copy: TaskMachine,
        item: told.NodeInput,
        effects: Sequence[do.Effect],
        clock: int,
    ) -> None:
        """Compute the next deadline after a node has handled ``item`` for ``copy``."""
        context = copy.context
        task, incarnation, phase = context.task, context.incarnation, copy.life.phase
        if not self._wiring.upstream[task]:
            return
        waiting = self._waiting.get(copy)
        if waiting is not None and isinstance(item, told.BatchesAcknowledged):
            waiting.acknowledge(item.downstream, item.below)
        elif waiting is not None and isinstance(item, told.ReplayRequested):
            waiting.acknowledge(item.downstream, item.acknowledged)
        if type(item) in SILENT and SENDS.issuperset(map(type, effects)):
            return
        if getattr(item, "incarnation", incarnation) != incarnation:
            return  # meant for another copy
        if waiting is None:
            if not isinstance(item, told.CopyOrdered):
                return
            width = len(self._wiring.upstream[task])
            waiting = Waiting(item, width, self._options.scheme.window, self._rules.of(task))
            self._waiting[copy] = waiting
        if (
            isinstance(item, told.CopyPromoted)
            and item.term != waiting.term
            and item.coordinator == self._obeys[number][1]
        ):
            waiting.term = item.term
            if phase is READY:
                self._check_office(task, waiting, effects)
        first = self._note(task, waiting, item, clock)
        for effect in effects:
            if type(effect) not in BEGINS or effect.incarnation != incarnation:  # type: ignore[union-attr]  # `BEGINS` have one
                continue
            if isinstance(effect, do.ProcessBatch) and effect.run is told.TENTATIVE:
                self._check_need(task, waiting, effect, clock)
            self._note_effect(waiting, effect)
        if phase is FENCED or phase is FAILED:  # it does nothing any more
            waiting.due = None
            return
        primary = context.term is not None
        if first is not None and primary:
            self._check_sent(task, waiting, first, effects)
        if waiting.owned and waiting.publishing is None and waiting.unpublished:
            raise InvariantBroken(
                NAME,
                f"{self._wiring.names[task]} on node {number} keeps its output of batch "
                f"{min(waiting.unpublished)} to itself",
            )
        ready = primary and phase is READY and not copy.computation.full
        waiting.due = self._due(task, waiting, clock) if ready else None
        self.begun += waiting.due is not None

    def _note(self, task: int, waiting: Waiting, item: told.NodeInput, clock: int) -> int | None:
        """Record ``item``; return the batch of which it brings the first version, if any."""
        if type(item) not in NOTED:
            return None
        match item:
            case told.BatchArrived():
                waiting.came(item, clock)
            case told.BatchProcessed():
                return item.batch if waiting.processed(item) else None
            case told.UpstreamResumed():
                known = waiting.terms.get(item.upstream, -1)
                waiting.terms[item.upstream] = max(item.term, known)
            case told.UpstreamClosed():
                waiting.close(item)
            case told.CheckpointLoaded():
                at = item.checkpoint.position if item.checkpoint is not None else 0
                if self._loading and at > waiting.stable_at:
                    fills = self._rules.converges and waiting.term is None
                    before = self._wiring.memory[task] if fills else 0
                    waiting.restart(max(0, at - before), filled_from=at)
            case told.StateRebuilt():
                if item.ticket == waiting.stable_ticket:
                    waiting.stable_ticket = None
            case told.OutputFenced():
                waiting.open(item)
            case told.OutputPublished():
                if item.sequence == waiting.publishing:
                    waiting.publishing = None
            case told.CorrectionsServed():
                if waiting.lead is not None and waiting.term is not None:
                    waiting.served_below = max(waiting.served_below, item.below)
        return None

    def _note_effect(self, waiting: Waiting, effect: do.Effect) -> None:
        match effect:
            case do.ProcessBatch():
                waiting.began(effect)
            case do.RebuildState():
                waiting.stable_ticket = effect.ticket
            case do.PublishOutput():
                waiting.publish(effect)

    def _check_office(self, task: int, waiting: Waiting, effects: Sequence[do.Effect]) -> None:
        """Check that a replica which takes over notifies its neighbours before they request."""
        resumed = {
            effect.to
            for effect in effects
            if isinstance(effect, do.Send) and isinstance(effect.message, told.UpstreamResumed)
        }
        fences = waiting.owned or any(isinstance(effect, do.FenceOutput) for effect in effects)
        below = self._wiring.downstream[task]
        if not resumed.issuperset(below) or not (below or fences):
            raise InvariantBroken(
                NAME, f"{self._wiring.names[task]} takes over and does not begin to send"
            )

    def _check_sent(
        self, task: int, waiting: Waiting, batch: int, effects: Sequence[do.Effect]
    ) -> None:
        if not self._wiring.downstream[task]:
            if batch >= max(waiting.stands, waiting.filled_from):
                waiting.unpublished.add(batch)
            return
        if batch < max(waiting.served_below, waiting.filled_from):
            return  # the task's replica has sent it, or its primary before a checkpoint
        sent = {
            effect.to
            for effect in effects
            if isinstance(effect, do.Send)
            and isinstance(effect.message, told.BatchArrived)
            and effect.message.batch == batch
        }
        for below in self._wiring.downstream[task]:
            if below not in sent and batch >= waiting.needed_from.get(below, 0):
                names = self._wiring.names
                raise InvariantBroken(
                    NAME, f"{names[task]} has batch {batch} and does not send it to {names[below]}"
                )

    @staticmethod
    def _redoes(waiting: Waiting) -> bool:
        """Return True if the stable computation is on its way back."""
        back = waiting.stable_ticket is not None or waiting.complete(waiting.stable_at)
        return waiting.lead is not None and back

    def _policy(self, task: int, waiting: Waiting) -> Policy:
        """Return the policy for the next tentative batch."""
        rules = self._rules.of(task)
        redoing = self._redoes(waiting)
        return rules.during_stabilization if redoing else rules.during_failure

    def _check_need(self, task: int, waiting: Waiting, effect: do.ProcessBatch, clock: int) -> None:
        """Check that a tentative batch may begin already, without its missing parts."""
        came, rules = waiting.first.get(effect.batch), self._rules.of(task)
        late = came is not None and clock >= came + rules.bound_us
        name = self._wiring.names[task]
        waited = late or (
            self._redoes(waiting)
            and effect.batch in waiting.on_time
            and clock >= waiting.on_time[effect.batch] + rules.bound_us
        )
        if self._policy(task, waiting) is Policy.DELAY and came is not None and not waited:
            raise InvariantBroken(
                NEEDLESS, f"{name} was to delay batch {effect.batch}, and begins it early"
            )
        for upstream, part in zip(self._wiring.upstream[task], effect.inputs, strict=True):
            if part is not None or upstream in waiting.closed:
                continue
            if self._rules.closing is not Closing.TASK or not late:
                raise InvariantBroken(
                    NEEDLESS,
                    f"{name} begins batch {effect.batch} without {self._wiring.names[upstream]}, "
                    "which is not closed",
                )
            waiting.closed[upstream] = BY_ITSELF

    def _due(self, task: int, waiting: Waiting, clock: int) -> int | None:
        """Return the time by which the next batch must be begun if nothing else happens."""
        batch, rules = waiting.next, self._rules.of(task)
        if batch not in waiting.first or batch >= waiting.stable_at + waiting.window:
            return None
        if waiting.stable_at < waiting.filled_from:
            return None
        if waiting.lead is None:
            if waiting.stable_ticket is not None:
                return None
            if waiting.complete(waiting.stable_at):
                return clock
        elif waiting.tentative_busy:
            return None
        policy = self._policy(task, waiting)
        if policy is Policy.SUSPEND:
            return None
        if waiting.served_below:
            unserved = waiting.first.get(max(batch, waiting.served_below))
            if unserved is None:
                return None
            clock = max(clock, unserved + rules.bound_us)
        here = waiting.parts[batch]
        lacks = any(
            up not in here and up not in waiting.closed for up in self._wiring.upstream[task]
        )
        since = waiting.on_time if self._redoes(waiting) and not lacks else waiting.first
        late = since[batch] + rules.bound_us
        if rules.closing is Closing.TASK:
            return max(late, clock)
        if lacks:
            return None
        return clock if policy is Policy.PROCESS else max(late, clock)
