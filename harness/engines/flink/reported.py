"""What Flink's processes report: their settings, and losses, recoveries and checkpoints.

Settings come from REST and from logs, the rest from the JobManager's log. A loss is noticed when a
task of a running job fails; its tasks have places again when the last of them was deployed, and
their state when the last of them runs. Flink may try in vain before that, as long as it takes slots
of a lost TaskManager for free.

Flink's configuration is no report: it repeats names that Flink does not know, and settings that
others switch off. It stands for those alone of which no process says more."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.engines.base import Event, EventKind
from harness.engines.flink.parameters import AT_LEAST_ONCE, EXACTLY_ONCE, FlinkParameters
from harness.engines.flink.settings import DELAY
from harness.engines.programs.start import Line
from harness.engines.settings import JAVA, Setting, read_back, speed_of

_CONFIGURATION, _CHECKPOINTS = "/jobmanager/config", "/jobs/{job}/checkpoints/config"
_JOB, _TASK_MANAGERS = "/jobs/{job}/config", "/taskmanagers"
ASKED = (_CONFIGURATION, _CHECKPOINTS, _JOB, _TASK_MANAGERS)
_REPEATED = (
    "heartbeat.interval", "heartbeat.timeout", "taskmanager.load-balance.mode",
    "execution.checkpointing.local-backup.enabled", "execution.state-recovery.from-local",
)  # fmt: skip
_RESTART = re.compile(
    r"Using restart back off time strategy (\w+)RestartBackoffTimeStrategy\((.*?)\) for"
)
_TYPE, _TYPES = "restart-strategy.type", {"ExponentialDelay": "exponential-delay"}
_ENCRYPTED = "security.ssl.internal.enabled"
_CALLS = re.compile(r"Actor system started at pekko(\.ssl)?\.tcp://flink@")
_SINK, _TRANSACTIONAL = (
    "sink.delivery-guarantee",
    "Created transactional FlinkKafkaInternalProducer",
)


def settings(
    given: FlinkParameters,
    configured: Mapping[str, object],
    said: Mapping[str, Any],
    lines: Sequence[Line],
    *,
    java: Sequence[str],
) -> list[Setting]:
    """Return each setting of a row, as the JobManager and the TaskManagers report it.

    ``said``: answers by the questions in `ASKED`. ``java``: options of the TaskManagers' Java."""
    checkpoints, job = said[_CHECKPOINTS], said[_JOB]["execution-config"]
    asked = {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in configured.items()
    }
    interval = "execution.checkpointing.interval"
    reports = {
        **{each["key"]: each["value"] for each in said[_CONFIGURATION]},
        **dict(_restart(lines)),
        interval: f"{checkpoints['interval']} ms",
        "execution.checkpointing.unaligned.enabled": checkpoints["unaligned_checkpoints"],
        "parallelism.default": job["job-parallelism"],
        _SINK: _guarantee(lines),
    }
    names = (
        _TYPE, f"{DELAY}.initial-backoff", f"{DELAY}.reset-backoff-threshold",
        interval, "execution.checkpointing.unaligned.enabled", "parallelism.default",
        *_REPEATED, *given.settings,
    )  # fmt: skip
    found = [*read_back("JobManager", {name: asked.get(name) for name in names}, reports)]
    found += read_back("sink", {_SINK: given.guarantee}, reports)
    slots = "taskmanager.numberOfTaskSlots"
    for each in said[_TASK_MANAGERS]["taskmanagers"]:
        name = str(each["id"]).partition("-")[0]
        found += read_back(name, {slots: asked[slots]}, {slots: each["slotsNumber"]})
    by_node: dict[str, list[str]] = {}
    for line in lines:
        if line.node != MASTER and "said" in line.document:
            by_node.setdefault(line.node, []).append(str(line.document["said"]))
    for node, texts in by_node.items():
        own = {JAVA: speed_of(map(str.strip, texts)), _ENCRYPTED: _encrypted(texts)}
        found += read_back(node, {JAVA: speed_of(java), _ENCRYPTED: "true"}, own)
    return found


def _restart(lines: Sequence[Line]) -> Iterator[tuple[str, str]]:
    """Yield what the JobManager's newest line says of the time between failure and restart."""
    said = [_RESTART.search(str(line.document.get("said"))) for line in lines]
    if not (found := list(filter(None, said))):
        return
    kind, values = found[-1].groups()
    yield _TYPE, _TYPES.get(kind, kind)
    numbers = dict(each.split("=") for each in values.split(", "))
    yield f"{DELAY}.initial-backoff", f"{numbers.get('initialBackoffMS')} ms"
    yield f"{DELAY}.reset-backoff-threshold", f"{numbers.get('resetBackoffThresholdMS')} ms"


