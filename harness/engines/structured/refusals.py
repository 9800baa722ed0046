"""Messages of Spark about queries that it cannot run, each with the remedy that fits.

Tests: ``tests/engines/test_refusals.py``, a query for each."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from harness.errors import FaultlineError, UsageError
from workloads.base import BATCH, QUERY, Workload
from workloads.own import line_in

Answer = TypeVar("Answer")

_APART = (
    f"give the batch a form of its own: forms={{{QUERY!r}: query, {BATCH!r}: batch}}, where "
    "batch(spark, sources) computes the same results with what a batch has, such as a group by "
    "window (docs/own-workload.md)"
)
_WINDOWS = (
    "aggregate in windows of the event time behind a watermark, "
    '.withWatermark("timestamp", "5 seconds") and groupBy(F.window("timestamp", "10 seconds"), ...)'
)


@dataclass(frozen=True, slots=True)
class Refusal:
    """One kind of query that is refused."""

    said: str
    """A regular expression for Spark's words."""
    what: str
    """What is wrong with the query."""
    remedy: str


REFUSALS = (
    Refusal(
        "STORE_BACKEND_NOT_SUPPORTED_FOR_TWS",
        "its arbitrary state needs the state store of RocksDB",
        'give the workload conf={"spark.sql.streaming.stateStore.providerClass": "org.apache.spark'
        '.sql.execution.streaming.state.RocksDBStateStoreProvider"}, or the same with --conf',
    ),
    Refusal(
        "STATEFUL_PROCESSOR_INCORRECT_TIME_MODE_TO_ASSIGN_TTL",
        "its state has a time to live, which Spark counts by the clock alone",
        'give transformWithState timeMode="ProcessingTime" with ttlDurationMs, or keep '
        'timeMode="EventTime" and remove the state in a timer (docs/examples/visits.py)',
    ),
    Refusal(
        "(unsupported in batch query|not supported with batch)",
        "its query runs as a stream, and the batch that computes the right results cannot run it",
        _APART,
    ),
    Refusal(
        "dropDuplicatesWithinWatermark is not supported on streaming .* without watermark",
        "it removes duplicates within a watermark that it does not have",
        "call .withWatermark in front of dropDuplicatesWithinWatermark",
    ),
    Refusal(
        "without a watermark in the join keys|watermark on the nullable side",
        "its outer join needs a watermark on the side that may have no partner, and a bound in "
        "time, or it never knows that a partner is missing",
        "call .withWatermark on both sources, and bound the join by both event times, such as "
        "paid_at >= ordered_at AND paid_at <= ordered_at + interval 2 seconds",
    ),
    Refusal(
        "without (a )?watermark",
        "its query has no watermark, so no window would ever close",
        f"{_WINDOWS}; the watermark stands in front of the aggregation, on the column of the "
        "window",
    ),
    Refusal(
        "Sorting is not supported",
        "it sorts, and a stream has no end to sort at",
        "leave orderBy out: results are compared by identity, not by place; sort in what reads "
        "them",
    ),
    Refusal(
        "Limits are not supported",
        "it takes the first rows, and in a stream these depend on the order of arrival",
        "leave limit out, or take the best of each window with max_by or array_sort(collect_list)",
    ),
    Refusal(
        "NON_TIME_WINDOW_NOT_SUPPORTED_IN_STREAMING",
        "it has a function over a window of rows (OVER), and a stream has windows of time alone",
        'for a count or sum of each key: groupBy(F.window("timestamp", "10 seconds"), "key"); for '
        "a rank: F.max_by, or F.slice(F.array_sort(F.collect_list(F.struct(...))), 1, 10) in such "
        "a group",
    ),
    Refusal(
        "Distinct aggregations are not supported",
        "it counts distinct values, which a stream cannot",
        "use F.size(F.collect_set(...)), or drop duplicates in front: "
        '.dropDuplicatesWithinWatermark(["key"]) with a form for the batch',
    ),
    Refusal(
        "must be executed with writeStream.start",
        "it asks for rows while the query is made (count, collect, show, toPandas, cache, rdd, "
        "isEmpty), and a stream has none yet",
        "return a DataFrame without an action: Spark runs it",
    ),
    Refusal(
        "WRITE_STREAM_NOT_ALLOWED|StreamingQuery",
        "it starts its stream itself",
        "return the DataFrame in front of writeStream: the harness writes the results, and reads "
        "them from outside",
    ),
    Refusal(
        "pivot is not supported",
        "it pivots without knowing the columns",
        'write one aggregate for each value: F.count(F.when(F.col("kind") == "a", 1))',
    ),
    Refusal(
        "(Except|Intersect|Sampling) .*not supported",
        "it has an operation on whole tables, which a stream does not end",
        "use a join that is bounded by time, such as left_anti or left_semi; draw a sample by a "
        "hash of the key",
    ),
    Refusal(
        "not supported with streaming|not supported on streaming|output mode|not supported in",
        "its query cannot run as a stream in append mode",
        "a result must be final when it comes: aggregate in windows behind a watermark, bound "
        f"joins by time, and leave out what needs the whole table; if the batch alone can "
        f"compute it, {_APART}",
    ),
    Refusal(
        "EVENT_TIME_IS_NOT_ON_TIMESTAMP_TYPE",
        "its watermark is on a column that is not a timestamp",
        "make it one: F.to_timestamp(...), or F.timestamp_millis(...) of a number",
    ),
    Refusal(
        "CANNOT_PARSE_INTERVAL",
        "it has an interval that Spark does not understand",
        'write a number and a unit, such as "5 seconds" or "10 minutes"',
    ),
    Refusal(
        "UNRESOLVED_COLUMN|DATATYPE_MISMATCH|PARSE_SYNTAX_ERROR",
        "Spark refuses its query",
        "correct the column or expression; sources have key, value (binary), partition, offset "
        "and timestamp",
    ),
    Refusal(
        "",
        "Spark refuses its query",
        "correct the query; ./faultline try FILE --sample-only shows its results",
    ),
)
"""The first whose words Spark says counts; the last one fits all."""


