"""Peers: the same kills under Spark, Kafka Streams, Flink, the task engine, and your own.

Word count, and the top 100 of World Cup requests, on two racks of two workers. Workers, then racks,
are killed one after the other and started again; each time the output's outage is split into its
parts. Each engine runs twice: as it comes, and as its documentation tunes it for recovery."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from experiments.live._outages import CALM_S
from experiments.live._peers_claims import CLAIMS
from experiments.live._peers_figure import PUBLISHED, draw_outages
from experiments.live._peers_rows import (
    EXACTLY_ONCE,
    FLINK,
    KILLS,
    KINDS,
    OWN,
    RARE_S,
    RATE_PER_S,
    RESTART_AFTER_S,
    SPEC,
    STOCK,
    STREAMS,
    SYSTEMS,
    TASKS,
    TOP,
    TUNED,
    WORDS,
    System,
    outages,
    schedule_of,
)
from experiments.live._peers_run import start, together
from harness.claims.samples import FEWEST
from harness.engines.base import BUSIEST
from harness.experiment import Experiment
from harness.measurement import Context, Measurement, Origin, Scheduling
from harness.results.record import Outcome, Point, Profile

if TYPE_CHECKING:
    import pandas as pd

    from harness.engines.base import EngineKind, Setup
    from harness.results.tables import Results
    from workloads.base import Workload


def point(engine: str, tuning: str, workload: str = WORDS) -> Point:
    return {"engine": engine, "tuning": tuning, "workload": workload}


_WORDS = [point(engine, tuning) for engine, tuning in SYSTEMS]
_QUICK = [each for each in _WORDS if "tuned" in str(each["tuning"]) or each["engine"] == OWN]
# Three aggregations in a row: real-time mode cannot run them.
_TOP = [point(engine, TUNED, TOP) for engine in (STOCK, TASKS, STREAMS, FLINK)]
_BRIEF = [each for each in _QUICK if each["engine"] != TASKS]


def run(point: Point, context: Context) -> Outcome:
    """Measure one system: a pass with a worker killed every `System.gap_s`, then racks.

    If none of those kills hit any work, the busiest node is killed in another pass."""
    system = SYSTEMS[str(point["engine"]), str(point["tuning"])]
    if why_not := _left_out(point, context):
        return Outcome(values={}, skipped=why_not)
    workload = _workload(point, system, context)
    kind, setup = _chosen(point, system, context)
    if why_not := kind.lacks(setup, workload, SPEC):
        return Outcome(values={}, skipped=why_not)
    measured = start(system, kind, setup, workload, SPEC, context, str(point["tuning"]))
    if system.warmup_s and (not measured.engine.used or point["workload"] == TOP):
        measured.warm_up(system.warmup_s)
    planned = schedule_of(
        system, measured.engine.targets(), kinds=KINDS[context.profile],
        number=KILLS[context.profile], seed=context.seed("kills"),
    )  # fmt: skip
    passes = [measured.kill("kills", *planned)]
    if passes[0].values["kills"] and not passes[0].values["hits"]:
        aimed = schedule_of(system, (), kinds=[BUSIEST], number=1, seed=context.seed("busiest"))
        passes.append(measured.kill("busiest", *aimed))
    found = together(passes)
    if point["engine"] == OWN:
        promised = {"engine_name": kind.name, "guarantee": kind.guarantee.value}
        found = replace(found, values={**found.values, **promised})
    return found


def _left_out(point: Point, context: Context) -> str | None:
    """Return why a point is not measured: something else was asked for, or nothing was."""
    asked = [str(name) for name in context.options.get("engine", ())]
    name = str(point["engine"])
    if name == OWN:
        own = any(map(_is_file, asked))
        return None if own else "no engine of your own was given: --engine FILE.yaml"
    if asked:
        return None if name in asked else f"only {', '.join(asked)} was asked for"
    if context.profile is Profile.SMOKE and point in _BRIEF:
        return f"the smoke profile measures it only when it is asked for: --engine {name}"
    return None


def _chosen(point: Point, system: System, context: Context) -> tuple[EngineKind, Setup]:
    """Return the point's engine with its setup."""
    from harness.engines.base import Setup
    from harness.engines.kinds import find_engine
    from harness.engines.structured.parameters import StockParameters

    brief = context.profile is Profile.SMOKE
    name = str(point["engine"])
    if name == OWN:
        (name,) = filter(_is_file, map(str, context.options["engine"]))
    kind = find_engine(name)
    scheme = system.scheme or next(iter(kind.schemes))
    parameters = StockParameters(**system.more) if name == STOCK else system.parameters
    return kind, Setup(scheme=scheme, brief=brief, parameters=parameters)


