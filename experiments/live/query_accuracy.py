"""ppa ICDE Fig. 12 = TKDE Fig. 14, live: OF and IC against the accuracy of Q1's and Q2's output.

All primaries stand on one rack, the replicas of the plan on the other, which has room for nothing
else. The rack is killed and stays away for some seconds: meanwhile what comes out is tentative,
computed by the plan's tasks alone, and its accuracy is the share of the twin's answers that it has.
Then the rack comes back, and every tentative result is corrected. Beside the measured accuracy
stands the one that is computed from the same input with the other tasks' outputs left out.

The runs also have the plans of DP, SA and greedy, which `live/query-fidelity` shows: one twin
serves them all, and plans of the same tasks share a pass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pandas as pd

from experiments.live import _plans
from experiments.live._judged import equal_output, passes_of
from experiments.live._six_nodes import SPEC, kept
from experiments.ppa import _random
from experiments.ppa.query_fidelity import CONTESTANTS
from harness.claims import ClaimKind, Verdict
from harness.cluster.base import TOGETHER
from harness.engines.base import Setup
from harness.engines.tasks.parameters import TaskParameters
from harness.experiment import Experiment
from harness.failures.generators import one_target
from harness.failures.schedule import NO_FAILURES, Schedule
from harness.figures.style import BLUE, VERMILION, stamp
from harness.judging.run import LiveRun, Variant, measure_each, together
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
"""After nodes are back, in which nothing has come from them yet: a process has to find its
checkpoints and to read what it has missed, which took no less than 0.4 s where it was measured. A
window that ends when they come back has its result within that time."""

START_US = 1_800_000_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveQuery:
    """One of the papers' queries as it is run here."""

    workload: Workload
    rate_per_s: float
    away_s: float
    """How long the rack stays away: several windows begin and end meanwhile."""


WINDOWS_S = {"Q1": 4, "Q2": 6}


def query(name: str, seed: int, *, windows_s: Mapping[str, float] = WINDOWS_S) -> LiveQuery:
    """Q1 with 20-4-1 tasks, Q2 with 8-8-8-1, as in `ppa/query-accuracy`."""
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
"""Q2's clock against the papers', so that a short window holds a score of incidents."""

QUERIES = ("Q1", "Q2")

RATIOS: Mapping[Profile, Sequence[float]] = {
    Profile.SMOKE: (0.6,),
    Profile.QUICK: (0.3, 0.6),
    Profile.PAPER: (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9),
}

CONTESTED: Mapping[Profile, Sequence[float]] = {
    Profile.SMOKE: (),
    Profile.QUICK: (0.3,),
    Profile.PAPER: (0.2, 0.3, 0.4, 0.5, 0.6, 0.8),
}
"""The budgets for which the planners are compared."""

Plans = dict[tuple[str, float], ReplicationPlan]
"""By who made them (SA for an objective, or a planner, for OF), and by the ratio."""


def topology_of(chosen: LiveQuery) -> Topology:
    return _plans.topology_of(chosen.workload, chosen.rate_per_s)


def setup(tasks: int, plan: Sequence[int], away_s: float) -> Setup:
    """Primaries dealt to the first rack, the plan's replicas to the second with just enough room,
    so that what has no replica waits until its rack is back.

    Nodes that die together are found one after the other, within milliseconds. Each node of the
    first rack therefore has room for all tasks: for want of room a replica of a task that still
    lives would be given up for one that is lost."""
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
            restart_s=away_s,
        ),
    )


def by_objective(topology: Topology, ratios: Sequence[float]) -> Plans:
    """SA's plans for OF and for IC."""
    return {
        (objective.value, ratio): planner("sa").plan(
            topology, _random.budget(topology, ratio), objective
        )
        for ratio in ratios
        for objective in Objective
    }


def by_planner(topology: Topology, ratios: Sequence[float]) -> Plans:
    """DP's, SA's and greedy's."""
    return {
        (name, ratio): planner(name).plan(topology, _random.budget(topology, ratio))
        for ratio in ratios
        for name in CONTESTANTS
    }


