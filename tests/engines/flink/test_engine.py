"""Flink without Flink: its statements and settings, what its log says, and what can go wrong."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from http.client import HTTPMessage
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from urllib.error import HTTPError
from urllib.request import OpenerDirector

import pytest
import yaml

from harness.cluster.base import ClusterSpec
from harness.engines.base import EventKind, Setup
from harness.engines.flink import master, reported
from harness.engines.flink.engine import (
    CLASSES,
    LOCK,
    SOURCES,
    WHEEL,
    FlinkKind,
    new_keys,
    the_java,
)
from harness.engines.flink.parameters import TUNED, FlinkParameters
from harness.engines.flink.reported import MASTER
from harness.engines.flink.settings import Keys, Master, conf_text, configuration
from harness.engines.flink.sql import statements
from harness.engines.programs.start import Line
from harness.engines.settings import Setting, demand_reported, java_options
from harness.environment.jars import locked_jars
from harness.environment.java import Java
from harness.environment.wheels import wheel_directory
from harness.errors import EnvironmentFailure
from tests.engines.compiled import require_compiled
from tests.engines.contract import EngineKindContract
from workloads.wordcount import word_count

WORDS = word_count(text=[__file__], depth=4)
MADE = Master(host="10.0.0.1", rpc_port=1, rest_port=3)
KEYS = Keys(path="internal.p12", password="of the run")


class TestFlinkKind(EngineKindContract):
    kind, workload = FlinkKind(), WORDS


def the_jars(pattern: str = "*.jar") -> list[Path]:
    """Return Flink's jars if they are in the cache."""
    wheel = wheel_directory(str(WHEEL))
    if not wheel.is_dir():
        pytest.skip("Flink is not in the cache, and a test fetches nothing")
    return sorted((wheel / "pyflink" / "lib").glob(pattern))


def test_the_shipped_class_is_that_of_its_source(tmp_path: Path) -> None:
    require_compiled(SOURCES, CLASSES, the_jars(), tmp_path)


def made(given: FlinkParameters) -> list[str]:
    work = SimpleNamespace(
        name="pass-1", workload=WORDS, topic_of={"lines": "in"}, out_topic="out", out_partitions=2
    )
    client = {
        "bootstrap.servers": "here:1",
        "sasl.jaas.config": 'org.apache.kafka.common.X required password="it\'s";',
    }
    return statements(WORDS.form("flink"), cast(Any, work), client, given)


def test_the_last_statement_writes_the_workloads_columns_exactly_once() -> None:
    source, view, sink = made(TUNED)
    assert source.startswith("CREATE TABLE `lines`")
    assert "'scan.parallelism' = '2'" in source, "an idle reader would hold the watermark back"
    assert view.startswith("CREATE TEMPORARY VIEW `words`")
    assert "'sink.delivery-guarantee' = 'exactly-once'" in sink
    assert "'sink.transactional-id-prefix' = 'pass-1'" in sink
    assert "AS `window_start`, `word`, `count` FROM" in sink
    assert "transactional" not in made(FlinkParameters())[-1]


def test_a_declared_speed_is_a_condition_on_the_records_of_each_source() -> None:
    paced = made(FlinkParameters(records_per_s=100))
    assert paced[0] == "CREATE TEMPORARY FUNCTION `paced` AS 'faultline.Paced'"
    assert paced[1].startswith("CREATE TABLE `lines-in`")
    assert paced[2] == (
        "CREATE TEMPORARY VIEW `lines` AS SELECT * FROM `lines-in` "
        "WHERE `paced`(`value`, CAST(100 AS DOUBLE))"
    )
    assert not [one for one in made(FlinkParameters()) if "paced" in one]


def test_a_password_survives_sql_and_its_login_module_is_the_connectors_own() -> None:
    assert "password=\"it''s\"" in made(TUNED)[0]
    assert "'org.apache.flink.kafka.shaded.org.apache.kafka.common.X required" in made(TUNED)[0]


def of(given: FlinkParameters) -> dict[str, Any]:
    found = configuration(
        given, MADE, nodes=4, checkpoints="file:///c", heap_mb=640, keys=KEYS, host="10.0.0.2"
    )
    document: dict[str, Any] = yaml.safe_load(conf_text(found))
    return document


