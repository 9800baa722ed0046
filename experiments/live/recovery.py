"""Recovery latency on the task engine and in the simulator, the same failure in both.

The PPA papers' recovery topology, halved (8 sources, then 4, 2 and 1 tasks that sum over a sliding
window), on six nodes of two racks. One node or one rack is killed under active replication,
checkpoints of two intervals, and source replay. Live twice: as fast as this machine is, and with
the speed that the simulator's nodes have. Latency is the papers': from the detection until the
failed tasks are back where they were.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pandas as pd

from experiments.ppa import _recovery
from harness.claims import Claim, ClaimKind
from harness.cluster.base import ClusterSpec
from harness.engines.base import Setup
from harness.engines.run import LiveRun, measure
from harness.engines.simulated.options import Costs, Fault, FaultKind, Network, Options
from harness.experiment import Context, Experiment, Origin
from harness.failures.generators import one_target
from harness.figures.style import BLUE, GREEN, VERMILION, stamp
from harness.protocol.planned import wiring_of
from harness.protocol.registry import NodeInfo
from harness.protocol.schemes import make_scheme
from harness.results.record import Outcome, Point, Profile
from harness.results.tables import Results
from harness.topology import named
from workloads.synthetic import synthetic

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LEVELS, RATE, WINDOW_S = 3, 250, 10
"""Eight sources with so many tuples a second each."""
SPEED_PER_S = 10_000
SPEC = ClusterSpec(
    racks=2, workers_per_rack=1, nodes_per_worker=3, cores_per_worker=3, memory_mb_per_worker=768
)
SINGLE, CORRELATED = "one node", "one rack"
TARGETS = {SINGLE: "r1n2", CORRELATED: "r2"}
LIVE, PACED, SIMULATED = "live", "live, declared speed", "simulated"
LOOKS = {LIVE: (VERMILION, "o"), PACED: (BLUE, "s"), SIMULATED: (GREEN, "D")}
INTERVAL_S = 1.0
RESTART_S = 4.0
FAR = 3.0
"""Simulated and measured latency are near if neither is more than so many times the other, or if
they are less than `NEAR_S` apart."""
NEAR_S = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """One scheme."""

    scheme: str
    checkpoint_s: float = 6.0


CONTENDERS: Mapping[str, Contender] = {
    "Active": Contender(scheme="active"),
    "CKP-2s": Contender(scheme="checkpoint", checkpoint_s=2.0),
    "CKP-6s": Contender(scheme="checkpoint", checkpoint_s=6.0),
    "Storm": Contender(scheme="replay"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """How long a profile's runs are, in seconds."""

    load_s: float
    kill_at_s: float
    first_warmup_s: float


SCALES: Mapping[Profile, Scale] = {
    Profile.SMOKE: Scale(load_s=18, kill_at_s=8, first_warmup_s=3),
    Profile.QUICK: Scale(load_s=26, kill_at_s=15, first_warmup_s=6),
    Profile.PAPER: Scale(load_s=60, kill_at_s=35, first_warmup_s=15),
}