def run(point: Point, context: Context) -> Outcome:
    """One query under all plans: a twin, and the same input once for each set of tasks. The series
    ``plans`` has a row per plan: ``ratio``, ``objective`` or ``planner``, its value, and both
    accuracies."""
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
    wanted = LiveRun(
        workload=chosen.workload,
        engine="tasks",
        setup=setup(topology.task_count, range(topology.task_count), chosen.away_s),
        interval_s=BATCH_S,
        rate_per_s=chosen.rate_per_s,
        load_s=KILL_AT_S + chosen.away_s + 2,
        warmup_s=0,
        first_warmup_s=3,
        settle_s=1,
        schedule=NO_FAILURES,
        timed=False,
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
    merged = together(outcomes)
    frame = pd.DataFrame(rows)
    return Outcome(
        values={**merged.values, "tasks": topology.task_count},
        series={"plans": frame, **merged.series},
        invalid=merged.invalid,
    )


def all_at_once(nodes: Sequence[str], origin: str) -> Schedule:
    """These nodes are killed at one instant; the engine starts them again."""
    return replace(one_target(TOGETHER.join(nodes), at_s=KILL_AT_S), origin=origin)


def on_time(windows: pd.DataFrame, results: pd.DataFrame) -> pd.DataFrame:
    """The windows with ``arrival_s``: when the last of a window's first versions was in the out
    topic; null where it never was."""
    failed = results[results["pass"] == "failed"]
    arrival_s = failed.groupby("window_start_s")["arrival_s"].max()
    return windows.assign(arrival_s=windows["window_start_s"].map(arrival_s))


def measured_accuracy(found: Outcome, chosen: LiveQuery) -> float | None:
    """Of the first versions of the windows that began and ended while the rack was away. What came
    when it was back is missing: nobody had it while the failure lasted."""
    windows = on_time(found.series["accuracy"], found.series["results"])
    span = KILL_AT_S, KILL_AT_S + chosen.away_s
    return accuracy_within(windows, span, window_s=chosen.workload.window_s)


def accuracy_within(
    windows: pd.DataFrame, span: tuple[float, float], *, window_s: float
) -> float | None:
    """Of the first versions of the windows that begin and end within ``span``, in seconds of the
    pass; None if none does. What came after its end (`LATE_S`) is missing."""
    from_s, until_s = span
    begin = windows["window_start_s"]
    inside = windows[(begin >= from_s) & (begin + window_s <= until_s)]
    there = inside[inside["arrival_s"] <= until_s + LATE_S]
    members = float(inside["members"].sum())
    return float(there["first"].sum()) / members if members else None


class Computed:
    """The same query on the same input with dead tasks' outputs left out."""

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
    repeats={Profile.SMOKE: 1, Profile.QUICK: 1, Profile.PAPER: 3},
    seconds_per_run={Profile.SMOKE: 80.0, Profile.QUICK: 110.0, Profile.PAPER: 800.0},
    run=run,
    scheduling=Scheduling(beside=True, keeps=kept),
    chooses=["harness.engines.tasks.engine"],
)

# Shown: no record depends on what follows.

CLOSE = 0.15
"""Accuracy is "quite close" to a metric if they are on the average no further apart."""

ALIKE = 0.1
"""Measured and computed accuracy agree if they are on the average no further apart."""

COLOURS = {"of": BLUE, "ic": VERMILION}


def table(results: Results) -> dict[str, pd.DataFrame]:
    """``plans``: per query, objective and ratio the plan's value, measured and computed accuracy;
    ``passes``: what the judge says of each pass."""
    found = results.series("plans", ("query",))
    return {
        "plans": means_by(found, "objective"),
        "passes": passes_of(results, ["query"], "tentative", "uncorrected"),
    }


def means_by(plans: pd.DataFrame, who: str) -> pd.DataFrame:
    """Per query, ratio and ``who`` ("objective" or "planner"), of those plans that have one, over
    the repetitions."""
    by, measures = ["query", who, "ratio"], ["value", "measured", "computed"]
    mine = plans.reindex(columns=[*by, *measures]).dropna(subset=[who])
    return mine.groupby(by, sort=False)[measures].mean().reset_index()


def draw(table: Mapping[str, pd.DataFrame], figure: Figure) -> None:
    """A panel per query: the metric dashed, the measured accuracy solid, the computed dotted."""
    panels = figure.subplots(1, len(QUERIES), sharey=True)
    plans = table["plans"]
    for axes, name in zip(panels, QUERIES, strict=True):
        for objective in Objective:
            part = plans[(plans["query"] == name) & (plans["objective"] == objective.value)]
            _draw_objective(axes, part.sort_values("ratio"), objective)
        axes.set_title(name, loc="left")
        axes.set_xlabel("resource consumption (share)")
        axes.set_xlim(0, 1)
        axes.set_ylim(0, 1.02)
    panels[0].set_ylabel("OF or IC, and query accuracy (share)")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=6)
    stamp(figure, "6 nodes of 2 racks on one machine; a rack killed for seconds")


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


