"""ppa ICDE Fig. 12 = TKDE Fig. 14, live: OF and IC against the accuracy of Q1's and Q2's output.

All primaries are on one rack, the replicas of the plan on the other, which has room for nothing
else. The rack is killed and stays away for some seconds. Output is then tentative, computed by the
plan's tasks alone, and its accuracy is the share of the twin's answers that it has. When the rack
is back, every tentative result is corrected. The figure also has the accuracy computed from the
same input without the other tasks' outputs.

The runs also have the plans of DP, SA and greedy, which `live/query-fidelity` shows: one twin
serves them all, and plans of the same tasks share a pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pandas as pd

from experiments.live import _plans
from experiments.live._judged import MACHINE, Tables, equal_output, passes_of
from experiments.live._runs import outcome_of, task_run
from experiments.live._six_nodes import SPEC, kept
from experiments.ppa import _random
from experiments.ppa.query_fidelity import CONTESTANTS
from harness.claims import Cause, Finding, at_most, found, hypothesis, paper
from harness.claims.samples import FEWEST
from harness.cluster.base import TOGETHER
from harness.engines.base import Setup
from harness.engines.tasks.parameters import TaskParameters
from harness.experiment import Experiment
from harness.failures.generators import one_target
from harness.failures.schedule import Schedule
from harness.figures.style import BLUE, VERMILION, legend_below, not_measured, stamp
from harness.judging.run import Variant, measure_each
from harness.measurement import Context, Measurement, Origin, Scheduling
from harness.planning.base import ReplicationPlan
from harness.planning.planners import planner
from harness.results.record import Outcome, Point, Profile
from harness.results.tables import Results
from harness.topology.fidelity import Objective
from harness.topology.model import Topology
from workloads.base import Workload
from workloads.toolkit.accuracy import local_accuracy
from workloads.toolkit.operators import program_of, timeline_of
from workloads.toolkit.partial import PartialRuns, recorded
from workloads.traffic import traffic_jams
from workloads.worldcup import world_cup

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HERE, THERE = range(3), range(3, 6)
"""The nodes of the primaries, and those of the replicas."""
BATCH_S = 0.5
KILL_AT_S = 4.0
LATE_S = 0.2
"""Time within which a window's result comes after its end. Nodes stay away for so much longer than
the windows that count: once they are back they are soon where they were, and what they give then
nobody had while the failure lasted."""
START_US = 1_800_000_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveQuery:
    """One of the papers' queries as it runs here."""

    workload: Workload
    rate_per_s: float
    away_s: float
    """Time that the rack stays away: several windows begin and end meanwhile."""


WINDOWS_S = {"Q1": 4, "Q2": 6}


def query(name: str, seed: int, *, windows_s: Mapping[str, float] = WINDOWS_S) -> LiveQuery:
    """Return Q1 with 20-4-1 tasks or Q2 with 8-8-8-1, as in `ppa/query-accuracy`."""
    window_s = windows_s[name]
    if name == "Q1":
        workload = world_cup(seed=seed, partitions=20, window_s=window_s, slide_s=1)
        return LiveQuery(workload=workload, rate_per_s=2_000, away_s=9)
    workload = traffic_jams(
        seed=seed, users=5_000, segments=200, partitions=8, window_s=window_s, slide_s=2
    )
    rate_per_s = QUICKER * sum(source.share for source in workload.sources)
    return LiveQuery(workload=workload, rate_per_s=rate_per_s, away_s=12)


QUICKER = 6.0
"""Speed-up of Q2's clock over the papers', so that a short window holds a score of incidents."""
QUERIES = ("Q1", "Q2")
RATIOS: Mapping[Profile, Sequence[float]] = {
    Profile.SMOKE: (0.6,),
    Profile.QUICK: (0.3, 0.6),
    Profile.PAPER: (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9),
}
CONTESTED: Mapping[Profile, Sequence[float]] = {
    Profile.SMOKE: (),
    Profile.QUICK: (0.3,),
    Profile.PAPER: RATIOS[Profile.PAPER],
}
"""The budgets for which the planners are compared."""

Plans = dict[tuple[str, float], ReplicationPlan]
"""Plans by maker (SA for an objective, or a planner for OF) and by ratio."""


def topology_of(chosen: LiveQuery) -> Topology:
    return _plans.topology_of(chosen.workload, chosen.rate_per_s)


