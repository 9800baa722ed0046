"""edge Fig. 5a, 5b, live: throughput of accident detection with and without a failure.

A node of the task engine for each of the testbed's 14 gateways, 5 micro datacenters and the cloud,
with the testbed's declared delays and bandwidth between them. The planners choose replicas and
places, as in `edge/throughput`. The node of both aggregators is killed; a worker in its place is
there when heartbeats were missed and a process has started. With a very high ε every report counts
as one of a standing car: the whole input then arrives at the sink and can be counted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from experiments.edge import _deployment, throughput
from experiments.edge._deployment import GATEWAYS, MASTER, MECHANISMS, Deployment, deploy
from experiments.edge._runs import (
    CHECKPOINT_S,
    FAILURE_S,
    HEARTBEAT_TIMEOUT_S,
    RESTART_S,
    STRIKES_AFTER_S,
)
from experiments.live._judged import Tables, equal_output, passes_of
from experiments.live._runs import outcome_of, task_run
from experiments.live._topology import SPEC, kept
from harness.claims import Claim, Finding, not_asked
from harness.claims.samples import FEWEST
from harness.cluster.base import Action
from harness.engines.base import Setup
from harness.engines.tasks.parameters import Links, TaskParameters
from harness.experiment import Experiment
from harness.failures.schedule import FailureEvent, Schedule
from harness.judging.run import Variant, measure_each
from harness.measurement import Context, Measurement, Origin, Scheduling
from harness.planning.schedulers import STORE, replica_of
from harness.results.record import Outcome, Point, Profile
from harness.results.tables import Results
from workloads.accident import accidents

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BATCH_S = 1.0
BYTES_PER_S = 12_500_000.0
"""100 Mbit/s."""
TASKS = (
    *(f"filter{n}" for n in range(GATEWAYS)),
    *(f"aggregate{n}" for n in range(_deployment.AGGREGATORS)),
    "sink",
)
"""Tasks by the numbers of the workload's topology: source and filter are one task here."""
BEFORE_S = 100
"""Time that the traffic on the roads has lasted when a run begins."""
EVERY_REPORT_KMH = 999


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """A profile's length, in seconds; the paper's are 60 and 30."""

    input_s: float
    fail_at_s: float


SCALES = {
    Profile.SMOKE: Scale(input_s=14, fail_at_s=6),
    Profile.QUICK: Scale(input_s=17, fail_at_s=6),
    Profile.PAPER: Scale(input_s=60, fail_at_s=30),
}


def setup(deployment: Deployment, *, replicated: Sequence[str]) -> Setup:
    """Return the engine's setup of a deployment, with a replica of each task in ``replicated``.

    A task that a failure leaves without a copy waits for the next worker."""
    plan = [number for number, name in enumerate(TASKS) if name in replicated]
    slots = [0] * len(SPEC.node_names)
    for name in TASKS:
        slots[deployment.node(name)] += 1
        if name in replicated:
            slots[deployment.node(replica_of(name))] += 1
    given = TaskParameters(
        plan=plan,
        placement=[deployment.node(name) for name in TASKS],
        replicas_at={number: deployment.node(replica_of(TASKS[number])) for number in plan},
        slots=slots,
        checkpoint_s=float(CHECKPOINT_S),
        restart_s=HEARTBEAT_TIMEOUT_S + RESTART_S,
        links=links(deployment),
    )
    return Setup(scheme="ppa", parameters=given)


def links(deployment: Deployment) -> Links:
    """Return the testbed's delays and bandwidth; the coordinator is on the master.

    The cluster's other nodes host nothing and are at the master's place."""
    network = deployment.network
    names = [node.name for node in network.nodes]
    spare = [MASTER] * (len(SPEC.node_names) - len(names))
    places = [*names, *spare, MASTER]
    return Links.between(
        places[:-1],
        network.latency_s,
        coordinator=MASTER,
        store=deployment.placement[STORE],
        bytes_per_s=BYTES_PER_S,
    )


def run(point: Point, context: Context) -> Outcome:
    """Measure one mechanism: the twin is the run without a failure."""
    scale = SCALES[context.profile]
    deployment = deploy(str(point["mechanism"]), throughput.RATE)
    at_s = scale.fail_at_s + STRIKES_AFTER_S
    chosen = setup(deployment, replicated=deployment.useful())
    node = SPEC.node_names[deployment.node("aggregate0")]
    kill = Schedule(
        events=[FailureEvent(at_s=at_s, action=Action.KILL, target=node)],
        origin="the node of the aggregators",
    )
    roads = accidents(
        seed=context.seed("input"),
        partitions=GATEWAYS,
        start_s=BEFORE_S,
        epsilon_kmh=EVERY_REPORT_KMH,
    )
    wanted = task_run(
        # Output is counted as it arrives, and written into no table.
        workload=replace(roads, into_table=False),
        setup=chosen,
        interval_s=BATCH_S,
        rate_per_s=float(throughput.OFFERED),
        load_s=scale.input_s,
    )
    variants = {"failure": Variant(setup=chosen, schedule=kill)}
    outcomes = measure_each(wanted, variants, context.cluster(SPEC), context)
    rows = arrivals(outcomes["failure"].series["results"], scale)
    return outcome_of(outcomes, {}, throughput=rows)


