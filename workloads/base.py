"""The description of a workload: records in, the forms that engines run, and results told apart.

A workload is data and functions. Its `QUERY` turns the source topics into results and is used
twice: as a streaming query by the engine under test, and as a batch over the same topics for the
ground truth. So it must be a function of its input alone: no clock, no randomness, no order of
arrival. Whole numbers, decimals and text compare exactly, floating point within
`Workload.tolerance`. The other forms must give the same results.

Other processes (the load generator, an application's driver) build their own copy from a
`Reference`, which is JSON; nothing is pickled."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from harness.errors import UsageError
from harness.text import did_you_mean
from workloads.source import (
    HEADERS,
    SOURCE_COLUMNS,
    HeadedSource,
    KeyedSource,
    RecordedSource,
    RecordSource,
    Reference,
    Source,
    check_name,
    require,
)

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    import pyarrow as pa
    from numpy.typing import NDArray
    from pyspark.sql import DataFrame, SparkSession

__all__ = [  # what is named here, but defined in workloads.source
    "HEADERS",
    "SOURCE_COLUMNS",
    "HeadedSource",
    "KeyedSource",
    "RecordSource",
    "RecordedSource",
    "Reference",
    "Source",
]

TOLERANCE = 1e-9
"""The relative difference up to which floating-point values are equal by default: sums of the same
numbers in another order differ by less."""

QUERY, BATCH, TASKS = "query", "batch", "tasks"
"""Keys of `Workload.forms`: a query of Spark, its form as a batch, a topology of tasks."""
SINK, READER = "sink", "reader"
"""Keys of `Workload.forms`: a sink of the query's own, and the reader of what it wrote."""
SINK_FORMATS = ("parquet", "orc", "json", "csv")
"""Formats of Spark's file sink."""

Query = Callable[["SparkSession", Mapping[str, "DataFrame"]], "DataFrame"]