def kill_at_s(contender: Contender, scale: Scale) -> float:
    """Three quarters of a checkpoint interval behind the last one, whatever the interval."""
    every = contender.checkpoint_s
    return (scale.kill_at_s // every) * every + 0.75 * every


def run(point: Point, context: Context) -> Outcome:
    """One failure under one contender."""
    contender = CONTENDERS[str(point["contender"])]
    scale = SCALES[context.profile]
    every, at_s = contender.checkpoint_s, kill_at_s(contender, scale)
    if point["engine"] == SIMULATED:
        return _simulated(contender, str(point["failure"]), at_s, context)
    parameters: dict[str, Any] = {"checkpoint_s": every}
    if point["engine"] == PACED:
        parameters["tuples_per_s"] = float(SPEED_PER_S)
    if contender.scheme == "replay":
        del parameters["checkpoint_s"]
    workload = synthetic(
        seed=context.seed("input"), levels=LEVELS, keys=RATE // 2, window_s=WINDOW_S
    )
    outcome = measure(
        LiveRun(
            # A window is due when it ends: this engine waits for no watermark.
            workload=replace(workload, watermark_delay_s=0.001),
            engine="tasks",
            setup=Setup(
                scheme=contender.scheme,
                brief=context.profile is Profile.SMOKE,
                parameters=parameters,
            ),
            interval_s=INTERVAL_S,
            rate_per_s=RATE * 2**LEVELS,
            load_s=scale.load_s,
            warmup_s=0,
            first_warmup_s=scale.first_warmup_s,
            settle_s=2,
            schedule=one_target(
                TARGETS[str(point["failure"])], at_s=at_s, restart_after_s=RESTART_S
            ),
        ),
        context.cluster(SPEC),
        context,
    )
    return replace(
        outcome, values={**outcome.values, "latency_s": outcome.values["paper_recovery_s"]}
    )


def _simulated(contender: Contender, failure: str, at_s: float, context: Context) -> Outcome:
    """The same topology, placement, rates and failure in virtual time."""
    context.progress("simulating")
    topology = named.recovery(RATE, levels=LEVELS)
    inner = {f"O{level}": WINDOW_S for level in range(1, LEVELS + 1)}
    wiring = wiring_of(topology, inner)
    names = SPEC.node_names
    racks = [name.partition("n")[0] for name in names]
    # Dealt out rack by rack in turn, as the engine does it.
    order = sorted(range(len(names)), key=lambda node: (names[node].partition("n")[2], node))
    placement = tuple(order[task % len(order)] for task in wiring.tasks)
    target = TARGETS[failure]
    hit = [n for n, name in enumerate(names) if target in (name, racks[n])]
    scheme = make_scheme(
        contender.scheme,
        wiring,
        checkpoint_every=round(contender.checkpoint_s / INTERVAL_S),
        heartbeat_us=250_000,
        suspect_after_us=1_000_000,
    )
    options = Options(
        seed=context.seed("network"),
        topology="recovery, halved",
        wiring=wiring,
        scheme=scheme,
        nodes=tuple(
            NodeInfo(name=name, rack=rack, slots=len(wiring.names))
            for name, rack in zip(names, racks, strict=True)
        ),
        placement=placement,
        batches=int(at_s) + 300,
        interval_us=round(INTERVAL_S * 1e6),
        tuples=round(RATE * INTERVAL_S),
        percent=50,
        counts_only=True,
        closes_connections=True,
        costs=Costs(batch_us=1_000, tuple_us=1_000_000 // SPEED_PER_S),
        network=Network(delay_us=500, jitter_us=500),
        faults=tuple(
            Fault(
                kind=FaultKind.CRASH,
                at_us=round(at_s * 1e6),
                until_us=round((at_s + RESTART_S) * 1e6),
                target=node,
            )
            for node in hit
        ),
    )
    latency_s = _recovery.measure(options).latency_s()
    return Outcome(values={"latency_s": latency_s, "output_equals_twin": None, "kills_done": None})


def table(results: Results) -> pd.DataFrame:
    """A row per run: engine, contender, failure and its latency in seconds."""
    frame = results.frame
    wanted = [
        "latency_s",
        "output_equals_truth",
        "output_equals_twin",
        "contradictions",
        "kills_done",
    ]
    for name in wanted:
        if name not in frame:
            frame[name] = None
    return frame[["engine", "contender", "failure", "repeat", *wanted]].reset_index(drop=True)


def draw(table: pd.DataFrame, figure: Figure) -> None:
    """A panel per failure; a marker per engine over the contenders."""
    panels = figure.subplots(1, 2, sharey=True)
    for axes, failure in zip(panels, TARGETS, strict=True):
        for number, (engine, (colour, marker)) in enumerate(LOOKS.items()):
            rows = table[(table["engine"] == engine) & (table["failure"] == failure)]
            x = [list(CONTENDERS).index(name) + (number - 1) * 0.15 for name in rows["contender"]]
            y = pd.to_numeric(rows["latency_s"]).clip(lower=1e-4)
            axes.plot(x, y, color=colour, marker=marker, linestyle="none", label=engine)
        axes.set_yscale("log")
        axes.set_xticks(range(len(CONTENDERS)), list(CONTENDERS))
        axes.set_xlim(-0.5, len(CONTENDERS) - 0.5)
        axes.set_xlabel("scheme")
        axes.set_title(failure, loc="left")
    panels[0].set_ylabel("recovery latency (s, logarithmic)")
    panels[0].legend(loc="lower right")
    stamp(figure, f"8 sources of {RATE} tuples/s, windows of {WINDOW_S} s; every run is a point")


def claims(table: pd.DataFrame) -> Sequence[Claim]:
    """Nothing lost, active faster, and how far simulated and measured are apart."""
    live = table[table["engine"] != SIMULATED]
    equal = (
        live["output_equals_truth"].eq(True)
        & live["output_equals_twin"].eq(True)
        & live["contradictions"].eq(0)
        & (pd.to_numeric(live["kills_done"]) >= 1)
    )
    values = table.assign(latency_s=pd.to_numeric(table["latency_s"]))
    means = values.pivot_table(
        index=["failure", "contender"], columns="engine", values="latency_s", dropna=False
    )
    return [
        Claim(
            text="Stable output equals the twin's and the truth after every kill",
            kind=ClaimKind.INVARIANT,
            held=bool(equal.all()) if len(live) else None,
            measured={"runs": len(live), "equal": int(equal.sum())},
        ),
        *(_active_faster(means, engine) for engine in LOOKS),
        _near(means),
    ]


def _active_faster(means: pd.DataFrame, engine: str) -> Claim:
    found = means[engine].dropna() if engine in means else pd.Series(dtype=float)
    by = found.unstack("contender") if len(found) else pd.DataFrame()
    passive = [name for name in CONTENDERS if name != "Active" and name in by]
    whole = "Active" in by and bool(passive)
    return Claim(
        text=f"Active replication recovers sooner than every passive scheme ({engine})",
        kind=ClaimKind.PAPER,
        held=bool((by["Active"] < by[passive].min(axis=1)).all()) if whole else None,
        measured={str(name): by[name].tolist() for name in by},
    )


def _near(means: pd.DataFrame) -> Claim:
    both = means[[PACED, SIMULATED]].dropna() if {PACED, SIMULATED} <= set(means) else None
    if both is None or not len(both):
        return Claim(
            text="Simulated and measured latency are near each other",
            kind=ClaimKind.HYPOTHESIS,
            held=None,
            measured={"pairs": 0},
        )
    apart = (both[PACED] - both[SIMULATED]).abs()
    ratio = both[PACED] / both[SIMULATED]
    factor = ratio.where(ratio >= 1, 1 / ratio)
    near = (apart <= NEAR_S) | (factor <= FAR)
    return Claim(
        text="Simulated and measured latency are near each other",
        kind=ClaimKind.HYPOTHESIS,
        held=bool(near.all()),
        measured={
            "largest_difference_s": float(apart.max()),
            "median_factor": float(factor.median()),
            "pairs_near": int(near.sum()),
            "pairs": len(near),
            "tolerance": f"a factor of {FAR:g} or {NEAR_S} s",
        },
    )


def grid(contenders: Sequence[str], failures: Sequence[str], engines: Sequence[str]) -> list[Point]:
    return [
        {"contender": name, "failure": failure, "engine": engine}
        for engine in engines
        for name in contenders
        for failure in failures
    ]


EXPERIMENT = Experiment(
    id="live/recovery",
    paper="Faultline, beside Su and Zhou, ICDE 2016",
    figure="Figures 7 and 8, live and simulated",
    title="Recovery latency live and simulated, on one picture",
    statement=(
        "The papers' schemes recover live as the simulator says: active replication at once, "
        "checkpoints with their interval, source replay with the window."
    ),
    origin=Origin.MEASURED,
    chooses=["harness.engines.tasks.engine"],
    grid={
        Profile.SMOKE: grid(("Active", "CKP-6s"), (SINGLE,), (LIVE, SIMULATED)),
        Profile.QUICK: grid(tuple(CONTENDERS), tuple(TARGETS), tuple(LOOKS)),
        Profile.PAPER: grid(tuple(CONTENDERS), tuple(TARGETS), tuple(LOOKS)),
    },
    repeats={Profile.SMOKE: 1, Profile.QUICK: 1, Profile.PAPER: 5},
    seconds_per_run={Profile.SMOKE: 22.0, Profile.QUICK: 50.0, Profile.PAPER: 130.0},
    run=run,
    table=table,
    draw=draw,
    claims=claims,
    notes=(
        f"Half of the papers' topology at a quarter of their rate: 8 sources of {RATE} tuples/s, "
        f"windows of {WINDOW_S} s, six nodes with several tasks each. Declared speed: "
        f"{SPEED_PER_S:,} tuples/s of a node, as in the simulation.",
        "A kill falls three quarters of a checkpoint interval behind the last checkpoint. Killed "
        "processes close their connections, so detection takes milliseconds; it is not counted.",
    ),
    figure_size_in=(9.0, 4.4),
    smoke_covered_by="stock/worker-kill",
)
