"""Kills under Spark's real-time mode: outage, repeated output, early versions, equality.

Spark's documentation promises the results of micro-batches at a fraction of their latency. In this
mode a lost task is not tried again: the query ends with an error, and must be started again from
its last checkpoint, with a free slot for each of its tasks. The supervisor that does it is part of
the scheme (`harness.engines.structured.driver.Supervised`).

Workers, executors, a rack and the driver die, each in a pass of its own, under checkpoints of
several intervals, with and without spare slots, and under two queries on disjoint racks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product
from typing import TYPE_CHECKING

import pandas as pd

from harness.claims import (
    Claim,
    Finding,
    Rule,
    applied,
    at_least,
    at_most,
    found,
    hypothesis,
    invariant,
    not_asked,
    rows_of,
)
from harness.claims.samples import difference_of, median_of, ratio_of
from harness.cluster.base import ClusterSpec
from harness.engines.base import Setup
from harness.engines.structured.parameters import Mode, StockParameters
from harness.experiment import Context, Experiment, Outcome, Point, Profile, Results, measured
from harness.failures.generators import one_target
from harness.failures.schedule import Schedule
from harness.figures.chart import Figure
from harness.figures.style import BLUE, GREEN, GREY, ORANGE, PURPLE, VERMILION, legend_below
from harness.judging.outcome import restarts
from harness.judging.run import LiveRun, Variant, lacking, measure_each, together
from harness.results.kills import SERIES, Kill
from harness.results.recorded import kill_rows
from harness.stock_kills.scale import UPDATES_WATERMARK_S, spark_conf
from workloads.wordcount import word_count

if TYPE_CHECKING:
    from experiments.stock._kills import Tables

SPEC = ClusterSpec(racks=2, workers_per_rack=2, cores_per_worker=3)
"""Four workers with three slots each. A query has two tasks that read; those with state, four or
more, are dealt to all workers, so that each kill ends one."""
RATE_PER_S = 100.0
WINDOW_S, WATERMARK_S = 1.0, UPDATES_WATERMARK_S
INTERVAL_S = 1.0
"""Time to which a pass's begin is rounded; a query in real-time mode has no trigger interval."""
OUTPUT_CALM_S = 2.0
"""Time on time that ends a recovery: two windows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """The kills of several passes, one in each."""

    label: str
    targets: Sequence[str]
    """The targets, in turn."""
    spare_slots: int
    """Slots that the query leaves free."""
    restarts: bool = True
    """True if the schedule starts the target again; executors and drivers come back without it."""


WORKERS = ("r1n1", "r2n2", "r1n2", "r2n1")
KINDS: Mapping[str, Kind] = {
    "worker": Kind(label="worker, slots of two spare", targets=WORKERS, spare_slots=6),
    "worker-even": Kind(label="worker, slots of one spare", targets=WORKERS, spare_slots=3),
    "worker-tight": Kind(label="worker, no spare slot", targets=WORKERS, spare_slots=0),
    "executor": Kind(
        label="executor, slots of two spare",
        targets=[f"executor-{name}" for name in WORKERS],
        spare_slots=6,
        restarts=False,
    ),
    "rack": Kind(label="rack, its slots spare", targets=("r1", "r2"), spare_slots=6),
    "driver": Kind(label="driver", targets=["driver-0"], spare_slots=6, restarts=False),
}
TWIN_SPARE_SLOTS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """The size of a profile's passes."""

    kinds: Sequence[str]
    kills: int
    """Number of passes of a kind, with a kill each: an executor that has just begun is cold, and a
    second kill soon after would measure that."""
    before_s: float
    """Load before the earliest kill."""
    after_s: float
    """Load after the latest one."""
    away_s: float = 3.0
    """Time until a killed worker is started again."""
    warmup_s: float = 0.0
    """Load before the twin where the application has run this mode before, as in `stock/modes`."""
    first_warmup_s: float = 0.0
    """Load before the twin where it has run nothing."""
    settle_s: float

    def load_s(self, checkpoint_s: float) -> float:
        """Return the length of a pass: a kill comes in any phase."""
        return self.before_s + checkpoint_s + self.after_s


SCALES: Mapping[Profile, Scale] = {
    Profile.SMOKE: Scale(kinds=("worker",), kills=1, before_s=1, after_s=3, away_s=2, settle_s=1),
    Profile.QUICK: Scale(
        kinds=("worker",), kills=6, before_s=6, after_s=12, first_warmup_s=12, settle_s=4
    ),
    Profile.PAPER: Scale(
        kinds=tuple(KINDS),
        kills=6,
        before_s=10,
        after_s=30,
        away_s=5,
        warmup_s=20,
        first_warmup_s=40,
        settle_s=5,
    ),
}