def arrivals(results: pd.DataFrame, scale: Scale) -> pd.DataFrame:
    """Return tuples a second at the sink: reports in the first version of each result.

    By the second in which it came; the failure is moved to the paper's second."""
    counted = results.assign(
        second=np.floor(results["arrival_s"]).astype(int),
        tuples=results["car_ids"].str.split().str.len(),
    )
    frames = []
    for which, failure in (("twin", False), ("failed", True)):
        mine = counted[counted["pass"] == which].groupby("second")["tuples"].sum()
        whole = mine.reindex(range(1, int(scale.input_s)), fill_value=0)
        frames.append(
            pd.DataFrame(
                {
                    "second": whole.index + round(FAILURE_S - scale.fail_at_s),
                    "tuples_per_s": whole.to_numpy(dtype=float),
                    "failure": failure,
                }
            )
        )
    return pd.concat(frames, ignore_index=True)


GRID: list[Point] = [{"mechanism": name} for name in MECHANISMS]

MEASUREMENT = Measurement(
    id="live/edge-throughput",
    origin=Origin.MEASURED,
    grid={Profile.SMOKE: GRID[-1:], Profile.QUICK: GRID, Profile.PAPER: GRID},
    repeats={Profile.SMOKE: 1, Profile.QUICK: 1, Profile.PAPER: FEWEST},
    seconds_per_run={Profile.SMOKE: 45.0, Profile.QUICK: 42.0, Profile.PAPER: 140.0},
    run=run,
    scheduling=Scheduling(keeps=kept),
    chooses=["harness.engines.tasks.engine"],
)

# Shown: no record depends on what follows.


def table(results: Results) -> dict[str, pd.DataFrame]:
    """Return ``throughput`` by mechanism, failure, repetition, second; ``passes`` (`passes_of`)."""
    rows = results.series("throughput", ("mechanism", "repeat")).drop(columns="run")
    return {"throughput": rows, "passes": passes_of(results, ["mechanism"], "uncorrected")}


def draw(tables: Tables, figure: Figure) -> None:
    """Draw on the axes of `edge/throughput`, as far as the run reaches.

    Tuples that were held back come in one second: their number is written where it would leave the
    picture."""
    rows = tables["throughput"]
    throughput.draw(rows, figure, stamped=STAMP)
    if not len(rows):
        return
    top = 2 * throughput.OFFERED
    for axes, failure in zip(figure.axes, (False, True), strict=True):
        axes.set_xlim(rows["second"].min() - 1, rows["second"].max() + 2)
        axes.set_ylim(-0.05 * top, 1.05 * top)
        above = rows[(rows["failure"].astype(bool) == failure) & (rows["tuples_per_s"] > top)]
        labels = [
            f"{one['mechanism']} {one['tuples_per_s']:,.0f} tuples/s"
            for one in above.to_dict("records")
        ]
        if labels:
            axes.annotate(
                "\n".join(["catching up:", *labels]),
                (float(above["second"].max()) + 1, 0.95 * top), xytext=(3, 0),
                textcoords="offset points", va="top", fontsize=7,
            )  # fmt: skip


STAMP = "live: 20 processes of one machine with declared delays and bandwidth; first versions"


def _live(simulated: Claim) -> Claim:
    """Return a claim of the simulated figure about the live rows of all mechanisms."""

    def decide(tables: Tables) -> Finding:
        rows = tables["throughput"]
        whole = set(MECHANISMS) <= set(rows["mechanism"])
        return simulated.decide(rows) if whole else not_asked()

    words = simulated.text.replace(f" {throughput.CIRCULAR}", "")
    return replace(simulated, text=words, decide=decide, because=None, unmeasured_because=None)


CLAIMS = [equal_output, *map(_live, throughput.CLAIMS)]


EXPERIMENT = Experiment(
    measurement=MEASUREMENT,
    paper=_deployment.PAPER,
    figure="Figure 5, live",
    title="Throughput of accident detection around a failure, live",
    statement=(
        "All four stay near the input rate without a failure; after one ck-only+DRA has a gap of "
        "about 10 s, RPPG+DRA drops to half, full-rep+DRA and RPPG+RAS do not change."
    ),
    table=table,
    draw=draw,
    claims=CLAIMS,
    notes=(
        "20 nodes of the cluster of the other live figures, with the testbed's declared "
        "delays (20 and 50 ms) and 100 Mbit/s; the receiver "
        "holds a message back until it could have come. Quick: 17 s of input and the failure in "
        "second 6, drawn at the paper's second 30.",
        "Every report counts, so that the throughput at the sink is the input's. A tentative "
        "result counts when it came first, what it lacked when the stable one came.",
        "Replicas take over when the killed node's connection closes. A task without a replica "
        f"waits for a worker in its place, {HEARTBEAT_TIMEOUT_S + RESTART_S:g} s after the kill: "
        "the heartbeat's timeout and another second (chosen). Replicas on their primary's own "
        "node, which die with it, are not started.",
        *_deployment.NOTES,
    ),
    figure_size_in=(8.0, 5.6),
    smoke_covered_by="stock/worker-kill",
    quick_by_page=True,
)
