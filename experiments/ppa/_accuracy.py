"""Q1 and Q2 while some of their tasks are dead: the code that the figures of accuracy share.

Plans are made for the topologies that run (`workloads.worldcup`, `workloads.traffic`): their
degrees, edges and rates. A plan's accuracy is the share of the accurate answers that the living
tasks still give (Q1 |S_T ∩ S_A| / |S_A|, Q2 |I_T ∩ I_A| / |I_A|), computed by the workload's own
operators on the records that both would read (`workloads.toolkit.partial`).

Q1 comes twice, because its accuracy depends on a fact that the papers do not discuss: the servers
that hold a page. In the archive servers are mirrors of each other, so the hottest pages of any few
servers are nearly the hottest of all. Where each page is on one server only, its requests are lost
with that server. Reality lies between the two."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from experiments.ppa import _random
from harness.claims import Rule, rows
from harness.experiment import Context, Outcome, Point, Profile
from harness.figures.chart import Line, Panel
from harness.planning.base import ReplicationPlan
from harness.seeds import DEFAULT_SEED
from harness.topology.model import Topology
from workloads.base import Workload
from workloads.toolkit.accuracy import local_accuracy
from workloads.toolkit.operators import TableProgram, TableTask, numbers, program_of, timeline_of
from workloads.toolkit.partial import PartialRuns, recorded
from workloads.traffic import traffic_jams
from workloads.worldcup import world_cup

START_US = 1_800_000_000_000_000
BATCH_S = 1.0
SLICERS = 20
"""The papers' Q1 has 20 MC-trees."""
TRAFFIC_TASKS = 8
"""Tasks of each of Q2's first three operators; with the sink 25 tasks, as in Q1. Chosen."""
FULL_EDGE = "Q1, 4 × 5"
OWN_PAGES = "Q1, own pages"
QUERIES = ("Q1", FULL_EDGE, OWN_PAGES, "Q2")
CONTESTANTS = ("dp", "sa", "greedy")
"""Planners that are compared by the accuracy of their plans."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A reading of Q1's "20 MC-trees", and of the servers that hold a page."""

    slicers: int = SLICERS
    mergers: int | None = None
    """None: a merger for every five slicers, which alone send to it. Else a full edge."""
    own_pages: bool = False
    window_s: float = 10
    """The papers give no length."""


READINGS: Mapping[str, Reading] = {
    "Q1": Reading(),
    FULL_EDGE: Reading(slicers=4, mergers=5),
    OWN_PAGES: Reading(own_pages=True),
}
COMPUTED = "computed"
"""The engine of these points: operators in this process. Live engines add points of their own."""
POINTS: Sequence[Mapping[str, str]] = [{"query": q, "engine": COMPUTED} for q in QUERIES]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """The amount of a query that is run."""

    requests_per_s: float
    requests_s: float
    users: int
    traffic_window_s: float
    traffic_s: float


SCALES: Mapping[Profile, Scale] = {
    Profile.SMOKE: Scale(
        requests_per_s=2_000, requests_s=14, users=5_000, traffic_window_s=40, traffic_s=60
    ),
    Profile.QUICK: Scale(
        requests_per_s=40_718, requests_s=20, users=20_000, traffic_window_s=100, traffic_s=300
    ),
    Profile.PAPER: Scale(
        requests_per_s=40_718, requests_s=60, users=100_000, traffic_window_s=300, traffic_s=600
    ),
}
"""The paper profile has the papers' own scale, except for the length of the run."""


class PartialQuery:
    """A query with its input, ready to be run in part."""

    def __init__(
        self,
        workload: Workload,
        rate: float | None,
        seconds: float,
        *,
        batch_s: float = BATCH_S,
        own_pages: bool = False,
        **edge: Any,
    ) -> None:
        """Prepare a workload at ``rate`` records a second; ``edge``: options of its tasks."""
        self.workload = workload
        timeline = timeline_of(workload, start_us=START_US, batch_s=batch_s)
        program = program_of(workload, timeline=timeline, rate=rate, **edge)
        sources, self.records = recorded(workload, program, seconds=seconds)
        if own_pages:
            program = with_own_pages(program)
        self.topology: Topology = program.topology
        self._runs = PartialRuns(program, sources, batches=int(seconds / batch_s))
        self._accurate = self._runs.results()

    def accuracy(self, tasks: Collection[int]) -> float:
        """Return the accuracy while only these tasks, by their numbers, are alive."""
        delivered = self._runs.results([self.topology.place(task) for task in tasks])
        if not delivered.num_rows:
            return 0.0
        share = local_accuracy(self.workload, delivered, self._accurate)
        assert share is not None, f"{self.workload.name} gave no result without failure"
        return share


def _workload(
    reading: Reading | None, scale: Scale, seed: int
) -> tuple[Workload, float | None, float]:
    """Return the workload, records per second (None: the papers' clock), and seconds."""
    if reading is None:
        workload = traffic_jams(
            seed=seed,
            users=scale.users,
            segments=1_000,
            partitions=TRAFFIC_TASKS,
            window_s=scale.traffic_window_s,
            slide_s=10,
        )
        return workload, None, scale.traffic_s
    window_s = reading.window_s
    workload = world_cup(seed=seed, partitions=reading.slicers, window_s=window_s)
    return workload, scale.requests_per_s, scale.requests_s


def q1_topology() -> Topology:
    """Return Q1 as it runs at the papers' rate, without an input."""
    workload, rate, _ = _workload(Reading(), SCALES[Profile.PAPER], 0)
    timeline = timeline_of(workload, start_us=START_US, batch_s=BATCH_S)
    return program_of(workload, timeline=timeline, rate=rate).topology