def point(scheme: str, checkpoint_s: float) -> Point:
    return {"scheme": scheme, "checkpoint_s": checkpoint_s}


def schedule(
    kind: Kind, scale: Scale, checkpoint_s: float, *, number: int, part: float
) -> Schedule:
    """Return the kill of a pass, in the part of that number of a checkpoint interval.

    The interval has as many equal parts as there are passes; ``part``, from 0 to 1, is the place in
    its own."""
    target = kind.targets[number % len(kind.targets)]
    phase = (number + part) / scale.kills
    at_s = scale.before_s + phase * checkpoint_s
    kill = one_target(target, at_s=at_s, restart_after_s=scale.away_s if kind.restarts else None)
    return replace(kill, origin="one kill", parameters={"phase": phase})


def run(point: Point, context: Context) -> Outcome:
    """Measure a scheme and a checkpoint interval: a twin, then a pass for each kill."""
    scale, brief = SCALES[context.profile], context.profile is Profile.SMOKE
    scheme, checkpoint_s = str(point["scheme"]), float(str(point["checkpoint_s"]))
    cluster = context.cluster(SPEC)

    def setup(spare_slots: int) -> Setup:
        return Setup(
            scheme=scheme,
            parameters=StockParameters(
                conf=spark_conf(context.options),
                mode=Mode.REAL_TIME.value,
                checkpoint_s=checkpoint_s,
                spare_slots=spare_slots,
            ),
        )

    part = context.seed("phase", str(checkpoint_s)) % 1000 / 1000
    twin = LiveRun(
        workload=word_count(
            seed=context.seed("text"),
            window_s=WINDOW_S,
            slide_s=WINDOW_S,
            watermark_delay_s=WATERMARK_S,
            traced=True,
        ),
        setup=setup(0 if scheme == "active" else TWIN_SPARE_SLOTS),
        interval_s=INTERVAL_S,
        rate_per_s=RATE_PER_S,
        load_s=scale.load_s(checkpoint_s),
        warmup_s=scale.warmup_s,
        first_warmup_s=scale.first_warmup_s,
        settle_s=scale.settle_s,
        calm_s=OUTPUT_CALM_S,
        one_truth=True,
        scored=False,
    )
    if (reason := lacking(twin, SPEC)) is not None:
        return Outcome(values={}, skipped=reason)
    asked = [
        (name, KINDS[name])
        for name in scale.kinds
        if not (scheme == "active" and name == "worker-tight")
    ]
    # A worker may die with no task of the query, which is not started again then.
    variants = {
        f"{name}-{number}": Variant(
            setup=setup(0 if scheme == "active" else kind.spare_slots),
            schedule=schedule(kind, scale, checkpoint_s, number=number, part=part),
            felt=None if brief or name == "driver" else lambda record: restarts(record) > 0,
        )
        for (name, kind), number in product(asked, range(scale.kills))
    }
    outcomes = measure_each(twin, variants, cluster, context)
    # The early versions are many: the numbers of a run keep what the figure shows of them.
    return together(
        {
            name: replace(one, series={kept: one.series[kept] for kept in (SERIES, "timeline")})
            for name, one in outcomes.items()
        }
    )


MEASUREMENT = measured(
    "stock/real-time-kill",
    run=run,
    grid={
        Profile.SMOKE: [point("checkpoint", 5), point("active", 5)],
        Profile.QUICK: [point("checkpoint", 5)],
        Profile.PAPER: [
            *(point("checkpoint", seconds) for seconds in (5, 15, 60)),
            point("active", 5),
        ],
    },
    seconds=(45, 240, 2700),
    keeps=lambda point: f"{point['scheme']} default",
    chooses=["harness.engines.structured.engine"],
    accepts=frozenset({"conf"}),
)

# Shown: no record depends on what follows.

OUTAGE_S = 10.0
"""Largest median outage that a user would hope for with spare slots. Fixed on 2026-11-23 before the
first run."""
GAIN_S = 1.0
"""Least gain in seconds by which spare slots shorten the median outage. Fixed on 2026-11-23."""
RULE = Rule(version=5, since="2026-11-26", seen_seeds=(5, 777, 778, 31339, 20160516, 20261123))
"""Version 1 took the slots of one worker as spare. A query has none left then while a worker is
away, and a batch that begins before the last one's tasks have ended finds too few, and ends it.
Version 2 had five kills in one pass: from the third on they came while executors were starting.
Version 3 had windows of two seconds, which hide what is shorter, ended the load too early to see
the end of some outages, and counted kills that ended no task. Version 4 left out results that were
late again after a calm."""

