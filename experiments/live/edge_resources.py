"""edge Fig. 9a-c, live: measured processor, memory and network over the input rate.

The nodes and deployments of `live/edge-throughput`, without a failure. Processor and resident
memory are those of the 20 nodes' processes, by the kernel's accounting. Network is what their TCP
connections carried between two of them and to the store of checkpoints, by the kernel's counters of
each connection (`harness.cluster.traffic`)."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from experiments.edge import _deployment, _runs, resources
from experiments.edge._deployment import MECHANISMS, RATES, deploy
from experiments.live import edge_throughput
from experiments.live._judged import Tables
from experiments.live._runs import steady_pass
from experiments.live._topology import SPEC, kept
from experiments.live.edge_latency import grid, live, workload
from experiments.live.edge_throughput import BATCH_S
from harness.claims import (
    Cause,
    Claim,
    Finding,
    all_of,
    every,
    found,
    invariant,
    not_asked,
    paper,
)
from harness.claims.samples import FEWEST
from harness.experiment import Experiment
from harness.measurement import Context, Measurement, Origin, Scheduling
from harness.results.record import Outcome, Point, Profile
from harness.results.tables import Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from harness.cluster.base import Cluster

LOAD_S = {Profile.SMOKE: 8.0, Profile.QUICK: 24.0, Profile.PAPER: 60.0}
"""Long against the kernel's ticks of 10 ms, in which it gives each process's time."""
SETTLE_S = 4.0
"""Time of a pass until copies are placed and replicas have caught up."""
EVERY_S = 1.0


def run(point: Point, context: Context) -> Outcome:
    """Make one pass of one mechanism at one rate, after a short one.

    What a process loads with its first batches would count, and those that were killed in an
    earlier run are new."""
    from harness.engines.kinds import find_engine
    from harness.judging.passes import Pass
    from harness.judging.run import warm_engine

    rate, load_s = int(str(point["rate"])), LOAD_S[context.profile]
    deployment = deploy(str(point["mechanism"]), rate)
    cluster = context.cluster(SPEC)
    chosen = edge_throughput.setup(deployment, replicated=deployment.replicated)
    engine = warm_engine(find_engine("tasks"), chosen, cluster, context)
    made, rate_per_s = workload(rate, context), float(rate * _deployment.GATEWAYS)
    directory = cluster.scratch(f"edge-{context.directory.name}")
    warming = steady_pass("warm-up", made, rate_per_s, SETTLE_S, BATCH_S)
    with Pass(warming, cluster, engine, directory, context) as one:
        one.run()
    plan = steady_pass(f"at-{rate}", made, rate_per_s, load_s, BATCH_S)
    with Pass(plan, cluster, engine, directory, context) as one, Carried(cluster) as carried:
        record = one.run()
        missing = len(engine.truth(one.work)) - len(record.deliveries)
    nodes = SPEC.node_names[: len(deployment.network.nodes)]
    begin_s = record.start_unix_s + SETTLE_S
    crossed = carried.between(begin_s, record.start_unix_s + load_s)
    return Outcome(
        values={
            **used(record.usage, nodes, from_s=SETTLE_S, until_s=load_s),
            "network_kb_per_s": None if crossed is None else crossed / (load_s - SETTLE_S) / 1000,
            "copies": deployment.copies,
            "missing": missing,
        }
    )


def used(
    usage: pd.DataFrame, nodes: Sequence[str], *, from_s: float, until_s: float
) -> dict[str, float]:
    """Return ``cores`` and ``memory_mb`` of these nodes between two instants: means.

    Interpolated between samples, as a busy machine takes few."""
    mine = usage[usage["who"].isin(nodes)].dropna(subset=["cpu_s", "resident_bytes"])
    cpu_s = 0.0
    for _, samples in mine.groupby("who"):
        begun, ended = np.interp([from_s, until_s], samples["at_s"], samples["cpu_s"])
        cpu_s += float(ended - begun)
    memory = mine.groupby("at_s")["resident_bytes"].sum()
    inside = memory[(memory.index >= from_s) & (memory.index <= until_s)]
    mean = float((inside if len(inside) else memory).mean())
    return {"cores": cpu_s / (until_s - from_s), "memory_mb": mean / 1e6}


@dataclass(slots=True)
class Carried:
    """A sampler of the bytes between nodes on its own thread; a context manager around a pass."""

    cluster: Cluster
    _samples: list[tuple[float, Mapping[int, int] | None]] = field(default_factory=list)
    _stopping: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> Carried:
        self._thread = threading.Thread(target=self._run, name="count bytes", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        from harness.cluster.processes import members
        from harness.cluster.traffic import between

        ports = {self.cluster.redis.port}
        while not self._stopping.wait(EVERY_S):
            workers = members(self.cluster.run).items()
            pids = [stat.pid for worker, stats in workers if worker for stat in stats]
            self._samples.append((time.time(), between(pids, ports)))

    def between(self, from_unix_s: float, until_unix_s: float) -> float | None:
        """Return the bytes between two instants, scaled from the samples in between.

        None where the kernel shows no connection of the nodes."""
        from harness.cluster.traffic import increase

        inside = [one for one in self._samples if from_unix_s <= one[0] <= until_unix_s]
        if len(inside) < 2:
            return None
        (begun, before), (ended, after) = inside[0], inside[-1]
        if before is None or after is None:
            return None
        return increase(before, after) * (until_unix_s - from_unix_s) / (ended - begun)


MEASUREMENT = Measurement(
    id="live/edge-resources",
    origin=Origin.MEASURED,
    grid={
        Profile.SMOKE: grid(RATES[1])[-1:],
        Profile.QUICK: grid(RATES[0], RATES[-1]),
        Profile.PAPER: grid(*RATES),
    },
    repeats={Profile.SMOKE: 1, Profile.QUICK: 1, Profile.PAPER: FEWEST},
    seconds_per_run={Profile.SMOKE: 40.0, Profile.QUICK: 36.0, Profile.PAPER: 75.0},
    run=run,
    scheduling=Scheduling(keeps=kept),
    chooses=["harness.engines.tasks.engine"],
)

# Shown: no record depends on what follows.

STAMP = "live: 20 processes of one machine, by the kernel's counters; no failure"


def table(results: Results) -> dict[str, pd.DataFrame]:
    """Return ``used``, a row per mechanism, rate and repetition."""
    return {"used": _runs.per_run(results, [*resources.MEASURES, "copies", "missing"])}


def draw(tables: Tables, figure: Figure) -> None:
    """Draw on the axes of `edge/resources`, with the paper's numbers in words."""
    resources.draw(tables["used"], figure, stamped=STAMP)
    full, others = (
        " to ".join(f"{each:g}" for each in cores)
        for cores in (resources.FULL_CORES, resources.OTHER_CORES)
    )
    axes = figure.axes[0]
    axes.set_ylim(top=1.25 * axes.get_ylim()[1])
    axes.annotate(
        f"printed: full-rep+DRA {full} cores,\nthe others {others}", (0.03, 0.97),
        xycoords="axes fraction", va="top", fontsize=7,
    )  # fmt: skip


