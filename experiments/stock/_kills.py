"""What the two experiments that kill share: their runs, their table, their figure, their claims.

Tolerances stand at the top; they were fixed before anything was measured.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from datasets.text import read_lines, text_files
from harness.claims import Claim, ClaimKind
from harness.cluster.base import Action, ClusterSpec
from harness.engines.run import StockRun, measure
from harness.experiment import Context
from harness.failures.files import read_schedule
from harness.failures.generators import random_target
from harness.failures.schedule import Schedule
from harness.results.record import Outcome, Point, Profile
from harness.results.tables import Results
from harness.seeds import generator
from workloads.base import Workload, load_workload_file
from workloads.wordcount import word_count

PUNCTUAL_S = 1.0
"""A kill may begin this much after its planned instant."""

GOING_ON = 1.0
"""Output goes on under active replication if the gap is at most this many trigger intervals."""

ENOUGH_LOAD_S = 15.0
"""Where output had not caught up when the load ended, that says something only if the load went
on for this long after the kill."""

PUBLISHED_RECOVERY_S = 20.0
"""Structured Streaming, at least once, one of five workers killed: van Dongen and Van den Poel,
IEEE Access 2021; read off by hand there, on another machine and another job."""

LOCALITY_NOTE = (
    "Of Spark's own waiting times only the limit on a silent executor is changed, 20 s instead of "
    "120. One default weighs much here: spark.locality.wait. A task whose state lay on the killed "
    "executor waits 3 s and more for a place near it before it goes elsewhere, anew in every "
    "stateful stage, so the more aggregations a query has the longer it takes to come back."
)

NOTES = (
    "The workload is the utilization paper's: sliding-window word counts over real text, with "
    "windows of 4 s every 1 s (chosen; the paper prints none), 500 lines/s.",
    "Each run warms its applications up on other topics first (smoke: not at all), then runs the "
    "no-failure twin, then the same input with the kill; only the last two are measured, and "
    "their first 5 s (smoke: 1 s) count for no latency. Applications are kept between the "
    "runs of one command, so drivers and surviving executors are warm when the kill comes; the "
    "executor that replaces a killed one is cold.",
    LOCALITY_NOTE,
    "Where the twin could not follow its load even without a failure (median window later than 3 "
    "trigger intervals and 1 s), recovery and gap are not measured and nothing is said of them.",
    "The trigger interval is the checkpoint interval. The kill's phase within it is drawn from "
    "the seed.",
    f"Beside it: {PUBLISHED_RECOVERY_S:.0f} s recovery of Structured Streaming after one worker "
    "kill, published by van Dongen and Van den Poel (2021) for 5 workers of 4 CPUs at 18,000 "
    "records/s. Another machine and another job: it stands beside ours, nothing more.",
)

RATE_PER_S = 500.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """How large a profile's runs are."""

    workers_per_rack: int
    load_s: float
    kill_at_s: float
    """Before the phase within the trigger interval is added."""
    restart_after_s: float
    warmup_s: float
    """Load before every run's twin."""
    first_warmup_s: float
    """Instead of it, for applications that have run nothing before."""
    settle_s: float = 5
    """The first seconds of a pass, which count for no latency."""
    settled_per_trigger: float = 2.0
    """More load, kill and repair time per second of trigger interval beyond the first."""

    def stretched_s(self, trigger_s: float) -> float:
        return self.settled_per_trigger * max(0.0, trigger_s - 1)


SCALES: Mapping[Profile, Scale] = {
    Profile.SMOKE: Scale(
        workers_per_rack=1,
        load_s=6,
        kill_at_s=2,
        restart_after_s=2,
        warmup_s=0,
        first_warmup_s=0,
        settle_s=1,
    ),
    Profile.QUICK: Scale(
        workers_per_rack=2,
        load_s=32,
        kill_at_s=8,
        restart_after_s=8,
        warmup_s=12,
        first_warmup_s=40,
    ),
    Profile.PAPER: Scale(
        workers_per_rack=2,
        load_s=60,
        kill_at_s=20,
        restart_after_s=20,
        warmup_s=20,
        first_warmup_s=60,
    ),
}


def cluster_spec(profile: Profile) -> ClusterSpec:
    """The cluster of every stock experiment: one shape, so that it stays warm between them."""
    return ClusterSpec(racks=2, workers_per_rack=SCALES[profile].workers_per_rack)


def point(scheme: str, interval_s: float) -> Point:
    return {"scheme": scheme, "interval_s": interval_s}


