"""The parts that `experiments.stock.worker_kill` and `experiments.stock.rack_kill` share.

Both kill a part of the cluster under a stock query, a worker or a rack. Their runs, table, figure
and claims are the same. Each tolerance has the date on which it was fixed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from harness.claims import (
    Claim,
    Finding,
    all_of,
    applied,
    every,
    found,
    hypothesis,
    invariant,
    not_asked,
    rows_of,
)
from harness.experiment import Results
from harness.measure.recovery import bounds_of_mean
from harness.measure.windows import LATER_S
from harness.results.kills import OF_ONE_FAILURE, Kill, Unrecovered
from harness.results.recorded import kill_rows

# Shown: no record depends on what follows.

PUNCTUAL_S = 1.0
"""Largest delay of a failure after its planned instant. Fixed on 2026-11-21 before the first kill
was measured."""

JITTER_TRIGGERS = 1.0
"""Largest gap, in trigger intervals, of an output that goes on; with more it stops.

A result that just misses a batch comes one interval later. The limit of "goes on" was fixed on
2026-11-21 before the first kill was measured; "stops" was any gap above 0 until 2026-11-22."""

ENOUGH_LOAD_S = 15.0
"""Least load after a kill for which an output that has not caught up by the end of the load counts
as one that does not. Fixed on 2026-11-21 17:07 UTC, after smoke runs whose load ended right after
the kill."""

PUBLISHED_RECOVERY_S = 20.0
"""Structured Streaming, at least once, one of five workers killed: van Dongen and Van den Poel,
IEEE Access 2021; read off a figure by hand; another machine and another job."""

LOCALITY_NOTE = (
    "Settings that differ from Spark's defaults are in harness/engines/structured/applications.py "
    "and in the cluster's. Of the waiting times only the limit on a silent executor differs, 20 s "
    "instead of two minutes. One default matters much here: spark.locality.wait. A task whose "
    "state was on the killed executor waits 3 s and more for a place near it before it goes "
    "elsewhere, again in every stateful stage. So a query with more aggregations presumably takes "
    "longer to come back."
)

NOTES = (
    "Spark runs the query in micro-batches; stock/real-time-kill has its other mode.",
    "The workload is the utilization paper's: sliding-window word counts over real text, with "
    "windows of 4 s every 1 s (chosen; the paper prints none), 500 lines/s.",
    "Each run warms its applications up on other topics first, until batches no longer become "
    "shorter (smoke: not at all), then runs the no-failure twin and the same input with the kill, "
    "in every other repetition the other way round; only these two are measured, and their first "
    "5 s (smoke: 1 s) count for no latency. A run that was invalid or whose twin fell behind is "
    "made again, up to twice. Applications are kept between the "
    "runs of one command, so drivers and surviving executors are warm when the kill comes; the "
    "executor that replaces a killed one is cold.",
    "Each pass with failures has two, a worker's kill and, some 22 s after that (smoke: one kill "
    "alone), a whole rack's: the first is shown in stock/worker-kill, the second in "
    "stock/rack-kill, each with a recovery of its own. When the rack is killed the replaced "
    "worker's executor has run for some ten seconds only. Where the output was not calm for 5 s "
    "before the second kill, neither recovery is given.",
    LOCALITY_NOTE,
    "Where the twin could not follow its load even without a failure (median window later than 3 "
    "trigger intervals and 1 s, or its slowest later than 1.5 times that), recovery and gap are "
    "not measured.",
    f"A window is late if it comes more than {LATER_S:g} s later than the twin's median. An "
    "output that had not caught up by the end of the load counts with the time for which it was "
    "watched, as a lower bound.",
    "The trigger interval is the checkpoint interval. Triggers are multiples of what "
    "stock/calibration found this machine to hold, the grid's own where it holds the shortest of "
    "them; on a machine that holds nothing the runs are skipped with that reason. The phase of the "
    "kill within the trigger is drawn from the seed. Only the paper profile compares intervals: "
    "with one kill an interval it matters more which of Spark's waits the kill meets.",
    f"For orientation only: {PUBLISHED_RECOVERY_S:.0f} s recovery of Structured Streaming after "
    "one worker kill, published by van Dongen and Van den Poel (2021) for 5 workers of 4 CPUs at "
    "18,000 records/s, on another machine with another job.",
)

Tables = Mapping[str, pd.DataFrame]


def tabulate(results: Results, *, scope: str | None = None) -> Mapping[str, pd.DataFrame]:
    """Return the tables ``runs`` and ``timeline``.

    ``runs`` has a row per run with all of its numbers; ``timeline`` a row per run, pass and half
    second with throughput and latency. The numbers of one failure are those of the first of that
    ``scope`` ("node" or "rack"), else of the first of all."""
    frame = as_run(results.frame)
    if "mode" in frame:  # a user's own, in another mode
        frame = frame[frame["mode"].isna()]
    runs = _with_failure(frame, results.each(kill_rows), scope)
    order = [name for name in ("workload", "scheme", "interval_s", "repeat") if name in runs]
    return {
        "runs": runs.sort_values(
            order, ascending=[name != "scheme" for name in order], ignore_index=True
        ),
        "timeline": results.series("timeline").sort_values(
            ["run", "pass", "at_s"], ignore_index=True
        ),
    }


def as_run(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the runs with the triggers that they really had, where the grid's were stretched."""
    if "trigger_s" not in runs:  # records from before there were calibrations
        return runs
    return runs.assign(interval_s=runs["trigger_s"].fillna(runs["interval_s"]).astype(float))


