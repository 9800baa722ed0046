"""Vectorized operators: a workload as a topology of tasks over Arrow tables.

The second form of a workload, for engines that control every task. Input is cut into batches by
intended time: batch b of a `Timeline` covers [start + b·batch, start + (b + 1)·batch). A task
(the task operator of `harness.protocol`) takes one table per upstream task and batch and gives
one per downstream task; a source task takes what its Kafka partition held in that time, with the
columns of `SOURCE_SCHEMA`.

Everything here is exact and depends on the arguments alone, so a replica's output equals its
primary's, and the results equal those of the workload's Spark query. State is a value: a task
returns another state and never changes the one it got."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from harness.errors import UsageError
from harness.topology.model import Topology
from harness.topology.partitioning import Partitioning
from workloads.base import TASKS, Reference, Workload
from workloads.toolkit.durations import microseconds

SOURCE_SCHEMA = pa.schema(
    [
        ("value", pa.binary()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us")),
    ]
)
"""The input of a source task, as in Spark's Kafka source; ``timestamp`` is the intended time."""

Ints = NDArray[np.int64]

COMPACT_EVERY = 16
"""Batches between two times at which a pane that is being filled is made smaller."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """Batches, panes (one slide long) and windows; all times in microseconds."""

    start_us: int
    """The start of batch 0: a whole multiple of the slide since the epoch."""
    batch_us: int
    slide_us: int
    window_us: int

    def __post_init__(self) -> None:
        for name, longer, shorter in (
            ("slide", self.slide_us, self.batch_us),
            ("window", self.window_us, self.slide_us),
            ("start", self.start_us, self.slide_us),
        ):
            if shorter <= 0 or longer % shorter:
                raise UsageError(
                    f"a timeline's {name} of {longer} µs is no whole multiple of {shorter} µs",
                    remedy="batches must divide slides, slides windows, and runs begin at a slide",
                )

    @property
    def batches_per_slide(self) -> int:
        """Batches from the start of one window to the next."""
        return self.slide_us // self.batch_us

    @property
    def batches_per_window(self) -> int:
        """Batches in a window."""
        return self.window_us // self.batch_us

    @property
    def panes_per_window(self) -> int:
        """Slides in a window."""
        return self.window_us // self.slide_us

    def end_us(self, batch: int) -> int:
        """Return the first instant after ``batch``."""
        return self.start_us + (batch + 1) * self.batch_us

    def ends_pane(self, batch: int) -> bool:
        """Return True if a slide, and so a window, ends with ``batch``."""
        return (batch + 1) % self.batches_per_slide == 0

    def window_start_us(self, batch: int) -> int:
        """Return the start of the window that ends with ``batch``."""
        return self.end_us(batch) - self.window_us


def timeline_of(workload: Workload, *, start_us: int, batch_s: float) -> Timeline:
    """Return the timeline of a workload's windows for a run that begins at ``start_us``."""
    return Timeline(
        start_us=start_us,
        batch_us=microseconds(batch_s),
        slide_us=microseconds(workload.slide_s),
        window_us=microseconds(workload.window_s),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TableProgram:
    """A workload as a topology and the code of its tasks."""

    topology: Topology
    task: Callable[[str, int], TableTask]
    """The task of an operator by its index; each call makes its own."""
    sources: Mapping[str, str]
    """Source operator to the workload's source (topic); task i reads partition i."""
    timeline: Timeline
    windows_in_a_row: int = 1
    """The number of windowed operators in a row: the last result comes this many windows after the
    last record."""


def program_of(
    workload: Workload, *, timeline: Timeline, rate: float | None = None, **choices: Any
) -> TableProgram:
    """Return the tasks of ``workload``, so that the same experiment can run it on any engine.

    ``rate`` is records per second of all sources together (None: the paper's), for the planners;
    ``choices`` are further parameters of the workload's own, such as ``mergers``. Raises
    `UsageError` if the workload has no such form."""
    tasks = workload.form(TASKS)
    target, parameters = tasks.target, {**tasks.parameters, **choices}
    reference = Reference(target=target, parameters=parameters)
    program = reference.build(timeline=timeline, rate=rate)
    assert isinstance(program, TableProgram), f"{workload.name}: {program!r:.80} is no TableProgram"
    for operator, source in program.sources.items():
        parallelism = program.topology.operator(operator).parallelism
        assert parallelism == workload.source(source).partitions, f"{operator} reads {source}"
    return program


def merging(upstream: int, downstream: int) -> Partitioning:
    """Return the partitioning from ``upstream`` tasks to as many or fewer ``downstream`` ones."""
    return Partitioning.ONE_TO_ONE if upstream == downstream else Partitioning.MERGE


class TableTask:
    """A task over tables, with what most of them share; subclasses give `work`."""

    memory = 1
    """The number of batches of input that the state depends on, the newest included."""
    reads_times = True
    """True if a source task needs its records' times; a host need not read them if not."""

    def initial(self) -> Any:
        return None

    def process(
        self, state: Any, batch: int, inputs: Sequence[pa.Table | None]
    ) -> tuple[Any, tuple[pa.Table, ...]]:
        """Return the state after ``batch``, and a table for each downstream task (a sink: one).

        A missing input (the batch is tentative) counts as an empty one."""
        present = [table for table in inputs if table is not None]
        return self.work(state, batch, present)

    def work(
        self, state: Any, batch: int, inputs: Sequence[pa.Table]
    ) -> tuple[Any, tuple[pa.Table, ...]]:
        """`process` for the inputs that are there, in the order of the upstream tasks."""
        raise NotImplementedError

    def tuples(self, inputs: Sequence[pa.Table | None]) -> int:
        return sum(table.num_rows for table in inputs if table is not None)

    def state_tuples(self, state: Any) -> int:
        """Rows of every table within the state."""
        if isinstance(state, pa.Table):
            return int(state.num_rows)
        if isinstance(state, tuple | list):
            return sum(self.state_tuples(item) for item in state)
        return 0


class Forward(TableTask):
    """Hands its input on, as one table: an operator that adds depth and nothing else."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema

    def work(
        self, state: Any, batch: int, inputs: Sequence[pa.Table]
    ) -> tuple[Any, tuple[pa.Table, ...]]:
        return state, (joined(inputs, self.schema),)


class PaneTask(TableTask):
    """A task that gathers rows by pane and gives a result at the end of every window.

    Its state is the finished panes of the current window, oldest first, and the pane that is
    being filled."""

    schema: pa.Schema
    """The schema of a pane."""
    result: pa.Schema
    """The schema of a result."""

    def __init__(self, timeline: Timeline) -> None:
        self.timeline = timeline
        self.memory = timeline.batches_per_window

    def add(self, pane: pa.Table, inputs: Sequence[pa.Table]) -> pa.Table:
        """Return the pane with the rows of one batch added."""
        return joined([pane, *inputs], self.schema)

    def compact(self, pane: pa.Table) -> pa.Table:
        """Return the same pane in fewer rows.

        It is called once the pane is full, and every `COMPACT_EVERY` batches, so that `add` leaves
        work that is cheaper for many batches at once."""
        return pane

    def conclude(self, window_start_us: int, panes: Sequence[pa.Table]) -> pa.Table:
        """Return the result of a window that consists of ``panes``."""
        raise NotImplementedError

    @cached_property
    def nothing(self) -> pa.Table:
        """Its result where no window ends: the same table each time, which is made once."""
        return self.result.empty_table()

    def initial(self) -> tuple[pa.Table, ...]:
        return (self.schema.empty_table(),)

    def work(
        self, state: tuple[pa.Table, ...], batch: int, inputs: Sequence[pa.Table]
    ) -> tuple[tuple[pa.Table, ...], tuple[pa.Table, ...]]:
        *finished, filling = state
        pane = self.add(filling, inputs)
        ends = self.timeline.ends_pane(batch)
        if ends or (batch + 1) % COMPACT_EVERY == 0:
            pane = self.compact(pane)
        panes = (*finished, pane)
        if not ends:
            return panes, (self.nothing,)
        result = self.conclude(self.timeline.window_start_us(batch), panes)
        oldest = max(len(panes) - self.timeline.panes_per_window + 1, 0)
        return (*panes[oldest:], self.schema.empty_table()), (result,)


def joined(tables: Sequence[pa.Table], schema: pa.Schema) -> pa.Table:
    """Return the rows of ``tables``, one table after the other, in one piece."""
    if not tables:
        return schema.empty_table()
    if len(tables) == 1 and tables[0].column(0).num_chunks == 1:
        return tables[0]
    return pa.concat_tables(tables).combine_chunks()


def numbers(table: pa.Table, name: str) -> Ints:
    """Return an integer or timestamp column as int64."""
    column = table.column(name)
    return np.asarray(column.cast(pa.int64()).to_numpy(), dtype=np.int64)


def whole_records(table: pa.Table, size: int) -> tuple[pa.Table, NDArray[np.uint8]]:
    """Return the rows with values of ``size`` bytes, and the values as a ``(rows, size)`` array.

    Markers are shorter and contribute to no result."""
    whole, raw = whole_values(table, size)
    return (table if whole.all() else table.filter(pa.array(whole)).combine_chunks()), raw


def whole_values(table: pa.Table, size: int) -> tuple[NDArray[np.bool_], NDArray[np.uint8]]:
    """Which values are ``size`` bytes long, and those values as a ``(rows, size)`` array."""
    if not table.num_rows:
        return np.zeros(0, dtype=bool), np.zeros((0, size), dtype=np.uint8)
    values = table.column("value").combine_chunks()
    _, offsets, data = values.buffers()
    ends = np.frombuffer(offsets, dtype=np.int32)[values.offset :][: len(values) + 1]
    whole = np.diff(ends) == size
    if data is None or not whole.any():
        return whole, np.zeros((0, size), dtype=np.uint8)
    raw = np.frombuffer(data, dtype=np.uint8)
    if whole.all():
        return whole, raw[ends[0] : ends[-1]].reshape(-1, size)
    return whole, raw[ends[:-1][whole][:, np.newaxis] + np.arange(size)]


def summed(keys: Ints, amounts: Ints) -> tuple[Ints, Ints]:
    """Return the distinct ``keys``, ascending, and the sums of their ``amounts`` (below 2**53)."""
    distinct_keys, place = np.unique(keys, return_inverse=True)
    sums = np.bincount(place, weights=amounts, minlength=len(distinct_keys))
    return distinct_keys, sums.astype(np.int64)


def totals(table: pa.Table, keys: Sequence[str], summed: Sequence[str]) -> pa.Table:
    """Return the sums of ``summed`` per distinct ``keys``, in the order of first appearance."""
    grouped = table.group_by(list(keys), use_threads=False)
    result = grouped.aggregate([(name, "sum") for name in summed])
    return result.rename_columns({f"{name}_sum": name for name in summed}).select([*keys, *summed])


def distinct(table: pa.Table, keys: Sequence[str]) -> pa.Table:
    """Return the distinct rows of the columns ``keys``, in the order of first appearance."""
    return table.select(list(keys)).group_by(list(keys), use_threads=False).aggregate([])


def split_rows(table: pa.Table, part: Ints, parts: int) -> tuple[pa.Table, ...]:
    """``table`` cut into ``parts`` tables by a part number per row; the order of rows stays."""
    return tuple(table.filter(pa.array(part == number)) for number in range(parts))


def timestamps(time_us: Ints | Sequence[int]) -> pa.Array:
    """Microseconds since the epoch as a timestamp column."""
    return pa.array(np.asarray(time_us, dtype=np.int64)).cast(pa.timestamp("us"))