def setup(tasks: int, plan: Sequence[int], away_s: float) -> Setup:
    """Deal primaries to the first rack, the plan's replicas to the second with just enough room.

    A task without a replica then waits until its rack is back. Nodes that die together are found
    one after the other, within milliseconds. Each node of the first rack therefore has room for all
    tasks: for want of room a replica of a task that still lives would be given up for a lost one.
    """
    here = [HERE[task % len(HERE)] for task in range(tasks)]
    there = [THERE[number % len(THERE)] for number in range(len(plan))]
    slots = [tasks for _ in HERE] + [there.count(node) for node in THERE]
    return Setup(
        scheme="ppa",
        parameters=TaskParameters(
            plan=plan,
            placement=here,
            replicas_at=dict(zip(plan, there, strict=True)),
            slots=slots,
            checkpoint_s=2.0,
            restart_s=away_s + LATE_S,
        ),
    )


def by_objective(topology: Topology, ratios: Sequence[float]) -> Plans:
    """Return SA's plans for OF and for IC."""
    return {
        (objective.value, ratio): planner("sa").plan(
            topology, _random.budget(topology, ratio), objective
        )
        for ratio in ratios
        for objective in Objective
    }


def by_planner(topology: Topology, ratios: Sequence[float]) -> Plans:
    """Return the plans of DP, SA and greedy."""
    return {
        (name, ratio): planner(name).plan(topology, _random.budget(topology, ratio))
        for ratio in ratios
        for name in CONTESTANTS
    }


def run(point: Point, context: Context) -> Outcome:
    """Measure one query under all plans: a twin, and the same input once for each set of tasks.

    The series ``plans`` has a row per plan: ``ratio``, ``objective`` or ``planner``, its value,
    and both accuracies."""
    name = str(point["query"])
    chosen = query(name, context.seed("input", name))
    topology = topology_of(chosen)
    plans = {
        **by_objective(topology, RATIOS[context.profile]),
        **by_planner(topology, CONTESTED[context.profile]),
    }
    labels = {plan.tasks: f"{who}-{ratio:g}" for (who, ratio), plan in reversed(plans.items())}
    primaries = [SPEC.node_names[node] for node in HERE]
    kill = all_at_once(primaries, "all nodes of the primaries at once")
    variants = {
        label: Variant(setup=setup(topology.task_count, tasks, chosen.away_s), schedule=kill)
        for tasks, label in labels.items()
    }
    wanted = task_run(
        workload=chosen.workload,
        setup=setup(topology.task_count, range(topology.task_count), chosen.away_s),
        interval_s=BATCH_S,
        rate_per_s=chosen.rate_per_s,
        load_s=KILL_AT_S + chosen.away_s + 2,
    )
    outcomes = measure_each(wanted, variants, context.cluster(SPEC), context)
    computed = Computed(chosen, KILL_AT_S + chosen.away_s)
    rows = []
    for (who, ratio), plan in plans.items():
        context.progress(f"computing {who}-{ratio:g}")
        measured = measured_accuracy(outcomes[labels[plan.tasks]], chosen)
        by = ("objective", "planner")[who in CONTESTANTS]
        rows.append(
            {
                "ratio": ratio,
                "objective": None,
                "planner": None,
                by: who,
                "value": plan.value,
                "measured": measured,
                "computed": computed.accuracy(topology, plan.tasks),
            }
        )
    return outcome_of(outcomes, {"tasks": topology.task_count}, plans=pd.DataFrame(rows))


def all_at_once(nodes: Sequence[str], origin: str) -> Schedule:
    """Kill these nodes at one instant; the engine starts them again."""
    return replace(one_target(TOGETHER.join(nodes), at_s=KILL_AT_S), origin=origin)


def on_time(windows: pd.DataFrame, results: pd.DataFrame) -> pd.DataFrame:
    """Return the windows with ``arrival_s``, the arrival of a window's last first version.

    In the out topic; null where it never came."""
    failed = results[results["pass"] == "failed"]
    arrival_s = failed.groupby("window_start_s")["arrival_s"].max()
    return windows.assign(arrival_s=windows["window_start_s"].map(arrival_s))


def measured_accuracy(found: Outcome, chosen: LiveQuery) -> float | None:
    """Return the accuracy of the windows that began and ended while the rack was away.

    Of their first versions. A result that came when the rack was back is missing: nobody had it
    while the failure lasted."""
    windows = on_time(found.series["accuracy"], found.series["results"])
    span = KILL_AT_S, KILL_AT_S + chosen.away_s
    return accuracy_within(windows, span, window_s=chosen.workload.window_s)


