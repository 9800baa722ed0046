"""Borealis' experiments on real nodes: pairs of replicas on the task engine.

Every node of the chain is a pair of processes on two racks, with the partner protocol
(`harness.protocol.task.partnership`). Three sources read a stream each; one of them is on a node of
its own. To disconnect its stream, that process is frozen: the stream goes on into Kafka, and when
the process goes on, it sends all that is missing, while new tuples keep coming. A client task at
the end of the chain takes what it gets at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pandas as pd

from experiments.dpc import _shared
from experiments.dpc._shared import BUCKET_US, PROCESS_US, STREAMS
from experiments.live._runs import outcome_of, task_run
from harness.claims import Finding, applied, every, invariant, rows_of
from harness.cluster.base import Action, ClusterSpec
from harness.engines.base import Setup
from harness.engines.tasks.parameters import Borealis, TaskParameters
from harness.experiment import Context, Experiment, Measurement, Results, measured
from harness.failures.schedule import NO_FAILURES, FailureEvent, Schedule
from harness.figures.chart import Chart
from harness.judging import again
from harness.judging.run import LiveRun, Variant, measure_each
from harness.measure.versions import Stability
from harness.protocol.scheme import Method, Policy
from harness.results.record import Outcome, Point, Profile
from workloads.join import borealis_join

LONGEST = 4
"""Nodes of the longest chain."""
SPEC = ClusterSpec(
    racks=2,
    workers_per_rack=1,
    nodes_per_worker=LONGEST + 1,
    cores_per_worker=LONGEST + 1,
    memory_mb_per_worker=768,
)
"""On each rack one node for sources (the client is on the second) and one of each pair."""
CUT, OTHERS = 0, LONGEST + 1
"""The node of the stream that is cut off, and that of the other streams and the client."""
BUCKET_S = BUCKET_US / 1e6
BEGIN_S = 4.0
"""Time from the start of the load to the failure."""
AFTER_S = 4.0
"""Time for which input goes on after the failure, beside the bound."""
STATE = 100
HEARTBEAT_S = 0.1
NEVER_S = 1000.0


measurement = partial(measured, keeps="tasks on pairs", repeats=3)


def over(
    name: str, *, smoke: Sequence[float], quick: Sequence[float], paper: Sequence[float]
) -> Mapping[Profile, Sequence[Point]]:
    """Return the grid of one parameter."""
    chosen = zip(Profile, (smoke, quick, paper), strict=True)
    return {profile: [{name: value} for value in values] for profile, values in chosen}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One pass: the policies of the nodes and the failure that they meet."""

    bound_s: float = 2.7
    during_failure: Policy = Policy.PROCESS
    during_stabilization: Policy = Policy.PROCESS
    method: Method = Method.CHECKPOINT
    snapshot_every: int = 0
    checkpoint_s: float | None = None
    """Time between two stored checkpoints; None: a second, or a bucket if that is longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """The nodes, what they compute, and the input that they share in all passes of a run."""

    nodes: int = 1
    rate_per_s: int = 3000
    state: int = STATE
    boxes: int = 1
    bucket_s: float = BUCKET_S
    process_us: int = PROCESS_US
    """Declared cost of a tuple; 0: what the operator really takes."""
    failure_s: float = 5.0
    after_s: float = AFTER_S

    @property
    def begin_s(self) -> float:
        """Time from the start of the load to the failure: the join is full by then."""
        return max(BEGIN_S, self.state / self.rate_per_s + 1.0)

    @property
    def memory(self) -> int:
        """Buckets that hold the state even without one of the streams."""
        least = self.rate_per_s * self.bucket_s * (STREAMS - 1) / STREAMS
        return int(-(-self.state // max(1.0, least))) + 1

    @property
    def pairs(self) -> range:
        """The tasks with a replica."""
        return range(STREAMS, STREAMS + self.nodes)

    @property
    def client(self) -> int:
        """The task that gets the results."""
        return STREAMS + self.nodes

    @property
    def rooms(self) -> Sequence[int]:
        """Slots of the pair nodes of a rack: a lost copy has no place but its node's next life."""
        return [int(number < self.nodes) for number in range(LONGEST)]

    @property
    def placement(self) -> tuple[int, ...]:
        """Return each task's node: the pairs' primaries on the first rack."""
        return (CUT, OTHERS, OTHERS, *range(1, self.nodes + 1), OTHERS)

    def setup(self, cell: Cell, *, suspect_s: float = NEVER_S, converges: bool = False) -> Setup:
        """Return the engine's setup of a cell.

        ``suspect_s``: only streams fail in most figures, and no node is given up for its silence.
        ``converges``: a node that is back begins with an empty state."""
        given = TaskParameters(
            checkpoint_s=cell.checkpoint_s or max(1.0, self.bucket_s),
            heartbeat_s=HEARTBEAT_S,
            suspect_s=suspect_s,
            trim_s=1.0,
            plan=tuple(self.pairs),
            bound_s=cell.bound_s,
            placement=self.placement,
            replicas_at={task: OTHERS + 1 + task - STREAMS for task in self.pairs},
            slots=[1, *self.rooms, STREAMS, *self.rooms],
            tuples_per_s=1e6 / self.process_us if self.process_us else 0.0,
            borealis=Borealis(
                during_failure=cell.during_failure,
                during_stabilization=cell.during_stabilization,
                method=cell.method,
                snapshot_every=cell.snapshot_every,
                partners=True,
                converges=converges,
                at_once=(self.client,),
            ),
        )
        return Setup(scheme="dpc", parameters=given)

    def run(self, context: Context, *, load_s: float | None = None) -> LiveRun:
        """Return the common part of all passes; the twin has a bound that is never reached."""
        workload = borealis_join(
            seed=context.seed("input"),
            bucket_s=self.bucket_s,
            nodes=self.nodes,
            state=self.state,
            memory=self.memory,
            boxes=self.boxes,
        )
        run = task_run(
            workload=workload,
            setup=self.setup(Cell(bound_s=60.0)),
            interval_s=self.bucket_s,
            rate_per_s=self.rate_per_s,
            load_s=load_s or self.begin_s + self.failure_s + self.after_s,
        )
        return replace(run, punctual_s=0.5)

    @property
    def cut(self) -> Schedule:
        """Freeze the source of one stream for the failure."""
        node = SPEC.node_names[CUT]
        events = [
            FailureEvent(at_s=self.begin_s, action=Action.PAUSE, target=node),
            FailureEvent(at_s=self.begin_s + self.failure_s, action=Action.RESUME, target=node),
        ]
        return Schedule(
            events=events if self.failure_s else NO_FAILURES.events,
            origin="one stream is disconnected",
            parameters={"failure_s": self.failure_s},
        )