Contributions = Callable[[str, Sequence[bytes], "NDArray[np.int64]"], "pd.DataFrame"]
"""``contributions(source, payloads, event_ms)`` for records of one source with these values and
event times (ms since the epoch): a row per record and result it goes into, with the columns
``record`` (its place among the payloads) and the result's identity, timestamps in ms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """The whole description of a workload, for engines and for the judge."""

    name: str
    sources: Sequence[Source]
    forms: Mapping[str, Any]
    """The workload as each kind of engine runs it, at least one form:

    * `QUERY`: a `Query`, ``query(spark, sources)`` with a DataFrame of `SOURCE_COLUMNS` for each
      source name;
    * `BATCH`: the same results as a batch, where the query uses what Spark has for streams alone;
    * `SINK`, with a query: a function ``sink(batch, batch_id, path)`` for ``foreachBatch``, or one
      of `SINK_FORMATS` for Spark's file sink; and `READER`: ``reader(spark, path)``, a batch query
      that returns the results below that path. Without them results go to a Kafka topic;
    * `TASKS`: the `Reference` of a topology of tasks (`workloads.toolkit.operators.program_of`), a
      function of a ``timeline``, a ``rate`` and these parameters;
    * any other key, such as ``"sql"`` or ``"command"``, with the value that its engine expects."""
    identity: Sequence[str]
    """The columns of a result that identify it: window and key."""
    values: Sequence[str]
    """The columns that carry its answer."""
    window_start: str = ""
    """The timestamp column where a result's window begins; one of ``identity``."""
    window_end: str = ""
    """Instead of ``window_start``: the timestamp column where a result's window ends, for windows
    whose length differs, such as sessions."""
    window_s: float
    """The length of a window, the gap of a session window. A window with a ``window_end`` is due as
    if it began this long before its end."""
    slide_s: float = math.nan
    """The time from the begin of a window to that of the next; by default ``window_s``: tumbling
    windows, which do not overlap. Windows begin at whole multiples of this since the epoch. A run
    starts at such a multiple too, so that the same input falls into the same windows in every
    run."""
    watermark_delay_s: float
    """The query's watermark delay: a window closes with the first record whose event time is
    this much or more past the window's end."""
    members: Callable[[Mapping[Any, Any]], Collection[Hashable]] | None = None
    """For accuracy: the members of one result, such as the objects of a top 100, from its columns
    by name but for the window. Without it a run has no accuracy of members."""
    types: Mapping[str, pa.DataType] = field(default_factory=dict)
    """Types of result columns, such as ``{"average": pa.decimal128(16, 6)}``: the form in which
    their values are compared. The ground truth decides for a column that is not named here."""
    tolerance: float = TOLERANCE
    """The relative difference up to which floating-point values are equal; 0 asks for equality."""
    contributions: Contributions | None = None
    """For the success of tuples: which results a record goes into. Without it a run has no
    success rate."""
    windows_in_a_row: int = 1
    """Windows of ``window_s`` that a record passes on its way: a last record is in results that end
    up to this many windows after it."""
    conf: Mapping[str, str] = field(default_factory=dict)
    """Settings of Spark that the job has, such as ``{"spark.locality.wait": "0s"}``."""
    packages: Sequence[str] = ()
    """Importable packages and modules of the user's that executors need: they are sent there. What
    lies next to the workload's file and was imported by it is sent anyway."""
    into_table: bool = False
    """Its results go into a database table, too, as they arrive
    (`workloads.toolkit.result_table`)."""
    late_data: bool = False
    """True if records may come later than the watermark allows. A stream then gives other results
    than the batch, and the records that it drops are a quantity of a run: without a kill, and with
    it. Otherwise a dropped record spoils a run."""
    no_real_time: str | None = None
    """Why Spark's real-time mode cannot run its query, as a sentence; None if it can."""
    reference: Reference | None = None
    """The way to build this workload in another process. `workloads.own.load_workload_file` fills
    it in."""

    def __post_init__(self) -> None:
        check_name(self.name)
        for name in ("identity", "values"):
            given = getattr(self, name)
            require(
                not isinstance(given, str),
                f"workload {self.name!r}: {name} is the text {given!r}, not a list of columns",
                f"write [{given!r}]",
            )
        if math.isnan(self.slide_s):
            object.__setattr__(self, "slide_s", self.window_s)
        names = [source.name for source in self.sources]
        require(
            names and len(set(names)) == len(names),
            f"workload {self.name!r} has sources {names}",
            "give it at least one source, and every source a name of its own",
        )
        self._check_forms()
        require(
            bool(self.window_start) != bool(self.window_end),
            f"workload {self.name!r}: window_start is {self.window_start!r} and window_end "
            f"{self.window_end!r}",
            "name the timestamp column where a window begins in window_start, or, for windows of "
            "different lengths such as sessions, the one where it ends in window_end",
        )
        require(
            self.window_column in self.identity and not set(self.identity) & set(self.values),
            f"workload {self.name!r}: identity {list(self.identity)}, values "
            f"{list(self.values)}, {'window_end' if self.window_end else 'window_start'} "
            f"{self.window_column!r} do not fit together",
            "name window_start (or window_end) in identity, and no column in both lists",
        )
        require(
            not self.window_end or (self.members is None and TASKS not in self.forms),
            f"workload {self.name!r} has window_end, and members or a topology of tasks",
            "give window_start instead, or leave the others out",
        )
        require(
            self.values,
            f"workload {self.name!r} names no value columns",
            "name at least one column that carries the result's answer in values",
        )
        for name in ("window_s", "slide_s", "watermark_delay_s"):
            require(
                getattr(self, name) > 0,
                f"workload {self.name!r}: {name} is {getattr(self, name)}",
                f"give {name} a number of seconds above zero",
            )
        self._check_values()

    def _check_forms(self) -> None:
        require(
            self.forms,
            f"workload {self.name!r} has no form",
            f"give forms={{{QUERY!r}: query}}, a function query(spark, sources)",
        )
        query, tasks = self.forms.get(QUERY), self.forms.get(TASKS)
        require(
            QUERY not in self.forms or callable(query),
            f"workload {self.name!r}: query is a {type(query).__name__}",
            "give a function query(spark, sources) that returns a DataFrame",
        )
        require(
            BATCH not in self.forms or (callable(self.forms[BATCH]) and QUERY in self.forms),
            f"workload {self.name!r}: the form for the batch is a "
            f"{type(self.forms.get(BATCH)).__name__}, or has no query beside it",
            f"give forms={{{QUERY!r}: query, {BATCH!r}: batch}}, two functions of (spark, sources)",
        )
        sink, reader = self.forms.get(SINK), self.forms.get(READER)
        require(
            (sink is None and reader is None)
            or ((callable(sink) or sink in SINK_FORMATS) and callable(reader)),
            f"workload {self.name!r}: sink is {sink!r:.60}, and its reader is {reader!r:.60}",
            "give both: sink(batch, batch_id, path) or one of "
            f"{', '.join(map(repr, SINK_FORMATS))}, and reader(spark, path)",
        )
        require(
            TASKS not in self.forms or isinstance(tasks, Reference),
            f"workload {self.name!r}: tasks is a {type(tasks).__name__}",
            "give the Reference of a function that builds a topology of tasks",
        )

    def form(self, key: str) -> Any:
        """Return the form that an engine runs; raise `UsageError` if the workload has none."""
        if key not in self.forms:
            raise UsageError(
                f"workload {self.name!r} has no form {key!r}, only "
                f"{', '.join(map(repr, self.forms))}",
                remedy=f"add it to the workload's forms, as workloads/accident.py has {TASKS!r}, "
                "or choose an engine that runs another form",
            )
        return self.forms[key]

    @property
    def truth(self) -> Query:
        """The query that computes the right results as a batch."""
        form: Query = self.forms[BATCH] if BATCH in self.forms else self.form(QUERY)
        return form

    def _check_values(self) -> None:
        """Raise `UsageError` for a column that cannot be compared."""
        if not 0 <= self.tolerance < 1:
            raise UsageError(
                f"workload {self.name!r}: tolerance is {self.tolerance}",
                remedy="give a relative difference such as 1e-9, or 0 for equality",
            )
        if self.types:  # imported on use: the load generator's process needs no pandas
            from harness.measure.values import demand_comparable
        for column, kind in self.types.items():
            if column not in self.columns:
                raise UsageError(
                    f"workload {self.name!r}: types names {column!r}, which is not a column of it",
                    remedy=did_you_mean(column, self.columns),
                )
            demand_comparable(self.name, column, kind, identity=column in self.identity)

    @property
    def due_after_s(self) -> float:
        """Event time from a window's end until it falls due: of the slowest source."""
        return self.watermark_delay_s + max(source.lag_s for source in self.sources)

    @property
    def window_column(self) -> str:
        """The timestamp column that tells a result's window."""
        return self.window_end or self.window_start

    @property
    def columns(self) -> list[str]:
        """The columns of a result, identity first."""
        return [*self.identity, *self.values]

    @property
    def identity_in_run(self) -> list[str]:
        """The identity with ``window_start_s``, seconds since the load began, as the window."""
        return ["window_start_s", *(c for c in self.identity if c != self.window_column)]

    def source(self, name: str) -> Source:
        """Return the source of that name; raise `UsageError` if there is none."""
        for source in self.sources:
            if source.name == name:
                return source
        raise UsageError(
            f"workload {self.name!r} has no source {name!r}",
            remedy=did_you_mean(name, [source.name for source in self.sources]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A workload of the tree, as `workloads.entries` lists it."""

    name: str
    """`Workload.name` of what ``make`` builds."""
    label: str
    """The name in figures."""
    paper: str
    """The paper of the application, by the names of ``--paper``."""
    make: Callable[..., Workload]
    """The workload; every parameter has a default, ``seed`` among them."""
    paper_rate_per_s: float | None
    """Records per second of all sources in the paper; None where it prints none."""

    def __post_init__(self) -> None:
        check_name(self.name)
