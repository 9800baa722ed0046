"""The same kill under both engines: lateness of results, second by second.

A part of `live/peers` on a smaller cluster, with its systems and its measures: word count on two
workers; one of them dies by SIGKILL with everything that runs on it, and is started again. Under
the stock engine that is an executor, under the task engine an executor with three nodes. A result
is late by its arrival in the out topic minus the end of its window.

A run is several passes over one input, each with a query of its own and a kill at another place
between two checkpoints: these are the samples. Stock Spark runs in both of its modes. In real-time
mode a result is the last value of its window and word, and arrives when that value first came."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pandas as pd

from experiments.live._judged import stacked
from experiments.live._outage import FOR_RECOVERY
from experiments.live._peers_rows import STOCK, TASKS, System
from experiments.live._peers_run import chosen, start, together
from experiments.live._six_nodes import KEPT, SPEC
from harness.claims import (
    Claim,
    Finding,
    Rule,
    at_most,
    every,
    hypothesis,
    invariant,
    median_of,
    not_asked,
    ratio_of,
)
from harness.claims.samples import FEWEST
from harness.engines.structured.parameters import Mode
from harness.engines.tasks.parameters import TaskParameters
from harness.experiment import Experiment
from harness.failures.generators import one_target
from harness.failures.schedule import Schedule
from harness.figures.style import (
    BLACK,
    GREY,
    SKY,
    VERMILION,
    YELLOW,
    not_measured,
)
from harness.measure.recovery import CALM_S
from harness.measure.windows import LATER_S
from harness.measurement import Context, Measurement, Origin, Scheduling
from harness.results.record import Outcome, Point, Profile

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from harness.results.tables import Results


WINDOW_S, SLIDE_S, CHECKPOINT_S, INTERVAL_S = 2.0, 0.5, 2.0, 0.1
"""The last: batch interval, and trigger of the stock engine, which is as fast as it can."""
AFTER_S = 16.0
"""Load after the latest kill, in which output comes back and is calm."""
VICTIM, RESTART_AFTER_S = "r2", 1.0
REAL_TIME = "stock real-time"
_MICRO_BATCHES = {"spark.sql.shuffle.partitions": "2"}
_STOCK = System(scheme="checkpoint", stock=True, interval_s=INTERVAL_S, gap_s=AFTER_S)
_OURS = System(
    scheme="checkpoint", interval_s=INTERVAL_S, gap_s=CALM_S + 1, first_s=3.0,
    parameters=TaskParameters(checkpoint_s=CHECKPOINT_S, notes_progress=True),
)  # fmt: skip
ROWS: Mapping[str, System] = {
    "stock": replace(_STOCK, more={"conf": _MICRO_BATCHES}),
    "stock tuned": replace(_STOCK, more={"conf": FOR_RECOVERY}, first_s=12.0),
    # The slots of a worker stay free, so that it can start without one.
    REAL_TIME: replace(
        _STOCK,
        more={"mode": Mode.REAL_TIME.value, "conf": FOR_RECOVERY,
              "spare_slots": SPEC.cores_per_worker},
        first_s=8.0,
    ),
    "checkpoint": _OURS,
    "active": replace(_OURS, scheme="active"),
}  # fmt: skip
"""The systems of the figure by name. The process that was started again after the kill of the pass
before is cold: its first task takes 4 to 7 s on two cores, so that only the windows of the second
half before a kill (`System.first_s`) tell how late results usually are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """The passes of a profile, one for each kill, and their seconds."""

    passes: int
    warmup_s: float
    """Load before the first pass."""
    longer: int = 1
    """Factor of a system's seconds."""

    def longer_than(self, system: System) -> System:
        """Return a system with the seconds of this profile."""
        first_s, gap_s = self.longer * system.first_s, self.longer * system.gap_s
        return replace(system, first_s=first_s, gap_s=gap_s)

    def schedule(self, system: System, number: int, part: float) -> tuple[Schedule, float]:
        """Return the kill of a pass, in the part of that number of a checkpoint interval.

        The interval has as many equal parts as there are passes; ``part``, from 0 to 1, is the
        place in its own. The second value is the length of the load."""
        at_s = system.first_s + (number + part) / self.passes * CHECKPOINT_S
        schedule = one_target(VICTIM, at_s=at_s, restart_after_s=RESTART_AFTER_S)
        return schedule, system.first_s + CHECKPOINT_S + system.gap_s


TIMES = {
    Profile.SMOKE: Times(passes=1, warmup_s=2),
    Profile.QUICK: Times(passes=6, warmup_s=5),
    Profile.PAPER: Times(passes=6, warmup_s=30, longer=3),
}
ATTEMPTS = 3
"""Passes for one kill, until it was on time and the output before it was as usual."""


