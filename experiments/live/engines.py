"""The task engine and the stock engine, on the same cluster and the same records.

*Rate*: word count over single records in Kafka, the same partitions for both engines, without
failures; CPU is that of everything a worker runs (its JVM, executors, Python), of drivers and of
the coordinator, not of Kafka, Redis, the Spark master and the load generator. The stock engine
runs with RocksDB state and changelog checkpoints at two triggers: as fast as it can, and 1 s.

Latency counts from the end of a result's window, for both: what a user waits.

*Recovery*: nodes of the task engine are killed one after the other, each once the one before is
back. A node is seen to be dead by the end of its connection. Restored means that every task it
had is where it was: its new primary has processed, stable, all that the old one had.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from harness.claims import Claim, ClaimKind
from harness.experiment import Context, Experiment, Origin
from harness.figures.style import BLUE, GREY, ORANGE
from harness.results.record import Outcome, Point, Profile

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from harness.cluster.base import Cluster
    from harness.engines.base import Engine
    from harness.engines.passes import PassRecord
    from harness.results.tables import Results
    from workloads.base import Workload

RATE_PER_S = 50_000.0
"""Of the rate runs, in the quick and the paper profile."""
BOUND_S = 1.0
"""Efficiency is compared among runs whose median latency is no more than this."""
SETTLE_S = 3.0
WATERMARK_S = 0.2
"""What the stock engine waits for late records: little, because they come in order."""
CHECKPOINT_S = 2.0
KILL_GAP_S = 2.5
"""Between two kills: three times what a node takes to come back on an idle machine."""
SLACK_S, WITHIN_S = 0.1, 2.0
"""Around a kill: what is noticed of its node there was caused by it."""
LIMITS = {
    "seen_p50_ms": 25.0,
    "seen_p99_ms": 50.0,
    "takeover_p50_ms": 10.0,
    "restored_replica_p50_ms": 100.0,
    "restored_checkpoint_p50_ms": 250.0,
    "times_records_per_core_s": 10.0,
    "share_of_latency": 0.1,
}
"""Fixed before measuring."""


def point(part: str, engine: str, scheme: str, interval_s: float, rate_per_s: float) -> Point:
    return {
        "part": part,
        "engine": engine,
        "scheme": scheme,
        "interval_s": interval_s,
        "rate_per_s": rate_per_s,
    }


def run(point: Point, context: Context) -> Outcome:
    """One engine at one rate, or one scheme under kills."""
    from harness.cluster.base import ClusterSpec
    from harness.engines.base import Setup
    from harness.engines.catalogue import find_engine
    from harness.engines.run import warm_engine

    spec = ClusterSpec(
        racks=2, workers_per_rack=1, nodes_per_worker=3, cores_per_worker=3,
        memory_mb_per_worker=768,
    )  # fmt: skip
    cluster = context.cluster(spec)
    setup = Setup(
        scheme=str(point["scheme"]),
        brief=context.profile is Profile.SMOKE,
        parameters={"checkpoint_s": CHECKPOINT_S} if point["engine"] == "tasks" else {},
    )
    engine = warm_engine(find_engine(str(point["engine"])), setup, cluster, context)
    if point["part"] == "recovery":
        return _recovery(point, engine, cluster, context)
    return _rate(point, engine, cluster, context)


def _number(point: Point, name: str) -> float:
    value = point[name]
    assert isinstance(value, int | float), f"{name} is {value!r}"
    return float(value)


def _words() -> Workload:
    from workloads.wordcount import word_count

    return word_count(window_s=4, slide_s=1, depth=4, watermark_delay_s=WATERMARK_S)


# -- rate ------------------------------------------------------------------------------------


def _rate(point: Point, engine: Engine, cluster: Cluster, context: Context) -> Outcome:
    from harness.engines.passes import Pass, PassPlan
    from harness.failures.schedule import NO_FAILURES
    from harness.load.profile import RateProfile

    workload = _words()
    rate, interval_s = _number(point, "rate_per_s"), _number(point, "interval_s")
    load_s, warmup_s = LOAD_S[context.profile]
    directory = cluster.scratch(f"live-{context.directory.name}")
    used: dict[str, float] = {}
    for name, seconds in (("warm-up", warmup_s), ("rate", load_s)):
        plan = PassPlan(
            name=name,
            workload=workload,
            rate=RateProfile.constant(rate, seconds),
            interval_s=interval_s,
            schedule=NO_FAILURES,
        )
        with Pass(plan, cluster, engine, directory, context) as one:
            before = engine_cpu_s(cluster, engine)
            record = one.run()
            used = {"cpu_s": engine_cpu_s(cluster, engine) - before}
            if name == "rate":
                truth = engine.truth(one.work)
    latency_s = latency_from_end_s(record, workload)
    return Outcome(
        values={
            "records": record.load.records,
            "cpu_s": used["cpu_s"],
            "records_per_core_s": record.load.records / used["cpu_s"],
            "cores": used["cpu_s"] / record.until_s,
            "latency_p50_s": _quantile(latency_s, 0.5),
            "latency_p99_s": _quantile(latency_s, 0.99),
            "results": len(record.deliveries),
            "due": len(truth),
            "drained": record.drained,
        },
        invalid=record.load.invalid,
    )


def latency_from_end_s(record: PassRecord, workload: Workload) -> pd.Series[float]:
    """What a user waits: arrival minus the end of the result's window, from `SETTLE_S` on."""
    found = record.deliveries[record.deliveries["window_start_s"] >= SETTLE_S]
    ended = found["window_start_s"] + workload.window_s <= record.until_s
    return (found["arrival_s"] - found["window_start_s"] - workload.window_s)[ended]