def _workload(point: Point, system: System, context: Context) -> Workload:
    """Return the workload; updates wait for no watermark, which only keeps their state longer."""
    from harness.stock_kills.scale import UPDATES_WATERMARK_S
    from workloads.wordcount import word_count
    from workloads.worldcup import world_cup

    if point["workload"] == TOP:
        return world_cup(seed=context.seed("requests"))
    seed = context.seed("text")
    if system.real_time:
        return word_count(seed=seed, depth=4, watermark_delay_s=UPDATES_WATERMARK_S)
    return word_count(seed=seed, depth=4)


def _is_file(name: str) -> bool:
    return name.endswith((".yaml", ".yml", ".py"))


def check(profile: Profile, options: Mapping[str, Any]) -> None:
    """Refuse an unknown engine, and a file that cannot be used, before anything starts."""
    from harness.engines.kinds import find_engine
    from harness.errors import UsageError

    asked = [str(name) for name in options.get("engine", ())]
    for name in asked:
        find_engine(name)
    if sum(map(_is_file, asked)) > 1:
        raise UsageError(
            "live/peers measures one engine of your own at a time",
            remedy="give one file, and the next one in another run",
        )


def lasts(profile: Profile, options: Mapping[str, Any], usual_s: float) -> tuple[float, str] | None:
    """Return the mean duration of a run where only some systems were asked for."""
    asked = [str(name) for name in options.get("engine", ())]
    if not asked:
        return None
    grid = MEASUREMENT.grid[profile]
    own = any(map(_is_file, asked))
    mine = [each for each in grid if each["engine"] in asked or (own and each["engine"] == OWN)]
    return usual_s * len(mine) / len(grid), f"only {', '.join(asked)} will be measured"


MEASUREMENT = Measurement(
    id="live/peers",
    origin=Origin.MEASURED,
    grid={Profile.SMOKE: _QUICK, Profile.QUICK: _QUICK, Profile.PAPER: [*_WORDS, *_TOP]},
    repeats={Profile.SMOKE: 1, Profile.QUICK: 1, Profile.PAPER: FEWEST},
    seconds_per_run={Profile.SMOKE: 45, Profile.QUICK: 190, Profile.PAPER: 420},
    run=run,
    scheduling=Scheduling(keeps=lambda point: f"{point['engine']}, {point['tuning']}"),
    chooses=[
        "harness.engines.structured.engine",
        "harness.engines.tasks.engine",
        "harness.engines.kafka_streams.engine",
        "harness.engines.flink.engine",
        "harness.engines.programs.described",
    ],
    accepts=frozenset({"engine", "engine_files"}),
    check=check,
    lasts=lasts,
    fetches="Kafka Streams (90 MB) and Flink (340 MB)",
)

# Shown: no record depends on what follows.


def tabulate(results: Results) -> Mapping[str, pd.DataFrame]:
    """Return ``runs``, a row each; ``outages``, a row per kill with its point; ``published``.

    An engine of your own has its name in both, and ``own`` in the first."""
    import pandas as pd

    runs = results.frame
    own = runs["engine"] == OWN
    names = runs.get("engine_name", runs["engine"]).where(own, runs["engine"])
    kills = results.series("outages", ["engine", "tuning", "workload", "repeat"])
    name_of = dict(zip(runs["run"], names, strict=True))
    promised = [
        (engine, tuning) in EXACTLY_ONCE
        for engine, tuning in zip(runs["engine"], runs["tuning"], strict=True)
    ]
    return {
        "runs": runs.assign(exactly_once=promised, own=own, engine=names),
        "outages": kills.assign(engine=kills["run"].map(name_of)),
        "published": pd.DataFrame([one.row() for one in PUBLISHED]),
    }