NOTES = (
    f"Word count, {RATE_PER_S:g} lines/s, windows of {WINDOW_S:g} s that do not overlap; four "
    "workers with three slots each. The checkpoint interval is the trigger of real-time mode, at "
    "least 5 s. Each kill has a pass of its own and comes in another phase of the interval.",
    f"The watermark's delay is {WATERMARK_S:g} s, longer than an outage: in update mode no result "
    "waits for it. After a restart one partition may be read up to the present while another one "
    "has not begun, and with a short delay the next batch drops what was unread.",
    "A result is the last value of its window and word. It is in time when that value first came. "
    "Earlier values are early versions, and those that came after it are setbacks: after a restart "
    "the input since the last checkpoint is counted again. Repeats are values that came again.",
    "An outage lasts from the kill until all windows are on time again, with the time for which "
    "they are late once more; one that the end of the load cut off counts as at least that. A kill "
    "after which the query was not started again ended none of its tasks, and is made again. All "
    "settings are Spark's own: a task whose state was on the lost worker presumably waits for "
    "spark.locality.wait at each level of nearness, which would explain outages several times as "
    "long as the shortest; live/same-kill has real-time mode without that wait.",
    "The supervisor starts a query again after 0.5 s, then after pauses twice as long, up to 4 s. "
    "A killed driver is started again as soon as its end is seen. A killed worker is back after "
    "some seconds, so a query without spare slots waits for it. With the slots of one "
    "worker spare a query has none left while that worker is away, and a batch that begins before "
    "the tasks of the last one have ended finds too few. Quick kills workers with those of two; "
    "the paper profile has the rest, and executors, racks and drivers, too.",
)


def table(results: Results) -> Tables:
    """Return the tables ``passes``, a row each, and ``kills``, a row per kill with its outage."""
    by = ["scheme", "checkpoint_s", "repeat"]
    passes, kills = _by_kind(results.series("variants", by)), _by_kind(results.each(kill_rows, by))
    # Under a name of its own: the report lists the recoveries of other tables by engine and scheme,
    # and these are of several kinds.
    outage_s = [Kill.from_row(each).late_for_s for each in kills.to_dict("records")]
    kills = kills.drop(columns="recovery_s").assign(outage_s=pd.Series(outage_s, dtype=float))
    return {"passes": passes, "kills": kills}