def engine_cpu_s(cluster: Cluster, engine: Engine) -> float:
    """CPU seconds of everything on the workers that lives, and of the engine's own processes.

    `Cluster.usage` counts a node's own tree, which leaves an executor out where nodes share it.
    """
    from harness.cluster.processes import members

    run: str = cluster.run
    workers = sum(stat.cpu_s for worker, stats in members(run).items() if worker for stat in stats)
    return workers + sum(used.cpu_s or 0.0 for used in engine.usage().values())


# -- recovery --------------------------------------------------------------------------------


def _recovery(point: Point, engine: Engine, cluster: Cluster, context: Context) -> Outcome:
    from harness.cluster.base import Action
    from harness.engines.deliveries import relative_windows
    from harness.engines.passes import Pass, PassPlan
    from harness.failures.schedule import FailureEvent, Schedule
    from harness.load.profile import RateProfile

    workload, kills = _words(), KILLS[context.profile]
    names = [node.name for node in engine.targets()]
    events = [
        FailureEvent(
            # Not always at the same place within a batch and between two checkpoints.
            at_s=2 + number * KILL_GAP_S + (number * 0.037) % 0.5,
            action=Action.KILL,
            target=names[number % len(names)],
        )
        for number in range(kills)
    ]
    seconds = 2 + kills * KILL_GAP_S + 1
    plan = PassPlan(
        name="kills",
        workload=workload,
        rate=RateProfile.constant(_number(point, "rate_per_s"), seconds),
        interval_s=_number(point, "interval_s"),
        schedule=Schedule(events=events, origin="one node after the other"),
    )
    directory = cluster.scratch(f"live-{context.directory.name}")
    with Pass(plan, cluster, engine, directory, context) as one:
        record = one.run()
        truth = relative_windows(engine.truth(one.work), workload, record.start_unix_s)
    wrong = compare(record.deliveries, truth[truth["window_start_s"] <= seconds], workload)
    return Outcome(
        values={
            **wrong,
            "failures": sum(wrong.values()),
            "due": len(truth),
            "injected": sum(1 for done in record.injected if any(v.felt for v in done.victims)),
            "drained": record.drained,
        },
        series={"kills": recoveries(record)},
        invalid=record.load.invalid,
    )


def compare(deliveries: pd.DataFrame, truth: pd.DataFrame, workload: Workload) -> dict[str, int]:
    """What is not as it must be: all numbers are 0 where stable output equals the truth."""
    identity = workload.identity_in_run
    columns = [*identity, *workload.values]
    stable = deliveries.loc[deliveries["stability"] == "stable", columns]
    once = stable.drop_duplicates(identity)
    right = truth[columns].merge(once.astype(truth[columns].dtypes), on=columns)
    present = truth[identity].merge(once[identity].astype(truth[identity].dtypes), on=identity)
    return {
        "lost": len(truth) - len(present),
        "duplicated": len(stable) - len(once),
        "contradictions": len(once) - len(right),
    }


