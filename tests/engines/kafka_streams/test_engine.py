"""Kafka Streams without servers: its class is its source's, its settings, and its events."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.cluster.base import ClusterSpec, Node
from harness.cluster.configuration import OWN_SETTINGS
from harness.cluster.endpoints import KafkaEndpoint
from harness.engines.base import EventKind, Setup
from harness.engines.kafka_streams import engine
from harness.engines.kafka_streams.engine import (
    CLASSES,
    LOCK,
    SOURCES,
    KafkaStreamsKind,
    properties_text,
    settings,
)
from harness.engines.kafka_streams.parameters import TUNED, KafkaStreamsParameters
from harness.engines.programs.start import Job, Line
from harness.engines.settings import Setting, demand_reported
from harness.environment.jars import LOCK as OWN_LOCK
from harness.environment.jars import ensure_sets, locked_jars
from harness.errors import EnvironmentFailure
from tests.engines.compiled import require_compiled
from tests.engines.contract import EngineKindContract
from workloads.wordcount import word_count

WORDS = word_count(text=[__file__], depth=4)


class TestKafkaStreamsKind(EngineKindContract):
    kind, workload = KafkaStreamsKind(), WORDS


def the_jars() -> list[Path]:
    """Return the jars if they are in the cache: a test fetches none."""
    try:
        return ensure_sets(fetch=False, lock=LOCK)["kafka-streams"]
    except EnvironmentFailure as missing:
        pytest.skip(missing.what.splitlines()[0])


def test_the_shipped_class_is_that_of_its_source(tmp_path: Path) -> None:
    require_compiled(SOURCES, CLASSES, the_jars(), tmp_path)


def test_it_has_the_version_of_the_broker() -> None:
    (streams,) = [
        jar for jar in locked_jars(LOCK)["kafka-streams"] if jar.artifact == "kafka-streams"
    ]
    clients = [jar for jar in locked_jars(OWN_LOCK)["broker"] if jar.artifact == "kafka-clients"]
    assert streams.version == clients[0].version


def job() -> Job:
    node = Node(name="r1n1", rack="r1", worker="r1w1", host="127.0.0.2")
    work = SimpleNamespace(
        name="pass-1", workload=WORDS, topic_of={"lines": "in", "requests": "in"},
        out_topic="out", out_partitions=2,
    )  # fmt: skip
    kafka = KafkaEndpoint(
        bootstrap="here:1", username="me", password='a"\\b', mechanism="SCRAM-SHA-256"
    )
    setup = Setup(scheme="changelog")
    return Job(work=cast(Any, work), setup=setup, node=node, nodes=[node], kafka=kafka)


def test_tuned_settings_are_those_of_its_documentation() -> None:
    given = settings(job(), TUNED)
    assert given["processing.guarantee"] == "exactly_once_v2"
    assert (given["session.timeout.ms"], given["heartbeat.interval.ms"]) == ("6000", "2000")
    assert given["rack.aware.assignment.tags"] == "rack"
    assert given["client.tag.rack"] == "r1"
    assert given["faultline.waits"] == "true", "a repartition topic for each input partition"
    assert settings(job(), KafkaStreamsParameters())["faultline.waits"] == "false"


def test_what_the_dead_left_open_ends_before_they_are_missed() -> None:
    """A member is missed at the earliest a session after its last heartbeat before the kill."""
    given = settings(job(), TUNED)
    missed_ms = int(given["session.timeout.ms"]) - int(given["heartbeat.interval.ms"])
    scan_ms = int(OWN_SETTINGS["transaction.abort.timed.out.transaction.cleanup.interval.ms"])
    assert int(given["transaction.timeout.ms"]) <= missed_ms
    assert scan_ms <= missed_ms // 8, "what the broker looks for is not long over"


def said(node: str, at_s: float, event: str, **document: Any) -> Line:
    return Line(node=node, document={"at_ms": at_s * 1000, "event": event, **document})


def state(node: str, at_s: float, to: str) -> Line:
    return said(node, at_s, "state", to=to)


def members(node: str, at_s: float, hosts: str) -> Line:
    return said(node, at_s, "members", hosts=hosts)


def reported(given: KafkaStreamsParameters, **changes: str) -> list[Setting]:
    """Return the settings of one instance, as it would report them."""
    asked = settings(job(), given)
    values = {name: asked[name] for name in asked["faultline.report"].split(",") if name in asked}
    parts = [{"session.timeout.ms": "45000"}, values | changes]
    lines = [said("r1n1", 0.001, "settings", values=each) for each in parts]
    java = said("r1n1", 0.001, "java", options="-Xmx640m -Dx=y")
    cluster = SimpleNamespace(kafka=None, spec=ClusterSpec(memory_mb_per_worker=640))
    one = replace(job(), setup=Setup(scheme="standby", parameters=given))
    return list(KafkaStreamsKind().read_back([one], [java, *lines], cast(Any, cluster)))


def test_the_library_that_it_unpacks_goes_where_it_works() -> None:
    """Killed by SIGKILL, it cannot remove the file from the machine's /tmp."""
    the_jars()
    cluster = SimpleNamespace(spec=ClusterSpec(memory_mb_per_worker=640))
    command = KafkaStreamsKind().start(job(), cast(Any, cluster)).command
    assert "-Djava.io.tmpdir=." in command[: command.index("-cp")]