def accuracy_within(
    windows: pd.DataFrame, span: tuple[float, float], *, window_s: float
) -> float | None:
    """Return the accuracy of the windows that begin and end within ``span``; None without one.

    Of their first versions; seconds of the pass. A result after its end (`LATE_S`) is missing."""
    from_s, until_s = span
    begin = windows["window_start_s"]
    inside = windows[(begin >= from_s) & (begin + window_s <= until_s)]
    there = inside[inside["arrival_s"] <= until_s + LATE_S]
    members = float(inside["members"].sum())
    return float(there["first"].sum()) / members if members else None


class Computed:
    """The same query on the same input without dead tasks' outputs."""

    def __init__(self, chosen: LiveQuery, seconds: float) -> None:
        self._workload = chosen.workload
        timeline = timeline_of(chosen.workload, start_us=START_US, batch_s=BATCH_S)
        program = program_of(chosen.workload, timeline=timeline, rate=chosen.rate_per_s)
        sources, _ = recorded(chosen.workload, program, seconds=seconds)
        self._runs = PartialRuns(program, sources, batches=int(seconds / BATCH_S))
        self._accurate = self._runs.results()

    def accuracy(self, topology: Topology, plan: Sequence[int]) -> float | None:
        delivered = self._runs.results([topology.place(task) for task in plan])
        if not delivered.num_rows:
            return 0.0
        return local_accuracy(self._workload, delivered, self._accurate)


GRID: Sequence[Point] = [{"query": name} for name in QUERIES]

MEASUREMENT = Measurement(
    id="live/query-accuracy",
    origin=Origin.MEASURED,
    grid={Profile.SMOKE: GRID[:1], Profile.QUICK: GRID, Profile.PAPER: GRID},
    repeats={Profile.SMOKE: 1, Profile.QUICK: 1, Profile.PAPER: FEWEST},
    seconds_per_run={Profile.SMOKE: 80.0, Profile.QUICK: 110.0, Profile.PAPER: 1000.0},
    run=run,
    scheduling=Scheduling(keeps=kept),
    chooses=["harness.engines.tasks.engine"],
)

# Shown: no record depends on what follows.

CLOSE = 0.15
"""Accuracy is "quite close" to a metric if their mean distance is at most this."""
ALIKE = 0.1
"""Measured and computed accuracy agree if their mean distance is at most this."""
COLOURS = {"of": BLUE, "ic": VERMILION}
TOP_100 = (
    "Presumably because a top 100 is right as soon as the order of its pages is. The World Cup's "
    "servers serve the same pages, so the requests of a few servers are a sample from which nearly "
    "the same pages come out first. OF and IC count requests."
)


def table(results: Results) -> dict[str, pd.DataFrame]:
    """Return ``plans`` with their value and both accuracies, and ``passes`` (`passes_of`)."""
    return tables_by(results, "objective")


def tables_by(results: Results, maker: str) -> dict[str, pd.DataFrame]:
    """Return the tables for the plans that have a ``maker`` ("objective" or "planner")."""
    return {
        "plans": means_by(results.series("plans", ("query",)), maker),
        "passes": passes_of(results, ["query"], "tentative", "uncorrected"),
    }


def means_by(plans: pd.DataFrame, maker: str) -> pd.DataFrame:
    """Return means over the repetitions, by query, ratio and ``maker``, of plans that have one."""
    by, measures = ["query", maker, "ratio"], ["value", "measured", "computed"]
    mine = plans.reindex(columns=[*by, *measures]).dropna(subset=[maker])
    return mine.groupby(by, sort=False)[measures].mean().reset_index()


def draw(tables: Tables, figure: Figure) -> None:
    """Draw a panel per query: metric dashed, measured accuracy solid, computed one dotted."""
    panels = figure.subplots(1, len(QUERIES), sharey=True)
    plans = tables["plans"]
    for axes, name in zip(panels, QUERIES, strict=True):
        for objective in Objective:
            part = plans[(plans["query"] == name) & (plans["objective"] == objective.value)]
            _draw_objective(axes, part.sort_values("ratio"), objective)
        if name not in set(plans["query"]):
            not_measured(axes)
        axes.set_title(name, loc="left")
        axes.set_xlabel("resource consumption (share)")
        axes.set_xlim(0, 1)
        axes.set_ylim(0, 1.02)
    panels[0].set_ylabel("OF or IC, and query accuracy (share)")
    legend_below(figure, panels[0], columns=6)
    stamp(figure, f"{MACHINE}; a rack killed for seconds")


