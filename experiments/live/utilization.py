"""util Table 1, live: utilization by checkpoint interval under exponential kills, measured.

Word count of depth 5 and 7 on two nodes, global checkpoints. The load is more than nodes of the
declared speed can take, so the engine always has work. Its utilization is the progress of the
stable output from when windows are full, over that without checkpoints and kills. Nodes are killed
at exponential instants and start again by themselves; all tasks then go back to the last checkpoint
that all have taken.

Runs of 20 to 40 h, as in the paper, become runs of minutes: failure rates are raised until a
checkpoint every 30 minutes means λT = 1.5, 0.3 and 0.15, as with the paper's three. The cost of a
checkpoint and the restart time are this engine's and are measured: the latter, as the paper's
"detect and recover", from a kill until tasks have their state and process again. So T* differs,
too, and the table is compared with the model for these numbers, not with the paper's column."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from experiments.live._judged import Tables, equal_output, passes_of
from experiments.live._runs import outcome_of, task_run
from experiments.live._six_nodes import KEPT, SPEC
from experiments.live._utilization_table import (
    CLOSE,
    LONG,
    OPTIMAL,
    PRINTED,
    better_at_optimum,
    close_to_the_model,
    draw_cells,
)
from harness.claims import Cause, Finding, Foregone, Rule, applied, invariant, paper, quantity
from harness.cluster.base import Action
from harness.engines.base import Setup
from harness.engines.tasks.parameters import TaskParameters
from harness.experiment import Context, Experiment, Outcome, Point, Profile, Results, measured
from harness.failures.schedule import NO_FAILURES, FailureEvent, Schedule
from harness.figures.chart import Figure
from harness.figures.style import stamp
from harness.intervals.utilization import CheckpointedSystem
from harness.judging.failures import regained
from harness.judging.run import Variant, measure_each
from harness.seeds import DEFAULT_SEED, generator
from workloads.wordcount import word_count

HOMES = tuple(range(0, len(SPEC.node_names), SPEC.nodes_per_worker))
"""Nodes that host tasks and are killed: the first of each worker. A worker's only node would die
with its worker, which is not started again within a pass."""
KILLED = [SPEC.node_names[node] for node in HOMES]
DEPTHS = (5, 7)
PARTITIONS = 2
LINES_PER_S = 300.0
TUPLES_PER_S = {5: 2_470.0, 7: 3_090.0}
"""Declared speed of a node by depth: the busier node's part of the load, over `BEHIND`."""
BEHIND = 1.1
"""The load over what nodes can take: there always is work."""
CHECKPOINT_BYTES_PER_S = 1_000_000.0
"""A node's tasks and their buffers are some 100 kB: a checkpoint of them costs about a tenth of a
second."""
WINDOW_S = 4.0
BATCH_S = 0.25
LAMBDA_T = 1.5
"""0.05 failures a minute times 30 minutes."""
MEAN_S = 5.5
"""Mean time between two kills at the paper's highest rate: long against the time that a killed node
takes to come back."""
LONG_S = LAMBDA_T * MEAN_S
PER_MINUTE = (0.05, 0.01, 0.005)
"""The paper's failure rates. The first is run where a point names none."""
EXPECTED_COST_S = 0.1
"""Assumed cost of a checkpoint: T* is computed from it before the cost is measured."""
NO_CHECKPOINT_S = 200.0
"""An interval longer than any load; the scheme keeps its output in buffers until then."""
FULL_S = WINDOW_S + 1.0
"""Time at the start until windows are full; nothing fails in it, and it does not count."""
QUIET_S = 2.0
"""Time at the end in which nothing fails; it does not count either."""
LOAD_S = {Profile.SMOKE: 14.0, Profile.QUICK: 18.0, Profile.PAPER: 180.0}
SLACK_S = 0.1
"""Most by which a detection may precede the instant that was read for its kill."""


def mean_s(per_minute: float) -> float:
    """Return the mean time between two kills that stands for one of the paper's rates."""
    return MEAN_S * PER_MINUTE[0] / per_minute