@invariant("complete", "Every result that is due was delivered")
def complete(tables: Tables) -> Finding:
    missing = tables["used"]["missing"]
    return every(missing <= 0, missing=missing.max())


SMALL = (
    "A node is one process here, whatever it hosts: its interpreter and its libraries presumably "
    "take most of its memory, and heartbeats a part of its processor. In Storm each executor "
    "brings a thread and buffers of its own, and its virtual machine a heap."
)
REASONS: Mapping[str, tuple[str, Cause]] = {
    "full-most": (SMALL, Cause.MACHINE),
    "forty-percent": (SMALL, Cause.MACHINE),
    "ras-like-ck": (SMALL, Cause.MACHINE),
    "ras-more-network": (
        "A replica needs its input where it stands; if it stands on its primary's node under DRA, "
        "the input presumably comes there once for both.",
        Cause.READING,
    ),
}


def _measured(simulated: Claim) -> Claim:
    """Return a claim of the simulated figure about what was measured, which is not circular."""
    because, cause = REASONS[simulated.id]
    words = simulated.text.replace(f" {resources.CIRCULAR}", "")
    return replace(live(simulated, "used", because, cause), text=words)


def _ranges(tables: Tables) -> Finding:
    rows = tables["used"]
    if not set(MECHANISMS) <= set(rows["mechanism"]):
        return not_asked()
    cores = _runs.by_mechanism(rows, "cores")
    ours: dict[str, Any] = {
        name: [float(each.iloc[0]), float(each.iloc[-1])] for name, each in cores.items()
    }
    printed = {
        name: resources.FULL_CORES if name == "full-rep+DRA" else resources.OTHER_CORES
        for name in MECHANISMS
    }
    near = [
        abs(one - other) <= resources.CORES_NEAR
        for name in MECHANISMS
        for one, other in zip(ours[name], printed[name], strict=True)
    ]
    return found(all_of(near), **ours, printed=printed, tolerance=resources.CORES_NEAR)


CLAIMS = [
    complete,
    *(_measured(each) for each in resources.CLAIMS if each.id in REASONS),
    paper(
        "ranges",
        "full-rep+DRA takes from 12.5 to 19 cores over the rates, the others from around 10 to "
        "around 13.5",
        because="These are the paper's virtual machines and Storm. The same rates presumably "
        "take a small part of that from the task engine, whose operators take whole batches.",
        cause=Cause.MACHINE,
    )(_ranges),
]


EXPERIMENT = Experiment(
    measurement=MEASUREMENT,
    paper=_deployment.PAPER,
    figure="Figure 9, live",
    title="What the four mechanisms take of processor, memory and network, live",
    statement=resources.EXPERIMENT.statement,
    table=table,
    draw=draw,
    claims=CLAIMS,
    notes=(
        "Nodes of live/edge-throughput, as fast as this machine is, no failure; replicas on their "
        "primary's own node run, too. Processor and "
        "resident memory: the 20 nodes' processes, also those that host nothing; not the "
        "coordinator's, which stands for Storm's master, nor Kafka's, which stands for the sensors "
        "and the database. Memory that processes share counts in each of them.",
        "Network: what TCP connections between two nodes and to the store carried, messages, "
        "acknowledgements and checkpoints, by the kernel. Null in network namespaces and "
        "containers, whose connections this process does not see.",
        *_deployment.NOTES,
    ),
    figure_size_in=(10.5, 3.8),
    smoke_covered_by="stock/worker-kill",
    quick_by_page=True,
)
