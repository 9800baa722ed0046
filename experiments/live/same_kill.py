"""The same kill under both engines: lateness of results, second by second.

Word count on two workers; one of them dies by SIGKILL with everything that runs on it, and is
started again. Under the stock engine that is an executor, under the task engine an executor with
three nodes. A result is late by its arrival in the out topic minus the end of its window.

A run is several passes over one input, each with a query of its own and a kill at another place
between two checkpoints: these are the samples. Each kill has two recoveries. As the engine reports
it: from the detection until what it had processed before is processed again. As seen from outside:
from the first signal until results are as late as they usually were before the kill, of the same
pass. What passes until then is split by what the engine reports; for stock Spark that is its own
event log (`_outage`).

Stock Spark runs in both of its modes. In real-time mode a result is the last value of its window
and word, and arrives when that value first came."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pandas as pd

from experiments.live._outage import PARTS
from experiments.live._same_kill_figure import draw_same_kill
from experiments.live._same_kill_rows import (
    CALM_S,
    CHECKPOINT_S,
    INTERVAL_S,
    RATE_PER_S,
    REAL_TIME,
    RESTART_AFTER_S,
    ROWS,
    SLIDE_S,
    TASKS,
    TIMES,
    WINDOW_S,
    Row,
    outages,
)
from experiments.live._six_nodes import KEPT, SPEC, warm
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
from harness.engines.structured.parameters import StockParameters
from harness.engines.tasks.parameters import TaskParameters
from harness.experiment import Experiment
from harness.measurement import Context, Measurement, Origin, Scheduling
from harness.results.record import Outcome, Point, Profile

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.figure import Figure

    from harness.cluster.base import Cluster
    from harness.engines.base import Engine
    from harness.judging.passes import PassPlan, PassRecord
    from harness.results.tables import Results
    from workloads.base import Workload


ATTEMPTS = 3
"""Passes for one kill, until it was on time and the output before it was as usual."""


def run(point: Point, context: Context) -> Outcome:
    """Measure one row: a warm-up, then a pass for each kill."""
    from experiments.live._outage import settings
    from experiments.live._runs import steady_pass

    row, times = ROWS[str(point["row"])], TIMES[context.profile]
    logs = context.cluster(SPEC).run_directory / "spark-events"
    parameters = (
        StockParameters(conf={**row.conf, **settings(logs)}, **row.more)
        if row.stock
        else TaskParameters(checkpoint_s=CHECKPOINT_S, notes_progress=True)
    )
    engine, cluster = warm(row.engine, row.scheme, parameters, context)
    passes = Passes(engine, cluster, context, row, logs)
    workload, load_s = passes.workload, times.load_s(row)
    passes.run(steady_pass("warm-up", workload, RATE_PER_S, times.warmup_s, INTERVAL_S))
    for number in range(times.passes):
        schedule = times.schedule(row, number, context.seed("phase", number) % 1000 / 1000)
        for attempt in range(ATTEMPTS):
            name = f"kill-{number}-{attempt}"
            plan = steady_pass(name, workload, RATE_PER_S, load_s, INTERVAL_S, schedule)
            if passes.kill(number, plan, last=attempt == ATTEMPTS - 1):
                break
    return passes.outcome()


class Passes:
    """The passes of one run, all over one input."""

    def __init__(
        self, engine: Engine, cluster: Cluster, context: Context, row: Row, logs: Path
    ) -> None:
        """Prepare passes; ``logs`` are Spark's own."""
        from experiments.live._rates import WATERMARK_S
        from experiments.stock._scale import UPDATES_WATERMARK_S
        from workloads.wordcount import word_count

        self._engine, self._cluster, self._context = engine, cluster, context
        self._row, self._logs = row, logs
        self._directory = cluster.scratch(f"same-kill-{context.directory.name}")
        self._timed = context.profile is not Profile.SMOKE
        self._settled_s = TIMES[context.profile].settled_s(row)
        self._truth: pd.DataFrame | None = None
        self._lateness: list[pd.DataFrame] = []
        self._kills: list[dict[str, Any]] = []
        self._wrong: list[Mapping[str, int]] = []
        self._problems: list[str] = []
        self.workload = word_count(
            seed=context.seed("input") % 2**31,
            window_s=WINDOW_S,
            slide_s=SLIDE_S,
            depth=4,
            watermark_delay_s=UPDATES_WATERMARK_S if row.real_time else WATERMARK_S,
        )

    def run(self, plan: PassPlan) -> PassRecord:
        """Make one pass; every revision is marked as final or early.

        The first one with a kill also gives the truth of all: a pass begins with a window's slide,
        so the same record falls into the same window."""
        from harness.engines.deliveries import relative_windows
        from harness.judging.passes import Pass
        from harness.measure.versions import settled

        with Pass(plan, self._cluster, self._engine, self._directory, self._context) as one:
            record = one.run()
            self._cluster.restore(self._context.progress)
            if plan.schedule.events and self._truth is None:
                truth = self._engine.truth(one.work)
                self._truth = relative_windows(truth, plan.workload, record.start_unix_s)
        final = settled(record.deliveries, self.workload.identity_in_run, self.workload.values)
        return replace(record, deliveries=final)

    def kill(self, number: int, plan: PassPlan, *, last: bool) -> bool:
        """Make the pass of one kill; keep what it shows, and return True, if it was on time.

        What was wrong with the output counts in any case; the ``last`` attempt makes the run
        invalid."""
        from experiments.live._kills import compare
        from harness.judging import trust

        record = self.run(plan)
        assert self._truth is not None, "the first pass has computed it"
        dropped = trust.dropped(record)
        due = self._truth[self._truth["window_start_s"] <= record.until_s]
        early = int((record.deliveries["stability"] == "tentative").sum())
        wrong = compare(record.deliveries, due, self.workload)
        self._wrong.append({**wrong, "dropped": dropped, "early": early})
        felt = any(victim.felt for done in record.injected[:1] for victim in done.victims)
        late = trust.late_pass(record, CHECKPOINT_S, timed=self._timed)
        if dropped:
            late = f"the watermark dropped {dropped} rows, so the query answered another question"
        problem = late or (None if felt else "the kill reached nothing")
        found: Mapping[str, Any] = {}
        if not problem:
            found = kill_of(
                record, self._truth, self.workload, self._row, self._logs, settled_s=self._settled_s
            )
            if self._timed and found["usual_s"] is None:
                problem = (
                    "no window was complete before the kill, so nothing says how late results "
                    "usually are: the machine is too busy or the load before the kill too short"
                )
        if problem:
            self._context.progress(f"{plan.name} {'is invalid' if last else 'again'}: {problem}")
            if last:
                self._problems.append(f"{plan.name}: {problem}")
            return False
        self._kills.append({"sample": number, **found})
        usual_s = float("nan") if found["usual_s"] is None else found["usual_s"]
        self._lateness.append(
            lateness(record, self.workload).assign(sample=number, usual_s=usual_s)
        )
        return True

    def outcome(self) -> Outcome:
        """Return what all passes show."""
        names = ("lost", "duplicated", "contradictions", "dropped", "early")
        return Outcome(
            values={
                **{name: sum(one[name] for one in self._wrong) for name in names},
                "kills": len(self._kills),
                "passes": len(self._wrong),
            },
            series={
                "lateness": pd.concat(self._lateness) if self._lateness else pd.DataFrame(),
                "kills": pd.DataFrame(self._kills),
            },
            invalid="; ".join(self._problems) or None,
        )