_TIMES = ("killed_at_s", "restarted_at_s", "alone_from_s", "alone_until_s")
"""Times of the failure that is shown, and the stretch of its run without the other failures: after
the one before, until the next one."""


def _with_failure(runs: pd.DataFrame, rows: pd.DataFrame, scope: str | None) -> pd.DataFrame:
    """Return the runs with the numbers of the failure that the figure shows.

    A recovery that another failure interrupted is unknown."""
    columns = [*OF_ONE_FAILURE, *_TIMES]
    found = {}
    for run, mine in rows.groupby("run"):
        failed = [Kill.from_row(row) for row in mine.sort_values("at_s").to_dict("records")]
        shown = next((one for one in failed if one.scope == scope), failed[0]).alone
        before = [one.ended_at_s or one.at_s for one in failed if one.at_s < shown.at_s]
        after = [one.at_s for one in failed if one.at_s > shown.at_s]
        times = shown.at_s, shown.ended_at_s, max(before, default=0.0), min(after, default=None)
        found[run] = {**shown.outcome, **dict(zip(_TIMES, times, strict=True))}
    first = pd.DataFrame.from_dict(found, orient="index", columns=columns)
    hit = runs["run"].isin(first.index)
    runs = runs.assign(**{name: None for name in columns if name not in runs})
    return runs.assign(
        **{name: runs["run"].map(first[name]).where(hit, runs[name]) for name in columns}
    )


def named(runs: pd.DataFrame, column: str) -> dict[str, Any]:
    """Return a value per run by what tells runs apart: workload, failure, scheme, interval."""
    names = [name for name in ("workload", "failure", "scheme") if name in runs]
    return {
        f"{' '.join(str(getattr(row, name)) for name in names)} {row.interval_s:g} s, "
        f"repetition {row.repeat}": getattr(row, column)
        for row in runs.itertuples()
    }


runs = rows_of("runs")


def _named(column: str, of: Any = runs) -> Any:
    return applied(named, of, column)


really_failed = invariant("really-failed", "Every planned failure reached a living process").every(
    (runs["failures_planned"] > 0) & (runs["failures_done"] == runs["failures_planned"]),
    failures_done=_named("failures_done"),
    processes_killed=_named("processes_killed"),
)
late_s = runs["failure_lateness_s"].astype(float)
punctual = hypothesis(
    "punctual",
    f"Every planned failure came within {PUNCTUAL_S:g} s of its instant",
    counted=True,
).every(
    (late_s <= PUNCTUAL_S).astype(object).mask(late_s.isna()),
    failure_lateness_s=_named("failure_lateness_s"),
)
"""Times count from the real failure, so a late one falsifies none."""


def nothing_dropped(failure: str) -> Claim:
    """Claim it of the runs with a failure: a twin that drops rows makes its run invalid."""
    text = f"After {failure} the watermark drops no row"
    return hypothesis("nothing-dropped", text, counted=True).every(
        runs["dropped_rows"] == 0, also=_named("dropped_rows")
    )


def equal(name: str, reference: str) -> Claim:
    """Claim that the output equals the "truth" or the "twin".

    Rows that the watermark dropped are missing in the output: `nothing_dropped` is about them."""
    judged = runs[runs["dropped_rows"] == 0]
    return invariant(
        f"equals-{name}",
        f"In every run in which no row was dropped the output equals {reference}, result by result",
    ).every(judged[f"output_equals_{name}"], differences=_named(f"difference_from_{name}", judged))


def uncontradicted(text: str) -> Claim:
    """Claim, in the words of ``text``, that no result has two values."""
    return invariant("uncontradicted", text).every(
        runs["contradictions"] == 0, also=_named("contradictions")
    )


def why_unmeasured(runs: pd.DataFrame) -> str | None:
    """Return the runs that have no recovery or no gap, each with the reason in its record."""
    if not len(runs):
        return "none of these runs was made"
    empty = runs[["recovery_s", "output_gap_s"]].isna().any(axis="columns")
    reasons = named(runs[empty], "recovery_why_not")
    return "; ".join(f"{run}: {reason}" for run, reason in reasons.items()) or None