def refusal_of(text: str) -> Refusal:
    """Return the kind of query that Spark refuses with this text."""
    return next(each for each in REFUSALS if re.search(each.said, text))


def said(text: str) -> str:
    """Return the first sentence of Spark's message, without codes."""
    lines = [line.strip() for line in text.splitlines() if line.strip()] or [text]
    raised = [line for line in lines if re.match(r"[\w.]*(Error|Exception): ", line)]
    first = " ".join((raised or lines)[-1 if raised else 0].split())
    first = re.sub(r"^.*terminated with exception: ", "", first)
    return re.sub(r"^\[\S+\] | ?SQLSTATE: \w+.*$", "", first).rstrip("; ")[:400]


def explained(workload: Workload, run: Callable[[], Answer]) -> Answer:
    """Return the answer; turn what the user's code or Spark raises into one message.

    An error that never passed through the user's file is a fault of this program, and stays."""
    from pyspark.errors import AnalysisException, PySparkException

    try:
        return run()
    except FaultlineError:
        raise
    except Exception as error:
        text = str(error)
        kind = refusal_of(text)
        if isinstance(error, AnalysisException) or kind is not REFUSALS[-1]:
            raise UsageError(
                f"{_where(workload, error)}: {kind.what}: {said(text)}", remedy=kind.remedy
            ) from error
        if isinstance(error, PySparkException):
            raise _failed(workload, error, text) from error
        path = _file_of(workload)
        if path is not None and not line_in(path, error):
            raise
        raise UsageError(
            f"{_where(workload, error, named=False)}: {type(error).__name__}: {error}",
            remedy=f"it was raised by {QUERY}(spark, sources), which gets a DataFrame for each of "
            f"{', '.join(source.name for source in workload.sources)}, with "
            f"{', '.join(workload.sources[0].columns)}",
        ) from error


def _failed(workload: Workload, error: BaseException, text: str) -> UsageError:
    """Return the message for a query that ended while it ran."""
    if "OutOfMemoryError" in text:
        return UsageError(
            f"{_where(workload, error)}: its query ran out of memory on a sample",
            remedy="let it keep less: aggregate instead of collecting, and leave large columns out",
        )
    path = _file_of(workload)
    lines = re.findall(rf'File "{re.escape(str(path))}", line (\d+)', text) if path else []
    place = f"{path}, line {lines[-1]}" if lines else _where(workload, error)
    return UsageError(
        f"{place}: its query failed on a sample: {said(text)}",
        remedy="let it take any record of its sources, and an empty one, the marker",
    )


def _where(workload: Workload, error: BaseException, *, named: bool = True) -> str:
    """Return the line of a workload's file, that of the query if there is no other.

    The workload's name follows if ``named``; it is all there is of one without a file."""
    path = _file_of(workload)
    if path is None:
        return f"workload {workload.name!r}"
    line = line_in(path, error) or _line_of_query(path, workload)
    if not line:
        return f"{path}"
    return f"{path}, line {line}" + (f": workload {workload.name!r}" if named else "")


def _line_of_query(path: Path, workload: Workload) -> int:
    code = getattr(workload.forms.get(QUERY), "__code__", None)
    return code.co_firstlineno if code is not None and code.co_filename == str(path) else 0


def _file_of(workload: Workload) -> Path | None:
    reference = workload.reference
    if reference is None or not reference.is_file:
        return None
    return Path(reference.target.rpartition(":")[0])