def test_flink_knows_every_setting() -> None:
    """It ignores a name that it does not know."""
    known = b""
    for jar in the_jars("flink-*.jar"):
        with zipfile.ZipFile(jar) as file:
            options = [name for name in file.namelist() if name.endswith("Options.class")]
            known += b"".join(map(file.read, options))
    given = of(replace(TUNED, changelog=True, restart_delay_again_s=3.0))
    own = {name for name in given if not name.startswith("sql-gateway.")}
    assert {name for name in own if name.encode() not in known} == set()


def reports(**changes: Any) -> list[Setting]:
    """Return the settings of tuned Flink, as its processes would report them."""
    strategy = (
        "Using restart back off time strategy ExponentialDelayRestartBackoffTimeStrategy("
        "initialBackoffMS={}, maxBackoffMS=60000, resetBackoffThresholdMS=3000, "
        "jitterFactor=0.1) for insert-into (ab12)."
    ).format(changes.get("backoff", 100))
    given = replace(TUNED, restart_delay_again_s=3.0)
    configured = configuration(
        given, MADE, nodes=4, checkpoints="file:///c", heap_mb=640, keys=None
    )
    answers = {
        "/jobmanager/config": [
            {"key": name, "value": str(value).lower() if value is True else str(value)}
            for name, value in configured.items()
        ],
        "/jobs/{job}/checkpoints/config": {
            "interval": changes.get("interval", 1000), "unaligned_checkpoints": False,
        },
        "/jobs/{job}/config": {"execution-config": {"job-parallelism": 4}},
        "/taskmanagers": {"taskmanagers": [{"id": "r1n1-7", "slotsNumber": 2}]},
    }  # fmt: skip
    lines = [
        said(1, strategy),
        said(1, "    -Xmx640m", node="r1n1"),
        said(1, "Actor system started at pekko.ssl.tcp://flink@10.0.0.2:7", node="r1n1"),
        said(1, f"Created {changes.get('producer', 'transactional')} FlinkKafkaInternalProducer",
             node="r1n1"),
    ]  # fmt: skip
    return reported.settings(
        given, configured, answers, lines, java=java_options(640, brief=changes.get("brief", False))
    )


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"backoff": 1000}, "initial-backoff of JobManager is 1000 ms, and 100 ms was asked for"),
        ({"interval": 500}, "checkpointing.interval of JobManager is 500 ms, and 1000 ms"),
        ({"producer": "plain"}, "delivery-guarantee of sink is at-least-once, and exactly-once"),
        ({"brief": True}, "options of Java of r1n1 is -Xmx640m, and -XX:TieredStopAtLevel=1"),
    ],
)
def test_what_runs_otherwise_is_an_error(change: Mapping[str, Any], says: str) -> None:
    demand_reported("flink", reports())
    with pytest.raises(EnvironmentFailure) as caught:
        demand_reported("flink", reports(**change))
    assert says in caught.value.what


def test_too_few_slots_are_a_reason_before_anything_starts() -> None:
    setup = Setup(scheme="checkpoint", parameters=FlinkParameters(parallelism=5))
    spec = ClusterSpec(racks=2, workers_per_rack=2)
    reason = FlinkKind().lacks(setup, WORDS, spec)
    assert reason == "Flink needs 5 slots, and 4 nodes have 4"


@pytest.mark.parametrize("version", [11, 25])
def test_an_unsupported_java_is_named_with_the_way_out(version: int) -> None:
    java = Java(home=Path("/j"), executable=Path("/j/bin/java"), version=version, source="PATH")
    with pytest.raises(EnvironmentFailure) as caught:
        the_java(java)
    assert caught.value.what == f"Flink supports Java 17 and 21, and PATH has Java {version} (/j)"
    assert "FAULTLINE_JAVA_HOME" in caught.value.remedy


def test_every_file_is_pinned_and_the_gateway_has_the_wheels_version() -> None:
    (pinned,) = [line for line in WHEEL.read_text().splitlines() if "==" in line]
    version = pinned.split("==")[1].split()[0]
    assert "--hash=sha256:" in WHEEL.read_text()
    jars = {jar.artifact: jar.version for jar in locked_jars(LOCK)["flink"]}
    assert jars["flink-sql-gateway"] == version