def run(point: Point, context: Context) -> Outcome:
    """Measure one row: a warm-up, then a pass for each kill."""
    from experiments.live._rates import WATERMARK_S
    from harness.stock_kills.scale import UPDATES_WATERMARK_S
    from workloads.wordcount import word_count

    row, times = str(point["row"]), TIMES[context.profile]
    system = times.longer_than(ROWS[row])
    workload = word_count(
        seed=context.seed("input") % 2**31,
        window_s=WINDOW_S,
        slide_s=SLIDE_S,
        depth=4,
        watermark_delay_s=UPDATES_WATERMARK_S if system.real_time else WATERMARK_S,
    )
    kind, setup = chosen(STOCK if system.stock else TASKS, system, context)
    measured = start(system, kind, setup, workload, context, spec=SPEC)
    measured.warm_up(times.warmup_s)
    twin = measured.twin(system.first_s + CHECKPOINT_S + system.gap_s)
    passes = []
    for number in range(times.passes):
        part = context.seed("phase", number) % 1000 / 1000
        planned = times.schedule(system, number, part)
        for attempt in range(ATTEMPTS):
            found = measured.kill(f"kill-{number}-{attempt}", *planned, twin)
            if not found.invalid:
                break
            context.progress(f"kill {number} again: {found.invalid}")
        passes.append(found)
    return together(passes)


def _keeps(point: Point) -> str:
    """Return the name of what a row keeps warm: both modes use the tuned application."""
    row = str(point["row"])
    return "stock tuned" if row == REAL_TIME else row if ROWS[row].stock else KEPT


_ALL: list[Point] = [{"row": name} for name in ROWS]
_QUICK = [one for one in _ALL if one["row"] not in ("stock", "checkpoint")]

MEASUREMENT = Measurement(
    id="live/same-kill",
    origin=Origin.MEASURED,
    grid={
        Profile.SMOKE: [{"row": "active"}, {"row": REAL_TIME}],
        Profile.QUICK: _QUICK,
        Profile.PAPER: _ALL,
    },
    repeats={Profile.SMOKE: 1, Profile.QUICK: 1, Profile.PAPER: FEWEST},
    seconds_per_run={Profile.SMOKE: 30, Profile.QUICK: 280, Profile.PAPER: 600},
    run=run,
    scheduling=Scheduling(keeps=_keeps, early=True),
    chooses=["harness.engines.structured.engine", "harness.engines.tasks.engine"],
)

# Shown: no record depends on what follows.

SEEN = (20160516, 31339, 71503, 71504, 71505, 71811, 90211)
"""Seeds of the runs that were seen when the rules were changed."""
TENTH = 0.1
"""Most that the task engine may take of the stock engine's recovery, as seen from outside. Fixed
before measuring."""
RULE = Rule(version=6, since="2026-11-26", seen_seeds=SEEN)
"""Versions before judged one kill, another rate, windows of the cold start, or five samples."""
FIRST = Rule(version=4, since="2026-11-26", seen_seeds=SEEN)
"""The rule of the claims against real-time mode."""
AGAINST = {
    "stock": ("", "stock Spark in micro-batches as it comes", RULE),
    "stock tuned": ("-as-tuned", "stock Spark in micro-batches with tuned settings", RULE),
    REAL_TIME: ("-as-real-time", "stock Spark in real-time mode", FIRST),
}
"""Rows of the stock engine: the end of a claim's id, the name in its sentence, and its rule."""
BOTH = ("engine_s", "outside_s")
"""The two measures of a recovery."""
STEPS = {
    "part_detection_s": ("until the loss is seen", VERMILION),
    "part_rescheduling_s": ("rescheduling", BLACK),
    "part_locality_wait_s": ("locality wait (older records; now in rescheduling)", YELLOW),
    "part_first_batch_s": ("first batches", SKY),
}
"""Label and colour of the parts of an outage."""


def tabulate(results: Results) -> Mapping[str, pd.DataFrame]:
    """Return ``runs``, and ``kills``, a row each (`samples`)."""
    columns = ["sample", *BOTH, "outside_at_least_s", "detection_s", "usual_s", *STEPS]
    kills = _as_recorded(results).reindex(
        columns=["run", "row", "repeat", "phase_s", "late_ms", "outside_why_not", *columns]
    )
    return {"runs": results.frame, "kills": kills.astype(dict.fromkeys(columns, float))}


def _as_recorded(results: Results) -> pd.DataFrame:
    """Return kills; those of `live/peers`' form in the columns of older records."""
    kills = results.series("outages", ["row", "repeat"])
    if not len(kills):
        return results.series("kills", ["row", "repeat"])
    return kills.assign(
        sample=kills["pass"] - 1,
        phase_s=kills["at_s"] % CHECKPOINT_S,
        engine_s=kills["restart_s"] + kills["restore_s"],
        outside_s=kills["outage_s"].where(kills["caught_up"]),
        outside_at_least_s=kills["outage_s"].mask(kills["caught_up"]),
        part_detection_s=kills["detection_s"],
        part_rescheduling_s=kills["restart_s"],
        part_first_batch_s=kills["restore_s"],
    )