@lru_cache(maxsize=4)
def query(name: str, profile: Profile, seed: int) -> PartialQuery:
    """Return the query called ``name``, one of `QUERIES`."""
    return read_as(READINGS.get(name), profile, seed)


def read_as(reading: Reading | None, profile: Profile, seed: int) -> PartialQuery:
    """Return Q1 under a reading, or Q2 (None)."""
    workload, rate, seconds = _workload(reading, SCALES[profile], seed)
    if reading is None:
        return PartialQuery(workload, rate, seconds)
    edge = {} if reading.mergers is None else {"mergers": reading.mergers, "full": True}
    return PartialQuery(workload, rate, seconds, own_pages=reading.own_pages, **edge)


Choice = Callable[[Topology, int], ReplicationPlan]


def run_plans(
    point: Point, context: Context, ratios: Sequence[float], choices: Mapping[str, Choice], by: str
) -> Outcome:
    """Plan by every choice at every ratio, on one input; ``by`` is the column with their names.

    ``value`` is a plan's objective and ``accuracy`` its measured accuracy."""
    name = str(point["query"])
    chosen = query(name, context.profile, context.seed("input", name))
    rows = []
    for ratio in ratios:
        context.progress("planning and running", fraction=ratio)
        budget = _random.budget(chosen.topology, ratio)
        for label, choose in choices.items():
            plan = choose(chosen.topology, budget)
            rows.append((ratio, label, plan.value, chosen.accuracy(plan.tasks)))
    frame = pd.DataFrame(rows, columns=["ratio", by, "value", "accuracy"])
    return Outcome(
        values={"records": chosen.records, "tasks": chosen.topology.task_count},
        series={"plans": frame},
    )


class OwnPages(TableTask):
    """O1 where no two servers have a page in common: an object's number includes its server's."""

    def __init__(self, inner: TableTask, server: int) -> None:
        self._inner, self._server = inner, server
        self.memory = inner.memory

    def initial(self) -> Any:
        return self._inner.initial()

    def work(
        self, state: Any, batch: int, inputs: Sequence[pa.Table]
    ) -> tuple[Any, tuple[pa.Table, ...]]:
        state, outputs = self._inner.work(state, batch, inputs)
        return state, tuple(self._renamed(table) for table in outputs)

    def _renamed(self, table: pa.Table) -> pa.Table:
        own = numbers(table, "object") * SLICERS + self._server
        return table.set_column(0, "object", pa.array(np.asarray(own)))


def with_own_pages(program: TableProgram) -> TableProgram:
    """Return Q1's ``program`` with `OwnPages`."""

    def task(operator: str, index: int) -> TableTask:
        inner = program.task(operator, index)
        return OwnPages(inner, index) if operator == "slice" else inner

    return replace(program, task=task)


# Shown: no record depends on what follows.

STAMP = "computed: dead tasks' outputs left out, no cluster; task counts partly chosen"
NOTES = (
    "Computed by the workload's own operators, task by task, with the outputs of dead tasks left "
    "out: the steady state of a failure, without its beginning.",
    "Tasks: Q1 20-4-1, which has the printed 20 MC-trees and the printed one task at the end; Q2 "
    "8-8-8-1 (chosen).",
    f'"{FULL_EDGE}" reads the same 20 MC-trees as 4 slicers that send to all of 5 mergers, which '
    "have objects of their own: the reading of most sentences about Q1's accuracy that hold "
    "together (ppa/query-readings).",
    '"Own pages" is Q1 with every page on one server only, where the archive\'s servers are '
    "mirrors; the papers' data lies between the two.",
)
PRINTED_QUERIES = ("Q1", "Q2")
"""The paper's sentences are about these; the others are readings of ours."""
RESTRICTED = Rule(version=2, since="2026-11-23", seen_seeds=(DEFAULT_SEED,))
"""Version 1 asked the same of Q1 with own pages, which no paper describes."""
AS_4_X_5 = Rule(version=2, since="2026-11-23", seen_seeds=(DEFAULT_SEED,))
"""Version 1 knew the reading 20-4-1 alone."""
TOP_100 = (
    "A top 100 is right as soon as the order of its pages is. The World Cup's servers serve the "
    "same pages, so the requests of a few servers are presumably a sample from which nearly the "
    "same pages come out first. OF and IC count requests, so the accuracy can be far above them."
)
"""A reason why the accuracy of Q1 is not its OF."""


def mean_by(frame: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """Return means over repetitions of ``value`` and ``accuracy``, with accuracy's extremes."""
    grouped = frame.groupby(list(by), sort=False)
    return grouped.agg(
        value=("value", "mean"),
        accuracy=("accuracy", "mean"),
        lowest=("accuracy", "min"),
        highest=("accuracy", "max"),
        count=("accuracy", "count"),
    ).reset_index()


def distances(rows: pd.DataFrame, one: str, other: str) -> pd.Series[float]:
    """Return the mean distance of two columns in each repetition."""
    return (rows[one] - rows[other]).abs().groupby(rows["repeat"]).mean()


def by_query(
    lines: Sequence[Line], x: str, y: str, *, queries: Sequence[str] = QUERIES
) -> list[Panel]:
    """Return a panel per query, with shares on both axes and a legend in the last one."""
    return [
        Panel(
            lines,
            x,
            "" if name != queries[0] else y,
            title=name,
            x_range=(-0.02, 1.02),
            y_range=(-0.02, 1.02),
            legend={"loc": "upper left", "handlelength": 3.5} if name == queries[-1] else None,
            where=rows["query"] == name,
        )
        for name in queries
    ]