def said(at_s: float, text: str, why: str = "", node: str = MASTER) -> Line:
    return Line(node=node, document={"at_ms": at_s * 1000, "said": text, "why": why})


def job(at_s: float, before: str, after: str, why: str = "") -> Line:
    return said(at_s, f"Job insert-into (ab12) switched from state {before} to {after}.", why)


def task(at_s: float, after: str, number: int = 1) -> Line:
    return said(at_s, f"Sink (1/4)#{number} (cd_0_{number}) switched from X to {after}.")


GONE = "Connection unexpectedly closed by remote task manager '127.0.0.2:4 [ r1n1-77 ] '."
LOST, PLACED, BACK = EventKind.DETECTED, EventKind.RESTARTED, EventKind.RECOVERED
OTHER = "Connection unexpectedly closed by remote task manager 'h:4 [ r2n1-88 ] '."
TASK_FAILED = "Sink (1/4) (cd_0_2) switched from RUNNING to FAILED on r1n2-9 @ h (dataPort=1)."
VANISHED = "TaskManager with id r1n1-77 is no longer reachable."


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        pytest.param(
            [
                job(1, "CREATED", "RUNNING"),
                task(1, "RUNNING"),
                job(10, "RUNNING", "RESTARTING", GONE),
                job(11, "RESTARTING", "RUNNING"),
                task(11.1, "DEPLOYING"),
                task(11.5, "INITIALIZING"),
                task(12, "RUNNING"),
            ],
            [(LOST, 10, "r1n1", 1), (PLACED, 11.5, "r1n1", 1), (BACK, 12, "r1n1", 1)],
            id="detection, places and state",
        ),
        pytest.param(
            [
                job(10, "RUNNING", "RESTARTING", GONE),
                job(11, "RESTARTING", "RUNNING"),
                task(11.1, "DEPLOYING"),
                job(21, "RUNNING", "RESTARTING", VANISHED),
                job(22, "RESTARTING", "RUNNING"),
                task(22.1, "DEPLOYING", number=2),
                task(22.5, "INITIALIZING", number=2),
                task(23, "RUNNING", number=2),
            ],
            [(LOST, 10, "r1n1", 2), (PLACED, 22.5, "r1n1", 2), (BACK, 23, "r1n1", 2)],
            id="a restart in vain belongs to the same loss",
        ),
        pytest.param(
            [
                job(10, "RUNNING", "RESTARTING", GONE),
                task(12, "RUNNING"),
                said(20, TASK_FAILED, OTHER),
                job(20.1, "RUNNING", "RESTARTING"),
                task(22, "RUNNING", number=2),
            ],
            [
                (LOST, 10, "r1n1", 1), (BACK, 12, "r1n1", 1),
                (LOST, 20, "r2n1", 1), (BACK, 22, "r2n1", 1),
            ],
            id="a task that fails before its job says so begins the next loss",
        ),
        pytest.param(
            [job(1, "CREATED", "RUNNING"), said(2, "Closing TaskExecutor r1n1-77", node="r2n1")],
            [],
            id="the words of nodes are no loss",
        ),
    ],
)  # fmt: skip
def test_losses_are_read_from_the_jobmanagers_log(
    lines: list[Line], expected: list[tuple[EventKind, float, str, int]]
) -> None:
    events = FlinkKind().events_in(lines)
    assert [
        (event.kind, event.at_unix_s, event.target, event.detail["attempts"]) for event in events
    ] == expected
    assert not events or events[0].cause == GONE


def test_the_duration_of_a_checkpoint_is_reported() -> None:
    text = "Completed checkpoint 7 for job ab12 (81 bytes, checkpointDuration=35 ms, x=5 ms)."
    (event,) = FlinkKind().events_in([said(3, text), said(3, text, node="r2n1")])
    assert (event.kind, event.at_unix_s) == (EventKind.PROGRESS, 3)
    assert event.detail == {"batch": 7, "dropped_rows": 0, "checkpoint_s": 0.035}