def samples(tables: Mapping[str, pd.DataFrame], row: str, measure: str) -> list[float]:
    """Return a recovery per kill; one that was watched in vain is infinite under our engine.

    Under the stock engine it is the time for which it was watched, so that it never gains."""
    mine = tables["kills"][tables["kills"]["row"] == row]
    values = mine[measure].astype(float)
    if measure == "outside_s":
        watched = mine["outside_at_least_s"].astype(float)
        worst = watched if ROWS[row].stock else watched.where(watched.isna(), float("inf"))
        values = values.fillna(worst)
    return [float(value) for value in values.dropna()]


def draw(tables: Mapping[str, pd.DataFrame], figure: Figure) -> None:
    """Draw the medians of an outage's parts in each row, and a cross for each outage."""
    axes, kills = figure.subplots(), tables["kills"]
    by_row = kills.groupby("row")[list(STEPS)].median().reindex(list(ROWS))
    stacked(axes, list(ROWS), by_row, STEPS)
    for number, row in enumerate(ROWS):
        outages_s = samples(tables, row, "outside_s")
        axes.plot(outages_s, [number] * len(outages_s), "x", color=GREY, markersize=4)
    axes.invert_yaxis()
    axes.set_xlabel("seconds from the kill: bars parts (medians), crosses outages from outside")
    axes.set_ylabel("engine and settings")
    if not len(kills):
        not_measured(axes)


@invariant(
    "right-output", "No result is lost or wrong under either engine, where no row came too late."
)
def right_output(tables: Mapping[str, pd.DataFrame]) -> Finding:
    runs = tables["runs"]
    runs = runs[runs["dropped"] == 0]
    wrong = runs.reindex(columns=["lost", "contradictions"]).sum(axis=1)
    return every(wrong == 0, wrong=int(wrong.sum()) if len(wrong) else None, runs=len(wrong))


def _shorter(scheme: str, way: str, stock: str) -> Claim:
    ending, name, rule = AGAINST[stock]

    @hypothesis(
        f"late-a-tenth-as-long-with-{way}{ending}",
        f"With {way} the task engine's results are late, after the same kill, for at most a "
        f"tenth as long as those of {name}.",
        because="Spark's outage is presumably shorter than its ordinary lateness, so that it "
        "counts as none, and to none no outage is a tenth.",
        rule=rule,
    )
    def shorter(tables: Mapping[str, pd.DataFrame]) -> Finding:
        if not {stock, scheme} <= set(tables["runs"]["row"]):
            return not_asked()
        both: dict[str, Any] = {}
        for measure in BOTH:
            for one in (scheme, stock):
                median = median_of(samples(tables, one, measure))
                both[f"{one} {measure}"] = None if median is None else median.value
        ratio = ratio_of(samples(tables, scheme, "outside_s"), samples(tables, stock, "outside_s"))
        return at_most(ratio, TENTH, **both)

    return shorter


CLAIMS = [
    right_output,
    *(
        _shorter(scheme, way, stock)
        for stock in AGAINST
        for scheme, way in (("active", "replicas"), ("checkpoint", "checkpoints"))
    ),
]


EXPERIMENT = Experiment(
    measurement=MEASUREMENT,
    paper="Faultline",
    figure="same kill",
    title="The same kill under stock Spark, in both of its modes, and under the task engine",
    statement=(
        "Stock Spark in micro-batches stops until its executor is given up and its tasks run "
        "elsewhere, in real-time mode until the query is started again from its checkpoint; the "
        "task engine goes on with the next batch."
    ),
    table=tabulate,
    draw=draw,
    claims=CLAIMS,
    smoke_covered_by="live/engines",
    notes=[
        "Stock Spark in micro-batches: state in memory, trigger as fast as it can; tuned: without "
        "locality wait as well (docs/stock-settings.md). Real-time mode: the tuned settings, a "
        "checkpoint every 5 s, the shortest that Spark permits, and the slots of a worker spare; a "
        "supervisor starts the query again. Task engine: "
        f"batches of {INTERVAL_S:g} s. Two workers with three slots each on one machine.",
        "All passes have one input, and each another instant of the kill, between two checkpoints "
        "of the task engine. Bars are medians, crosses are kills.",
        "As the engine reports it: from the detection until all that had been processed before is "
        "processed again; Spark reports it with the next batch, in real-time mode with the next "
        "checkpoint. As seen from outside: the outage, in which windows come more than "
        f"{LATER_S:g} s later than the median of the twin, a pass without a kill, until they have "
        f"been on time for {CALM_S:g} s, with every relapse. A window comes out when it ends, and "
        "the backlog of the outage has to be processed: so the second measure is longer, and where "
        "the outage fits between two windows it is 0. In real-time mode a result is the last value "
        "of its window and word.",
        "Parts of the stock engine's outage are from Spark's own event log. No task runs while "
        "Spark reschedules or starts a query again, and while it waits for a slot near a task's "
        "state. The quick profile has micro-batches with tuned settings alone, and the task engine "
        "with replicas alone.",
        f"Stock output is watched for {ROWS[REAL_TIME].gap_s:g} s after a kill, so that the start "
        "of the next process, which can make output late once more, is a part of the outage.",
    ],
    figure_size_in=(8.5, 4.0),
)