def run_kill(
    point: Point,
    context: Context,
    *,
    rack: bool,
    workload: Workload | None = None,
    rate_per_s: float = RATE_PER_S,
) -> Outcome:
    """One point: kill a node, or a whole rack, chosen by the seed. Without a ``workload`` it is
    the user's own, or word count."""
    workload = workload or _chosen(context)  # first: a bad file is refused before anything starts
    scale = SCALES[context.profile]
    interval = point["interval_s"]
    assert isinstance(interval, int | float), point
    cluster = context.cluster(cluster_spec(context.profile))
    targets = sorted({n.rack if rack else n.name for n in cluster.nodes()})
    longer_s = scale.stretched_s(interval)
    run = StockRun(
        workload=workload,
        scheme=str(point["scheme"]),
        trigger_s=interval,
        rate_per_s=rate_per_s,
        load_s=scale.load_s + longer_s,
        warmup_s=scale.warmup_s,
        first_warmup_s=scale.first_warmup_s,
        settle_s=scale.settle_s,
        schedule=_schedule(context, scale, interval, targets),
    )
    return measure(run, cluster, context)


def check_options(profile: Profile, options: Mapping[str, Any]) -> None:
    """Refuse files of the user's that cannot be used, before any server is started."""
    if "failures" in options:
        spec = cluster_spec(profile)
        read_schedule(Path(options["failures"])).check(
            nodes=spec.node_names, racks=spec.rack_names, actions=set(Action)
        )
    if "text" in options:
        read_lines(text_files([Path(path) for path in options["text"]]))
    if "workload" in options:
        load_workload_file(Path(options["workload"]))


def _chosen(context: Context) -> Workload:
    own = context.options.get("workload")
    if own is not None:
        return load_workload_file(Path(own))
    return word_count(text=context.options.get("text", ()), seed=context.seed("text"))


def _schedule(
    context: Context, scale: Scale, interval_s: float, targets: Sequence[str]
) -> Schedule:
    given = context.options.get("failures")
    if given is not None:
        return read_schedule(Path(given))
    phase = generator(context.seed("phase"), "phase").random()
    stretched = scale.stretched_s(interval_s) / 2
    return random_target(
        targets,
        at_s=scale.kill_at_s + stretched / 2 + phase * interval_s,
        seed=context.seed("target"),
        restart_after_s=scale.restart_after_s + stretched / 2,
    )


RUN_COLUMNS = (
    "scheme", "interval_s", "repeat", "recovery_s", "output_gap_s", "silence_s",
    "twin_silence_s", "normal_latency_s", "twin_kept_up", "killed_at_s", "kills_planned",
    "kills_done", "processes_killed", "kill_lateness_s", "output_equals_truth",
    "output_equals_twin", "twin_equals_truth", "difference_from_truth", "difference_from_twin",
    "contradictions", "duplicates", "accuracy_first", "results", "dropped_rows", "restarts",
    "load_s", "run_latency_p50_s", "run_latency_p99_s", "run_latency_max_s",
    "twin_latency_p50_s", "twin_latency_p99_s", "twin_latency_max_s", "cpu_s", "twin_cpu_s",
    "resident_bytes", "paper_accuracy_first", "paper_accuracy_last", "success_rate",
    "twin_success_rate", "table_rows", "table_equals_truth", "table_difference",
)  # fmt: skip


def tabulate(results: Results, columns: Sequence[str] = ()) -> pd.DataFrame:
    """A row per run, pass and half second: throughput and latency over time, with the run's own
    numbers (``columns`` and `RUN_COLUMNS`) and ``restarted_at_s`` on each of its rows."""
    timeline = results.series("timeline")
    failures = results.series("failures")
    restarted = failures[failures["action"] == "restart"].groupby("run")["at_s"].min()
    whole = [name for name in results.frame.columns if name.startswith("latency_")]
    frame = results.frame.rename(columns={name: f"run_{name}" for name in whole})
    runs = frame[["run", *columns, *RUN_COLUMNS]].assign(restarted_at_s=frame["run"].map(restarted))
    table = timeline.merge(runs, on="run", validate="many_to_one")
    return table.sort_values(
        ["scheme", "interval_s", "repeat", "run", "pass", "at_s"],
        ascending=[False, True, True, True, True, True],
        ignore_index=True,
    )


def runs_of(table: pd.DataFrame) -> pd.DataFrame:
    """A row per run of a table."""
    columns = ["run", *RUN_COLUMNS, "restarted_at_s"]
    return table.drop_duplicates("run")[columns].reset_index(drop=True)


def check(table: pd.DataFrame, *, victim: str) -> list[Claim]:
    """The invariants of every run with failures, and what the two schemes are said to do."""
    runs = runs_of(table)
    return [
        _really_killed(runs),
        _equal(runs, "output_equals_truth", "difference_from_truth", "the batch ground truth"),
        _equal(runs, "output_equals_twin", "difference_from_twin", "the no-failure twin's"),
        _never(runs, "contradictions", "No result was delivered with two different values"),
        _never(runs, "dropped_rows", "The watermark dropped no row"),
        _comes_back(runs, victim),
        _goes_on(runs, victim),
        _shorter_gap(runs, victim),
        _grows(runs),
    ]