def measure(chain: Chain, cells: Mapping[str, Cell], context: Context) -> Outcome:
    """Run a twin, and the same input with one stream cut off once for each of the cells.

    The series ``cells`` has what a client saw of each."""
    variants = {
        name.replace(" & ", "-").replace(" ", "-").replace(".", "_"): Variant(
            setup=chain.setup(cell), schedule=chain.cut
        )
        for name, cell in cells.items()
    }
    found = measure_each(chain.run(context), variants, context.cluster(SPEC), context)
    rows = [
        {"cell": name, **seen(found[variant], chain)}
        for name, variant in zip(cells, variants, strict=True)
    ]
    return outcome_of(found, {"nodes": chain.nodes}, cells=pd.DataFrame(rows))


def joined(outcomes: Sequence[Outcome]) -> Outcome:
    """Return the outcome of several chains under one point."""
    series: dict[str, list[pd.DataFrame]] = {}
    for one in outcomes:
        for name, frame in one.series.items():
            series.setdefault(name, []).append(frame)
    return Outcome(
        values=outcomes[0].values,
        series={name: pd.concat(frames, ignore_index=True) for name, frames in series.items()},
        invalid="; ".join(one.invalid for one in outcomes if one.invalid) or None,
        again="; ".join(one.again for one in outcomes if one.again) or None,
    )


VALUES = (
    "delay_new_s", "delay_after_heal_s", "tentative", "tentative_batches", "mean_delay_s",
    "stabilized_s",
)  # fmt: skip