def claims(table: Mapping[str, pd.DataFrame]) -> list[Verdict]:
    """Nothing lost; what predicts accuracy; and whether the computed accuracy is the measured."""
    plans = table["plans"].dropna()

    def apart(name: str, objective: str, column: str = "value") -> float | None:
        part = plans[(plans["query"] == name) & (plans["objective"] == objective)]
        return float((part["measured"] - part[column]).abs().mean()) if len(part) else None

    q1 = {objective.value: apart("Q1", objective.value) for objective in Objective}
    q2 = apart("Q2", "of")
    alike = (plans["measured"] - plans["computed"]).abs()
    known = [value for value in q1.values() if value is not None]
    return [
        equal_output(table["passes"]),
        Verdict(
            text="On Q1 both OF and IC predict the accuracy well",
            kind=ClaimKind.PAPER,
            held=max(known) <= CLOSE if len(known) == len(q1) else None,
            measured={"mean_distance": q1, "tolerance": CLOSE},
        ),
        Verdict(
            text="On Q2 the accuracy is generally quite close to OF",
            kind=ClaimKind.PAPER,
            held=None if q2 is None else q2 <= CLOSE,
            measured={"mean_distance": q2, "tolerance": CLOSE},
        ),
        Verdict(
            text="On Q1, read favourably: the accuracy rises with OF and IC",
            kind=ClaimKind.PAPER,
            held=_rises(plans, "Q1", "of", "ic"),
            measured=_along(plans, "Q1"),
        ),
        Verdict(
            text="On Q2 the accuracy of plans for IC does not rise with IC",
            kind=ClaimKind.PAPER,
            held=None if (rises := _rises(plans, "Q2", "ic")) is None else not rises,
            measured=_along(plans, "Q2"),
        ),
        Verdict(
            text="The accuracy of live tentative output is the one computed without a cluster",
            kind=ClaimKind.HYPOTHESIS,
            held=bool(alike.mean() <= ALIKE) if len(alike) else None,
            measured={
                "mean_distance": float(alike.mean()) if len(alike) else None,
                "largest_distance": float(alike.max()) if len(alike) else None,
                "tolerance": ALIKE,
            },
        ),
    ]


def _rises(plans: pd.DataFrame, query: str, *objectives: str) -> bool | None:
    """Whether each plan of more value was more accurate, for all of these objectives; None where
    there are no two plans."""
    found = []
    for objective in objectives:
        part = plans[(plans["query"] == query) & (plans["objective"] == objective)]
        steps = part.sort_values("value")["measured"].diff().dropna()
        found.append(bool((steps > 0).all()) if len(steps) else None)
    return None if None in found else all(found)


def _along(plans: pd.DataFrame, query: str) -> dict[str, list[float]]:
    """The measured accuracy over the budgets."""
    part = plans[plans["query"] == query].sort_values("ratio")
    return {
        str(objective): rows["measured"].round(3).tolist()
        for objective, rows in part.groupby("objective", sort=False)
    }


EXPERIMENT = Experiment(
    measurement=MEASUREMENT,
    paper="Faultline, beside " + _random.CONFERENCE,
    figure="Figure 12 (TKDE: 14), live and computed",
    title="OF and IC against the accuracy of live tentative output",
    statement=(
        "On Q1 both OF and IC predict the accuracy well; on Q2 accuracy is generally quite close "
        "to OF."
    ),
    table=table,
    draw=draw,
    claims=claims,
    notes=(
        "Q1 has 20-4-1 tasks and windows of 4 s, Q2 8-8-8-1 and windows of 6 s every 2 s on a "
        f"clock {QUICKER:g} times the papers', so that a window holds enough incidents.",
        "Measured on the first versions of those windows that begin and end while the rack of the "
        "primaries is away, and that came before it was back; computed on input of the same seed "
        "and rates.",
    ),
    figure_size_in=(10.0, 4.2),
    smoke_covered_by="stock/worker-kill",
)