def optimum_s(per_minute: float = PER_MINUTE[0]) -> float:
    """Return T* for the expected cost, in whole batches."""
    rate_per_s = 1 / mean_s(per_minute)
    system = CheckpointedSystem(cost_s=EXPECTED_COST_S, failure_rate_per_s=rate_per_s)
    return max(1, round(float(system.optimal_interval_s()) / BATCH_S)) * BATCH_S


def setup(depth: int, interval_s: float) -> Setup:
    """Place each partition's tasks on a node of its own, without room for the other's.

    Lost tasks wait until their node is back, as a Flink job waits for its slots."""
    partitions = [task % PARTITIONS for task in range(PARTITIONS * (depth - 1))] + [0]
    placement = [HOMES[partition] for partition in partitions]
    slots = [placement.count(node) for node in range(len(SPEC.node_names))]
    return Setup(
        scheme="global",
        parameters=TaskParameters(
            # Counted in batches, of which each takes longer than the input it holds.
            checkpoint_s=interval_s / BEHIND,
            placement=placement,
            slots=slots,
            tuples_per_s=TUPLES_PER_S[depth],
            checkpoint_bytes_per_s=CHECKPOINT_BYTES_PER_S,
        ),
    )


def period_s(interval_s: float, share: float) -> float:
    """Return the engine's time between two checkpoints, which it counts in whole batches.

    ``share``: seconds of input that it processes in a second."""
    batches = max(1, round(interval_s / BEHIND / BATCH_S))
    return batches * BATCH_S / share


def kills(
    seed: int, load_s: float, *, mean_s: float = MEAN_S, nodes: Sequence[str] = KILLED,
    full_s: float = FULL_S, restart_after_s: float | None = None,
) -> Schedule:  # fmt: skip
    """Draw kills at exponential distances, each of a node drawn anew, while the load lasts.

    Without ``restart_after_s`` the engine starts a node again. A kill within the absence of its
    node, when there is nothing to kill, is left out."""
    random, events, back_s = generator(seed, "kills"), [], full_s
    at_s = full_s + float(random.exponential(mean_s))
    while at_s < load_s - QUIET_S:
        node = nodes[int(random.integers(len(nodes)))]
        if restart_after_s is None:
            events.append(FailureEvent(at_s=at_s, action=Action.KILL, target=node))
        elif at_s > back_s:
            back_s = at_s + restart_after_s
            events.append(FailureEvent(at_s=at_s, action=Action.KILL, target=node))
            events.append(FailureEvent(at_s=back_s, action=Action.RESTART, target=node))
        at_s += float(random.exponential(mean_s))
    return Schedule(events=events, origin="exponential, any node", seed=seed)


def run(point: Point, context: Context) -> Outcome:
    """Measure one depth and rate: no checkpoints, checkpoints, and kills at two intervals."""
    depth, load_s = int(str(point["depth"])), LOAD_S[context.profile]
    per_minute = float(str(point.get("per_minute", PER_MINUTE[0])))
    best_s = optimum_s(per_minute)
    schedule = kills(context.seed("kills"), load_s, mean_s=mean_s(per_minute))
    variants = {
        "cost": Variant(setup=setup(depth, best_s), schedule=NO_FAILURES),
        "optimal": Variant(setup=setup(depth, best_s), schedule=schedule),
        "long": Variant(setup=setup(depth, LONG_S), schedule=schedule),
    }
    wanted = task_run(
        workload=word_count(
            seed=context.seed("text"),
            partitions=PARTITIONS,
            depth=depth,
            window_s=WINDOW_S,
            slide_s=1,
        ),
        setup=setup(depth, NO_CHECKPOINT_S),
        interval_s=BATCH_S,
        rate_per_s=LINES_PER_S,
        load_s=load_s,
    )
    outcomes = measure_each(wanted, variants, context.cluster(SPEC), context)
    counted_s = load_s - QUIET_S - FULL_S
    whole_s = counted(outcomes["cost"], "twin", load_s)
    come_s = {name: counted(found, "failed", load_s) for name, found in outcomes.items()}
    # Output stands still while a checkpoint is taken: c is what each costs of a period.
    shares = {name: come / max(whole_s, BATCH_S) for name, come in come_s.items()}
    periods_s = {
        label: period_s(interval_s, max(whole_s, BATCH_S) / counted_s)
        for label, interval_s in ((OPTIMAL, best_s), (LONG, LONG_S))
    }
    cost_s = max(0.0, periods_s[OPTIMAL] * (1 - shares["cost"]))
    down_s = restarts_s(outcomes["long"], outcomes["optimal"])
    rows = []
    for name, label, interval_s in (("optimal", OPTIMAL, best_s), ("long", LONG, LONG_S)):
        instants = [at_s - FULL_S for at_s, _ in felt(outcomes[name])]
        rows.append(
            {
                "interval": label,
                "interval_s": interval_s,
                "period_s": periods_s[label],
                "back_s": back_s(outcomes[name]),
                "measured": shares[name],
                **by_the_model(
                    instants, counted_s, mean_s=mean_s(per_minute), interval_s=periods_s[label],
                    cost_s=cost_s, down_s=down_s,
                ),
            }
        )  # fmt: skip
    values = {
        "per_minute": per_minute,
        "cost_s": cost_s,
        "restart_s": down_s,
        "kills": len(schedule.events),
        "saturated_share": whole_s / counted_s,
    }
    return outcome_of(outcomes, values, utilization=pd.DataFrame(rows))


