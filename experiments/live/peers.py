"""Peers: the same kills under Spark, Kafka Streams, Flink, the task engine, and your own.

Word count, and the top 100 of World Cup requests, on two racks of one worker. A pass has one kill,
and a twin without it; six passes or more of each system are made in turns, whose order is drawn.
The outage is that of the one yardstick, and is split into its parts. Each engine runs twice: as it
comes, and as its documentation tunes it for recovery."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from experiments.live import layout
from experiments.live._peers_claims import CLAIMS
from experiments.live._peers_figure import PUBLISHED, draw_outages
from experiments.live._peers_rows import (
    AS_IT_COMES,
    EXACTLY_ONCE,
    FLINK,
    HEAP_MB,
    OWN,
    RATES_PER_S,
    RESTART_AFTER_S,
    STOCK,
    STREAMS,
    SYSTEMS,
    TASKS,
    TOP,
    TUNED,
    TWIN_S,
    WORDS,
    WORKER,
    System,
    outages,
    schedule_of,
)
from experiments.live._peers_run import chosen, start, together
from experiments.live._peers_schedule import after, given, refusal, spec_for
from harness.claims.cells import Cells, Printed
from harness.claims.samples import FEWEST
from harness.experiment import Context, Experiment, Results, Scheduling, measured
from harness.failures.schedule import BUSIEST
from harness.measure.recovery import CALM_S
from harness.measure.windows import LATER_S, MUCH_LATER_S
from harness.results.record import Outcome, Point, Profile

if TYPE_CHECKING:
    import pandas as pd

    from workloads.base import Workload


def point(engine: str, tuning: str, workload: str = WORDS) -> Point:
    return {"engine": engine, "tuning": tuning, "workload": workload}


_WORDS = [point(engine, tuning) for engine, tuning in SYSTEMS]
_QUICK = [*(point(*row) for row in layout.QUICK), point(OWN, AS_IT_COMES)]
# Three aggregations in a row: real-time mode cannot run them.
_TOP = [point(engine, TUNED, TOP) for engine in (STOCK, TASKS, STREAMS, FLINK)]
_BRIEF = [each for each in _QUICK if (each["engine"], each["tuning"]) != (TASKS, TUNED)]


def run(point: Point, context: Context) -> Outcome:
    """Measure one system: a twin, then the same load with a worker killed.

    If that kill hit no work, the busiest node is killed in another pass."""
    system = SYSTEMS[str(point["engine"]), str(point["tuning"])]
    if why_not := _left_out(point, context) or layout.nothing_held(context.calibration):
        return Outcome(values={}, skipped=why_not)
    workload = _workload(point, system, context)
    name = str(point["engine"])
    if name == OWN:
        (name,) = filter(layout.is_file, layout.asked(context.options))
    kind, setup = chosen(name, system)
    if why_not := kind.lacks(setup, workload, system.spec):
        return Outcome(values={}, skipped=why_not)
    schedule = given(context.options)
    if schedule is not None and (refused := refusal(schedule, kind, system.spec)):
        return Outcome(values={}, skipped=refused.what)
    tuning, rate_per_s = str(point["tuning"]), layout.held_rate_per_s(context.calibration)
    measured = start(
        system, kind, setup, workload, context, tuning, spec=spec_for(schedule, system.spec),
        rate_per_s=rate_per_s,
    )  # fmt: skip
    brief = context.profile is Profile.SMOKE
    if system.warmup_s and not brief:
        measured.warm_up(system.warmup_s)
    twin = measured.twin(system.first_s + (TWIN_S / 4 if brief else TWIN_S))
    nodes, seed = measured.engine.targets(), context.seed("kills")
    if schedule is not None:
        planned = after(schedule, system)
    else:
        planned = schedule_of(system, nodes, kind=WORKER, repeat=context.repeat, seed=seed)
    passes = [measured.kill("kill", *planned, twin)]
    hit = bool(passes[0].values["hits"]) or not passes[0].values["kills"]
    if schedule is None and not hit:
        aimed = schedule_of(system, nodes, kind=BUSIEST, repeat=context.repeat, seed=seed)
        passes.append(measured.kill("busiest", *aimed, twin))
    found = together(passes)
    if point["engine"] == OWN:
        promised = {"engine_name": kind.name, "guarantee": kind.guarantee.value}
        found = replace(found, values={**found.values, **promised})
    return found


def _left_out(point: Point, context: Context) -> str | None:
    """Return why a point is not measured: something else was asked for, or nothing was."""
    asked, name = layout.asked(context.options), str(point["engine"])
    if name == OWN and not any(map(layout.is_file, asked)):
        return "no engine of your own was given: --engine FILE.yaml"
    if asked:
        return layout.left_out(point, context.options)
    if context.profile is Profile.SMOKE and point in _BRIEF:
        return f"the smoke profile measures it only when it is asked for: --engine {name}"
    return None


def _workload(point: Point, system: System, context: Context) -> Workload:
    from workloads.worldcup import world_cup

    if point["workload"] == TOP:
        return world_cup(seed=context.seed("requests"))
    return layout.words(system, context)


def check(profile: Profile, options: Mapping[str, Any]) -> None:
    """Refuse an unknown engine, and a file that cannot be used, before anything starts."""
    from harness.engines.kinds import find_engine
    from harness.errors import UsageError

    asked = layout.asked(options)
    for name in asked:
        find_engine(name)
    if sum(map(layout.is_file, asked)) > 1:
        raise UsageError(
            "live/peers measures one engine of your own at a time",
            remedy="give one file, and the next one in another run",
        )
    if (schedule := given(options)) is not None:
        names = asked or [one for one, _ in SYSTEMS if one != OWN]
        spec = SYSTEMS[TASKS, TUNED].spec
        refused = [refusal(schedule, find_engine(name), spec) for name in names]
        if all(refused) and refused[0] is not None:
            raise refused[0]


def lasts(
    profile: Profile, points: Sequence[Point], options: Mapping[str, Any], usual_s: float
) -> tuple[float, str] | None:
    """Return the mean duration of these runs where an engine or a schedule was given."""
    found, schedule = layout.lasts(profile, points, options, usual_s), given(options)
    if schedule is None:
        return found
    seconds, why = found or (usual_s, "by the schedule given")
    longer_s = 0.0
    for each in layout.of_engines(points, options):
        system = SYSTEMS[str(each["engine"]), str(each["tuning"])]
        longer_s += after(schedule, system)[1] - system.first_s - system.gap_s
    return seconds + longer_s / len(points), why


MEASUREMENT = measured(
    "live/peers",
    run=run,
    grid={Profile.SMOKE: _QUICK, Profile.QUICK: _QUICK, Profile.PAPER: [*_WORDS, *_TOP]},
    seconds=(65, 158, 220),
    repeats={Profile.SMOKE: 1, Profile.QUICK: FEWEST, Profile.PAPER: FEWEST},
    scheduling=Scheduling(in_turns=True),
    chooses=[
        "harness.engines.structured.engine",
        "harness.engines.tasks.engine",
        "harness.engines.kafka_streams.engine",
        "harness.engines.flink.engine",
        "harness.engines.programs.described",
    ],
    accepts=frozenset({"engine", "engine_files", "failures"}),
    check=check,
    lasts=lasts,
    fetches="Kafka Streams (90 MB) and Flink (340 MB)",
)

# Shown: no record depends on what follows.


def tabulate(results: Results) -> Mapping[str, pd.DataFrame]:
    """Return ``runs``, a row each; ``outages``, a row per kill with its point; ``published``.

    An engine of your own has its name in both, and ``own`` in the first."""
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
        "published": PUBLISHED.assign(
            least_share=PUBLISHED["timeout_s"] / PUBLISHED["most_s"],
            most_share=PUBLISHED["timeout_s"] / PUBLISHED["least_s"],
        ),
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
    main=True,
    printed=[
        Printed(
            what="recovery after the kill of a worker",
            unit="s",
            place="van Dongen, Van den Poel, IEEE Access 2021",
            by=("engine",),
            values={("structured",): 22.0, ("kafka-streams",): 32.0, ("flink",): 58.0},
            ours=Cells("outages", "outage_s", {"tuning": AS_IT_COMES, "kill": "worker"}),
            why="Exactly once; another machine, another job, older versions.",
        ),
    ],
    claims=CLAIMS,
    outages=outages,
    smoke_covered_by="live/engines",
    scaled_by=layout.EXPERIMENT,
    notes=[
        f"Two racks of one worker with a heap of {HEAP_MB} MB, two partitions, and the highest of "
        f"{', '.join(f'{rate:g}' for rate in RATES_PER_S)} records/s at which every system of the "
        "figure leaves a quarter of the cores idle (live/layout); word count in windows of 4 s "
        "every second and, in the paper profile, for tuned systems also the top 100 of World Cup "
        "requests in windows of 10 s every 2 s, which real-time mode cannot run. A worker is "
        f"killed in each pass, once, and started again after {RESTART_AFTER_S:g} s. A pass is a "
        "sample: its twin is the same load without the kill. Systems take turns, in an order that "
        "is drawn for each turn. The times of a pass count only if its twin left a quarter of the "
        "cores idle, over the load and in every ten seconds of it. A kill after which no result "
        "was late and the engine reported no recovery hit no work, as far as anyone can see; then "
        "one more pass kills the node that has used most processor time.",
        "An outage is the time in which results come more than "
        f"{LATER_S:g} s later than the twin's median (outage_5_s: {MUCH_LATER_S:g} s), until they "
        f"have been on time for {CALM_S:g} s, and every relapse, as when the next process starts. "
        "Results that are late at the end of the load make it a lower bound (>). Lost, repeated "
        "and wrong results are counted beside it. That nothing is repeated needs a reader: "
        "Faultline's own for the task engine, a read_committed consumer for the others. The "
        "quick profile has tuned systems, the paper profile all.",
        "As it comes: each system's own defaults (Flink has none for checkpoints: every 10 s). "
        "Tuned: Spark with 2 partitions of state in RocksDB with changelog checkpoints, without "
        "spark.locality.wait and with a spark.shuffle.io.retryWait of 200 ms, one slot a worker; "
        "its two queries have a rack each, and a reader takes the first copy of each result; in "
        "real-time mode a worker has three slots, because each task needs one at once, and those "
        "of the other rack are free. The task engine with active replicas, and with checkpoints "
        "every second alone. Kafka Streams with one standby on the other rack, exactly once, a "
        "session timeout of 6 s, transactions that end 4 s after their sender, before it is "
        "missed, and max.task.idle.ms, a wait for the slower input partition; under the streams "
        "group protocol the broker's session timeout. Flink with as many free slots as "
        "used ones, exactly once, a checkpoint every second, local recovery, heartbeats of 1 s "
        "and a first restart after 0.1 s (exponential delay), state on the heap, or in RocksDB "
        "with unaligned checkpoints. Each system reports its settings once it runs (the series "
        "settings); a pass with others than those of its row ends with an error.",
        f"All programs on nodes have the same Java, with a heap of {HEAP_MB} MB "
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
        "Nothing makes them add up: some time is in no part.",
        "Published: OSPBench (van Dongen and Van den Poel, IEEE Access 2021), another machine and "
        "another job. The timeouts of its time explain, of what was published, 50 of Flink's 53 to "
        "58 s (heartbeat.timeout; since 1.15 a lost connection or two heartbeats of 10 s suffice), "
        "10 of Kafka Streams' 21 to 32 s (session.timeout.ms; 45 s since 3.0), and nothing of "
        "Structured Streaming's 20 s, shorter than any timeout of Spark's for an executor.",
    ],
    figure_size_in=(8.5, 7.0),
)