def test_an_instances_clients_report_their_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "_of_broker", lambda kafka: [])
    found = reported(TUNED)
    demand_reported("kafka-streams", found)
    rows = {one.name: (one.asked, one.reported) for one in found}
    assert rows["transaction.timeout.ms"] == ("4000", "4000")
    assert rows["options of Java"] == ("-Xmx640m", "-Xmx640m")
    default = {one.name: one for one in reported(KafkaStreamsParameters())}
    assert (default["session.timeout.ms"].asked, default["session.timeout.ms"].reported) == (
        None, "45000",
    )  # fmt: skip
    with pytest.raises(EnvironmentFailure, match=r"max.task.idle.ms of r1n1 is 0, and 120000"):
        demand_reported("kafka-streams", reported(TUNED, **{"max.task.idle.ms": "0"}))


def test_a_password_survives_the_properties_file() -> None:
    text = properties_text(settings(job(), KafkaStreamsParameters()))
    (line,) = [line for line in text.splitlines() if line.startswith("sasl.jaas.config=")]
    assert 'a\\\\"\\\\\\\\b' in line, "a backslash of the login line is doubled for the file"


BOTH, ONE = "r1n1:11 r2n1:22", "r2n1:22"
LOSS = [members("r2n1", 1, BOTH), state("r2n1", 7.9, "REBALANCING"), members("r2n1", 8, ONE)]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        pytest.param(
            [
                members("r1n1", 1, BOTH),
                *LOSS,
                said("r2n1", 8.5, "restore-ended", records=40),
                state("r2n1", 9, "RUNNING"),
                members("r2n1", 12, "r1n1:33 r2n1:22"),
            ],
            (7.9, 8, 9, 40),
            id="detected by the rebalancing, over when all run",
        ),
        pytest.param(
            [
                *LOSS,
                state("r2n1", 8.3, "RUNNING"),
                state("r1n1", 12, "REBALANCING"),
                state("r1n1", 14, "RUNNING"),
            ],
            (7.9, 8, 8.3, 0),
            id="an instance that comes later is not waited for",
        ),
        pytest.param(
            [
                members("r2n1", 1, BOTH),
                state("r2n1", 7.9, "REBALANCING"),
                state("r2n1", 7.95, "RUNNING"),
                members("r2n1", 8, ONE),
                state("r2n1", 30, "REBALANCING"),
                state("r2n1", 31, "RUNNING"),
            ],
            (7.9, 8, 8, 0),
            id="a standby that works before the loss is known takes no time",
        ),
    ],
)
def test_a_loss_is_read_from_what_the_instances_say(
    lines: list[Line], expected: tuple[float, float, float, int]
) -> None:
    events = KafkaStreamsKind().events_in(lines)
    *at_s, records = expected
    kinds = (EventKind.DETECTED, EventKind.RESTARTED, EventKind.RECOVERED)
    assert [(event.kind, event.at_unix_s, event.target) for event in events] == [
        (kind, at, "r1n1") for kind, at in zip(kinds, at_s, strict=True)
    ]
    assert events[0].detail["restored_records"] == records


def test_a_transaction_of_the_dead_holds_up_what_is_restored_until_the_broker_ends_it() -> None:
    def held(node: str = "r2n1", until_s: float | None = None) -> float:
        """Return the time if a node sees a transaction from 3 s until then."""
        loss = [*LOSS, state("r2n1", 9, "RUNNING")]
        if until_s is not None:
            loss.append(said(node, 3, "transactions", open="x"))
            loss.append(said(node, until_s, "transactions", open=""))
        return float(KafkaStreamsKind().events_in(loss)[0].detail["held_s"])

    assert held(until_s=13) == pytest.approx(4.0)
    assert held() == 0.0
    assert held(until_s=8.5) == 0.0
    assert held("r1n1", until_s=13) == 0.0, "the dead one's own words"