EXPERIMENT = Experiment(
    measurement=MEASUREMENT,
    paper="Faultline",
    figure="peers",
    title="The same kills under Spark, Kafka Streams, Flink and the task engine",
    statement=(
        "An outage is mostly the time until somebody notices; what a system can do about it is in "
        "its settings."
    ),
    table=tabulate,
    draw=draw_outages,
    claims=CLAIMS,
    outages=outages,
    smoke_covered_by="live/engines",
    notes=[
        f"Two racks of two workers, {RATE_PER_S:g} records/s; word count in windows of 4 s every "
        "second and, in the paper profile, for tuned systems also the top 100 of World Cup "
        "requests in windows of 10 s every 2 s, which real-time mode cannot run. Five "
        f"workers, then five racks, are killed and started again after {RESTART_AFTER_S:g} s in "
        "one pass, each when the outage before it should be over; one that is not over is a lower "
        "bound (>), and the next kill has none of its own. A kill after which no result was late "
        "and the engine reported no recovery hit no work, as far as anyone can see; where that is "
        "true of all in a pass, one more pass kills the node that has used most processor time. An "
        "outage is over when "
        f"output has been on time for {CALM_S:g} s, as in live/same-kill; a result is late by what "
        "the windows before the first kill show, and at least by a batch. Output that is late "
        "again before the next kill, as when the next process starts on the same cores, is a part "
        "of the outage (relapse_s in the table). The "
        "quick profile has each system once, tuned, and kills workers alone; the paper profile has "
        "all.",
        "As it comes: each system's own defaults (Flink has none for checkpoints: every 10 s). "
        "Tuned: Spark with 2 partitions of state, without spark.locality.wait and with a "
        "spark.shuffle.io.retryWait of 200 ms, in real-time mode with a rack's slots free; the "
        "task engine with active replicas; Kafka "
        "Streams with one standby on the other rack, exactly once, a session timeout of 6 s, "
        "transactions that end 4 s after their sender, before it is missed, and max.task.idle.ms, "
        "a wait for the slower input partition; Flink with as many free slots as "
        "used ones, exactly once, a checkpoint every second, local recovery and heartbeats of "
        "1 s. Flink waits before a restart, and longer with each one within an hour (1 s, growing "
        f"by half; tuned: 0.1 s); here it forgets them after {RARE_S:g} s of work, because ten "
        "kills in one pass stand for ten that are far apart. Each system reports its settings once "
        "it runs (the series settings); a pass with others than those of its row ends with an "
        "error.",
        f"All programs on nodes have the same Java, with a heap of {SPEC.memory_mb_per_node} MB "
        "and all else as Java chooses it; the smoke profile alone uses its first compiler only.",
        "Kafka Streams has no watermark that crosses a repartition topic: at its defaults a task "
        "does not wait for a partition that stands still, its windows close by the others, and "
        "late records are dropped. They are counted as its own metric reports them. A task waits "
        "for partitions of different topics alone, so a query that waits has a repartition topic "
        "for each of the two input partitions, and one for both as it comes.",
        "Kafka Streams gives one final result per window (suppress until the window closes), at "
        "its defaults with the next commit, every 30 s. In real-time mode Spark gives every "
        "change; a result arrives when the value that stays first came. For every system a result "
        "arrives when the broker's log would give it to a reader, by the broker's clock: when it "
        "was appended, and in a transaction when the marker was with which it becomes readable.",
        "Parts, each measured by itself: detection, from the first signal until the engine's own "
        "report (Spark: the driver removed an executor; Kafka Streams: the group rebalanced; "
        "Flink: a task failed; task engine: a connection ended); a new place and restoration, as "
        "the engine reports them (Spark: its event log; Flink: tasks that initialize and run); an "
        "open transaction, from when state was there until the broker listed none of the dead "
        "(Kafka Streams), then from the append of the first late result until it could be read; "
        "replay, from the first late result until the last one "
        "before output was on time; late again, as long as it was. "
        "Nothing makes them add up: time in no part is hatched.",
        "Published: OSPBench (van Dongen and Van den Poel, IEEE Access 2021), another machine and "
        "another job. The timeouts of its time explain, of what was published, 50 of Flink's 53 to "
        "58 s (heartbeat.timeout; since 1.15 a lost connection or two heartbeats of 10 s suffice), "
        "10 of Kafka Streams' 21 to 32 s (session.timeout.ms; 45 s since 3.0), and nothing of "
        "Structured Streaming's 20 s, shorter than any timeout of Spark's for an executor.",
    ],
    figure_size_in=(8.5, 7.0),
)
