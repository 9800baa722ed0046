"""Q1 and Q2 while parts of them are dead: what the accuracy figures of the PPA papers share.

The topologies that are planned are those that run (`workloads.worldcup`, `workloads.traffic`):
their degrees, edges and rates. A plan's accuracy is the share of the accurate answers that the
living tasks still give (Q1 |S_T ∩ S_A| / |S_A|, Q2 |I_T ∩ I_A| / |I_A|), computed by the
workload's own operators on the records that both would read (`workloads.toolkit.partial`).

Q1 comes twice, because its accuracy depends on something that the papers do not discuss: whether
every server holds all pages. In the archive servers are mirrors of each other, so the hottest
pages of any few servers are nearly the hottest of all. Where each page is on one server only,
what is lost with a server is lost whole. Reality lies between the two.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from experiments.ppa import _random
from harness.measurement import Context
from harness.planning.base import ReplicationPlan
from harness.results.record import Outcome, Point, Profile
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
"""Of each of Q2's first three operators; with the sink 25 tasks, as many as Q1 has. Chosen."""
OWN_PAGES = "Q1, own pages"
QUERIES = ("Q1", OWN_PAGES, "Q2")
COMPUTED = "computed"
"""The engine of these points: operators in this process. Live engines add points of their own."""
POINTS: Sequence[Mapping[str, str]] = [{"query": q, "engine": COMPUTED} for q in QUERIES]
STAMP = "computed: dead tasks' outputs left out, no cluster; task counts partly chosen"
NOTES = (
    "Computed by the workload's own operators, task by task, with the outputs of dead tasks left "
    "out: the steady state of a failure, without its beginning.",
    "Tasks: Q1 20-4-1 (the 20 and the 1 are printed), Q2 8-8-8-1 (chosen).",
    '"Own pages" is Q1 with every page on one server only, where the archive\'s servers are '
    "mirrors; the papers' data lies between the two.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """How much of a query is run."""

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
"""The paper profile is the papers' own scale but for the length of the run."""


class PaperQuery:
    """One of the papers' queries with its input, ready to be run in part."""

    def __init__(self, name: str, profile: Profile, seed: int) -> None:
        scale = SCALES[profile]
        self.workload, rate, seconds = _workload(name, scale, seed)
        timeline = timeline_of(self.workload, start_us=START_US, batch_s=BATCH_S)
        program = program_of(self.workload, timeline=timeline, rate=rate)
        sources, self.records = recorded(self.workload, program, seconds=seconds)
        if name == OWN_PAGES:
            program = with_own_pages(program)
        self.topology: Topology = program.topology
        self._runs = PartialRuns(program, sources, batches=int(seconds / BATCH_S))
        self._accurate = self._runs.results()

    def accuracy(self, tasks: Collection[int]) -> float:
        """The accuracy while only these tasks, by their numbers in the topology, are alive."""
        delivered = self._runs.results([self.topology.place(task) for task in tasks])
        if not delivered.num_rows:
            return 0.0
        share = local_accuracy(self.workload, delivered, self._accurate)
        assert share is not None, f"{self.workload.name} gave no result without failure"
        return share


def _workload(name: str, scale: Scale, seed: int) -> tuple[Workload, float | None, float]:
    """The workload, its records per second (None: the papers' clock), and for how long."""
    if name == "Q2":
        workload = traffic_jams(
            seed=seed,
            users=scale.users,
            segments=1_000,
            partitions=TRAFFIC_TASKS,
            window_s=scale.traffic_window_s,
            slide_s=10,
        )
        return workload, None, scale.traffic_s
    return world_cup(seed=seed, partitions=SLICERS), scale.requests_per_s, scale.requests_s


def q1_topology() -> Topology:
    """Q1 as it runs at the papers' rate, without an input."""
    workload, rate, _ = _workload("Q1", SCALES[Profile.PAPER], 0)
    timeline = timeline_of(workload, start_us=START_US, batch_s=BATCH_S)
    return program_of(workload, timeline=timeline, rate=rate).topology


@lru_cache(maxsize=4)
def query(name: str, profile: Profile, seed: int) -> PaperQuery:
    """The query called ``name``, one of `QUERIES`."""
    return PaperQuery(name, profile, seed)


Choice = Callable[[Topology, int], ReplicationPlan]


def run_plans(
    point: Point, context: Context, ratios: Sequence[float], choices: Mapping[str, Choice], by: str
) -> Outcome:
    """Every choice of a plan at every ratio, on one input: what its objective says it is worth,
    and what it is worth. ``by`` is the column that names the choices."""
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
    """O1 where no two servers have a page in common: an object's number says whose it is."""

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
    """Q1's ``program`` with `OwnPages`."""

    def task(operator: str, index: int) -> TableTask:
        inner = program.task(operator, index)
        return OwnPages(inner, index) if operator == "slice" else inner

    return replace(program, task=task)


def mean_by(frame: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """Means over repetitions of ``value`` and ``accuracy``, with the extremes of accuracy."""
    grouped = frame.groupby(list(by), sort=False)
    return grouped.agg(
        value=("value", "mean"),
        accuracy=("accuracy", "mean"),
        lowest=("accuracy", "min"),
        highest=("accuracy", "max"),
        count=("accuracy", "count"),
    ).reset_index()
