"""Kafka Streams behind the contract: one instance a node, its settings, and its events."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from harness.cluster.base import Cluster
from harness.cluster.configuration import OWN_SETTINGS
from harness.cluster.endpoints import KafkaEndpoint
from harness.engines.base import ClusterNeeds, Event, EventKind, Setup, Work
from harness.engines.kafka_streams.parameters import TUNED, KafkaStreamsParameters
from harness.engines.programs.engine import ProgramKind
from harness.engines.programs.start import Job, Line, Start
from harness.engines.settings import JAVA, Setting, java_options, read_back, speed_of
from harness.environment.jars import ensure_sets
from harness.environment.java import find_java

NAME = FORM = "kafka-streams"
HERE = Path(__file__).parent
LOCK, CLASSES, SOURCES = HERE / "jars.lock.json", HERE / "classes", HERE / "java"
PROPERTIES = "streams.properties"
STANDBY = "standby"
HELD = "held_s"
"""A detail of a loss: the time for which transactions of the dead held others up, after the state
was there."""
READY_WITHIN_S = 120.0
_RUNNING = re.compile(r'\{"event":"state".*"to":"RUNNING".*\}')
_STORES = "org.apache.kafka.streams.state.BuiltInDslStoreSuppliers$"
_INTERNAL_WITHIN_S = 20.0
_REPORTED = (
    "group.protocol", "processing.guarantee", "max.task.idle.ms", "session.timeout.ms",
    "heartbeat.interval.ms", "transaction.timeout.ms", "commit.interval.ms",
    "num.standby.replicas", "rack.aware.assignment.tags", "dsl.store.suppliers.class",
)  # fmt: skip
"""Settings that a row rests on; `settings` has their values."""


def parameters_of(setup: Setup) -> KafkaStreamsParameters:
    """Return the setup's parameters, by default those of its scheme."""
    given = setup.parameters or (TUNED if setup.scheme == STANDBY else KafkaStreamsParameters())
    assert isinstance(given, KafkaStreamsParameters), given
    return given


class KafkaStreamsKind(ProgramKind):
    """Kafka Streams as a choice."""

    name = NAME
    summary = "the workload on Kafka Streams, one instance a node; fetched on demand (90 MB)"
    form = FORM
    parameters = KafkaStreamsParameters
    schemes: ClassVar[Mapping[str, ClusterNeeds]] = {
        "changelog": ClusterNeeds(summary="its defaults: state comes from its changelog", nodes=2),
        STANDBY: ClusterNeeds(
            summary="a standby on another rack takes over; exactly once, a session of 6 s",
            racks=2,
            nodes=2,
        ),
    }

    def start(self, job: Job, cluster: Cluster) -> Start:
        """Fetch the jars with the first start; raises `EnvironmentFailure` if they cannot come."""
        jars = ensure_sets(lock=LOCK)["kafka-streams"]
        classpath = os.pathsep.join([str(CLASSES), *map(str, jars)])
        form = job.work.workload.form(FORM)
        return Start(
            command=[
                str(find_java().executable), *_java(job, cluster), "-cp", classpath,
                str(form["class"]), PROPERTIES,
            ],
            files={PROPERTIES: properties_text(settings(job, parameters_of(job.setup)))},
            ready=_RUNNING,
            ready_within_s=READY_WITHIN_S,
        )  # fmt: skip

    def read_back(
        self, jobs: Sequence[Job], lines: Sequence[Line], cluster: Cluster
    ) -> Sequence[Setting]:
        found = [*_of_broker(cluster.kafka)]
        for job in jobs:
            own = [line.document for line in lines if line.node == job.node.name]
            said = {name: value for each in own for name, value in each.get("values", {}).items()}
            java = [each["options"] for each in own if each.get("event") == "java"]
            asked = settings(job, parameters_of(job.setup))
            names = asked["faultline.report"].split(",")
            found += read_back(
                job.node.name,
                {**{name: asked.get(name) for name in names}, JAVA: speed_of(_java(job, cluster))},
                {**said, JAVA: speed_of(" ".join(java).split())},
            )
        return found

    def events_in(self, lines: Sequence[Line]) -> Sequence[Event]:
        return [*_recoveries(lines), *_dropped(lines)]

    def ended(self, work: Work, cluster: Cluster) -> None:
        """Delete the changelogs and repartition topics of the pass."""
        admin = cluster.kafka.admin()
        there = admin.list_topics(timeout=_INTERNAL_WITHIN_S).topics
        if internal := [name for name in there if name.startswith(f"{_group(work)}-")]:
            for future in admin.delete_topics(internal).values():
                future.exception(timeout=_INTERNAL_WITHIN_S)


