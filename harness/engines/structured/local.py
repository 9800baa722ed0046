"""A user's query on a sample inside this process: as a batch, then as a stream, in seconds.

It finds what would spoil a run before any server starts, and says each in one message.

Tests: ``tests/workloads/test_own_mistakes.py``, ``tests/workloads/test_own_cases.py``."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from harness.engines.structured import real_time, sample, sample_stream
from harness.engines.structured.refusals import explained, said
from harness.engines.structured.sample_stream import Streamed
from harness.engines.structured.session import local_session, with_settings
from harness.errors import UsageError
from harness.measure.versions import Comparison, compare, first_of_each
from workloads.base import Workload
from workloads.toolkit.records import UNSEEN_REMEDY

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampled:
    """The results of a sample, and the time that they took."""

    results: pd.DataFrame
    batch_s: float
    stream_s: float
    late: int = 0
    """Rows that the watermark dropped, of a workload with late data."""
    late_by_s: float = 0.0
    """How far the latest record was behind the watermark, whether or not it was dropped."""
    difference: str = ""
    """What their loss changes, in a sentence."""
    again: str = ""
    """What a second write of one batch does to the workload's own sink, in a sentence."""
    no_real_time: str | None = None
    """Why Spark's real-time mode cannot run the query; None if nothing is known against it."""


def try_sample(workload: Workload, conf: Mapping[str, str]) -> Sampled:
    """Run the query over a sample in a session of its own with these settings of Spark.

    Raises `UsageError` for a mistake."""
    with local_session(conf) as spark:
        return sampled(spark, workload, conf)


def sampled(
    spark: SparkSession, workload: Workload, conf: Mapping[str, str] | None = None
) -> Sampled:
    """Run the query over a sample as a batch and as a stream, and compare the two."""
    if workload.reference is not None and workload.reference.is_file:
        sample.send_code(spark, workload, workload.reference)
    own = workload.conf if conf is None else conf
    with tempfile.TemporaryDirectory() as directory, with_settings(spark, own):
        place = Path(directory)
        # Its plan alone shows the most usual mistakes, before the seconds of a first result.
        stream = explained(workload, lambda: sample_stream.stream_of(spark, workload, place))
        explained(workload, lambda: sample_stream.check_stream(stream))
        began = time.monotonic()
        batch = explained(workload, lambda: sample.check_query(spark, workload))
        batch_s, began = time.monotonic() - began, time.monotonic()
        streamed = explained(workload, lambda: sample_stream.run_stream(workload, place, stream))
        stream_s = time.monotonic() - began
        found = _compared(workload, streamed.results, batch)
        if not found.equal and not (workload.late_data and streamed.late):
            raise _unequal(found, streamed, workload, stream)
        no_real_time = real_time.unable(workload) or _no_real_time(stream)
    return Sampled(
        results=batch,
        batch_s=batch_s,
        stream_s=stream_s,
        late=streamed.late,
        late_by_s=streamed.late_by_s,
        difference="" if found.equal else found.describe(),
        again=(
            "" if streamed.again is None else _again(workload, streamed.again, streamed.results)
        ),
        no_real_time=no_real_time,
    )


def _compared(workload: Workload, stream: pd.DataFrame, batch: pd.DataFrame) -> Comparison:
    """Compare the two; raise `UsageError` if the stream gives a result twice."""
    first = first_of_each(stream, workload.identity)
    if len(first) < len(stream):
        once = stream.index.difference(first.index)
        raise UsageError(
            f"workload {workload.name!r}: as a stream it gives {len(once)} of {len(first)} results "
            f"twice, without a failure, such as {stream.loc[once[0]].to_dict()}",
            remedy="send a result once, when its window has closed: a sink in foreachBatch adds "
            "each batch to what is there, or replaces that batch alone",
        )
    return compare(first, batch, workload.identity, workload.values, tolerance=workload.tolerance)