def recoveries(record: PassRecord) -> pd.DataFrame:
    """A row per kill: how long until it was seen, and until all its tasks were restored; null
    where the node had no task, or one of them did not come back.

    All clocks are of one machine. A kill's instant is read right after the signal, so a busy
    machine, which lets others run in between, can put it behind what it caused (`SLACK_S`).
    """
    noticed = record.incidents
    rows = []
    for done in record.injected:
        for victim in (victim for victim in done.victims if victim.felt):
            at_s = victim.at_unix_s - record.start_unix_s
            near = noticed["at_s"].between(at_s - SLACK_S, at_s + WITHIN_S)
            mine = noticed[(noticed["target"] == victim.node) & near]
            seen = mine[mine["event"] == "failed"]["at_s"]
            lost = mine[mine["event"] == "detected"].head(1)
            back = mine[mine["event"] == "recovered"].merge(lost[["detected_unix_s"]])
            detected_s = lost["at_s"].iloc[0] if len(lost) else None
            restored_s = back["at_s"].iloc[0] if len(back) else None
            rows.append(
                {
                    "node": victim.node,
                    "at_s": at_s,
                    "tasks": lost["tasks"].iloc[0] if len(lost) else "",
                    "seen_ms": _ms(seen.min() if len(seen) else None, at_s),
                    "takeover_ms": _ms(restored_s, detected_s),
                    "restored_ms": _ms(restored_s, at_s),
                    "how": back["cause"].iloc[0] if len(back) else "",
                }
            )
    return pd.DataFrame(rows)


def _ms(until_s: float | None, since_s: float | None) -> float | None:
    return None if until_s is None or since_s is None else (until_s - since_s) * 1000


# -- table, figure, claims ---------------------------------------------------------------------


def tabulate(results: Results) -> pd.DataFrame:
    """A row per run of a rate, and a row per kill of a recovery."""
    rates = results.frame[results.frame["part"] == "rate"]
    kills = results.series("kills", ["part", "engine", "scheme", "failures"])
    return pd.concat([rates, kills], ignore_index=True)


def draw(table: pd.DataFrame, figure: Figure) -> None:
    """Left: what a core does, and how late. Right: every kill."""
    left, middle, right = figure.subplots(1, 3)
    _bars(left, table, "records_per_core_s", "records per core-second")
    _bars(middle, table, "latency_p50_s", "median latency (s)")
    kills = table[table["part"] == "recovery"]
    for color, (scheme, mine) in zip((BLUE, ORANGE, GREY), kills.groupby("scheme"), strict=False):
        ordered = mine["restored_ms"].dropna().sort_values()
        share = [(place + 1) / len(ordered) for place in range(len(ordered))]
        right.step(ordered, share, where="post", color=color, label=str(scheme))
    right.set_xlabel("kill to restored (ms)")
    right.set_ylabel("share of kills")
    right.set_xlim(left=0)
    right.legend(fontsize=7)


def _bars(axes: Axes, table: pd.DataFrame, column: str, label: str) -> None:
    rates = table[table["part"] == "rate"]
    mean = rates.groupby(["engine", "interval_s"])[column].mean()
    names = [f"{engine}\n{interval_s:g} s" for engine, interval_s in mean.index]
    colors = [BLUE if engine == "tasks" else GREY for engine, _ in mean.index]
    axes.bar(names, mean.to_numpy(dtype=float), color=colors)
    axes.tick_params(axis="x", labelsize=6)
    axes.set_ylabel(label)


def claims(table: pd.DataFrame) -> Sequence[Claim]:
    """What must hold, and what we set out to reach."""
    rates, kills = table[table["part"] == "rate"], table[table["part"] == "recovery"]
    found = []
    if len(rates):
        found += _rate_claims(rates)
    if len(kills):
        found += _kill_claims(kills)
    return found


def _rate_claims(rates: pd.DataFrame) -> list[Claim]:
    tasks, stock = (rates[rates["engine"] == name] for name in ("tasks", "structured"))
    prompt = rates[rates["latency_p50_s"] <= BOUND_S]
    ours, theirs = (
        _best(prompt[prompt["engine"] == name], "records_per_core_s", max)
        for name in ("tasks", "structured")
    )
    quick, slow = (_best(part, "latency_p50_s", min) for part in (tasks, stock))
    times = ours / theirs if ours and theirs else None
    share = quick / slow if quick and slow else None
    complete = bool((rates["results"] >= rates["due"]).all())
    return [
        Claim(
            text="Every result that is due was delivered, by both engines.",
            kind=ClaimKind.INVARIANT,
            held=complete,
            measured={"runs": len(rates)},
        ),
        Claim(
            text="At a median latency of 1 s or less a core of the task engine does at least ten "
            "times the records of the stock engine's best trigger.",
            kind=ClaimKind.HYPOTHESIS,
            held=None if times is None else times >= LIMITS["times_records_per_core_s"],
            measured={"times": times, "tasks": ours, "stock": theirs, "bound_s": BOUND_S},
        ),
        Claim(
            text="Its median latency is at most a tenth of that of the stock engine's fastest "
            "trigger.",
            kind=ClaimKind.HYPOTHESIS,
            held=None if share is None else share <= LIMITS["share_of_latency"],
            measured={"share": share, "tasks_s": quick, "stock_s": slow},
        ),
    ]