def kill_of(
    record: PassRecord,
    truth: pd.DataFrame,
    workload: Workload,
    row: Row,
    logs: Path,
    *,
    settled_s: float = 0.0,
) -> dict[str, Any]:
    """Return both recoveries of the pass's kill, and the parts of the outage.

    Windows due from ``settled_s`` until the kill tell how late results usually are."""
    from experiments.live._kills import outside
    from harness.judging import failures

    (failure,) = failures.done(record)
    # Nodes of one worker share an executor, and the stock engine reports one of their names.
    failure = replace(failure, nodes=[one.node for one in record.injected[0].victims])
    engine = failures.detection(record.incidents, failure)
    detected_s, back_s = engine.get("detected_at_s"), engine.get("paper_recovery_s")
    seen = outside(record, truth, workload, calm_s=CALM_S, settled_s=settled_s)
    own = seen.iloc[0].to_dict() if len(seen) else {}
    outside_s = _seconds(own.get("outside_ms"))
    return {
        "phase_s": failure.at_s % CHECKPOINT_S,
        "late_ms": None if failure.lateness_s is None else failure.lateness_s * 1000,
        "detection_s": None if detected_s is None else detected_s - failure.at_s,
        "engine_s": back_s,
        "outside_s": outside_s,
        "outside_at_least_s": _seconds(own.get("outside_at_least_ms")),
        "outside_why_not": own.get("outside_why_not"),
        "usual_s": _seconds(own.get("usual_ms")),
        "resolution_s": _seconds(own.get("resolution_ms")),
        **_parts(record, row, logs, failure.at_s, detected_s, back_s, outside_s),
    }