def felt(found: Outcome) -> list[tuple[float, str]]:
    """Return instant and node of each kill that a process died of: a node that is down has none."""
    failures = found.series["failures"]
    kills = failures[(failures["action"] == "kill") & (failures["processes"] > 0)]
    both = zip(kills["at_s"], kills["target"], strict=True)
    return [(float(at_s), str(node)) for at_s, node in both]


def counted(found: Outcome, which: str, load_s: float) -> float:
    """Return the progress of a pass while kills may come: from full windows to the quiet end."""
    results = found.series["results"]
    mine = results[results["pass"] == which]
    begun_s, ended_s = (progress_s(mine, WINDOW_S, at_s) for at_s in (FULL_S, load_s - QUIET_S))
    return ended_s - begun_s


def progress_s(results: pd.DataFrame, window_s: float, until_s: float) -> float:
    """Return the seconds of input that results covered at an instant.

    The end of the newest window that was out, interpolated between two."""
    if not len(results):
        return 0.0
    ends = results.groupby("window_start_s")["arrival_s"].max().sort_index()
    arrivals = np.maximum.accumulate(ends.to_numpy())
    covered_s = ends.index.to_numpy(dtype=float) + window_s
    return float(np.interp(until_s, arrivals, covered_s, left=0.0))


def restarts_s(*outcomes: Outcome) -> float:
    """Return R: the mean time from a kill until the last of its tasks processed again.

    It has its state then, and what it processes first is the work that was lost. Where no kill was
    recovered from before the next one, the time until the killed node was there again."""
    spans = [span for found in outcomes for span in _ready(found)]
    spans = spans or [span for found in outcomes for span in _after_kills(found, "restarted")]
    return float(np.mean(spans)) if spans else 0.0


def _ready(found: Outcome) -> list[float]:
    """Return the time from each kill until its tasks had their state again, where it is known.

    The engine notes that step from the detection on, with the recovery that it is a part of."""
    incidents = found.series["incidents"]
    if "ready_after_s" not in incidents:
        return []
    mine = incidents[incidents["event"] == "recovered"].dropna(subset=["ready_after_s"])
    spans = []
    for at_s, node in felt(found):
        of_kill = mine[(mine["target"] == node) & (mine["at_s"] > at_s)]
        lost = incidents[
            (incidents["event"] == "detected")
            & (incidents["target"] == node)
            & (incidents["at_s"] >= at_s - SLACK_S)
        ].sort_values("at_s")
        back = regained(of_kill, lost.iloc[0]) if len(lost) else of_kill.iloc[:0]
        if len(back):
            detected_s = float(lost["at_s"].iloc[0])
            ready_s = detected_s + float(back["ready_after_s"].iloc[0])
            spans.append(max(0.0, ready_s - at_s))
    return spans


