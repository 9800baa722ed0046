"""Programs on nodes behind the contract of `harness.engines.base`.

A pass starts a program on every node and ends it; nothing stays between passes. The pass has ended
when every result that is due (`truth`) is in the out topic. So a program needs to report nothing
but that it is ready; events are for what it notices of failures."""

from __future__ import annotations

import json
import time
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from signal import SIGKILL
from typing import Any

import pandas as pd

from harness.cluster.base import Cluster, ClusterSpec, Node, Prepared, RunningProgram, Usage
from harness.engines.base import Engine, EngineKind, Event, EventKind, Setup, Work
from harness.engines.deliveries import COPY_HEADER, deliveries
from harness.engines.programs.start import JOB_FILE, Beside, Job, Line, Start
from harness.engines.settings import Setting, demand_reported
from harness.engines.tasks.reading import plain, read_input
from harness.errors import EnvironmentFailure, UsageError
from harness.measure.collector import Collector, Message
from workloads.base import TASKS, Reference, Workload
from workloads.toolkit.local import run_locally
from workloads.toolkit.operators import program_of, timeline_of

_POLL_S = 0.05
_HEALTH_S = 1.0
SILENCE_S = 15.0
"""Time without a result after which no earlier one is awaited, once the newest window that is due
is complete: windows close in order, so what is missing before it is lost."""
_LAST_LINES = 12
_MEMORY = "dmesg, or docker inspect"
_SHOWN_BYTES = 120
_REPORTED = (
    EventKind.DETECTED, EventKind.RESTARTED, EventKind.RECOVERED, EventKind.FAILED,
    EventKind.PROGRESS,
)  # fmt: skip


@dataclass(slots=True, kw_only=True)
class _Running:
    job: Job
    start: Start
    program: RunningProgram
    first: int
    """Its incarnation at the beginning of the pass."""

    def logs(self) -> Iterator[Path]:
        """Yield the output of each incarnation of this pass."""
        log, now = self.program.log, self.program.incarnation
        for number in range(self.first, now + 1):
            yield log.with_name(f"{log.name.removesuffix(f'.{now}.log')}.{number}.log")

    def is_ready(self) -> bool:
        return any(self.start.ready.fullmatch(line) for line in _lines(self.program.log))