def _again(workload: Workload, again: pd.DataFrame, before: pd.DataFrame) -> str:
    """Return what the second write of a batch changed in a sink."""
    first = first_of_each(again, workload.identity)
    found = compare(first, before, workload.identity, workload.values, tolerance=workload.tolerance)
    if not found.equal:
        return f"makes its results wrong: {found.describe()}"
    repeated = len(again) - len(first)
    return f"gives {repeated} results twice" if repeated else "changes nothing"


def _no_real_time(stream: DataFrame) -> str | None:
    """Return Spark's reason against update mode and real-time mode for the stream of the sample.

    Spark itself gives it only after a query has begun, and then ends the query."""
    from pyspark.errors import AnalysisException

    try:
        sample_stream.check_stream(stream, real_time=True)
    except AnalysisException as error:
        return said(str(error)).rstrip(".")
    python = sample_stream.python_part(sample_stream.plan_of(stream))
    if python is not None:
        return f"a part of it runs in Python ({python}), and real-time mode runs in the JVM alone"
    return None


def _unequal(
    found: Comparison, streamed: Streamed, workload: Workload, stream: DataFrame
) -> UsageError:
    """Return the message for a stream of the sample that gives other results than its batch."""
    name = f"workload {workload.name!r}"
    if streamed.late:
        by_s, least = "", "more"
        if streamed.late_by_s > 0:
            by_s = f", up to {streamed.late_by_s:.3g} s behind it"
            known_s = [source.lag_s for source in workload.sources]
            known_s += [end_s - begin_s for _, _, begin_s, end_s in sample.silences(workload)]
            least_s = max(workload.watermark_delay_s + streamed.late_by_s, *known_s)
            least = f"{least_s:.3g} s or more"
        return UsageError(
            f"{name}: late records were dropped by the watermark: {streamed.late} rows "
            f"(numRowsDroppedByWatermark{by_s}), so as a stream the query gives other results "
            f"than as a batch: {found.describe()}",
            remedy=f"set the watermark and watermark_delay_s to {least}, and with several sources "
            "keep spark.sql.streaming.multipleWatermarkPolicy at min; or give the workload "
            "late_data=True: then late records are counted, with and without a kill",
        )
    unclosed = len(found.missing) and not len(found.wrong) and not len(found.extra)
    plan = sample_stream.plan_of(stream)
    bare = sample_stream.without_watermark(plan, workload)
    if unclosed and bare:
        has = "has" if len(bare) == 1 else "have"
        return UsageError(
            f"{name}: {', '.join(bare)} {has} no watermark, so the stream never gives results that "
            f"the batch has: {found.describe()}",
            remedy="call .withWatermark on every source: without one Spark never knows that no "
            "partner comes any more, keeps each row for ever, and sends no row without a partner",
        )
    what = f"as a stream the query gives other results than as a batch: {found.describe()}"
    filters = sample_stream.filters_in_front(stream.sparkSession, plan) if unclosed else []
    if not filters:
        remedy = "make it a function of its input: no clock, no random numbers, no order of arrival"
        return UsageError(f"{name}: {what}", remedy=UNSEEN_REMEDY if unclosed else remedy)
    keyless = sample_stream.has_join(plan) and all("IS NOT NULL" in each for each in filters)
    return UsageError(
        f"{name}: the markers that close the last windows never reach the query's watermark, "
        f"because in front of it Spark keeps only records with {_short(filters)}; {what}",
        remedy=KEYLESS_REMEDY if keyless else UNSEEN_REMEDY,
    )


KEYLESS_REMEDY = (
    "a join needs its keys, so Spark drops records without one as early as it can, and an empty "
    "marker has none: give each source a marker with a key of its own and nothing that counts, "
    """such as Source(marker=b'{"shop": -1}'), or group by F.coalesce(key, F.lit(-1))"""
)


def _short(filters: Sequence[str], most: int = 120) -> str:
    text = " and ".join(dict.fromkeys(filters))
    return text if len(text) <= most else f"{text[:most]}..."