def back_s(found: Outcome) -> float | None:
    """Return the mean time from a kill until its tasks were where they had been.

    None if no kill was recovered from."""
    spans = _after_kills(found, "recovered")
    return float(np.mean(spans)) if spans else None


def _after_kills(found: Outcome, event: str) -> list[float]:
    """Return the time from each kill to the next such event of its node, where one came."""
    return after_kills(felt(found), found.series["incidents"], event)


def after_kills(
    kills: Iterable[tuple[float, str]], incidents: pd.DataFrame, event: str
) -> list[float]:
    """Return the time from each of these kills to the next such event of its node."""
    mine = incidents[incidents["event"] == event] if "event" in incidents else incidents
    spans = []
    for at_s, node in kills:
        later = mine[(mine["target"] == node) & (mine["at_s"] > at_s)]
        if len(later):
            spans.append(float(later["at_s"].min()) - at_s)
    return spans


def by_the_model(
    instants: Sequence[float], load_s: float, *, mean_s: float, interval_s: float, cost_s: float,
    down_s: float,
) -> dict[str, float]:  # fmt: skip
    """Return the model's utilization, for the mean time between kills and for these very kills."""
    system = CheckpointedSystem(
        cost_s=max(cost_s, 1e-6), failure_rate_per_s=1 / mean_s, restart_s=down_s
    )
    own = replayed(instants, load_s, interval_s=interval_s, cost_s=cost_s, down_s=down_s)
    return {"model": float(system.utilization(interval_s)), "replayed": own}