def seen(found: Outcome, chain: Chain, name: str = "failed") -> dict[str, Any]:
    """Return what a client saw (`VALUES`, as in `experiments.dpc._shared.Measured`), and `judged`.

    A batch's delay begins when its input is complete; ``stabilized_s`` is the time from the end of
    the failure until the last correction."""
    came = again.deliveries(found.series, name)
    came = came[came["stability"] != Stability.UNDO.value]
    unstable = came[came["stability"] == Stability.TENTATIVE.value]
    first = came.groupby("window_start_s")["arrival_s"].min()
    delay = first - first.index - chain.bucket_s
    healed_s = chain.begin_s + chain.failure_s
    after = delay[delay.index >= healed_s]
    stable = came[came["stability"] == Stability.STABLE.value]
    corrected = stable[stable["window_start_s"].isin(unstable["window_start_s"])]
    steady = delay[delay.index >= 1.0] + chain.bucket_s / 2
    return {
        "delay_new_s": float(delay[delay.index >= 1.0].max()),
        "delay_after_heal_s": float(after.max()) if len(after) else None,
        "tentative": float(unstable["tuples"].astype(float).sum()),
        "tentative_batches": len(unstable),
        "mean_delay_s": float(steady.mean()),
        "stabilized_s": float(corrected["arrival_s"].max()) - healed_s if len(corrected) else None,
        **judged(found),
    }


CHECKED = (
    "output_equals_truth", "output_equals_twin", "contradictions", "uncorrected", "failures_done",
    "difference_from_truth",
)  # fmt: skip


def judged(found: Outcome) -> dict[str, Any]:
    """Return what the judge says of a pass."""
    return {name: found.values[name] for name in CHECKED}


# Shown: no record depends on what follows.

STAMP = "live: pairs of processes on two racks of one machine"
NOTE = (
    "Live: every node is a pair of processes on two racks, with the partner protocol: the replica "
    "stabilizes while the primary goes on. The disconnected stream's source is a process that is "
    "frozen; its input waits in Kafka and is sent when it goes on. Declared speed of a node: "
    f"{PROCESS_US} µs a tuple, as in the simulated figure, held by timers. A replica does not go "
    "ahead tentatively, as nobody listens to it: it has nothing to take back."
)


def cells_of(results: Results, by: Sequence[str] = ()) -> pd.DataFrame:
    """Return a row per run and cell: the parameters ``by``, ``cell``, `VALUES` and `CHECKED`."""
    return results.series("cells", by).reindex(columns=["run", *by, "cell", *VALUES, *CHECKED])


passes = rows_of("passes")
equal_output = invariant("equal-output", "The output of every pass equals the truth").every(
    passes["output_equals_truth"].eq(True), passes=applied(len, passes)
)


@invariant(
    "converges",
    "In every pass the stream was really disconnected, and when all has healed the last versions "
    "are stable and equal the twin's and the truth",
)
def converges(tables: Mapping[str, pd.DataFrame]) -> Finding:
    """Judge every pass of the table ``passes``."""
    passes = tables["passes"]
    good = passes["output_equals_truth"].eq(True) & passes["output_equals_twin"].eq(True)
    good &= passes["contradictions"].eq(0) & passes["uncorrected"].eq(0)
    good &= pd.to_numeric(passes["failures_done"]) >= 1
    bad = passes[~good]
    others = [f"{row.cell}: {row.difference_from_truth}" for row in bad.itertuples()]
    return every(good, passes=len(passes), equal=int(good.sum()), others=others)


def averaged(passes: pd.DataFrame, by: Sequence[str], values: Sequence[str]) -> pd.DataFrame:
    """Return a row per point: the means of its runs, and their number."""
    return _shared.averaged(passes.astype(dict.fromkeys(values, float)), by, values, sort=False)


def by_combination(
    results: Results, over: str, values: Sequence[str]
) -> Mapping[str, pd.DataFrame]:
    """Return ``points``, the means of each combination over a parameter, and ``passes``."""
    passes = cells_of(results, [over]).rename(columns={"cell": "combination"})
    passes = passes.assign(cell=passes["combination"])
    by = ["combination", over]
    points = averaged(passes, by, values).sort_values(by, ignore_index=True)
    return {"points": points, "passes": passes}


def shown(simulated: Experiment, measurement: Measurement, **given: Any) -> Experiment:
    """Return the live counterpart of a simulated figure."""
    return simulated.live(measurement, counterpart=simulated.id, fewest=_shared.FEWEST, **given)


def drawn(chart: Chart) -> Chart:
    """Return the drawing of a simulated figure as one of the live table ``points``."""
    return replace(
        chart,
        prepare=lambda tables: tables["points"],
        stamp=lambda tables: f"{STAMP}; {_shared.runs_of(tables['points'])}",
    )
