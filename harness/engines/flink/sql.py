"""A workload's form as Flink SQL, and the tables around it.

The form is a `FlinkForm`: views over the sources, and a query whose columns are the workload's. A
source is a table of its name with ``value`` and ``at``, the record's time, which is the watermark's
column. A marker is an empty value, which moves the watermark on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict

from harness.engines.base import Work
from harness.engines.flink.parameters import FlinkParameters
from workloads.base import Source
from workloads.toolkit.durations import sql_seconds

FORM = "flink"
OUT = "results"
PACED = "CREATE TEMPORARY FUNCTION `paced` AS 'faultline.Paced'"
"""A condition that always holds, and takes its time (``java/faultline/Paced.java``)."""
TRANSACTION_TIMEOUT_MS = 900_000
"""``transaction.timeout.ms`` of the sink: the longest that a broker permits by default. Flink's own
value, an hour, is refused by it."""
_LOGIN = "org.apache.kafka."
_SHADED = "org.apache.flink.kafka.shaded.org.apache.kafka."
"""The connector brings its client under another name."""


class FlinkForm(TypedDict):
    """What the engine runs."""

    charset: str
    """How bytes become text: ``raw.charset``."""
    views: Mapping[str, str]
    """Name to query, in order."""
    query: str
    """Gives the workload's columns; the window's start as a TIMESTAMP."""


def statements(
    form: FlinkForm, work: Work, client: Mapping[str, str], given: FlinkParameters
) -> list[str]:
    """Return the statements of a job; the last one starts it. They hold the broker's password."""
    workload = work.workload
    kafka = {f"properties.{name}": _renamed(value) for name, value in client.items()}
    paced = given.records_per_s is not None
    made = [PACED] if paced else []
    for source in workload.sources:
        name = f"{source.name}-in" if paced else source.name
        made.append(_source(source, name, kafka, form, work))
        if paced:
            made.append(
                f"CREATE TEMPORARY VIEW `{source.name}` AS SELECT * FROM `{name}` "
                f"WHERE `paced`(`value`, CAST({given.records_per_s:g} AS DOUBLE))"
            )
    made += [f"CREATE TEMPORARY VIEW `{name}` AS {query}" for name, query in form["views"].items()]
    start = f"`{workload.window_start}`"
    columns = [
        f"{_ms(start)} AS {start}" if column == workload.window_start else f"`{column}`"
        for column in workload.columns
    ]
    sink = {
        "connector": "kafka",
        "topic": work.out_topic,
        "value.format": "json",
        "sink.delivery-guarantee": given.guarantee,
        **kafka,
    }
    if given.transactional:
        sink["sink.transactional-id-prefix"] = work.name
        sink["properties.transaction.timeout.ms"] = str(TRANSACTION_TIMEOUT_MS)
    made.append(
        f"CREATE TABLE `{OUT}` WITH ({_options(sink)}) AS "
        f"SELECT {', '.join(columns)} FROM ({form['query']})"
    )
    return made


def _source(
    source: Source, name: str, kafka: Mapping[str, str], form: FlinkForm, work: Work
) -> str:
    delay_s = work.workload.watermark_delay_s
    options = {
        "connector": "kafka",
        "topic": work.topic_of[source.name],
        "properties.group.id": f"{work.name}-flink",
        "scan.startup.mode": "earliest-offset",
        # A reader without a partition would hold the watermark back.
        "scan.parallelism": str(source.partitions),
        "value.format": "raw",
        "value.raw.charset": form["charset"],
        **kafka,
    }
    return (
        f"CREATE TABLE `{name}` (`value` STRING, "
        "`at` TIMESTAMP_LTZ(3) METADATA FROM 'timestamp' VIRTUAL, "
        f"WATERMARK FOR `at` AS `at` - {sql_seconds(delay_s)}) WITH ({_options(options)})"
    )


def _ms(column: str) -> str:
    """Return a timestamp of the session's zone, UTC, as ms since the epoch."""
    whole = f"UNIX_TIMESTAMP(DATE_FORMAT({column}, 'yyyy-MM-dd HH:mm:ss'))"
    return f"{whole} * 1000 + EXTRACT(MILLISECOND FROM {column})"


def _options(options: Mapping[str, str]) -> str:
    return ", ".join(f"{_text(name)} = {_text(value)}" for name, value in options.items())


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _renamed(value: str) -> str:
    return value.replace(_LOGIN, _SHADED) if value.startswith(_LOGIN) else value