def test_a_refused_statement_shows_flinks_innermost_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = "a.B: no\n\tat x\nCaused by: c.D: table 'lines' is unknown\n\tat y"
    body = BytesIO(json.dumps({"errors": ["Internal", trace]}).encode())

    def refuse(*_: object, **__: object) -> None:
        raise HTTPError("http://gateway/x", 500, "Internal Server Error", HTTPMessage(), body)

    monkeypatch.setattr(OpenerDirector, "open", refuse)
    with pytest.raises(master.Refused, match="table 'lines' is unknown") as caught:
        master._ask("http://gateway", "/x")
    assert "\tat" not in str(caught.value)


def test_a_statement_has_a_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """A gateway that is lost in its work answers for ever that it is busy."""
    busy = {"operationHandle": "o", "status": "RUNNING"}
    monkeypatch.setattr(master, "_ask", lambda *_: busy)
    with pytest.raises(master.Refused, match=r"'CREATE TABLE `x`' within 0.2 s \(RUNNING\)") as why:
        master._execute("base", "s", "CREATE TABLE `x` (`y` STRING) WITH ('password')", 0.2)
    assert "password" not in str(why.value)


def test_flinks_own_connections_have_a_key_of_the_pass(tmp_path: Path) -> None:
    java = the_java()
    made = new_keys(java, tmp_path / "internal.p12")
    other = new_keys(java, tmp_path / "other.p12")
    assert Path(made.path).stat().st_mode & 0o077 == 0
    assert made.password != other.password
    assert made.password not in repr(made)
    given = of(TUNED)
    assert given["security.ssl.internal.enabled"] is True
    assert given["security.ssl.internal.keystore"] == KEYS.path
    assert given["security.ssl.internal.truststore-password"] == KEYS.password
    without = configuration(TUNED, MADE, nodes=4, checkpoints="file:///c", heap_mb=640)
    assert not [name for name in without if "ssl" in name], "the gateway has no key"


def test_a_jobmanager_that_fails_is_named_with_its_first_error_and_no_stack(tmp_path: Path) -> None:
    stack = (
        "Shutting down. Diagnostics java.lang.Exception: Could not create actor system\n"
        "\tat a.B\nCaused by: TimeoutException: Futures timed out\n\t... 12 more\n."
    )
    lines = [
        {"at_ms": 1, "said": "Install default filesystem.", "why": ""},
        {"at_ms": 2, "said": stack, "why": ""},
        {"at_ms": 3, "said": "FATAL", "why": "NoClassDefFoundError: x\n\tat y\n"},
    ]
    (tmp_path / "printed").write_text("".join(json.dumps(line) + "\n" for line in lines))
    order = {
        "name": "StandaloneSessionClusterEntrypoint",
        "command": ["sh", "-c", "cat printed; exit 1"],
        "directory": str(tmp_path), "within_s": 5,
    }  # fmt: skip
    above = master.Master(lambda event: None)
    with pytest.raises(master.Refused, match="exit code 1") as caught:
        above.jobmanager(order)
    above.close()
    assert [one.poll() for one in above._processes] == [1], "nothing is left behind"
    assert str(caught.value).splitlines()[1:] == [
        "    Shutting down. Diagnostics java.lang.Exception: Could not create actor system",
        "    Caused by: TimeoutException: Futures timed out",
        "    FATAL",
        "    NoClassDefFoundError: x",
    ]
    assert caught.value.remedy == "let the machine do less at the same time, then start again"


def test_a_process_says_which_ports_it_has_bound(tmp_path: Path) -> None:
    order = {"directory": str(tmp_path)}
    log = tmp_path / "out.log"
    log.write_text("Actor system started at pekko.ssl.tcp://flink@10.0.0.1:4711\n")
    assert master._ports(order, ["rpc_port"]) == {"rpc_port": 4711}
    with pytest.raises(master.Refused, match="it has not said its rest_port yet"):
        master._ports(order, ["rpc_port", "rest_port"])
    log.write_text(log.read_text() + "Rest endpoint listening at 127.0.0.1:8099\n")
    ports = master._ports(order, ["rpc_port", "rest_port"])
    assert master._url(ports) == "http://127.0.0.1:8099"