class ProgramEngine:
    """A program on every node of the cluster, for one pass at a time."""

    def __init__(self, kind: ProgramKind, setup: Setup, cluster: Cluster) -> None:
        """Start nothing: a program needs the topics of its pass."""
        self.name = kind.name
        self.last: str | None = None
        self._kind, self._setup, self._cluster = kind, setup, cluster
        self._running: list[_Running] = []
        self._beside: Beside | None = None
        self._work: Work | None = None
        self._lines: list[Line] = []
        self._settings: Sequence[Setting] = ()
        self._start_unix_s = 0.0
        self._counted, self._heard_s = 0, 0.0
        self._due: pd.DataFrame | None = None
        self._used: Mapping[str, Usage] = {}
        self._stack = ExitStack()

    def configure(self, setup: Setup) -> None:
        self._setup = setup

    def check(self) -> None:
        """Return if no program of an earlier pass is left."""
        if self._running:
            raise EnvironmentFailure(
                f"the programs of engine {self.name} did not end with their pass",
                remedy="look into their logs in the run directory",
            )

    def targets(self) -> Sequence[Node]:
        return self._cluster.nodes()

    def parts(self) -> Sequence[str]:
        return self._kind.parts(self._cluster.spec)

    def prepare(self, part: str) -> Prepared:
        """Find the processes of a part beside the nodes."""
        assert self._beside is not None, "the work has begun"
        return self._beside.prepare(part)

    def closes_after_s(self, workload: Workload) -> float:
        return workload.watermark_delay_s

    def begin(self, work: Work) -> None:
        assert self._work is None, "one workload at a time"
        self._work, self._due, self._lines = work, None, []
        self._stack = ExitStack()
        kafka = self._cluster.kafka
        self._collector = self._stack.enter_context(
            Collector(
                kafka.confluent(), work.out_topic, work.out_partitions, copy_header=COPY_HEADER
            )
        )
        nodes = self.targets()
        try:
            beside = self._beside = self._kind.beside(work, self._setup, self._cluster)
            for node in nodes:
                job = Job(
                    work=work, setup=self._setup, node=node, nodes=nodes, kafka=kafka, beside=beside
                )
                self._launch(job)
            self._wait_until_ready()
            if beside is not None:
                beside.begun()
            jobs, lines = [one.job for one in self._running], list(_read_lines(self._running))
            self._settings = self._kind.read_back(jobs, lines, self._cluster)
            demand_reported(self.name, self._settings)
        except BaseException:
            self.end()
            raise

    def _launch(self, job: Job) -> None:
        start = self._kind.start(job, self._cluster)
        program = self._cluster.launch(
            job.node.name,
            start.command,
            name=self.name,
            env=start.env,
            files={JOB_FILE: job.document(), **start.files},
        )
        self._running.append(
            _Running(job=job, start=start, program=program, first=program.incarnation)
        )

    def _wait_until_ready(self) -> None:
        began_s, waiting = time.monotonic(), list(self._running)
        while waiting:
            self.raise_problems()
            waiting = [one for one in waiting if not one.is_ready()]
            for one in waiting:
                if one.program.exit_code == -SIGKILL:
                    raise self._failure(
                        one,
                        "was killed before it was ready",
                        f"see who did that; the system does where memory is short ({_MEMORY})",
                    )
                if time.monotonic() - began_s > one.start.ready_within_s:
                    raise self._failure(
                        one,
                        f"did not print {one.start.ready.pattern!r} on a line of its own within "
                        f"{one.start.ready_within_s:g} s",
                        "let it print that when it works, or allow more time (ready_within_s)",
                    )
            time.sleep(_POLL_S if waiting else 0)

    def begins_at(self, unix_s: float) -> None:
        self._start_unix_s = unix_s

    def drain(self, until_unix_s: float, *, within_s: float) -> bool:
        """Wait until every result that is due has come, by identity: the judge compares values.

        Also until no other one comes (`SILENCE_S`), which is a loss that the comparison finds."""
        work = self._work
        assert work is not None, "nothing was begun"
        if self._due is None:
            self._due = self.truth(work)
        identity = list(work.workload.identity)
        window = self._due[work.workload.window_start]
        ended = window + round(work.workload.window_s * 1000) <= round(until_unix_s * 1000)
        due = set(self._due[ended][identity].itertuples(index=False, name=None))
        newest = set(
            self._due[ended & (window == window[ended].max())][identity].itertuples(
                index=False, name=None
            )
        )
        deadline, seen, healthy_until = time.monotonic() + within_s, 0, 0.0
        while due:
            new = self._collector.since(seen)
            seen += len(new)
            found = deliveries(new, work.workload, 0.0) if new else None
            if found is not None:
                starts = (found.pop("window_start_s") * 1000).round().astype("int64")
                found[work.workload.window_start] = starts
                due -= set(found[identity].itertuples(index=False, name=None))
                continue
            self.raise_problems()
            if not due & newest and self._silent():
                return True
            if time.monotonic() > deadline:
                return False
            if time.monotonic() > healthy_until:
                self._cluster.health()
                healthy_until = time.monotonic() + _HEALTH_S
            time.sleep(_POLL_S)
        return True

    def _silent(self) -> bool:
        """Return True if there are results, and the last one was read `SILENCE_S` ago."""
        if (count := self._collector.count) != self._counted:
            self._counted, self._heard_s = count, time.monotonic()
        return count > 0 and time.monotonic() - self._heard_s > SILENCE_S

    def raise_problems(self) -> None:
        """Raise for a program that ended by itself; a killed one is a failure that was planned."""
        if self._beside is not None:
            self._beside.raise_problems()
        for one in self._running:
            code = one.program.exit_code
            if code not in (None, -SIGKILL):
                raise self._failure(
                    one,
                    f"ended by itself with exit code {code}",
                    "correct what its last lines say; it must run until SIGTERM",
                )

    def end(self) -> None:
        running, self._running = self._running, []
        work, self._work = self._work, None
        beside, self._beside = self._beside, None
        with self._stack:
            if beside is not None:
                self._used = beside.usage()
                beside.stop()
                self._lines = list(beside.lines())
            if not running:
                return
            with ThreadPoolExecutor(len(running)) as pool:
                stops = [
                    pool.submit(one.program.stop, within_s=one.start.stop_within_s)
                    for one in running
                ]
            self._lines += _read_lines(running)
            for stop in stops:
                stop.result()
            if work is not None:
                self._kind.ended(work, self._cluster)
        left = [(one.program.left_behind, one.job.node.name) for one in running]
        if there := [f"{number} on {node}" for number, node in left if number]:
            raise UsageError(
                f"engine {self.name} left processes behind when it was stopped: "
                f"{', '.join(there)}; they were killed",
                remedy="let its program end its own processes on SIGTERM, and then itself",
            )

    def read(self, messages: Sequence[Message], work: Work, start_unix_s: float) -> pd.DataFrame:
        """Return every result, with ``appended_s``: when the broker had it.

        In a transaction no reader could see it yet then."""
        for message in messages:
            _demand_result(self.name, message.value, work.workload)
        found = deliveries(messages, work.workload, start_unix_s)
        found["appended_s"] = [message.append_ms / 1000 - start_unix_s for message in messages]
        return found

    def settings(self) -> Sequence[Setting]:
        return self._settings

    def events(self) -> Sequence[Event]:
        lines = [*_read_lines(self._running)] if self._running else self._lines
        if self._beside is not None:
            lines += self._beside.lines()
        return sorted(self._kind.events_in(lines), key=lambda event: event.at_unix_s)

    def usage(self) -> Mapping[str, Usage]:
        """Return the usage of what is on no node; every program belongs to one."""
        if self._beside is not None:
            self._used = self._beside.usage()
        return self._used

    def truth(self, work: Work) -> pd.DataFrame:
        if self._due is None:
            self._due = truth_of(self._cluster.kafka.confluent(), work, self._start_unix_s)
        return self._due

    def _failure(self, one: _Running, what: str, remedy: str) -> EnvironmentFailure:
        last = "\n".join(f"    {line}" for line in list(_lines(one.program.log))[-_LAST_LINES:])
        return EnvironmentFailure(
            f"engine {self.name}: its program on {one.job.node.name} {what}. The last lines of "
            f"{one.program.log}:\n{last or '    (it printed nothing)'}",
            remedy=remedy,
        )