def _kill_claims(kills: pd.DataFrame) -> list[Claim]:
    wrong = int(kills["failures"].max())
    active, checkpoint = (kills[kills["scheme"] == s] for s in ("active", "checkpoint"))
    return [
        Claim(
            text="Stable output under kills equals every batch computed once and in order.",
            kind=ClaimKind.INVARIANT,
            held=wrong == 0,
            measured={"wrong": wrong, "kills": len(kills)},
        ),
        _at_most("A killed process is seen by the end of its connection within 25 ms (median).",
                 kills["seen_ms"], 0.5, LIMITS["seen_p50_ms"]),
        _at_most("It is seen within 50 ms at the 99th percentile.",
                 kills["seen_ms"], 0.99, LIMITS["seen_p99_ms"]),
        _at_most("With replicas every task is where it was within 10 ms of detection (median).",
                 active["takeover_ms"], 0.5, LIMITS["takeover_p50_ms"]),
        _at_most("With replicas a kill is restored within 100 ms (median).",
                 active["restored_ms"], 0.5, LIMITS["restored_replica_p50_ms"]),
        _at_most("From checkpoints a kill is restored within 250 ms (median).",
                 checkpoint["restored_ms"], 0.5, LIMITS["restored_checkpoint_p50_ms"]),
    ]  # fmt: skip


def _at_most(text: str, values: pd.Series[float], share: float, limit: float) -> Claim:
    measured = _quantile(values.dropna().astype(float), share)
    return Claim(
        text=text,
        kind=ClaimKind.HYPOTHESIS,
        held=None if measured is None else measured <= limit,
        measured={"ms": measured, "limit_ms": limit, "kills": int(values.notna().sum())},
    )


def _quantile(values: pd.Series[float], share: float) -> float | None:
    return float(values.quantile(share)) if len(values) else None


def _best(part: pd.DataFrame, column: str, choose: Any) -> float | None:
    values = part[column].dropna()
    return float(choose(values)) if len(values) else None


LOAD_S = {
    Profile.SMOKE: (5.0, 2.0),
    Profile.QUICK: (15.0, 12.0),
    Profile.PAPER: (60.0, 30.0),
}
"""Seconds that are measured, and of warm-up before."""
KILLS = {Profile.SMOKE: 2, Profile.QUICK: 12, Profile.PAPER: 100}

_RATES = [
    point("rate", "tasks", "checkpoint", 0.1, RATE_PER_S),
    point("rate", "tasks", "checkpoint", 0.5, RATE_PER_S),
    point("rate", "structured", "checkpoint", 0.1, RATE_PER_S),
    point("rate", "structured", "checkpoint", 1.0, RATE_PER_S),
]
_RECOVERIES = [
    point("recovery", "tasks", "active", 0.1, 2_000.0),
    point("recovery", "tasks", "checkpoint", 0.1, 2_000.0),
]

EXPERIMENT = Experiment(
    id="live/engines",
    paper="Faultline",
    figure="engines",
    title="The task engine beside stock Spark: cost, latency, recovery",
    statement="Long-lived tasks with the papers' protocols process a record for a fraction of "
    "what a micro-batch costs, and restore a killed process in a fraction of a second.",
    origin=Origin.MEASURED,
    chooses=["harness.engines.structured.engine", "harness.engines.tasks.engine"],
    grid={
        Profile.SMOKE: [point("recovery", "tasks", "active", 0.1, 200.0)],
        Profile.QUICK: [*_RECOVERIES, *_RATES],
        Profile.PAPER: [*_RECOVERIES, *_RATES],
    },
    repeats={Profile.SMOKE: 1, Profile.QUICK: 1, Profile.PAPER: 3},
    seconds_per_run={Profile.SMOKE: 45, Profile.QUICK: 60, Profile.PAPER: 180},
    run=run,
    table=tabulate,
    draw=draw,
    claims=claims,
    notes=[
        "Word count: 4 operators in a row, 7 tasks on 6 nodes, 2 partitions of single records; "
        f"windows of 4 s every second; checkpoints every {CHECKPOINT_S:g} s.",
        "The limits in the sentences were fixed before measuring.",
        "Kafka, Redis, the Spark master and the load generator run on the same machine and count "
        "for neither engine.",
    ],
    figure_size_in=(10.0, 3.6),
)