def replayed(
    instants: Sequence[float], load_s: float, *, interval_s: float, cost_s: float, down_s: float
) -> float:
    """Return the model's utilization for these very kills, not for their mean.

    Work goes on between the end of a restart and the next kill; an unfinished period is lost."""
    begins = [0.0, *(at_s + down_s for at_s in instants)]
    ends = [*instants, load_s]
    spans = [max(0.0, end - begin) for begin, end in zip(begins, ends, strict=True)]
    worth_s = interval_s - cost_s
    useful = sum(int(span // interval_s) * worth_s for span in spans)
    return (useful + min(spans[-1] % interval_s, worth_s)) / load_s


MANY = 9
"""Runs of a point: kills of the lowest rate come every 55 s, and these have more than 20."""
GRID: Sequence[Point] = [{"depth": depth} for depth in DEPTHS]
EVERY_RATE: Sequence[Point] = [
    {"depth": depth, "per_minute": per_minute} for per_minute in PER_MINUTE for depth in DEPTHS
]

MEASUREMENT = measured(
    "live/utilization",
    run=run,
    grid={
        Profile.SMOKE: GRID[:1],
        Profile.QUICK: [*GRID, *EVERY_RATE[len(GRID) :]],
        Profile.PAPER: EVERY_RATE,
    },
    seconds=(90.0, 115.0, 800.0),
    repeats=MANY,
    keeps=KEPT,
)

# Shown: no record depends on what follows.

AGAIN = Rule(version=2, since="2026-11-23", seen_seeds=(DEFAULT_SEED,))
"""R until tasks process again, progress from full windows on, the mean of a cell. Version 1 took
R until the node was there, the whole of a run, and each run."""
BY_RUN = Rule(version=4, since="2026-11-28", seen_seeds=(DEFAULT_SEED, 71811))
"""The mean gain of the runs with its interval, in cells with enough kills. Version 3 compared the
means of a cell, also where nothing had been killed."""


def table(results: Results) -> dict[str, pd.DataFrame]:
    """Return ``utilization``, measured and by the model, and ``passes`` (`passes_of`)."""
    frame = results.frame
    rate = frame["per_minute"] if "per_minute" in frame else pd.Series(index=frame.index)
    known = frame.assign(per_minute=rate.astype(float).fillna(PER_MINUTE[0]))
    columns = ("depth", "per_minute", "repeat", "cost_s", "restart_s", "kills")
    return {
        "utilization": replace(results, frame=known).series("utilization", columns),
        "passes": passes_of(results, ["depth"], "failures_planned"),
    }


def draw(tables: Tables, figure: Figure) -> None:
    """Draw a panel per interval, as in the figure of the paper's table."""
    rows = tables["utilization"]
    cells = {
        f"n={depth}\nλ={per_minute:g}": (
            {"per_minute": per_minute, "depth": depth},
            PRINTED[per_minute, depth],
        )
        for per_minute in PER_MINUTE
        for depth in DEPTHS
        if not len(rows) or len(rows[rows["per_minute"] == per_minute])
    }
    draw_cells(figure, rows, cells)
    figure.supxlabel("operators n; failures per minute λ", fontsize=9)
    stamp(figure, f"live; λ = {PER_MINUTE[0]:g} is a kill every {MEAN_S:g} s; declared speed")


@quantity
def calm(tables: Tables) -> pd.DataFrame:
    """Return the passes without a kill."""
    passes = tables["passes"]
    return passes[pd.to_numeric(passes["failures_planned"]) == 0]


@paper(
    "model-predicts",
    "The model predicts the measured utilization: for these very kills",
    foregone=Foregone.PARTLY,
    foregone_because="the model's c and R are those of the judged runs",
    rule=AGAIN,
    cause=Cause.READING,
    because="The model takes lost work to last as long as the first time. Here it is presumably "
    "faster, because its input is there already. On the other hand, a batch has to come through "
    "all operators again before the output moves, which is not in R.",
)
def model_predicts(tables: Tables) -> Finding:
    rows = tables["utilization"]
    return close_to_the_model(
        rows,
        BY,
        of_the_expectation="model",
        kills=rows["kills"].tolist(),
        cost_s=rows["cost_s"].round(3).tolist(),
        restart_s=rows["restart_s"].round(3).tolist(),
        from_a_kill_until_its_tasks_were_back_s=rows["back_s"].round(2).tolist(),
        tolerance=CLOSE,
    )


BY = ["per_minute", "depth"]
CLAIMS = [
    equal_output,
    invariant(
        "equal-output-without-kills",
        "Without a kill the output equals the truth, with checkpoints as without",
    ).every(calm()["output_equals_truth"].eq(True), passes=applied(len, calm())),
    paper(
        "optimum-better",
        "Utilization increases in every case from a checkpoint every 30 minutes to T*",
        rule=BY_RUN,
    )(lambda tables: better_at_optimum(tables["utilization"], BY, "λ={0[0]:g}, n={0[1]}")),
    model_predicts,
]


EXPERIMENT = Experiment(
    measurement=MEASUREMENT,
    sentences={
        "optimum-better": "intervals/flink/increases",
        "model-predicts": "intervals/flink/predicts",
    },
    paper="Jayasekara, Harwood, Karunasekera, FGCS 2020",
    figure="Table 1, live",
    title="Utilization under exponential kills, live and by the model",
    statement="Theory predicts the observed utilization, and T* raises it in every case.",
    table=table,
    draw=draw,
    claims=CLAIMS,
    notes=(
        f"λ is scaled: a kill every {MEAN_S:g} s in the mean, so that {LONG_S:g} s are what 30 "
        "minutes are at the paper's 0.05 failures per minute (λT = 1.5), and 5 and 10 times as "
        "long at 0.01 and 0.005, at which six quick runs have some two kills: too few to decide. "
        "c and R are not scaled, they are measured: c by a pass without kills, R from a kill until "
        "the last of its tasks has its state and processes again. Not in R is the time in which a "
        "batch comes through all operators again.",
        f"Windows of {WINDOW_S:g} s are full before the first kill, and progress counts from then "
        f"on, {FULL_S:g} s after the start.",
        "A period is counted in batches, of which each takes as long as in the pass without "
        "checkpoints; that is the T of the model.",
        "A run has few kills (paper: 20 and more in the repetitions of a cell). So the figure has "
        "the model's expectation and also the model for the very instants at which nodes were "
        "killed.",
        "The killed nodes' tasks have no other place and wait for their nodes, as in a Flink job "
        "without spare slots.",
    ),
    figure_size_in=(8.0, 4.0),
    smoke_covered_by="stock/worker-kill",
    quick_by_page=True,
)
