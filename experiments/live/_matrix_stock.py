"""The cells of the stock engine in `experiments.live.matrix`: two workers, one on each rack.

It runs in micro-batches. A run is a twin, and the same input once for each model of failure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from experiments.live import _plans
from experiments.live._matrix_failures import CORRELATED, FAILURES, Scale, drawn
from experiments.stock._workloads import WORKLOADS
from harness.cluster.base import TOGETHER, Action
from harness.engines.base import Setup
from harness.engines.structured.parameters import StockParameters
from harness.experiment import Context, Outcome, Point, Profile
from harness.failures.generators import one_target
from harness.failures.schedule import FailureEvent, Schedule
from harness.judging.run import LiveRun, Variant, lacking, measure_each, together
from harness.stock_kills.scale import cluster_spec

ENGINE = "structured"
SCHEMES: Mapping[str, str] = {
    "stock checkpoint": "checkpoint",
    "stock active": "active",
    "stock PPA": "ppa",
}
SPEC = cluster_spec(Profile.SMOKE)
TRIGGER_S = 1.0
CALM_S = 2.0
AWAY_S = 3.0
"""Time until a killed worker is restarted."""
AGAIN_S = 5.0
"""Time from that restart until executors run on it."""
MARGIN_S = 2.0
KILLS = (1, 6)
"""Least and most workers that an exponential schedule may kill: of two, one has to live."""


def kept(point: Point) -> str:
    """Name the warm application, which serves one scheme."""
    return f"{ENGINE} {SCHEMES[str(point['scheme'])]}"


def run(point: Point, scale: Scale, context: Context) -> Outcome:
    """Measure both models of failure for one workload under one scheme."""
    name, scheme = str(point["workload"]), SCHEMES[str(point["scheme"])]
    workload, rate = _plans.WORKLOADS[name](context.seed("input", name)), WORKLOADS[name].rate_per_s
    plan: Sequence[int] = ()
    given: StockParameters | None = None
    if scheme == "ppa":
        plan = _plans.plan_for(scheme, workload, rate)
        given = StockParameters(partitions=_plans.second_query(workload, rate, plan))
    wanted = LiveRun(
        # The table of accidents is written from the stock engine's messages alone.
        workload=replace(workload, into_table=False),
        engine=ENGINE,
        setup=Setup(scheme=scheme, parameters=given),
        interval_s=TRIGGER_S,
        rate_per_s=rate,
        load_s=scale.load_s,
        warmup_s=5,
        first_warmup_s=15,
        settle_s=5,
        calm_s=CALM_S,
    )
    if (why := lacking(wanted, SPEC)) is not None:
        return Outcome(values={}, skipped=why)
    variants = {
        failures: Variant(setup=wanted.setup, schedule=schedule(failures, scale, context, name))
        for failures in FAILURES
    }
    found = measure_each(wanted, variants, context.cluster(SPEC), context)
    return together(
        {
            failures: replace(one, values={"replicas": len(plan), **one.values})
            for failures, one in found.items()
        }
    )


def schedule(model: str, scale: Scale, context: Context, workload: str) -> Schedule:
    """Return the failures, which are the same for every scheme of a workload."""
    begin_s, end_s = MARGIN_S, scale.load_s - 2 * MARGIN_S
    if model == CORRELATED:
        rack = SPEC.rack_names[context.seed("rack", workload) % SPEC.racks]
        nodes = [name for name in SPEC.node_names if name.partition("n")[0] == rack]
        at_s = begin_s + (end_s - begin_s) * 0.4
        return one_target(TOGETHER.join(nodes), at_s=at_s, restart_after_s=AWAY_S)
    found = drawn(
        SPEC.node_names,
        KILLS,
        begin_s=begin_s,
        end_s=end_s,
        repair_s=AWAY_S,
        seed=lambda attempt: context.seed("kills", workload, attempt),
        fits=_one_lives,
    )
    # Every kill has its restart, also one after the time for which kills were drawn.
    restarts = [
        FailureEvent(at_s=kill.at_s + AWAY_S, action=Action.RESTART, target=kill.target)
        for kill in found.kills
    ]
    return replace(found, events=[*found.kills, *restarts])


def _one_lives(kills: Sequence[FailureEvent]) -> bool:
    """Return True if some node is up at any time."""
    return all(
        len({other.target for other in kills if 0 <= kill.at_s - other.at_s <= AWAY_S + AGAIN_S})
        < len(SPEC.node_names)
        for kill in kills
    )