class ProgramKind(EngineKind):
    """An engine that consists of programs. Subclasses give their start, and what else they have."""

    @abstractmethod
    def start(self, job: Job, cluster: Cluster) -> Start:
        """Return the start of the program on one node."""

    def beside(self, work: Work, setup: Setup, cluster: Cluster) -> Beside | None:
        """Start what the engine has on no node, before its programs; by default nothing."""
        return None

    def read_back(
        self, jobs: Sequence[Job], lines: Sequence[Line], cluster: Cluster
    ) -> Sequence[Setting]:
        """Return what the programs of a pass report of their settings; by default nothing."""
        return ()

    def events_in(self, lines: Sequence[Line]) -> Sequence[Event]:
        """Return the events in lines of JSON: ``event`` (a kind), ``at_ms``, ``target``, ``cause``.

        Other lines are left out."""
        found = []
        for line in lines:
            said = line.document
            with suppress(KeyError, ValueError, TypeError):
                kind = EventKind(said["event"])
                if kind in _REPORTED:
                    found.append(
                        Event(
                            kind=kind,
                            at_unix_s=float(said["at_ms"]) / 1000,
                            target=said.get("target"),
                            cause=said.get("cause"),
                            detail={"error": said["error"]} if kind is EventKind.FAILED else {},
                        )
                    )
        return found

    def ended(self, work: Work, cluster: Cluster) -> None:
        """Remove what the programs of a pass made outside of their nodes; by default nothing."""

    def lacks(self, setup: Setup, workload: Workload, spec: ClusterSpec) -> str | None:
        reason = super().lacks(setup, workload, spec)
        if reason is None and not {TASKS, TRUTH} & set(workload.forms):
            return (
                f"workload {workload.name!r} has neither the form {TASKS!r} nor {TRUTH!r}, from "
                "which the due results are computed"
            )
        return reason

    def open(self, setup: Setup, cluster: Cluster) -> AbstractContextManager[Engine]:
        self.needs(setup)
        return _opened(ProgramEngine(self, setup, cluster))


@contextmanager
def _opened(engine: ProgramEngine) -> Iterator[Engine]:
    try:
        yield engine
    finally:
        engine.end()


def _lines(log: Path) -> Iterator[str]:
    with suppress(FileNotFoundError), log.open(errors="replace") as file:
        for line in file:
            if line.endswith("\n"):
                yield line.rstrip()


def _read_lines(running: Sequence[_Running]) -> Iterator[Line]:
    for one in running:
        for log in one.logs():
            yield from json_lines(one.job.node.name, log)


def json_lines(node: str, log: Path) -> Iterator[Line]:
    """Yield the lines of JSON of a log; a torn one and other text are left out."""
    for text in _lines(log):
        if text.startswith("{"):
            with suppress(ValueError):
                yield Line(node=node, document=json.loads(text))


def _demand_result(name: str, value: bytes, workload: Workload) -> None:
    """Raise `UsageError` for a message that is not a result."""
    try:
        result = json.loads(value)
        missing = [column for column in workload.columns if column not in result]
        start = result.get(workload.window_start)
    except (ValueError, AttributeError, TypeError) as error:
        missing, start, why = [], 0, f"no JSON object ({error})"
    else:
        why = f"without {', '.join(missing)}" if missing else ""
    if not why and type(start) is not int:
        why = f"with {workload.window_start} {start!r}, which is no whole number of milliseconds"
    if why:
        raise UsageError(
            f"engine {name} wrote a result {why}: {value[:_SHOWN_BYTES]!r}",
            remedy=f"write a JSON object with {', '.join(workload.columns)}, the window's start in "
            "milliseconds since the epoch",
        )


TRUTH = "truth"
"""The form of a workload that computes what is due: the `Reference` of a function of ``sources``
(source name to a table of `workloads.toolkit.operators.SOURCE_SCHEMA`) that returns a DataFrame of
the workload's columns, with ``window_start`` in ms since the epoch."""


def truth_of(client: Mapping[str, Any], work: Work, start_unix_s: float) -> pd.DataFrame:
    """Return the due results of the records in the topics, from the start of the load on."""
    workload, start_us = work.workload, round(start_unix_s * 1e6)
    sources = {
        source.name: read_input(client, work.topic_of[source.name], source.partitions, start_us)
        for source in workload.sources
    }
    own = workload.forms.get(TRUTH)
    if isinstance(own, Reference):
        due: pd.DataFrame = own.build(sources=sources)[workload.columns]
        return due
    timeline = timeline_of(workload, start_us=start_us, batch_s=workload.slide_s)
    results = run_locally(program_of(workload, timeline=timeline), sources)
    return plain(results, workload.columns)
