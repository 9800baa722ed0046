"""The process of one application: a Spark driver that follows orders on its standard input.

The first line is its configuration, every further one a command; both are JSON. What happens
goes back as one JSON object a line. Credentials come this way too, so they are neither on a
command line nor in a file of this process. End of input means that the harness is gone: the
process ends, and the executors with it.

Tests: ``tests/engines/test_contract.py``."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from harness.child import DIED, Emit, orders, speaker
from harness.engines.deliveries import BEHIND, NEWEST, UNREAD
from harness.engines.structured import frames, sample, sinks
from harness.engines.structured.applications import SHUFFLE_PARTITIONS
from harness.engines.structured.parameters import Mode
from harness.errors import UsageError
from harness.measure.versions import Stability
from workloads.base import QUERY, SINK, Reference, Workload

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery

POLL_S = 0.1
"""Seconds between two looks at the progress. A query keeps a hundred reports, so none is missed."""
RESTART_PAUSE_S, LONGEST_PAUSE_S = 0.5, 4.0
"""Between a query's end and its restart: the first pause, and the longest one. Each is twice the
one before until the query reports progress again."""
RESTART_ATTEMPTS = 40
"""Starts in a row without progress, after which the query counts as dead."""
_MODES = {
    Mode.MICRO_BATCH: (Stability.STABLE, "append", "processingTime"),
    Mode.REAL_TIME: (Stability.REVISION, "update", "realTime"),
}
"""What each mode delivers, its output mode, and its trigger."""
PARTS = (
    ("offsets", ("latestOffset", "getBatch")),
    ("planning", ("queryPlanning",)),
    ("jobs", ("addBatch",)),
    ("log", ("walCommit", "commitOffsets")),
)
"""The parts of a batch: Kafka's newest offsets, planning the query anew, the Spark jobs on the
executors, and the two files that make the batch durable."""


class Supervised:
    """A streaming query that is started again from its checkpoint whenever it fails.

    Nothing in Spark does that. A query in real-time mode needs it most: there a lost task is not
    tried again but ends the query, and a start without enough free slots fails, too."""

    def __init__(self, start: Callable[[], StreamingQuery], emit: Emit) -> None:
        self._start = start
        self._emit = emit
        self._stopping = threading.Event()
        self._restarts = 0
        self._attempts = 0
        """Starts since the last progress."""
        self._query = start()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()
        self._query.stop()

    def state_tasks(self) -> Sequence[int]:
        """Return the number of tasks of each operator with a state, by the newest report."""
        newest = self._query._jsq.lastProgress()
        operators = json.loads(newest.json())["stateOperators"] if newest is not None else ()
        return [operator["numShufflePartitions"] for operator in operators]

    def _watch(self) -> None:
        seen: set[str] = set()
        while not self._stopping.wait(POLL_S):
            self._report(seen)
            if not self._query.isActive:
                self._restart()
        self._report(seen)

    def _report(self, seen: set[str]) -> None:
        """Send the reports that are new, oldest first.

        It reads the Java objects: PySpark's own wrapper makes dozens of calls for each of up to a
        hundred reports."""
        recent = self._query._jsq.recentProgress()
        fresh: list[dict[str, Any]] = []
        for i in range(len(recent) - 1, -1, -1):
            text = recent[i].json()
            report = json.loads(text)
            key = f"{report['runId']} {report['batchId']} {report['timestamp']}"
            if key in seen:
                break
            seen.add(key)
            fresh.append(report)
        for report in reversed(fresh):
            if report["numInputRows"]:
                self._attempts = 0
            self._emit({"event": "progress", **_condensed(report)})

    def _restart(self) -> None:
        self._emit_failure(str(self._query.exception()))
        while self._attempts < RESTART_ATTEMPTS:
            pause_s = RESTART_PAUSE_S * 2.0 ** min(self._attempts, 10)
            if self._stopping.wait(min(LONGEST_PAUSE_S, pause_s)):
                return
            self._attempts += 1
            self._restarts += 1
            try:
                self._query = self._start()
            except Exception as failure:  # Spark raises many kinds; all mean "not running yet"
                self._emit_failure(str(failure))
            else:
                self._emit(
                    {"event": "restarted", "restarts": self._restarts, "at_unix_s": time.time()}
                )
                return
        self._emit({"event": "died", "error": "the query cannot be started again"})
        self._stopping.wait()

    def _emit_failure(self, text: str) -> None:
        self._emit({"event": "failed", "error": text[:2000], "at_unix_s": time.time()})


def _condensed(report: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a progress report that a run keeps."""
    operators = report["stateOperators"]
    took = report["durationMs"]
    return {
        "at_unix_s": time.time(),
        "batch": report["batchId"],
        "rows": report["numInputRows"],
        "duration_s": took.get("triggerExecution", 0) / 1000,
        **{f"{part}_s": sum(took.get(name, 0) for name in names) / 1000 for part, names in PARTS},
        "watermark": report.get("eventTime", {}).get("watermark"),
        "state_rows": sum(operator["numRowsTotal"] for operator in operators),
        "state_bytes": sum(operator["memoryUsedBytes"] for operator in operators),
        "dropped_rows": sum(operator["numRowsDroppedByWatermark"] for operator in operators),
        UNREAD: max(
            (float(s["metrics"].get("maxOffsetsBehindLatest", 0)) for s in report["sources"]),
            default=0.0,
        ),
        BEHIND: _behind(report["sources"]),
        NEWEST: report.get("eventTime", {}).get("max"),
    }


