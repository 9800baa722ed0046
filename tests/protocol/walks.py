"""Random lives of one copy, with a host that answers as hosts do, and an oracle of its output.

A sink with two upstream tasks. Stable parts of a batch are what they are, whoever sends them and
however often; tentative ones are wrong on purpose, so whatever stable output comes from one shows.
What a real host answers is answered (late, in any order, sometimes not); refusals, which end a
copy's life, are rare. Every record that counts in the partition, and every state that a stable
batch begins in, is compared with what there is when nothing fails."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

from harness.protocol import effects as do
from harness.protocol import inputs as told
from harness.protocol.output import OutputPartition
from harness.protocol.scheme import (
    Closing,
    Corrections,
    Method,
    Policy,
    Recovery,
    Scheme,
    Tentative,
)
from harness.protocol.task.computation import Mode
from harness.protocol.task.lifecycle import Phase
from harness.protocol.task.machine import TaskMachine
from harness.simulator.synthetic import Digest, DigestOperator
from harness.simulator.topologies import layered

SINK, BATCHES, STEPS = 2, 8, 90
WIRING = layered([2, 1], [(0, 1, "full")], memory=3, names=["source", "sink"])
OPERATOR = DigestOperator(task=SINK, memory=3, fan_out=1)


def part(upstream: int, batch: int) -> Digest:
    """Return the stable part of a batch; which of the two parts is the greater one changes."""
    return 5, 10 * batch + (upstream + batch) % 2 * 1000


def _twin() -> tuple[list[Any], list[Any]]:
    state, states, outputs = OPERATOR.initial(), [], []
    for batch in range(BATCHES):
        states.append(state)
        state, (output,) = OPERATOR.process(state, batch, [part(up, batch) for up in (0, 1)])
        outputs.append(output)
    return states, outputs


STATES, EXPECTED = _twin()
"""Before each batch, and of it, when nothing fails."""


class WrongOutput(AssertionError):
    """Something in the partition that no failure can excuse."""


class Walk:
    """One life."""

    def __init__(self, random: Random) -> None:
        self.random = random
        closing = random.choice(list(Closing))
        method = random.choice(list(Method))
        self.scheme = Scheme(
            name="walk",
            recovery=Recovery.LOCAL,
            checkpoint_every=random.choice((2, 3, 50)),
            window=random.choice((51, 60)),
            tentative=Tentative(
                closing=closing,
                bound_us=random.choice((0, 50)) if closing is Closing.COORDINATOR else 50,
                during_failure=random.choice((Policy.PROCESS, Policy.PROCESS, Policy.DELAY)),
                during_stabilization=random.choice(list(Policy)),
                method=method,
                corrections=random.choice(list(Corrections)),
            ),
        )
        self.now = 0
        self.term: int | None = random.choice((1, 1, None))
        self.partition = OutputPartition()
        self.stable = 0
        self.standing: set[int] = set()
        self.stored: told.Checkpoint | None = None
        self.open: list[Any] = []
        self.modes: Counter[Mode] = Counter()
        order = told.CopyOrdered(
            cause="walk", boot=1, task=SINK, incarnation=1, term=self.term,
            start=told.Start.EMPTY, position=0, send_from=0, coordinator=1,
        )  # fmt: skip
        self.machine = TaskMachine(order, wiring=WIRING, scheme=self.scheme, initial=())
        self._tell(order)

    def run(self) -> Counter[Mode]:
        """Take all steps, then deliver everything: the rest of the twin's output must follow."""
        moves: list[Callable[[], None]] = [
            *[self._stable_part] * 8, *[self._answer] * 12, *[self._tentative_part] * 2,
            self._close, self._resume, self._tick, self._promote,
        ]  # fmt: skip
        for _ in range(STEPS):
            self.now += self.random.choice((0, 1, 20))
            self.random.choice(moves)()
            self.modes[self.machine.mode] += 1
        self._finish()
        return self.modes

    # -- what comes ------------------------------------------------------------------------

    def _stable_part(self) -> None:
        batch = min(BATCHES - 1, self.machine.position + self.random.choice((0, 0, 0, 1, 2)))
        self._part(self.random.choice((0, 1)), batch, stable=True)

    def _part(self, upstream: int, batch: int, *, stable: bool) -> None:
        payload = part(upstream, batch) if stable else (5, self.random.randrange(99))
        self._tell(
            told.BatchArrived(
                cause="walk", task=SINK, upstream=upstream, batch=batch, stable=stable,
                payload=payload, term=self.random.choice((1, 1, 2)),
            )
        )  # fmt: skip

    def _tentative_part(self) -> None:
        batch = min(BATCHES - 1, self.machine.position + self.random.choice((0, 1, 2)))
        self._part(self.random.choice((0, 1)), batch, stable=False)

    def _close(self) -> None:
        self._tell(
            told.UpstreamClosed(
                cause="walk", task=SINK, upstream=self.random.choice((0, 1)),
                last_batch=min(BATCHES - 1, self.machine.position + 2),
                before_term=self.random.choice((2, 3)), back_at=self.random.choice((0, 9)),
            )
        )  # fmt: skip

    def _resume(self) -> None:
        term = self.random.choice((1, 2, 3))
        upstream = self.random.choice((0, 1))
        self._tell(told.UpstreamResumed(cause="walk", task=SINK, upstream=upstream, term=term))

    def _tick(self) -> None:
        self._take(self.machine.tick(cause="walk", now=self.now))

    def _promote(self) -> None:
        if self.term is None:
            self.term = 4
            self._tell(
                told.CopyPromoted(cause="walk", coordinator=1, task=SINK, incarnation=1, term=4)
            )

    # -- a host's answers ------------------------------------------------------------------

    def _answer(self) -> None:
        if not self.open:
            self._tell(told.TimerFired(cause="walk", key=("due", SINK)))
            return
        effect = self.open.pop(self.random.randrange(len(self.open)))
        answer = _ANSWERS[type(effect)](self, effect)
        if answer is not None:
            self._tell(answer)

    def _process(self, effect: do.ProcessBatch) -> Any:
        if effect.run is told.Run.STABLE and effect.state != STATES[effect.batch]:
            raise WrongOutput(f"stable batch {effect.batch} begins in another state")
        state, outputs = OPERATOR.process(effect.state, effect.batch, effect.inputs)
        return told.BatchProcessed(
            cause="walk", task=SINK, incarnation=1, run=effect.run, ticket=effect.ticket,
            batch=effect.batch, state=state, outputs=outputs,
        )  # fmt: skip

    def _rebuild(self, effect: do.RebuildState) -> Any:
        state = effect.state
        for batch, inputs in enumerate(effect.inputs, effect.first_batch):
            state, _ = OPERATOR.process(state, batch, inputs)
        return told.StateRebuilt(
            cause="walk", task=SINK, incarnation=1, ticket=effect.ticket, state=state
        )

    def _fence(self, effect: do.FenceOutput) -> Any:
        known = len(self.partition.records)
        self.partition.fence(effect.term, effect.records)
        for published in self.partition.records[known:]:
            self._check(published.record)
        return told.OutputFenced(
            cause="walk", task=SINK, incarnation=1,
            next_stable=self.partition.next_stable, next_tentative=self.partition.next_tentative,
        )  # fmt: skip

    def _publish(self, effect: do.PublishOutput) -> Any:
        before = self.partition.sequence
        self.partition.append(effect.term, effect.sequence, effect.records)
        for record in effect.records if self.partition.sequence > before else ():
            self._check(record)
        if self.random.random() < 0.1:
            return None  # the answer is lost; asked again with the next heartbeat
        return told.OutputPublished(
            cause="walk", task=SINK, incarnation=1, sequence=effect.sequence
        )

    def _store(self, effect: do.StoreCheckpoint) -> Any:
        position = effect.checkpoint.position
        luck = self.random.random()
        if luck < 0.02:
            return told.CheckpointRefused(cause="walk", task=SINK, incarnation=1)
        if luck < 0.1:
            return told.CheckpointFailed(
                cause="walk", task=SINK, incarnation=1, position=position, reason="full"
            )
        self.stored = effect.checkpoint
        return told.CheckpointStored(cause="walk", task=SINK, incarnation=1, position=position)

    def _load(self, _effect: do.LoadCheckpoint) -> Any:
        return told.CheckpointLoaded(cause="walk", task=SINK, incarnation=1, checkpoint=self.stored)

    def _tell(self, item: Any) -> None:
        self._take(self.machine.handle(item, now=self.now))

    def _take(self, effects: list[do.TaskEffect]) -> None:
        self.machine.validate()
        self.open += [effect for effect in effects if type(effect) in _ANSWERS]

    # -- the oracle ------------------------------------------------------------------------

    def _check(self, record: do.OutputRecord) -> None:
        if record.kind is do.Kind.UNDO:
            if record.batch < self.stable:
                raise WrongOutput(f"stable batch {self.stable - 1} is undone")
            self.standing = {batch for batch in self.standing if batch < record.batch}
        elif record.kind is do.Kind.TENTATIVE:
            if record.batch < self.stable or record.batch in self.standing:
                raise WrongOutput(f"tentative batch {record.batch} comes too late, or twice")
            self.standing.add(record.batch)
        else:
            if record.batch != self.stable or record.payload != EXPECTED[record.batch]:
                raise WrongOutput(f"stable batch {record.batch} is {record.payload}")
            if record.batch in self.standing:
                raise WrongOutput(f"batch {record.batch} was not undone")
            self.stable += 1

    def _finish(self) -> None:
        self._promote()
        for _ in range(40):
            if self.machine.phase in (Phase.FENCED, Phase.FAILED):
                return
            for batch in range(self.machine.position, BATCHES):
                for upstream in (0, 1):
                    self._part(upstream, batch, stable=True)
            self.now += 1000
            while self.open:
                self._answer()
            self._tick()
        if self.stable < BATCHES or self.standing:
            raise WrongOutput(f"{self.stable} of {BATCHES} batches, {self.standing} stand")


_ANSWERS: dict[type, Callable[[Walk, Any], Any]] = {
    do.ProcessBatch: Walk._process,
    do.RebuildState: Walk._rebuild,
    do.FenceOutput: Walk._fence,
    do.PublishOutput: Walk._publish,
    do.StoreCheckpoint: Walk._store,
    do.LoadCheckpoint: Walk._load,
}