def settings(job: Job, given: KafkaStreamsParameters) -> dict[str, str]:
    """Return the properties of one instance; they hold the broker's password.

    Names that begin with ``faultline.`` are for the class, the others for Kafka Streams."""
    workload, kafka = job.work.workload, job.kafka
    (source,) = workload.sources
    form = workload.form(FORM)
    chosen: dict[str, str | None] = {
        "bootstrap.servers": str(kafka.confluent(on_executor=True)["bootstrap.servers"]),
        **kafka.java_properties(),
        "application.id": _group(job.work),
        "client.id": job.node.name,
        "state.dir": "state",
        "auto.offset.reset": "earliest",
        "replication.factor": str(kafka.replication),
        "num.stream.threads": "1",
        "client.tag.rack": job.node.rack,
        "group.protocol": given.protocol,
        "processing.guarantee": given.guarantee,
        "max.task.idle.ms": _ms(given.idle_s),
        "session.timeout.ms": _ms(given.session_timeout_s),
        "heartbeat.interval.ms": _ms(_third(given.session_timeout_s)),
        "transaction.timeout.ms": _ms(given.transaction_timeout_s),
        "commit.interval.ms": _ms(given.commit_interval_s),
        "num.standby.replicas": str(given.standbys),
        "rack.aware.assignment.tags": "rack" if given.rack_aware else None,
        "dsl.store.suppliers.class": _STORES
        + ("InMemoryDslStoreSuppliers" if given.in_memory else "RocksDBDslStoreSuppliers"),
        **given.settings,
        "faultline.report": ",".join([*_REPORTED, *given.settings]),
        "faultline.waits": str(given.idle_s > 0).lower(),
        "faultline.node": job.node.name,
        "faultline.in": job.work.topic_of[source.name],
        "faultline.in.partitions": str(source.partitions),
        "faultline.out": job.work.out_topic,
        **{f"faultline.{name}": str(value) for name, value in form.items() if name != "class"},
        "faultline.window.ms": _ms(workload.window_s),
        "faultline.slide.ms": _ms(workload.slide_s),
        "faultline.grace.ms": _ms(workload.watermark_delay_s),
    }
    return {name: value for name, value in chosen.items() if value is not None}


def _java(job: Job, cluster: Cluster) -> list[str]:
    """Return options of the virtual machine; the library that it unpacks goes where it works."""
    heap = java_options(cluster.spec.memory_mb_per_node, brief=job.setup.brief)
    return [*heap, "-Djava.io.tmpdir=."]


def _of_broker(kafka: KafkaEndpoint) -> Iterator[Setting]:
    """Yield what the brokers report of `OWN_SETTINGS`; only a run's own was asked for them."""
    from confluent_kafka.admin import ConfigResource, ResourceType

    admin = kafka.admin()
    brokers = admin.list_topics(timeout=_INTERNAL_WITHIN_S).brokers
    asked = dict.fromkeys(OWN_SETTINGS) if kafka.topic_prefix else OWN_SETTINGS
    for number in sorted(brokers):
        resource = ConfigResource(ResourceType.BROKER, str(number))
        said = admin.describe_configs([resource])[resource].result(timeout=_INTERNAL_WITHIN_S)
        reported = {name: said[name].value for name in asked if name in said}
        yield from read_back(f"broker {number}", asked, reported)


def properties_text(given: Mapping[str, str]) -> str:
    """Return a file of Java's properties."""
    escaped = str.maketrans({"\\": "\\\\", "\n": "\\n"})
    return "".join(f"{name}={value.translate(escaped)}\n" for name, value in given.items())


