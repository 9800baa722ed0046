"""The same kill under both engines: lateness of results, second by second.

Word count on two workers; the second one dies by SIGKILL with everything that runs on it, and is
started again. Under the stock engine that is an executor, under the task engine an executor with
three nodes. A result is late by its arrival in the out topic minus the end of its window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pandas as pd

from experiments.live._six_nodes import KEPT, warm
from harness.claims import Claim, Finding, every, found, hypothesis, invariant
from harness.engines.structured.parameters import StockParameters
from harness.engines.tasks.parameters import TaskParameters
from harness.experiment import Experiment
from harness.figures.style import BLUE, GREEN, GREY, VERMILION, not_measured, plain_ticks, stamp
from harness.measurement import Context, Measurement, Origin, Scheduling
from harness.results.record import Outcome, Point, Profile

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from harness.judging.passes import PassRecord
    from harness.results.tables import Results
    from workloads.base import Workload

TASKS, STRUCTURED = "tasks", "structured"
RATE_PER_S = 2_000.0
INTERVAL_S = 0.1
"""Batch interval, and trigger of the stock engine, which is as fast as it can."""
SETTINGS = "memory"
"""Settings of the stock engine, see `experiments.live._rates.STOCK`."""
CHECKPOINT_S = 2.0
SLIDE_S, WINDOW_S = 0.5, 2.0
VICTIM = "r2"
RESTART_AFTER_S = 2.0
TIMES = {
    Profile.SMOKE: (2.0, 12.0, 5.0),
    Profile.QUICK: (12.0, 28.0, 10.0),
    Profile.PAPER: (30.0, 60.0, 20.0),
}
"""Seconds of warm-up, of load, and until the kill. The task engine's processes, which compile
nothing, are warmed up once."""
ROWS: Sequence[tuple[str, Sequence[tuple[str, str, str]]]] = (
    (STRUCTURED, [("checkpoint", "stock Spark, checkpoint every batch", GREY)]),
    (
        TASKS,
        [
            ("checkpoint", f"task engine, checkpoints every {CHECKPOINT_S:g} s", GREEN),
            ("active", "task engine, active replicas", BLUE),
        ],
    ),
)


def run(point: Point, context: Context) -> Outcome:
    """Measure one engine under one scheme."""
    from experiments.live._kills import compare
    from experiments.live._rates import STOCK, WATERMARK_S
    from experiments.live._runs import steady_pass
    from harness.engines.deliveries import relative_windows
    from harness.failures.generators import one_target
    from harness.failures.schedule import NO_FAILURES
    from harness.judging.passes import Pass
    from workloads.wordcount import word_count

    stock = point["engine"] == STRUCTURED
    parameters = (
        StockParameters(conf=STOCK[SETTINGS])
        if stock
        else TaskParameters(checkpoint_s=CHECKPOINT_S)
    )
    engine, cluster = warm(str(point["engine"]), str(point["scheme"]), parameters, context)
    workload = word_count(
        window_s=WINDOW_S, slide_s=SLIDE_S, depth=4, watermark_delay_s=WATERMARK_S
    )
    warmup_s, load_s, kill_s = TIMES[context.profile]
    directory = cluster.scratch(f"same-kill-{context.directory.name}")
    schedule = one_target(VICTIM, at_s=kill_s, restart_after_s=RESTART_AFTER_S)
    passes = [("kill", load_s, schedule)]
    if stock or not engine.used:
        passes.insert(0, ("warm-up", warmup_s, NO_FAILURES))
    for name, seconds, planned in passes:
        plan = steady_pass(name, workload, RATE_PER_S, seconds, INTERVAL_S, planned)
        with Pass(plan, cluster, engine, directory, context) as one:
            record = one.run()
            if planned is schedule:
                truth = relative_windows(engine.truth(one.work), workload, record.start_unix_s)
    due = truth[truth["window_start_s"] <= load_s]
    wrong = compare(record.deliveries, due, workload)
    reached = any(victim.felt for done in record.injected[:1] for victim in done.victims)
    return Outcome(
        values={**wrong, "killed": reached, "drained": record.drained},
        series={"lateness": lateness(record, workload)},
        invalid=record.load.invalid or (None if reached else "the kill reached nothing"),
    )


def lateness(record: PassRecord, workload: Workload) -> pd.DataFrame:
    """Return a row per window that ended while the load flowed and has results.

    ``ended_s`` counts from the kill; the rest is the lateness of its first, median and last result.
    """
    kill_s = record.injected[0].victims[0].earliest_unix_s - record.start_unix_s
    found = record.deliveries
    ended_s = found["window_start_s"] + workload.window_s
    late_s = (found["arrival_s"] - ended_s)[ended_s <= record.until_s]
    by_window = late_s.groupby(ended_s)
    frame = pd.DataFrame(
        {"first_s": by_window.min(), "late_s": by_window.median(), "last_s": by_window.max()}
    )
    frame.insert(0, "ended_s", frame.index - kill_s)
    return frame.reset_index(drop=True)


def point(engine: str, scheme: str) -> Point:
    return {"engine": engine, "scheme": scheme}


_ALL = [point(engine, scheme) for engine, schemes in ROWS for scheme, _, _ in schemes]

MEASUREMENT = Measurement(
    id="live/same-kill",
    origin=Origin.MEASURED,
    grid={
        Profile.SMOKE: [point(TASKS, "active")],
        Profile.QUICK: _ALL,
        Profile.PAPER: _ALL,
    },
    repeats={Profile.SMOKE: 1, Profile.QUICK: 1, Profile.PAPER: 5},
    seconds_per_run={Profile.SMOKE: 30, Profile.QUICK: 52, Profile.PAPER: 120},
    run=run,
    scheduling=Scheduling(
        keeps=(lambda point: KEPT if point["engine"] != STRUCTURED else str(point["engine"])),
        early=True,
    ),
    chooses=["harness.engines.structured.engine", "harness.engines.tasks.engine"],
)

# Shown: no record depends on what follows.

AROUND_S = (-5.0, 16.0)
"""Drawn time, from the kill."""
LATE_S = 0.5
"""A result is late if it comes this much later than the median before the kill."""
TENTH = 0.1
"""Most that the task engine may take of the stock engine's time with late results. Fixed before
measuring."""


def tabulate(results: Results) -> Mapping[str, pd.DataFrame]:
    """Return ``runs``, a row each, and ``windows``: a row per window of each."""
    windows = results.series("lateness", ["engine", "scheme", "repeat"])
    late = {run: late_for_s(mine) for run, mine in windows.groupby("run")}
    late_s = results.frame["run"].map(late).astype(float)
    return {"runs": results.frame.assign(late_for_s=late_s), "windows": windows}


def draw(tables: Mapping[str, pd.DataFrame], figure: Figure) -> None:
    """Draw the stock engine above, the task engine below, on the same axes."""
    panels = figure.subplots(len(ROWS), 1, sharex=True, sharey=True)
    windows = tables["windows"]
    for axes, (engine, schemes) in zip(panels, ROWS, strict=True):
        for scheme, label, color in schemes:
            mine = windows[(windows["engine"] == engine) & (windows["scheme"] == scheme)]
            _draw_line(axes, mine, label, color)
        axes.axvline(0, color=VERMILION, linewidth=1)
        if len(windows):
            axes.set_yscale("log")
            plain_ticks(axes.yaxis)
        if engine not in set(windows["engine"]):
            not_measured(axes)
        axes.set_ylabel("results late by (s)")
        axes.legend(loc="best")
    panels[0].annotate(
        "SIGKILL", (0, 0), (3, 4), xycoords=("data", "axes fraction"),
        textcoords="offset points", color=VERMILION, fontsize=8,
    )  # fmt: skip
    panels[-1].set_xlabel(
        "end of the window (s from the kill of a worker with all that runs on it)"
    )
    panels[-1].set_xlim(*AROUND_S)
    stamp(
        figure,
        f"word count, {RATE_PER_S:,.0f} records/s; windows of {WINDOW_S:g} s every {SLIDE_S:g} s; "
        f"the worker is started again after {RESTART_AFTER_S:g} s",
    )


def _draw_line(axes: Axes, windows: pd.DataFrame, label: str, color: str) -> None:
    shown = windows[windows["ended_s"].between(*AROUND_S)]
    runs = [one.sort_values("ended_s") for _, one in shown.groupby("run")]
    width, share = 1.6 / max(len(runs), 1) ** 0.5, 0.25 / max(len(runs), 1)
    named = f"{label} ({len(runs)} run{'s' if len(runs) > 1 else ''})"
    if not runs:
        axes.plot([], [], color=color, label=named)
    for number, one in enumerate(runs):
        at_s, words = one["ended_s"], "_" if number else named
        axes.fill_between(
            at_s, one["first_s"], one["last_s"], color=color, alpha=share, linewidth=0
        )
        axes.plot(at_s, one["late_s"], color=color, marker=".", linewidth=width, label=words)


def late_for_s(windows: pd.DataFrame) -> float:
    """Return the seconds of windows with a result that came later than usual by `LATE_S`.

    A window that had ended when the kill came, but was not out yet, is hit too."""
    out = windows["ended_s"] + windows["last_s"] < 0
    before = windows[out]["late_s"].median()
    return float((windows[~out]["last_s"] > before + LATE_S).sum() * SLIDE_S)


@invariant("right-output", "No result is lost or wrong, under either engine.")
def right_output(tables: Mapping[str, pd.DataFrame]) -> Finding:
    wrong = tables["runs"][["lost", "contradictions"]].sum(axis=1)
    return every(wrong == 0, wrong=int(wrong.sum()) if len(wrong) else None, runs=len(wrong))


def _shorter(scheme: str, way: str) -> Claim:
    @hypothesis(
        f"late-a-tenth-as-long-with-{way}",
        f"With {way} the task engine's results are late, after the same kill, for at most a "
        "tenth as long as the stock engine's.",
    )
    def shorter(tables: Mapping[str, pd.DataFrame]) -> Finding:
        windows = tables["windows"].groupby(["engine", "scheme"])
        late = {
            key: max(late_for_s(one) for _, one in mine.groupby("repeat")) for key, mine in windows
        }
        ours, stock = late.get((TASKS, scheme)), late.get((STRUCTURED, "checkpoint"))
        held = None if ours is None or stock is None else ours <= TENTH * stock
        return found(held, tasks_s=ours, stock_s=stock)

    return shorter


CLAIMS = [right_output, _shorter("active", "replicas"), _shorter("checkpoint", "checkpoints")]


EXPERIMENT = Experiment(
    measurement=MEASUREMENT,
    paper="Faultline",
    figure="same kill",
    title="The same kill under stock Spark and under the task engine",
    statement=(
        "Stock Spark stops until its executor is given up and its tasks run elsewhere; the "
        "task engine goes on with the next batch."
    ),
    table=tabulate,
    draw=draw,
    claims=CLAIMS,
    smoke_covered_by="live/engines",
    notes=[
        f"Stock engine: state {SETTINGS}, trigger as fast as it can, the best of live/engines. "
        "Task engine: batches of 0.1 s. Two workers with three slots each on one machine.",
        "A line per run: the median result of a window; shaded: its first to its last.",
        f"Late: {LATE_S:g} s later than the median before the kill. The tenth was fixed before "
        "measuring.",
    ],
    figure_size_in=(8.0, 4.6),
)