def _parts(
    record: PassRecord, row: Row, logs: Path, at_s: float, detected_s: float | None,
    back_s: float | None, outside_s: float | None,
) -> Mapping[str, float | None]:  # fmt: skip
    """Return the parts from the kill until the engine has regained its progress.

    In real-time mode Spark reports that with the next checkpoint only, so the output decides."""
    from experiments.live._outage import locality_wait_s, parts, read_reports

    found: Mapping[str, float | None] = dict.fromkeys(PARTS)
    if detected_s is not None and back_s is not None and row.stock:
        there_s = detected_s + back_s
        if row.real_time and outside_s is not None:
            there_s = max(detected_s, min(there_s, at_s + outside_s))
        found = parts(
            read_reports(logs),
            killed_s=record.start_unix_s + at_s,
            committed_s=record.start_unix_s + there_s,
            wait_s=locality_wait_s(row.conf),
        )
    elif detected_s is not None and back_s is not None:
        mine = record.incidents
        until_s = detected_s + back_s
        there = mine[(mine["event"] == "recovered") & mine["at_s"].between(at_s, until_s)]
        after_s = min(back_s, float(there["there_after_s"].max())) if len(there) else 0.0
        found = dict(zip(PARTS, (detected_s - at_s, after_s, None, back_s - after_s), strict=True))
    return {f"part_{name}": value for name, value in found.items()}


def _seconds(ms: Any) -> float | None:
    return None if ms is None or pd.isna(ms) else float(ms) / 1000


def lateness(record: PassRecord, workload: Workload) -> pd.DataFrame:
    """Return a row per window that ended while the load flowed and has results.

    That which ends with the load waits for the markers behind it, so it is left out. ``ended_s``
    counts from the kill; the rest is the lateness of its first, median and last result.
    """
    kill_s = record.injected[0].began_unix_s - record.start_unix_s
    stable = record.deliveries[record.deliveries["stability"] == "stable"]
    found = stable.sort_values("arrival_s").drop_duplicates(workload.identity_in_run)
    ended_s = found["window_start_s"] + workload.window_s
    late_s = (found["arrival_s"] - ended_s)[ended_s <= record.until_s - SLIDE_S]
    by_window = late_s.groupby(ended_s)
    frame = pd.DataFrame(
        {"first_s": by_window.min(), "late_s": by_window.median(), "last_s": by_window.max()}
    )
    frame.insert(0, "ended_s", frame.index - kill_s)
    return frame.reset_index(drop=True)


def _kept(point: Point) -> str:
    """Return the name of what a row keeps warm: both modes use the tuned application."""
    row = str(point["row"])
    return KEPT if ROWS[row].engine == TASKS else "stock tuned" if row == REAL_TIME else row


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
    seconds_per_run={Profile.SMOKE: 30, Profile.QUICK: 150, Profile.PAPER: 500},
    run=run,
    scheduling=Scheduling(keeps=_kept, early=True),
    chooses=["harness.engines.structured.engine", "harness.engines.tasks.engine"],
)

# Shown: no record depends on what follows.