def _invariant(text: str, held: bool, **measured: Any) -> Claim:
    return Claim(text=text, kind=ClaimKind.INVARIANT, held=held, measured=measured)


def _statement(text: str, held: bool | None, **measured: Any) -> Claim:
    return Claim(text=text, kind=ClaimKind.PAPER, held=held, measured=measured)


def _named(runs: pd.DataFrame, column: str) -> dict[str, Any]:
    """A value per run, by scheme, interval and repetition."""
    return {
        f"{row.scheme} {row.interval_s:g} s, repetition {row.repeat}": getattr(row, column)
        for row in runs.itertuples()
    }


def _really_killed(runs: pd.DataFrame) -> Claim:
    planned = (runs["kills_planned"] > 0) & (runs["kills_done"] == runs["kills_planned"])
    punctual = runs["kill_lateness_s"].astype(float) <= PUNCTUAL_S
    return _invariant(
        f"Every planned kill reached a living process within {PUNCTUAL_S:g} s of its instant",
        bool((planned & punctual & (runs["processes_killed"] > 0)).all()),
        processes_killed=_named(runs, "processes_killed"),
        kill_lateness_s=_named(runs, "kill_lateness_s"),
    )


def _equal(runs: pd.DataFrame, column: str, difference: str, what: str) -> Claim:
    return _invariant(
        f"In every run the output equals {what}, result by result",
        bool(runs[column].astype(bool).all()),
        differences=_named(runs, difference),
    )


def _never(runs: pd.DataFrame, column: str, text: str) -> Claim:
    return _invariant(f"{text} in any run", bool((runs[column] == 0).all()), **_named(runs, column))


def _verdict(runs: pd.DataFrame, held: pd.Series[bool]) -> bool | None:
    """Null without a run, and where a twin could not follow its load even without a failure."""
    if not len(runs) or not runs["twin_kept_up"].astype(bool).all():
        return None
    return bool(held.all())


def _comes_back(runs: pd.DataFrame, victim: str) -> Claim:
    mine = runs[runs["scheme"] == "checkpoint"]
    caught_up = mine["recovery_s"].notna()
    left_s = mine["load_s"] - mine["killed_at_s"].astype(float)  # NaN where nothing was killed
    too_short = ~caught_up & (left_s < ENOUGH_LOAD_S)
    held = _verdict(mine, caught_up & (mine["output_gap_s"] > 0))
    return _statement(
        f"Under checkpoint the output stops when a {victim} is killed and catches up again",
        None if too_short.any() else held,
        recovery_s=_named(mine, "recovery_s"),
        output_gap_s=_named(mine, "output_gap_s"),
        twin_kept_up=_named(mine, "twin_kept_up"),
        published_recovery_s=PUBLISHED_RECOVERY_S,
    )


def _goes_on(runs: pd.DataFrame, victim: str) -> Claim:
    mine = runs[runs["scheme"] == "active"]
    return _statement(
        f"Under active replication the output goes on when a {victim} is killed: the gap is at "
        f"most {GOING_ON:g} trigger interval",
        _verdict(mine, mine["output_gap_s"] <= mine["interval_s"] * GOING_ON),
        output_gap_s=_named(mine, "output_gap_s"),
        recovery_s=_named(mine, "recovery_s"),
        twin_kept_up=_named(mine, "twin_kept_up"),
    )


def _shorter_gap(runs: pd.DataFrame, victim: str) -> Claim:
    gaps = runs.groupby(["interval_s", "scheme"])["output_gap_s"].mean().unstack()
    if not {"active", "checkpoint"} <= set(gaps.columns):
        gaps = gaps.reindex(columns=["active", "checkpoint"])
    gaps = gaps.dropna()
    compared = runs[runs["interval_s"].isin(gaps.index)]
    return _statement(
        f"At every interval that both schemes were run at, the mean output gap after a {victim} "
        "kill is shorter under active replication than under checkpoint",
        _verdict(compared, gaps["active"] < gaps["checkpoint"]),
        mean_output_gap_s={f"{i:g} s": dict(row) for i, row in gaps.iterrows()},
    )


def _grows(runs: pd.DataFrame) -> Claim:
    mine = runs[runs["scheme"] == "checkpoint"]
    means = mine.groupby("interval_s")["recovery_s"].mean()
    enough = len(means) > 1 and not means.isna().any()
    return _statement(
        "Under checkpoint recovery takes longer at the longest interval than at the shortest",
        bool(means.iloc[-1] > means.iloc[0]) if enough else None,
        mean_recovery_s={f"{interval:g} s": value for interval, value in means.items()},
    )