def _guarantee(lines: Sequence[Line]) -> str:
    """Return what its producers are: those of transactions say so."""
    transactional = any(_TRANSACTIONAL in str(line.document.get("said")) for line in lines)
    return EXACTLY_ONCE if transactional else AT_LEAST_ONCE


def _encrypted(texts: Sequence[str]) -> bool | None:
    found = [said for text in texts if (said := _CALLS.search(text)) is not None]
    return found[-1][1] is not None if found else None


MASTER = "the JobManager"
"""The node of its lines."""
_STATE = re.compile(r"Job .* \(\w+\) switched from state (\w+) to (\w+)")
_TASK = re.compile(r"^(.*\(\d+/\d+\)).* switched from \w+ to (\w+)\b")
_FAILED = re.compile(r"\(\d+/\d+\).* switched from RUNNING to FAILED\b")
_RESOURCE = re.compile(r"\b(r\d+n\d+)-\d+\b")
_CHECKPOINT = re.compile(r"Completed checkpoint (\d+) for job .*checkpointDuration=(\d+) ms")
_LOST = re.compile(
    r"remote task manager|Disconnect TaskExecutor|no longer reachable|heartbeat of TaskManager"
    r"|Closing TaskExecutor|is no longer|TaskManager.*(lost|timed out)"
)


@dataclass(slots=True)
class _Outage:
    """One time in which the job did not run."""

    detected_s: float
    cause: str = ""
    lost: set[str] = field(default_factory=set)
    failures: int = 0
    deployed_s: float | None = None
    running_s: float | None = None


def recoveries(lines: Sequence[Line]) -> Iterator[Event]:
    """Yield detection, new places and the return of state of every lost node."""
    for one in _outages(lines):
        detail = {"attempts": one.failures}
        for node in sorted(one.lost):
            for kind, at_s, cause in (
                (EventKind.DETECTED, one.detected_s, one.cause),
                (EventKind.RESTARTED, one.deployed_s, "its tasks were deployed again"),
                (EventKind.RECOVERED, one.running_s, "the last checkpoint was restored"),
            ):
                if at_s is not None:
                    yield Event(kind=kind, at_unix_s=at_s, target=node, cause=cause, detail=detail)


def checkpoints(lines: Sequence[Line]) -> Iterator[Event]:
    """Yield each completed checkpoint with its duration, from the first barrier on."""
    for at_s, text, _ in _said(lines):
        if done := _CHECKPOINT.search(text):
            number, took_ms = map(int, done.groups())
            detail = {"batch": number, "dropped_rows": 0, "checkpoint_s": took_ms / 1000}
            yield Event(kind=EventKind.PROGRESS, at_unix_s=at_s, detail=detail)


def _outages(lines: Sequence[Line]) -> list[_Outage]:
    found: list[_Outage] = []
    waiting: set[str] = set()
    now: _Outage | None = None
    for at_s, text, why in sorted(_said(lines)):
        job = _STATE.search(text)
        before, after = job.groups() if job else ("", "")
        # A task fails a moment before the job itself changes its state.
        failed = before == "RUNNING" or (job is None and _FAILED.search(text))
        if failed and (now is None or now.running_s is not None):
            now = _Outage(detected_s=at_s, cause=next(iter(why.splitlines()), "") or text)
            found.append(now)
        if now is None:
            continue
        if before == "RUNNING":
            now.failures += 1
        if job is not None and after != "RUNNING":
            now.deployed_s = now.running_s = None
        if _LOST.search(text) or _LOST.search(why):
            now.lost |= set(_RESOURCE.findall(text if _LOST.search(text) else why))
        if task := _TASK.search(text):
            _follow(now, waiting, at_s, *task.groups())
    return found


def _follow(now: _Outage, waiting: set[str], at_s: float, task: str, after: str) -> None:
    """Take a task's transition into account."""
    if after in ("DEPLOYING", "SCHEDULED"):
        waiting.add(task)
    elif after == "INITIALIZING":
        now.deployed_s = at_s
    elif after == "RUNNING":
        waiting.discard(task)
        if not waiting:
            now.running_s = at_s


def _said(lines: Sequence[Line]) -> Iterator[tuple[float, str, str]]:
    """Yield time, message and reason of each line of the JobManager."""
    for line in lines:
        said = line.document
        if line.node == MASTER and "said" in said:
            yield float(said["at_ms"]) / 1000, str(said["said"]), str(said.get("why", ""))
