"""edge Fig. 6a, 6b, live: latency of accident detection over the input rate.

The nodes, deployments and kill of `live/edge-throughput`, at several rates. A report's latency is
the time from its intended sending until the first result with it is in the out topic. Each road
reports every car once a second, at even distances, so a result of one second has the reports of all
tenths of it alike.

A short run has the outage in a larger part of it than the paper's minute. So what was sent in the
ten seconds after the failure and all the rest count as in that minute: ten parts and fifty."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from experiments.edge import _deployment, _runs, latency
from experiments.edge._deployment import GATEWAYS, MECHANISMS, RATES, deploy
from experiments.edge._runs import (
    DRAIN_S,
    HEARTBEAT_TIMEOUT_S,
    INPUT_S,
    RECOVERY_S,
    RESTART_S,
    STRIKES_AFTER_S,
    TIMEOUT_S,
)
from experiments.live import edge_throughput
from experiments.live._judged import Tables, equal_output, passes_of
from experiments.live._runs import outcome_of, task_run
from experiments.live._topology import SPEC, kept
from experiments.live.edge_throughput import BATCH_S, BEFORE_S, EVERY_REPORT_KMH, SCALES, Scale
from harness.claims import Cause, Claim, Finding, not_asked
from harness.claims.samples import FEWEST
from harness.cluster.base import Action
from harness.experiment import Experiment
from harness.failures.schedule import FailureEvent, Schedule
from harness.judging.run import Variant, measure_each
from harness.measurement import Context, Measurement, Origin, Scheduling
from harness.results.record import Outcome, Point, Profile
from harness.results.tables import Results
from workloads.accident import accidents
from workloads.base import Workload

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PARTS = 10
"""Parts of a second at which its reports were sent."""
SETTLE_S = 2
"""Seconds at the start that do not count: copies are placed in them."""


def workload(rate: int, context: Context) -> Workload:
    """Return accident detection in which every report counts, at ``rate`` a second and gateway.

    Output is counted as it arrives, and written into no table."""
    roads = accidents(
        seed=context.seed("input"),
        partitions=GATEWAYS,
        cars=rate,
        start_s=BEFORE_S,
        epsilon_kmh=EVERY_REPORT_KMH,
    )
    return replace(roads, into_table=False)


def run(point: Point, context: Context) -> Outcome:
    """Measure one mechanism at one rate: the twin is the run without a failure."""
    scale, rate = SCALES[context.profile], int(str(point["rate"]))
    deployment = deploy(str(point["mechanism"]), rate)
    chosen = edge_throughput.setup(deployment, replicated=deployment.useful())
    at_s = scale.fail_at_s + STRIKES_AFTER_S
    node = SPEC.node_names[deployment.node("aggregate0")]
    kill = Schedule(
        events=[FailureEvent(at_s=at_s, action=Action.KILL, target=node)],
        origin="the node of the aggregators",
    )
    wanted = task_run(
        workload=workload(rate, context),
        setup=chosen,
        interval_s=BATCH_S,
        rate_per_s=float(rate * GATEWAYS),
        load_s=scale.input_s,
    )
    variants = {"failure": Variant(setup=chosen, schedule=kill)}
    outcomes = measure_each(wanted, variants, context.cluster(SPEC), context)
    results = outcomes["failure"].series["results"]
    found = reports(results[results["pass"] == "failed"])
    return outcome_of(outcomes, measures(found, scale, rate * GATEWAYS))


def reports(results: pd.DataFrame) -> pd.DataFrame:
    """Return ``sent_s``, ``at_s`` and ``reports`` of each tenth of a second of each result."""
    count = results["car_ids"].str.split().str.len().to_numpy(dtype=float)
    middle = (np.arange(PARTS) + 0.5) / PARTS
    return pd.DataFrame(
        {
            "sent_s": (results["window_start_s"].to_numpy(dtype=float)[:, None] + middle).ravel(),
            "at_s": np.repeat(results["arrival_s"].to_numpy(dtype=float), PARTS),
            "reports": np.repeat(count / PARTS, PARTS),
        }
    )


def measures(found: pd.DataFrame, scale: Scale, offered_per_s: float) -> dict[str, float]:
    """Return latencies in seconds, shares of the input, and tuples per second at the sink.

    ``success`` is the paper's: in a result by `DRAIN_S` after the input. ``in_time``: within the
    printed timeout of a tuple. ``throughput_per_s``: the mean of the load's seconds."""
    inside = found[found["sent_s"].between(SETTLE_S, scale.input_s)]
    begin_s = scale.fail_at_s
    after = inside["sent_s"].between(begin_s, begin_s + RECOVERY_S, inclusive="left")
    spans = {True: min(RECOVERY_S, scale.input_s - begin_s)}
    spans[False] = scale.input_s - SETTLE_S - spans[True]
    minute = {True: RECOVERY_S / INPUT_S, False: 1 - RECOVERY_S / INPUT_S}
    share = after.map({part: minute[part] / (spans[part] * offered_per_s) for part in spans})
    latency_s = inside["at_s"] - inside["sent_s"]
    weight = inside["reports"] * share
    whole = inside["at_s"] < scale.input_s + DRAIN_S
    came = found[found["at_s"].between(SETTLE_S, scale.input_s)]["reports"].sum()
    return {
        **_spread("overall", latency_s, weight),
        **_spread("recovery", latency_s[after], inside["reports"][after]),
        "success": float(weight[whole].sum()),
        "in_time": float(weight[latency_s <= TIMEOUT_S].sum()),
        "offered_per_s": offered_per_s,
        "throughput_per_s": float(came / (scale.input_s - SETTLE_S)),
    }


