"""A user's query on a sample inside this process: as a batch, then as a stream, in seconds.

It finds what would spoil a run before any server starts, and says each in one message.

Tests: ``tests/workloads/test_own_mistakes.py``."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from harness.engines.settings import FIRST_COMPILER
from harness.engines.structured import sample
from harness.engines.structured.applications import FILE_MANAGER
from harness.errors import FaultlineError, UsageError
from harness.measure.versions import compare
from workloads.base import QUERY, SOURCE_COLUMNS, Workload
from workloads.own import line_in
from workloads.toolkit.records import UNSEEN_REMEDY

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import SparkSession

Answer = TypeVar("Answer")
ENDS_WITHIN_S = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampled:
    """The results of a sample, and the time that they took."""

    results: pd.DataFrame
    batch_s: float
    stream_s: float
    no_real_time: str | None = None
    """Why Spark's real-time mode cannot run the query; None if nothing is known against it."""


def try_sample(workload: Workload) -> Sampled:
    """Run the query over a sample in a session of its own; raise `UsageError` for a mistake."""
    with local_session() as spark:
        return sampled(spark, workload)


def sampled(spark: SparkSession, workload: Workload) -> Sampled:
    """Run the query over a sample as a batch and as a stream, and compare the two."""
    if workload.reference is not None and workload.reference.is_file:
        sample.send_packages(spark, workload, workload.reference)
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        # Its plan alone shows the most usual mistakes, before the seconds of a first result.
        _explained(workload, lambda: sample.check_stream(spark, workload, place))
        began = time.monotonic()
        batch = _explained(workload, lambda: sample.check_query(spark, workload))
        batch_s, began = time.monotonic() - began, time.monotonic()
        stream = _explained(workload, lambda: sample.run_stream(spark, workload, place))
        stream_s = time.monotonic() - began
        no_real_time = workload.no_real_time or _no_real_time(spark, workload, place)
    _demand_equal(stream, batch, workload)
    return Sampled(
        results=batch,
        batch_s=batch_s,
        stream_s=stream_s,
        no_real_time=no_real_time,
    )


def _no_real_time(spark: SparkSession, workload: Workload, directory: Path) -> str | None:
    """Return Spark's reason against update mode and real-time mode for the stream of the sample.

    Spark itself gives it only after a query has begun, and then ends the query."""
    from pyspark.errors import AnalysisException

    try:
        sample.check_stream(spark, workload, directory, real_time=True)
    except AnalysisException as error:
        first = " ".join(str(error).split("\n")[0].split())
        return re.sub(r"^\[\S+\] | SQLSTATE: \w+$", "", first).rstrip(";.")
    return None


def _explained(workload: Workload, run: Callable[[], Answer]) -> Answer:
    """Return the answer; turn what the user's code or Spark raises into one message."""
    from pyspark.errors import AnalysisException, PySparkException

    try:
        return run()
    except FaultlineError:
        raise
    except AnalysisException as error:
        raise _unfit(workload, str(error)) from error
    except PySparkException as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        raised = [line for line in lines if "Error: " in line and not line.startswith("at ")]
        raise UsageError(
            f"workload {workload.name!r}: its query failed on a sample: "
            f"{(raised or lines or [type(error).__name__])[0]:.300}",
            remedy="let it take any record of its sources, and an empty one, the marker",
        ) from error
    except Exception as error:
        path = _file_of(workload)
        line = line_in(path, error) if path else 0
        where = f"{path}, line {line}" if line else f"workload {workload.name!r}"
        raise UsageError(
            f"{where}: {type(error).__name__}: {error}",
            remedy=f"it was raised by {QUERY}(spark, sources), which gets a DataFrame with "
            f"{', '.join(SOURCE_COLUMNS)} for each of "
            f"{', '.join(source.name for source in workload.sources)}",
        ) from error


def _unfit(workload: Workload, text: str) -> UsageError:
    """Return the message for a query that Spark does not start."""
    first = " ".join(text.split("\n")[0].split())
    if "without watermark" in text or "without a watermark" in text:
        return UsageError(
            f"workload {workload.name!r}: its query has no watermark, so no window would ever "
            f"close: {first:.200}",
            remedy='call .withWatermark("timestamp", "5 seconds") on every source, with the '
            "workload's watermark_delay_s, and group by a window of timestamp",
        )
    if "output mode" in text.lower() or "not supported" in text.lower():
        return UsageError(
            f"workload {workload.name!r}: its query cannot run as a stream in append mode: "
            f"{first:.300}",
            remedy="a result must be final when it comes: aggregate in windows behind a watermark, "
            "bound joins by time, and leave out sorting and limits",
        )
    return UsageError(
        f"workload {workload.name!r}: Spark refuses its query: {first:.300}",
        remedy="correct the query; ./faultline try FILE --sample-only shows its results",
    )


def _file_of(workload: Workload) -> Path | None:
    reference = workload.reference
    if reference is None or not reference.is_file:
        return None
    return Path(reference.target.rpartition(":")[0])


def _demand_equal(stream: pd.DataFrame, batch: pd.DataFrame, workload: Workload) -> None:
    """Raise `UsageError` if a stream of the sample gives other results than its batch."""
    found = compare(
        stream, batch, list(workload.identity), workload.values, tolerance=workload.tolerance
    )
    if found.equal:
        return
    unclosed = len(found.missing) and not len(found.wrong) and not len(found.extra)
    raise UsageError(
        f"workload {workload.name!r}: as a stream the query gives other results than as a batch: "
        f"{found.describe()}",
        remedy=UNSEEN_REMEDY
        if unclosed
        else "make it a function of its input: no clock, no random numbers, no order of arrival",
    )


def _end_java(context: Any) -> None:
    """End the session's JVM, which would otherwise stay until this process ends."""
    gateway, context._gateway, context._jvm = context._gateway, None, None
    if gateway is None:
        return
    gateway.shutdown()
    gateway.proc.stdin.close()
    try:
        gateway.proc.wait(ENDS_WITHIN_S)
    except subprocess.TimeoutExpired:
        gateway.proc.kill()
        gateway.proc.wait()


@contextmanager
def local_session() -> Iterator[SparkSession]:
    """Open a Spark session inside this process, without a cluster; its JVM ends with it."""
    from harness.environment.java import find_java

    os.environ["JAVA_HOME"] = str(find_java().home)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.session.timeZone": "UTC",
        "spark.log.level": "ERROR",
        # A sample lasts seconds: better code would not pay.
        "spark.driver.extraJavaOptions": FIRST_COMPILER,
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.streaming.checkpointFileManagerClass": FILE_MANAGER,
        "spark.sql.streaming.metricsEnabled": "false",
    }
    session = SparkSession.builder.master("local[1]").config(map=settings).getOrCreate()
    try:
        yield session
    finally:
        session.stop()
        _end_java(SparkContext)