def _draw_objective(axes: Axes, part: pd.DataFrame, objective: Objective) -> None:
    name, colour = objective.value.upper(), COLOURS[objective.value]
    for column, line, marker, label in (
        ("value", "--", "o", f"{name}-SA"),
        ("measured", "-", "s", f"{name}-SA-Accuracy, live"),
        ("computed", ":", "x", f"{name}-SA-Accuracy, computed"),
    ):
        axes.plot(
            part["ratio"], part[column], color=colour, linestyle=line, marker=marker, label=label,
            markerfacecolor="white" if column == "value" else colour,
        )  # fmt: skip


def _of(tables: Tables, query: str) -> dict[str, pd.DataFrame]:
    """Return the measured plans of a query by objective, cheapest first."""
    plans = tables["plans"].dropna().sort_values("ratio")
    mine = plans[plans["query"] == query]
    return {each.value: mine[mine["objective"] == each.value] for each in Objective}


def _distance(tables: Tables, query: str, *objectives: str) -> Finding:
    """Compare the largest mean distance of accuracy and value with `CLOSE`."""
    mine = {name: _of(tables, query)[name] for name in objectives}
    apart = {name: (part["measured"] - part["value"]).abs() for name, part in mine.items()}
    means = {name: float(each.mean()) for name, each in apart.items()}
    largest = max(means.values()) if all(map(len, mine.values())) else None
    return at_most(largest, CLOSE, mean_distance=means if largest is not None else {})


def _rises(tables: Tables, query: str, *objectives: str) -> tuple[bool | None, dict[str, Any]]:
    """Return True if a plan of more value was more accurate each time, and the accuracies.

    For all of these objectives; None if one of them has fewer than two plans."""
    mine = _of(tables, query)
    steps = [mine[name].sort_values("value")["measured"].diff().dropna() for name in objectives]
    rising = all((each > 0).all() for each in steps) if all(map(len, steps)) else None
    along = {name: rows["measured"].round(3).tolist() for name, rows in mine.items() if len(rows)}
    return rising, along


@paper("q1-rises", "On Q1, read favourably: the accuracy rises with OF and IC")
def q1_rises(tables: Tables) -> Finding:
    rising, along = _rises(tables, "Q1", "of", "ic")
    return found(rising, **along)


@paper("q2-not-with-ic", "On Q2 the accuracy of plans for IC does not rise with each step of IC")
def q2_not_with_ic(tables: Tables) -> Finding:
    rising, along = _rises(tables, "Q2", "ic")
    return found(None if rising is None else not rising, **along)


@hypothesis(
    "live-as-computed",
    "The accuracy of live tentative output is the one computed without a cluster",
)
def live_as_computed(tables: Tables) -> Finding:
    plans = tables["plans"].dropna()
    apart = (plans["measured"] - plans["computed"]).abs()
    mean, largest = (float(apart.mean()), float(apart.max())) if len(apart) else (None, None)
    return at_most(mean, ALIKE, mean_distance=mean, largest_distance=largest)


CLAIMS = [
    equal_output,
    paper(
        "q1-predicted",
        "On Q1 both OF and IC predict the accuracy well",
        because=TOP_100,
        cause=Cause.READING,
    )(lambda tables: _distance(tables, "Q1", "of", "ic")),
    paper("q2-close-to-of", "On Q2 the accuracy is generally quite close to OF")(
        lambda tables: _distance(tables, "Q2", "of")
    ),
    q1_rises,
    q2_not_with_ic,
    live_as_computed,
]


EXPERIMENT = Experiment(
    measurement=MEASUREMENT,
    paper=_random.CONFERENCE,
    figure="Figure 12 (TKDE: 14), live and computed",
    title="OF and IC against the accuracy of live tentative output",
    statement=(
        "On Q1 both OF and IC predict the accuracy well; on Q2 accuracy is generally quite close "
        "to OF."
    ),
    table=table,
    draw=draw,
    claims=CLAIMS,
    notes=(
        "Q1 has 20-4-1 tasks and windows of 4 s, Q2 8-8-8-1 and windows of 6 s every 2 s on a "
        f"clock {QUICKER:g} times the papers', so that a window holds enough incidents.",
        "Measured on first versions of windows that begin and end while the rack of the "
        "primaries is away, if they came before it was back; computed on input of the same seed "
        "and rates.",
    ),
    figure_size_in=(10.0, 4.2),
    smoke_covered_by="stock/worker-kill",
    quick_by_page=True,
)