def _spread(name: str, latency_s: pd.Series[float], weight: pd.Series[float]) -> dict[str, float]:
    """Return mean, 5th and 95th percentile; nothing where nothing came."""
    if not len(latency_s):
        return {}
    order = np.argsort(latency_s.to_numpy())
    ranked, heavy = latency_s.to_numpy()[order], weight.to_numpy()[order]
    share = np.cumsum(heavy) / heavy.sum()
    low, high = (float(ranked[np.searchsorted(share, q)]) for q in (0.05, 0.95))
    mean = float((ranked * heavy).sum() / heavy.sum())
    return {f"{name}_s": mean, f"{name}_p5_s": low, f"{name}_p95_s": high}


def grid(*rates: int) -> list[Point]:
    """Return every mechanism at these rates."""
    return [{"mechanism": name, "rate": rate} for rate in rates for name in MECHANISMS]


GRID: Mapping[Profile, list[Point]] = {
    Profile.SMOKE: grid(RATES[1])[-1:],
    Profile.QUICK: grid(RATES[0], RATES[-1]),
    Profile.PAPER: grid(*RATES),
}

MEASUREMENT = Measurement(
    id="live/edge-latency",
    origin=Origin.MEASURED,
    grid=GRID,
    repeats={Profile.SMOKE: 1, Profile.QUICK: 1, Profile.PAPER: FEWEST},
    seconds_per_run={Profile.SMOKE: 45.0, Profile.QUICK: 42.0, Profile.PAPER: 140.0},
    run=run,
    scheduling=Scheduling(keeps=kept),
    chooses=["harness.engines.tasks.engine"],
)

# Shown: no record depends on what follows.