def _group(work: Work) -> str:
    """Return the application's id, the prefix of its own topics."""
    return f"{work.name}-streams"


def _ms(seconds: float | None) -> str | None:
    return None if seconds is None else str(round(seconds * 1000))


def _third(seconds: float | None) -> float | None:
    """Return the heartbeat's interval: at most a third of the session, by Kafka's advice."""
    return None if seconds is None else min(3.0, seconds / 3)


def _events(lines: Sequence[Line], event: str) -> Iterator[tuple[float, Line]]:
    """Yield the lines of one kind of event, each with its time."""
    for line in lines:
        if line.document.get("event") == event:
            yield line.document["at_ms"] / 1000, line


def _recoveries(lines: Sequence[Line]) -> Iterator[Event]:
    """Yield what the instances noticed: the loss of one, new places of its tasks, work again.

    A loss is seen by the assignment that lacks the instance. It is detected with the rebalancing
    that precedes it, and over when every instance that rebalances at that time runs again; one
    that is started later takes nothing that was lost."""
    states = sorted(
        (at_s, line.node, line.document["to"]) for at_s, line in _events(lines, "state")
    )
    for lost_s, node in _losses(lines):
        began = [at for at, _, to in states if to == "REBALANCING" and lost_s - 1 <= at <= lost_s]
        before = {where: to for at, where, to in states if at <= lost_s}
        runs: dict[str, float] = {}
        for at, where, to in states:
            if to == "RUNNING" and at > lost_s and before.get(where) == "REBALANCING":
                runs.setdefault(where, at)
        last_s = max(runs.values(), default=lost_s)
        restored = [
            line.document
            for at_s, line in _events(lines, "restore-ended")
            if lost_s - 1 <= at_s <= last_s
        ]
        detail = {
            "restored_records": sum(int(each["records"]) for each in restored),
            HELD: _held_s(lines, node, last_s),
        }
        for kind, at_s, cause in (
            (EventKind.DETECTED, min(began, default=lost_s), "the group rebalanced without it"),
            (EventKind.RESTARTED, lost_s, "its tasks were assigned to others"),
            (EventKind.RECOVERED, last_s, "state was restored, or a standby had it"),
        ):
            yield Event(kind=kind, at_unix_s=at_s, target=node, cause=cause, detail=detail)


def _held_s(lines: Sequence[Line], lost: str, from_s: float) -> float:
    """Return the time from then until no old transaction was open, as living instances saw it."""
    seen: dict[str, list[tuple[float, str]]] = {}
    for at_s, line in _events(lines, "transactions"):
        if line.node != lost:
            seen.setdefault(line.node, []).append((at_s, str(line.document["open"])))
    ends = []
    for reports in map(sorted, seen.values()):
        before = [some for at, some in reports if at <= from_s]
        free = [at for at, some in reports if at > from_s and not some]
        if before and before[-1] and free:
            ends.append(free[0] - from_s)
    return max(ends, default=0.0)


def _dropped(lines: Sequence[Line]) -> Iterator[Event]:
    """Yield the records that came when their window was closed: they are in no result."""
    for number, line in enumerate(lines):
        if line.document.get("event") == "dropped":
            detail = {"batch": number, "dropped_rows": int(line.document["records"])}
            at_s = line.document["at_ms"] / 1000
            yield Event(kind=EventKind.PROGRESS, at_unix_s=at_s, target=line.node, detail=detail)


def _losses(lines: Sequence[Line]) -> Sequence[tuple[float, str]]:
    """Return the time and the node of each instance that vanished from the assignment, once."""
    first: dict[str, float] = {}
    known: dict[str, set[str]] = {}
    for at_s, line in sorted(_events(lines, "members"), key=lambda each: each[0]):
        now = set(line.document["hosts"].split())
        for gone in known.get(line.node, set()) - now:
            first.setdefault(gone, at_s)
        if now:
            known[line.node] = now
    return sorted((at_s, gone.partition(":")[0]) for gone, at_s in first.items())
