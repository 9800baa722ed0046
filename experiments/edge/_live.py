"""The testbed on the task engine: a node for each gateway, micro datacenter and the cloud.

The testbed's declared delays and bandwidth are between them, and the planners choose replicas and
places as in the simulated figures. The node of both aggregators is killed; a worker in its place is
there when heartbeats were missed and a process has started. With a very high ε every report counts
as one of a standing car: the whole input then arrives at the sink and can be counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from experiments.edge import _deployment, _runs
from experiments.edge._deployment import GATEWAYS, MASTER, MECHANISMS, Deployment, deploy
from experiments.edge._runs import CHECKPOINT_S, HEARTBEAT_TIMEOUT_S, RESTART_S, STRIKES_AFTER_S
from experiments.live._runs import task_run
from experiments.ppa._topology import SPEC, WARM_S
from harness.claims import Cause, Claim, Finding, Rule, median_of, not_asked, too_few
from harness.claims.claim import about_times
from harness.claims.samples import FEWEST
from harness.engines.base import Setup
from harness.engines.tasks.parameters import Links, TaskParameters
from harness.experiment import Context, Outcome, Point, Profile, Results
from harness.failures.generators import one_target
from harness.figures.chart import Limit
from harness.judging.run import Variant, measure_each
from harness.planning.schedulers import STORE, replica_of
from harness.results.record import TOO_FEW_CORES
from workloads.accident import accidents
from workloads.base import Workload

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
        links=_links(deployment),
    )
    return Setup(scheme="ppa", parameters=given)


def _links(deployment: Deployment) -> Links:
    """Return the testbed's delays and bandwidth; the coordinator is on the master.

    The cluster's other nodes host nothing and are at the master's place."""
    network = deployment.network
    names = [node.name for node in network.nodes]
    return Links.between(
        [*names, *[MASTER] * (len(SPEC.node_names) - len(names))],
        network.latency_s,
        coordinator=MASTER,
        store=deployment.placement[STORE],
        bytes_per_s=BYTES_PER_S,
    )


def workload(context: Context, rate: int | None = None) -> Workload:
    """Return accident detection in which every report counts, at ``rate`` a second and gateway.

    Output is counted as it arrives, and written into no table."""
    cars = {} if rate is None else {"cars": rate}
    roads = accidents(
        seed=context.seed("input"),
        partitions=GATEWAYS,
        start_s=BEFORE_S,
        epsilon_kmh=EVERY_REPORT_KMH,
        **cars,
    )
    return replace(roads, into_table=False)


def measure_failure(
    mechanism: str, rate: int, roads: Workload, context: Context
) -> Mapping[str, Outcome]:
    """Measure a mechanism with the failure of the aggregators' node, and the twin without one."""
    scale, deployment = SCALES[context.profile], deploy(mechanism, rate)
    chosen = setup(deployment, replicated=deployment.useful())
    node = SPEC.node_names[deployment.node("aggregate0")]
    kill = one_target(node, at_s=scale.fail_at_s + STRIKES_AFTER_S)
    wanted = task_run(
        workload=roads,
        setup=chosen,
        interval_s=BATCH_S,
        rate_per_s=float(rate * GATEWAYS),
        load_s=scale.input_s,
        first_warmup_s=3 if context.profile is Profile.SMOKE else WARM_S,
    )
    variants = {"failure": Variant(setup=chosen, schedule=kill)}
    return measure_each(wanted, variants, context.cluster(SPEC), context)


def grid(*rates: int) -> list[Point]:
    """Return every mechanism at these rates."""
    return [{"mechanism": name, "rate": rate} for rate in rates for name in MECHANISMS]


RATES = _deployment.RATES
GRID: Mapping[Profile, Sequence[Point]] = {
    Profile.SMOKE: grid(RATES[1])[-1:],
    Profile.QUICK: grid(*RATES[:2], *RATES[-2:]),
    Profile.PAPER: grid(*RATES),
}


# Shown: no record depends on what follows.