LATENCIES = [f"{part}{end}_s" for part in latency.PANELS for end in ("", "_p5", "_p95")]
STAMP = "live: 20 processes of one machine with declared delays and bandwidth; first versions"
NOTES = (
    "The nodes of live/edge-throughput: the testbed's declared delays and bandwidth, replicas and "
    "places by the planners, every report counts. Quick: the least and the greatest rate, 17 s of "
    "input and the failure in second 6; what was sent in the ten seconds after it counts as ten "
    "parts of the paper's minute, the rest as fifty.",
    "By this repository's protocol, not Storm's: a result waits for no late tuples, since a batch "
    "is over when all sources have said so; a task that is lost reads again what its source still "
    "has, and drops nothing of it. A task without a replica waits for a worker for "
    f"{HEARTBEAT_TIMEOUT_S + RESTART_S:g} s, the heartbeats' timeout and a chosen second.",
    *_deployment.NOTES,
)


def table(results: Results) -> dict[str, pd.DataFrame]:
    """Return ``latencies`` as `edge/latency` has them, and ``passes`` (`passes_of`)."""
    return {
        "latencies": _runs.per_run(results, LATENCIES),
        "passes": passes_of(results, ["mechanism", "rate"], "uncorrected"),
    }


def draw(tables: Tables, figure: Figure) -> None:
    """Draw on the axes of `edge/latency`, with the paper's numbers."""
    latency.draw(tables["latencies"], figure, stamped=STAMP)
    printed = ([*latency.PAPER_S.values()], [latency.PAPER_S["slow"]])
    for axes, values in zip(figure.axes, printed, strict=True):
        for value in values:
            axes.axhline(value, color="black", linestyle=":", linewidth=0.9)
            axes.annotate(
                f"printed: {value:g} s", (1, value), xycoords=("axes fraction", "data"),
                xytext=(-2, 2), textcoords="offset points", ha="right", fontsize=7,
            )  # fmt: skip


def live(simulated: Claim, rows: str, because: str | None, cause: Cause | None) -> Claim:
    """Return a claim of a simulated figure about the live ``rows`` of all mechanisms."""

    def decide(tables: Tables) -> Finding:
        whole = set(MECHANISMS) <= set(tables[rows]["mechanism"])
        return simulated.decide(tables[rows]) if whole else not_asked()

    return replace(simulated, decide=decide, because=because, cause=cause, unmeasured_because=None)


NO_LAG = (
    "A result comes here when its batch is over, presumably below a second after its newest tuple. "
    "The paper's aggregators wait for their lag of 1 s, and how long its tuples queue is not "
    "printed."
)
OUTAGE = (
    "Whoever has a living copy of both aggregators has no outage here. The others have one of 6 s: "
    "half of that is its tuples' delay in the mean, and a tenth of the minute is in it. The "
    "printed recovery of about ten seconds would add less than a second to the minute's mean, too. "
    "So the paper's 5 s presumably have other parts, such as tuples that queue; what it took as "
    "latency is not printed."
)
Reason = tuple[str | None, Cause | None]
NO_REASON: Reason = (None, None)
REASONS: Mapping[str, Reason] = {
    "fast": (NO_LAG, Cause.READING),
    "ck-like-rppg": (OUTAGE, Cause.LOST),
    "slow": (OUTAGE, Cause.LOST),
    "slower": (OUTAGE, Cause.LOST),
    "recovery-above-5": (OUTAGE, Cause.LOST),
    "ras-lowest": (
        "It shares that with full-rep+DRA, presumably since a living copy of each aggregator goes "
        "on in both.",
        Cause.LOST,
    ),
}
CLAIMS = [
    equal_output,
    *(
        live(each, "latencies", *REASONS.get(each.id, NO_REASON))
        for each in latency.CLAIMS
        if each is not latency.acknowledged_above_5
    ),
]


EXPERIMENT = Experiment(
    measurement=MEASUREMENT,
    paper=_deployment.PAPER,
    figure="Figure 6, live",
    title="Latency of accident detection over the input rate, live",
    statement=latency.EXPERIMENT.statement,
    table=table,
    draw=draw,
    claims=CLAIMS,
    notes=NOTES,
    figure_size_in=(9.5, 4.2),
    smoke_covered_by="stock/worker-kill",
    quick_by_page=True,
)