def stops(run: Any) -> bool | None:
    """Return True if the output stopped for longer than jitter; None if it was not measured."""
    if pd.isna(run.output_gap_s):
        return None
    return bool(run.output_gap_s > JITTER_TRIGGERS * run.interval_s)


def catches_up(run: Any) -> bool | None:
    """Return True if the output caught up; None if the load ended too soon after the failure."""
    kill = Kill.from_row(run._asdict())
    if kill.recovery_s is not None:
        return True
    if kill.recovery_why_not in (Unrecovered.DIED, Unrecovered.STALLED):
        return False
    at_least_s = kill.recovery_at_least_s
    return None if at_least_s is None or at_least_s < ENOUGH_LOAD_S else False


def mean_gap(runs: pd.DataFrame) -> float | None:
    """Return the mean; None if one of the gaps was not measured: a mean leaves nothing out."""
    gaps = runs["output_gap_s"].astype(float)
    return None if not len(gaps) or gaps.isna().any() else float(gaps.mean())


def _comes_back(tables: Tables) -> Finding:
    mine = _under(tables, "checkpoint")
    return every(
        [of(run) for run in mine.itertuples() for of in (stops, catches_up)],
        why_unmeasured(mine),
        recovery_s=named(mine, "recovery_s"),
        not_within_s=named(mine, "recovery_at_least_s"),
        why_not=named(mine, "recovery_why_not"),
        output_gap_s=named(mine, "output_gap_s"),
        published_recovery_s=PUBLISHED_RECOVERY_S,
    )


def _goes_on(tables: Tables) -> Finding:
    mine = _under(tables, "active")
    stopped = [stops(run) for run in mine.itertuples()]
    return every(
        [None if each is None else not each for each in stopped],
        why_unmeasured(mine),
        output_gap_s=named(mine, "output_gap_s"),
        recovery_s=named(mine, "recovery_s"),
        why_not=named(mine, "recovery_why_not"),
    )


def _under(tables: Tables, scheme: str) -> pd.DataFrame:
    return tables["runs"][tables["runs"]["scheme"] == scheme]


def _shorter_gap(tables: Tables) -> Finding:
    runs = tables["runs"]
    by = runs.groupby(["interval_s", "scheme"], sort=False)
    gaps: dict[Any, float | None] = {key: mean_gap(mine) for key, mine in by}
    shared = sorted({i for i, scheme in gaps if scheme == "active" and (i, "checkpoint") in gaps})
    return found(
        all_of(shorter(gaps[i, "active"], gaps[i, "checkpoint"]) for i in shared),
        why_unmeasured(runs) if shared else "no interval was measured under both schemes",
        mean_output_gap_s={f"{scheme} {i:g} s": gap for (i, scheme), gap in gaps.items()},
    )


def shorter(one: float | None, other: float | None) -> bool | None:
    """Return True if ``one`` is shorter than ``other``; None if one of them is unknown."""
    return None if one is None or other is None else one < other


def _grows(tables: Tables) -> Finding:
    """Compare the ends of the intervals, where a grid has several: the paper profile."""
    if tables["runs"]["interval_s"].nunique() < 2:
        return not_asked()
    mine = _under(tables, "checkpoint")
    means = {
        float(i): bounds_of_mean(
            Kill.from_row(run) for run in mine[mine["interval_s"] == i].to_dict("records")
        )
        for i in mine["interval_s"].unique()
    }
    held: bool | None = None
    why: str | None = "fewer than two intervals were measured under checkpoint"
    if len(means) > 1:
        (least, most), (longest, at_most) = means[min(means)], means[max(means)]
        held = True if longest > most else False if at_most <= least else None
        why = why_unmeasured(mine)
    shown = {f"{i:g} s": bounds for i, bounds in means.items()}
    return found(held, why, mean_recovery_s_between=shown)


def claims_of(victim: str) -> list[Claim]:
    """Return the invariants of every run with failures, and the hypotheses about both schemes."""
    return [
        really_failed,
        punctual,
        equal("truth", "the batch ground truth"),
        equal("twin", "the no-failure twin's"),
        uncontradicted("No result was delivered with two different values in any run"),
        nothing_dropped(f"the kill of a {victim}"),
        hypothesis(
            "checkpoint-comes-back",
            f"Under checkpoint the output stops when a {victim} is killed, for more than "
            f"{JITTER_TRIGGERS:g} trigger interval, and catches up again",
        )(_comes_back),
        hypothesis(
            "active-goes-on",
            f"Under active replication the output goes on when a {victim} is killed: the gap is "
            f"at most {JITTER_TRIGGERS:g} trigger interval",
        )(_goes_on),
        hypothesis(
            "shorter-gap",
            f"At every interval that both schemes were run at, the mean output gap after a "
            f"{victim} kill is shorter under active replication than under checkpoint",
        )(_shorter_gap),
        hypothesis(
            "grows-with-interval",
            "Under checkpoint the mean recovery takes longer at the longest interval than at the "
            "shortest",
        )(_grows),
    ]