STAMP = "live: 20 processes of one machine with declared delays and bandwidth; first versions"
Tables = Mapping[str, pd.DataFrame]
Reason = tuple[str | None, Cause | None]
SINCE = "2026-11-28"
"""Since this day a sentence without a sample is decided by its runs (`by_run`), and one about
several rates at those for which this machine had room (`with_room`). Before, the mean of all runs
decided it, however much they differed, and one run on too few cores left it open."""
SHORT = "short"
"""The column that is true for a run on too few cores."""
ROOM_NOTE = (
    "A sentence about several rates is decided at those for which this machine had room in every "
    "run of every mechanism, which must be two at least."
)


def per_run(results: Results, columns: Sequence[str]) -> pd.DataFrame:
    """Return the columns of each run (`_runs.per_run`), and whether it was on too few cores."""
    short = results.frame.reindex(columns=[TOO_FEW_CORES])[TOO_FEW_CORES].notna()
    return _runs.per_run(results, columns).assign(**{SHORT: short})


def with_room(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows at the rates for which no run was on too few cores, the same for all.

    A run is missed where it was left out for that. With fewer than two such rates all rows are
    returned: then this machine has too few cores for the figure."""
    runs = table["repeat"].nunique()
    rates = [
        rate
        for rate, rows in table[~table[SHORT]].groupby("rate")
        if rows["mechanism"].value_counts().reindex(list(MECHANISMS), fill_value=0).eq(runs).all()
    ]
    return table[table["rate"].isin(rates)] if len(rates) > 1 else table


def about_live(simulated: Claim, rows: str, reason: Reason = (None, None), **changes: Any) -> Claim:
    """Return a claim of a simulated figure about the live ``rows`` of all mechanisms.

    What a model was built or chosen to show is open there, unless ``changes`` says otherwise. What
    must always hold, and what is counted, is about every run."""

    def decide(tables: Tables) -> Finding:
        table = tables[rows]
        if not set(MECHANISMS) <= set(table["mechanism"]):
            return not_asked()
        if SHORT not in table or not about_times(simulated):
            return simulated.decide(table)
        table = with_room(table)
        finding = simulated.decide(table)
        rates = sorted(table["rate"].unique().tolist())
        return replace(finding, measured={**finding.measured, "rates": rates})

    decide.__doc__ = simulated.needs or None
    because, cause = reason
    plain: dict[str, Any] = {"foregone": None, "foregone_because": None}
    live = replace(simulated.on(rows), decide=decide, because=because, cause=cause)
    return replace(live, **{**plain, **changes})


def by_run(claim: Claim) -> Claim:
    """Return a claim without a sample as one that its runs decide, each by itself.

    It holds if it holds in the median run by the interval of `median_of`: in all of six, in all but
    one of ten. It does not hold if it fails in as many."""

    def decide(table: pd.DataFrame) -> Finding:
        whole = claim.decide(table)
        each = [claim.decide(run).held for _, run in table.groupby("repeat")]
        sample = median_of(None if held is None else float(held) for held in each)
        if sample is None or sample.n < len(each):
            return replace(whole, held=None, per_cell=False)
        held, holding = sample.above(1.0), each.count(True)
        why = whole.why
        if held is None:
            split = f"it holds in {holding} of {sample.n} runs"
            why = split if sample.n >= FEWEST else too_few(sample.n, FEWEST)
        measured = {**whole.measured, "runs": sample.n, "holds_in": holding}
        return Finding(held=held, measured=measured, why=why, samples=sample.n)

    decide.__doc__ = f"Judge each run. {claim.needs}".strip()
    return replace(claim, decide=decide, rule=changed(claim.rule))


def changed(rule: Rule) -> Rule:
    """Return the version of a rule for live rows since `SINCE`; one before was for six samples."""
    return replace(rule, version=rule.version + 2, since=SINCE, seen_seeds=_runs.SEEN)


def printed(y: float, text: str, up_points: float) -> Limit:
    """Return a line at a printed value with its text at the right end, so far above it."""
    right = {"xycoords": ("axes fraction", "data"), "xytext": (-2, up_points), "ha": "right"}
    return Limit(
        y=y, text=f"printed: {text}", at=(1, y), style={"color": "black"}, text_style=right
    )
