"""One pass with deliberate disturbances, and the verdict on its output.

The check shares no code with the protocol: it reads the out topic like any reader and compares
with every batch computed once and in order over the same input."""

from __future__ import annotations

import json
import os
import secrets
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from pathlib import Path

import pandas as pd

from harness.cluster.base import Action, Victim
from harness.cluster.processes import send_signal
from harness.cluster.run_directory import read_journal
from harness.engines.base import Work
from harness.engines.deliveries import COPY_HEADER
from harness.engines.tasks.engine import TaskEngine
from harness.engines.tasks.reading import Reading
from harness.engines.topics import topics
from harness.errors import FaultlineError
from harness.judging.loads import align, load_plan
from harness.judging.outcome import against_truth
from harness.judging.passes import HEAD_START_S, STALLED_S
from harness.load.generator import LoadGenerator, send_markers
from harness.load.profile import RateProfile
from harness.measure.collector import Collector, Message
from harness.measure.versions import Stability
from harness.protocol.effects import CopyEvent
from workloads.base import Workload

DRIVER = "driver"
"""A target of `Disturb.SERVER` that belongs to the engine, not to the cluster."""
SETTLED_S = 120.0
"""Longest wait of a pass that settles for the copies of its scheme."""


class Disturb(StrEnum):
    """An action on a running engine."""

    KILL = "kill"
    """A node, or a rack with its workers, which come back at once."""
    PAUSE = "pause"
    """A node, Kafka or Redis is frozen for a while, its connections stay open."""
    SERVER = "server"
    """Kafka, Redis (as in the journal) or Spark's driver is killed, which ends the run."""
    JOIN = "join"
    """Nodes of a worker that was dead at the beginning of the pass join it."""
    CUT = "cut"
    """A rack is cut off the network for a while, and continues alone."""
    COORDINATOR = "coordinator"
    """The coordinator's process is killed and started again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Disturbance:
    """One action and its time."""

    at_s: float
    """Time from the start of the load."""
    kind: Disturb
    target: str = ""
    """A node or a rack."""
    for_s: float = 0.0
    """Duration of a pause or a cut."""

    def __str__(self) -> str:
        lasting = f" for {self.for_s:.2f} s" if self.for_s else ""
        return f"{self.at_s:7.2f} s  {self.kind} {self.target}{lasting}"


@dataclass(slots=True, kw_only=True)
class Verdict:
    """The counts of a pass. `failures` must be 0."""

    kills: int = 0
    """Nodes and coordinators that were killed; counted when a process was reached."""
    cuts: int = 0
    """Nodes that were cut off the network while they lived."""
    results: int = 0
    """Due results: those of the truth."""
    lost: int = 0
    """Results of the truth that were not delivered, stable."""
    duplicated: int = 0
    """Results that were delivered, stable, more than once."""
    contradictions: int = 0
    """Stable results that are not in the truth, or have another value there."""
    undone_stable: int = 0
    """Stable results that were taken back."""
    uncorrected: int = 0
    """Tentative results that were neither taken back nor replaced."""
    tentative: int = 0
    """Results that were delivered as tentative ones; any number may be."""
    corrected: int = 0
    """Tentative results that were taken back."""
    stalled: int = 0
    """1 if it did not finish: the publications ended before all due results."""
    fenced: int = 0
    """Publications of replaced copies, which every reader drops: a copy that was frozen or cut off
    continues for a moment after it is back."""

    @property
    def failures(self) -> int:
        """Number of errors of all kinds."""
        return (
            self.lost
            + self.duplicated
            + self.contradictions
            + self.undone_stable
            + self.uncorrected
            + self.stalled
        )


def judged(
    messages: Sequence[Message],
    truth: pd.DataFrame,
    workload: Workload,
    *,
    kills: int,
    cuts: int = 0,
) -> Verdict:
    """Compare the messages of the out topic with the ``truth`` (the workload's columns)."""
    reading = Reading(workload)
    found = _delivered(reading, messages)
    identity = list(workload.identity)
    stable = found[found["stability"] == Stability.STABLE.value]
    difference = against_truth(stable, truth, workload, identity)
    return Verdict(
        kills=kills,
        cuts=cuts,
        results=len(truth),
        lost=len(difference.missing),
        duplicated=int(stable.duplicated(identity).sum()) + reading.repeated,
        contradictions=len(difference.extra) + len(difference.wrong),
        undone_stable=reading.undone_stable,
        uncorrected=reading.standing(),
        tentative=int((found["stability"] == Stability.TENTATIVE.value).sum()),
        corrected=int((found["stability"] == Stability.UNDO.value).sum()),
        fenced=len(reading.fenced),
    )


def _delivered(reading: Reading, messages: Sequence[Message]) -> pd.DataFrame:
    """Return the results in messages, in the order of their partitions."""
    ordered = sorted(messages, key=lambda message: (message.partition, message.offset))
    frames = [frame for message in ordered for frame in reading.take(message)]
    columns = [*reading.workload.columns, "stability"]
    return pd.concat(frames) if frames else pd.DataFrame(columns=columns)


class Trial:
    """One pass over an engine that is open."""

    def __init__(
        self,
        engine: TaskEngine,
        workload: Workload,
        directory: Path,
        *,
        rate_per_s: float,
        seconds: float,
        interval_s: float = 0.1,
        settles: bool = False,
        retention_s: float | None = None,
        report: Callable[[str], None] = lambda line: None,
    ) -> None:
        """Prepare a pass; the broker forgets output after ``retention_s``.

        With ``settles`` it waits, for `SETTLED_S` at most, until every copy of the scheme has been
        ready; the disturbances are put off together."""
        self.engine, self.workload = engine, workload
        self._settles = settles
        self._directory, self._report = directory, report
        self._interval_s, self._retention_s = interval_s, retention_s
        token = f"{engine.fleet.cluster.kafka.topic_prefix}trial-{secrets.token_hex(4)}"
        self._topic_of = {source.name: f"{token}-{source.name}" for source in workload.sources}
        self._out = f"{token}-out"
        rate = RateProfile.constant(rate_per_s, seconds)
        self.load = load_plan(workload, rate, self._topic_of, marker_s=interval_s)
        self.killed: list[Victim] = []
        """Nodes that a kill has reached, in order."""
        self.cut: list[Victim] = []
        """Nodes that a cut has reached, in order."""
        self.coordinator_kills = 0
        self.start_unix_s = self._start_s = 0.0
        self.truth = pd.DataFrame()
        """The due results: those of windows that have ended."""
        self.messages: Sequence[Message] = ()
        """The content of the out topic."""
        self.stalled = False

    def run(self, disturbances: Sequence[Disturbance] = ()) -> Verdict:
        """Send the load, apply the disturbances, wait for the last result, and judge."""
        engine, workload = self.engine, self.workload
        kafka = engine.fleet.cluster.kafka
        partitions = {self._topic_of[s.name]: s.partitions for s in workload.sources}
        work = Work(
            name=self._out,
            workload=workload,
            load=self.load,
            topic_of=self._topic_of,
            out_topic=self._out,
            out_partitions=1,
            interval_s=self._interval_s,
            directory=self._directory,
        )
        with (
            topics(
                kafka,
                {**partitions, self._out: 1},
                appended=[self._out],
                retention_s={self._out: self._retention_s},
            ),
            LoadGenerator(
                self.load,
                kafka,
                log=self._directory / "load.log",
                environment=engine.fleet.cluster.driver_environment(),
            ) as generator,
            Collector(kafka.confluent(), self._out, 1, copy_header=COPY_HEADER) as collector,
        ):
            self.messages = self._disturbed(work, generator, collector, disturbances)
        generator.result()
        verdict = judged(
            self.messages,
            self.truth,
            workload,
            kills=len(self.killed) + self.coordinator_kills,
            cuts=len(self.cut),
        )
        return replace(verdict, stalled=int(self.stalled))

    def keep(self, directory: Path) -> None:
        """Write the evidence of a failed pass: events, due results, deliveries."""
        directory.mkdir(parents=True, exist_ok=True)
        with (directory / "events.jsonl").open("w", encoding="utf-8") as events:
            events.writelines(json.dumps(event) + "\n" for event in self.engine.said())
        delivered = _delivered(Reading(self.workload), self.messages)
        delivered.to_csv(directory / "delivered.csv", index=False)
        self.truth.to_csv(directory / "truth.csv", index=False)

    def _disturbed(
        self,
        work: Work,
        generator: LoadGenerator,
        collector: Collector,
        disturbances: Sequence[Disturbance],
    ) -> Sequence[Message]:
        """Run from the first record to the last result.

        In any case the engine can go on with another pass afterwards."""
        engine = self.engine
        engine.begin(work)
        try:
            generator.wait_ready()
            now_unix_s = time.time()
            self.start_unix_s = align(now_unix_s + HEAD_START_S, self.workload.slide_s)
            self._start_s = time.monotonic() + self.start_unix_s - now_unix_s
            generator.start(self.start_unix_s)
            engine.begins_at(self.start_unix_s)
            steps = self._steps(disturbances)
            if self._settles and steps:
                self._settle(first_s=steps[0][0])
            for at_s, step in steps:
                self._wait_until(at_s)
                step()
            while not generator.wait(0.2):
                self._look()
            self._finish()
            messages = collector.finish()
            truth, end = engine.truth(work), self.start_unix_s + self.load.duration_s
            self.truth = truth[truth[self.workload.window_start] <= round(end * 1000)]
        except BaseException:
            with suppress(FaultlineError):  # the first error is the one to tell
                engine.end()
            raise
        engine.end()
        return messages

    def _look(self) -> None:
        """Raise an error with which the run cannot go on."""
        self.engine.fleet.cluster.health()
        self.engine.raise_problems()

    def _settle(self, *, first_s: float) -> None:
        """Wait for the copies, and put all disturbances off by the delay."""
        job = self.engine.job
        assert job is not None, "the pass has begun"
        wanted = {(task, False) for task in job.wiring.tasks}
        wanted |= {(task, True) for task in job.scheme.replicated}
        deadline = time.monotonic() + SETTLED_S
        while not wanted <= self._ready() and time.monotonic() < deadline:
            self._look()
            time.sleep(0.05)
        self._start_s += max(0.0, time.monotonic() - self._start_s - first_s)

    def _ready(self) -> set[tuple[int, bool]]:
        """Return (task, True for a replica) of every copy that has had its state."""
        notes = (noted.note for noted in self.engine.notes())
        return {(n.task, n.term is None) for n in notes if n.event is CopyEvent.READY}

    def _wait_until(self, at_s: float) -> None:
        while (left := self._start_s + at_s - time.monotonic()) > 0:
            self._look()
            time.sleep(min(left, 0.2))

    def _finish(self) -> None:
        end = self.start_unix_s + self.load.duration_s + self.workload.window_s
        for source in self.workload.sources:
            send_markers(
                self.engine.fleet.cluster.kafka,
                self._topic_of[source.name],
                source.partitions,
                payload=source.marker,
                at_unix_s=end + self.workload.slide_s,
            )
        done = -1
        while not self.engine.drain(end, within_s=STALLED_S):
            before, done = done, self.engine.reached()
            if done == before:
                self.stalled = True
                self._report(f"stalled: nothing was published for {STALLED_S:g} s")
                return

    def _steps(
        self, disturbances: Sequence[Disturbance]
    ) -> list[tuple[float, Callable[[], object]]]:
        """Return the actions with their times; a lasting disturbance ends with one of its own."""
        steps: list[tuple[float, Callable[[], object]]] = []
        for disturbance in disturbances:
            steps.append((disturbance.at_s, partial(self._disturb, disturbance)))
            if disturbance.kind in _ENDS:
                end = partial(
                    self.engine.fleet.cluster.apply, _ENDS[disturbance.kind], disturbance.target
                )
                steps.append((disturbance.at_s + disturbance.for_s, end))
        return sorted(steps, key=lambda step: step[0])

    def _disturb(self, disturbance: Disturbance) -> None:
        self._report(str(disturbance))
        fleet = self.engine.fleet
        match disturbance.kind:
            case Disturb.COORDINATOR:
                with suppress(ProcessLookupError):  # the next one is not there yet
                    os.kill(fleet.coordinator.pid, signal.SIGKILL)
                    self.coordinator_kills += 1
            case Disturb.JOIN:
                fleet.cluster.apply(Action.RESTART, disturbance.target)
            case Disturb.PAUSE:
                fleet.cluster.apply(Action.PAUSE, disturbance.target)
            case Disturb.SERVER:
                self._kill_server(disturbance.target)
            case Disturb.CUT:
                victims = fleet.cluster.apply(Action.CUT, disturbance.target)
                self.cut += [victim for victim in victims if victim.felt]
            case Disturb.KILL:
                victims = fleet.cluster.apply(Action.KILL, disturbance.target)
                self.killed += [victim for victim in victims if victim.reached]
                fleet.cluster.apply(Action.RESTART, disturbance.target)

    def _kill_server(self, name: str) -> None:
        fleet = self.engine.fleet
        if name == DRIVER and fleet.driver is not None:
            os.kill(fleet.driver.pid, signal.SIGKILL)
        else:
            send_signal(dict(read_journal(fleet.cluster.run_directory))[name], signal.SIGKILL)


_ENDS = {Disturb.PAUSE: Action.RESUME, Disturb.CUT: Action.HEAL}