def _by_kind(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the frame with the kind and the number of each pass instead of its name."""
    names = frame.pop("variant").str.rsplit("-", n=1, expand=True)
    return frame.assign(kind=names[0], number=names[1].astype(int))


def _each(passes: pd.DataFrame, column: str) -> dict[str, object]:
    names = [
        f"{one.scheme} {one.checkpoint_s:g} s, {one.kind} {one.number}, repetition {one.repeat}"
        for one in passes.itertuples()
    ]
    return dict(zip(names, passes[column], strict=True))


passes = rows_of("passes")
judged = passes[passes["dropped_rows"] == 0]


def _equal(other: str, words: str) -> Claim:
    return invariant(
        f"equals-{other}",
        f"After every kill, where no row came too late, the last values equal {words}",
    ).every(
        judged[f"output_equals_{other}"],
        differences=applied(_each, judged, f"difference_from_{other}"),
    )


nothing_dropped = hypothesis(
    "nothing-dropped", "After every kill the watermark drops no row", counted=True
).every(passes["dropped_rows"] == 0, dropped_rows=applied(_each, passes, "dropped_rows"))


def outages(tables: Tables, kind: str, *, checkpoint_s: float = 5.0) -> pd.Series[float]:
    """Return the outages of one kind of kill under a scheme of checkpoints."""
    kills = tables["kills"]
    mine = kills[(kills["kind"] == kind) & (kills["scheme"] == "checkpoint")]
    outage_s: pd.Series[float] = mine.loc[mine["checkpoint_s"] == checkpoint_s, "outage_s"]
    return outage_s


@hypothesis(
    "spare-slots-shorten",
    f"Spare slots shorten the median outage after a worker's kill by {GAIN_S:g} s or more",
    rule=RULE,
)
def spare_slots_shorten(tables: Tables) -> Finding:
    tight, spare = (outages(tables, kind) for kind in ("worker-tight", "worker"))
    if tight.empty:
        return not_asked()
    return at_least(difference_of(tight, spare), GAIN_S)


@hypothesis(
    "grows-with-the-interval",
    "The median outage after a worker's kill grows with the checkpoint interval",
)
def grows_with_the_interval(tables: Tables) -> Finding:
    kills = tables["kills"]
    seconds = sorted(kills.loc[kills["scheme"] == "checkpoint", "checkpoint_s"].unique())
    if len(seconds) < 2:
        return not_asked()
    medians = {f"{s:g} s": outages(tables, "worker", checkpoint_s=s).median() for s in seconds}
    steps = [one < other for one, other in pairwise(medians.values())]
    return found(all(steps), median_outage_s=medians)


@hypothesis(
    "replicas-go-on",
    "With two queries on disjoint racks the median outage after a worker's kill is at most a tenth "
    "of that with one query",
)
def replicas_go_on(tables: Tables) -> Finding:
    kills = tables["kills"]
    two = kills.loc[(kills["scheme"] == "active") & (kills["kind"] == "worker"), "outage_s"]
    if two.empty:
        return not_asked()
    return at_most(ratio_of(two, outages(tables, "worker")), 0.1)


CLAIMS = [
    invariant("really-killed", "Every planned kill reached a living process").every(
        (passes["kills_done"] == passes["kills_planned"]) & (passes["kills_planned"] > 0),
        kills=applied(_each, passes, "kills_done"),
    ),
    _equal("truth", "the batch query over the same input"),
    _equal("twin", "those without a failure"),
    nothing_dropped,
    hypothesis(
        "short-with-spare-slots",
        f"With the slots of two workers spare and a checkpoint every 5 s the median outage after a "
        f"worker's kill is at most {OUTAGE_S:g} s",
        rule=RULE,
    )(lambda tables: at_most(median_of(outages(tables, "worker")), OUTAGE_S)),
    spare_slots_shorten,
    grows_with_the_interval,
    replicas_go_on,
]
COLORS = {
    "worker": BLUE, "worker-even": PURPLE, "worker-tight": VERMILION, "executor": GREEN,
    "rack": ORANGE, "driver": GREY,
}  # fmt: skip


def draw(tables: Tables, figure: Figure) -> None:
    """Draw the outage of every kill, and repeats and setbacks per kill, by kind of kill."""
    by = ["scheme", "checkpoint_s"]
    passes = tables["passes"]
    cells = list(dict.fromkeys(passes[by].itertuples(index=False, name=None)))
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=[2, 1])
    kinds = [name for name in KINDS if name in set(passes["kind"])]
    width = 0.8 / max(len(kinds), 3)
    for number, name in enumerate(kinds):
        color = COLORS[name]
        above.plot([], [], ".", color=color, label=KINDS[name].label)
        for cell, mine in tables["kills"][tables["kills"]["kind"] == name].groupby(by):
            at = cells.index(cell) + (number - len(kinds) / 2 + 0.5) * width
            above.plot([at] * len(mine), mine["outage_s"], ".", color=color)
            above.plot([at], [mine["outage_s"].median()], "_", color=color, markersize=14)
        for cell, mine in passes[passes["kind"] == name].groupby(by):
            at = cells.index(cell) + (number - len(kinds) / 2 + 0.5) * width
            per_kill = mine[["duplicates", "setbacks"]].sum() / mine["kills_done"].sum()
            below.bar(at, per_kill["duplicates"], width=width * 0.9, color=color, alpha=0.4)
            below.bar(at, per_kill["setbacks"], width=width * 0.9, color=color)
    above.set_ylabel("outage (s)")
    above.set_ylim(bottom=0)
    below.set_ylabel("repeats (light) and\nsetbacks per kill")
    names = {"checkpoint": "one query", "active": "two queries"}
    below.set_xticks(
        range(len(cells)),
        [f"{names[scheme]}\ncheckpoint every {seconds:g} s" for scheme, seconds in cells],
    )
    legend_below(figure, above, columns=3)


EXPERIMENT = Experiment(
    measurement=MEASUREMENT,
    paper="Faultline",
    figure="real-time kill",
    title="Kills under Spark's real-time mode",
    statement=(
        "A lost task ends a query in real-time mode. Started again from its checkpoint it has the "
        "same results, after an outage that spare slots and the checkpoint interval decide."
    ),
    table=table,
    draw=draw,
    claims=CLAIMS,
    outages=lambda tables: tables["kills"].assign(
        engine=Mode.REAL_TIME.value, not_over=tables["kills"]["recovery_at_least_s"].notna()
    ),
    notes=NOTES,
    figure_size_in=(8.0, 5.5),
)