def _behind(sources: Sequence[Mapping[str, Any]]) -> str:
    """Return the unread records of each partition that has any: ``orders/3: 120``."""
    unread = {
        f"{topic}/{partition}": newest
        - ((source.get("endOffset") or {}).get(topic) or {}).get(partition, 0)
        for source in sources
        for topic, partitions in (source.get("latestOffset") or {}).items()
        for partition, newest in partitions.items()
    }
    return ", ".join(f"{place}: {count}" for place, count in sorted(unread.items()) if count > 0)


class Driver:
    """Carries out commands, one at a time; each is a method."""

    def __init__(self, configuration: Mapping[str, Any], emit: Emit) -> None:
        from pyspark.sql import SparkSession

        self._emit = emit
        self._kafka: Mapping[str, str] = configuration["kafka"]
        self._spark = SparkSession.builder.config(map={**configuration["conf"]}).getOrCreate()
        self._shuffle_partitions: str = self._spark.conf.get(SHUFFLE_PARTITIONS)
        self._workload: Workload | None = None
        self._sent: list[Reference] = []
        """The user's own workloads whose code the executors have."""
        self._query: Supervised | None = None
        threading.Thread(target=self._count_executors, daemon=True).start()

    def _count_executors(self) -> None:
        context = self._spark.sparkContext._jsc.sc()
        known: list[str] = []
        with contextlib.suppress(Exception):  # the session is being stopped
            while True:
                places = sorted(context.getExecutorMemoryStatus().keys().mkString(" ").split())
                if places != known:
                    known = places
                    self._emit(
                        {
                            "event": "executors",
                            "count": len(places) - 1,  # the driver is among them
                            "hosts": [place.rpartition(":")[0] for place in places],
                            "at_unix_s": time.time(),
                        }
                    )
                time.sleep(POLL_S)

    def begin(
        self,
        *,
        workload: Mapping[str, Any],
        topics: Mapping[str, str],
        out_topic: str,
        copy: int,
        checkpoint: str,
        trigger_s: float,
        source: Mapping[str, str],
        partitions: Mapping[str, Sequence[int]] | None = None,
        mode: str = Mode.MICRO_BATCH,
        shuffle_partitions: int | None = None,
    ) -> None:
        """Start the query of a workload; it runs until `end`.

        Over some ``partitions`` of its sources alone its results are tentative; in real-time mode
        they are revisions, and ``trigger_s`` is the time between checkpoints. Without
        ``shuffle_partitions`` there are as many as the session's settings name."""
        reference = msgspec.convert(workload, Reference)
        begun: Workload = reference.build()
        self._workload = begun
        if reference.is_file and reference not in self._sent:
            self._sent.append(reference)
            sample.send_code(self._spark, begun, reference)

        stability, output, trigger = _MODES[Mode(mode)]
        if partitions is not None:
            stability = Stability.TENTATIVE
        shuffled = shuffle_partitions or self._shuffle_partitions
        self._spark.conf.set(SHUFFLE_PARTITIONS, str(shuffled))

        def start() -> StreamingQuery:
            kafka = {**self._kafka, **source}
            sources = frames.read_stream(self._spark, kafka, topics, begun, partitions)
            result = begun.form(QUERY)(self._spark, sources)
            if SINK in begun.forms:
                writer = sinks.writing(result.writeStream, begun, sinks.place(checkpoint))
            else:
                sent = frames.encode(result, begun, copy, stability).writeStream
                writer = sent.format("kafka").options(**self._kafka).option("topic", out_topic)
            query: StreamingQuery = (
                writer.option("checkpointLocation", checkpoint)
                .outputMode(output)
                .trigger(**{trigger: f"{round(trigger_s * 1000)} milliseconds"})
                .start()
            )
            return query

        self._query = Supervised(start, self._emit)

    def end(self) -> None:
        """Stop the query."""
        if self._query is not None:
            self._query.stop()
        self._query = None
        self._emit({"event": "ended"})

    def settings(self, *, names: Sequence[str]) -> None:
        """Report these settings of the running session, and the Java under it.

        Also the number of tasks that keep the query's state, from its newest progress."""
        assert self._query is not None, "a query runs"
        values = {}
        for name in names:
            with contextlib.suppress(Exception):  # Spark knows none of this name
                values[name] = self._spark.conf.get(name)
        java = self._spark._jvm.java.lang.management.ManagementFactory
        self._emit(
            {
                "event": "settings",
                "values": values,
                "java": list(java.getRuntimeMXBean().getInputArguments()),
                "state_tasks": self._query.state_tasks(),
            }
        )

    def truth(self, *, topics: Mapping[str, str], path: str) -> None:
        """Write the results of the batch query over the same topics to a Parquet file."""
        import pyarrow.parquet

        assert self._workload is not None, "nothing was begun"

        sources = frames.read_batch(self._spark, self._kafka, topics, self._workload)
        result = self._workload.truth(self._spark, sources)
        table = result.select(*frames.plain_columns(result, self._workload)).toArrow()
        pyarrow.parquet.write_table(table, Path(path))
        self._emit({"event": "truth", "rows": len(table)})

    def results(self, *, checkpoints: Sequence[str], path: str) -> None:
        """Write what is in the sinks of the queries with these checkpoints to a Parquet file."""
        import pyarrow.parquet

        assert self._workload is not None, "nothing was begun"
        places = [sinks.place(checkpoint) for checkpoint in checkpoints]
        table = sinks.rows_of(self._spark, self._workload, places)
        pyarrow.parquet.write_table(table, Path(path))
        self._emit({"event": "results", "rows": len(table)})

    def close(self) -> None:
        self.end()
        self._spark.stop()


def main() -> None:
    emit = speaker()
    told = orders()
    driver: Driver | None = None
    try:
        driver = Driver(next(told), emit)
        for order in told:
            getattr(driver, order.pop("command"))(**order)
    except UsageError as error:
        emit({"event": DIED, "error": error.what, "remedy": error.remedy})
        raise
    except BaseException as error:
        emit({"event": DIED, "error": f"{type(error).__name__}: {error}"[:4000]})
        raise
    finally:
        if driver is not None:
            driver.close()


if __name__ == "__main__":
    main()