SEEN = (20160516, 31339, 71503, 71504, 71505, 71811, 90211)
"""Seeds of the runs that were seen when the rules were changed."""
TENTH = 0.1
"""Most that the task engine may take of the stock engine's recovery, as seen from outside. Fixed
before measuring."""
RULE = Rule(version=6, since="2026-11-26", seen_seeds=SEEN)
"""Version 1 counted the windows that came half a second later than the median before the kill, of
one kill; version 2 had ten times the rate and an input for each pass. In version 3 windows from the
very begin of a pass counted as usual ones, in which processes were still starting up, so that it
saw no outage below five seconds; and no lateness on either side counted as a missing number. In
version 4 the cold process of the kill before held results up until shortly before the next kill,
and tuned settings waited five seconds before they asked a dead process again. Version 5 decided by
five samples, and called two outages that neither engine came back from equally long."""
FIRST = Rule(version=4, since="2026-11-26", seen_seeds=SEEN)
"""The rule of the claims against real-time mode; versions 1 to 3 were changed with versions 3 to 5
of `RULE`."""
AGAINST = {
    "stock": ("", "stock Spark in micro-batches as it comes", RULE),
    "stock tuned": ("-as-tuned", "stock Spark in micro-batches with tuned settings", RULE),
    REAL_TIME: ("-as-real-time", "stock Spark in real-time mode", FIRST),
}
"""Rows of the stock engine: the end of a claim's id, the name in its sentence, and its rule."""
BOTH = ("engine_s", "outside_s")
"""The two measures of a recovery."""


def tabulate(results: Results) -> Mapping[str, pd.DataFrame]:
    """Return ``runs``; ``kills``, a row each (`samples`); ``windows`` of each pass; ``parts``.

    ``parts`` has the median seconds of each part of the outage, a row per row of the figure."""
    columns = ["sample", *BOTH, "outside_at_least_s", "detection_s", "usual_s", "resolution_s"]
    names = [f"part_{name}" for name in PARTS]
    kills = results.series("kills", ["row", "repeat"]).reindex(
        columns=["run", "row", "repeat", "phase_s", "late_ms", "outside_why_not", *columns, *names]
    )
    kills = kills.astype(dict.fromkeys([*columns, *names], float))
    by_row = kills.groupby("row", sort=False)
    medians = by_row[[*names, *BOTH]].median()
    medians["catching_up_s"] = (
        (kills["outside_s"] - kills["detection_s"] - kills["engine_s"])
        .clip(lower=0.0)
        .groupby(kills["row"])
        .median()
    )
    return {
        "runs": results.frame,
        "kills": kills,
        "windows": results.series("lateness", ["row", "repeat"]),
        "parts": medians.reset_index(),
    }


def draw(tables: Mapping[str, pd.DataFrame], figure: Figure) -> None:
    """Draw lateness around the kill, the two measures of each recovery, and the outage's parts."""
    draw_same_kill(
        tables,
        figure,
        partial(samples, tables),
        slide_s=SLIDE_S,
        caption=f"word count, {RATE_PER_S:,.0f} records/s; windows of {WINDOW_S:g} s every "
        f"{SLIDE_S:g} s; the worker is started again after {RESTART_AFTER_S:g} s",
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
    outages=outages,
    smoke_covered_by="live/engines",
    notes=[
        "Stock Spark in micro-batches: state in memory, trigger as fast as it can; tuned: without "
        "locality wait as well (docs/stock-settings.md). Real-time mode: the tuned settings, a "
        "checkpoint every 5 s, the shortest that Spark permits, and the slots of a worker spare; a "
        "supervisor starts the query again. Task engine: "
        f"batches of {INTERVAL_S:g} s. Two workers with three slots each on one machine.",
        "A thin line per pass: the median result of a window, minus the usual lateness of that "
        "pass before the kill; a thick one: the median over the passes. All passes have one input, "
        "and each another instant of the kill, between two checkpoints of the task engine. Squares "
        "and circles below are medians with 95 % intervals, dots are kills.",
        "As the engine reports it: from the detection until all that had been processed before is "
        "processed again; Spark reports it with the next batch, in real-time mode with the next "
        "checkpoint. As seen from outside: from the first signal until the last late window "
        f"was complete, before output was on time for {CALM_S:g} s; late is what takes longer "
        "than before the kill, by the judge's rule. A window comes out when it ends, and the "
        "backlog of the outage has to be processed: so the second measure is longer, and where "
        "the outage fits between two windows it is 0. In real-time mode a result is the last value "
        "of its window and word.",
        "Parts of the stock engine's outage are from Spark's own event log. No task runs while "
        "Spark reschedules or starts a query again, and while it waits for a slot near a task's "
        "state. The quick profile has micro-batches with tuned settings alone, and the task engine "
        "with replicas alone.",
        f"Stock output is watched for {ROWS[REAL_TIME].after_s:g} s after a kill. A process that "
        "is started again is back later than that, and its start can make output late once more: "
        "live/peers watches it.",
    ],
    figure_size_in=(8.6, 6.8),
)
