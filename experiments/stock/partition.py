"""A rack is cut off the network and healed, against the same rack frozen and the same rack killed.

Structured Streaming counts words in sliding windows on two racks. One of them is cut off for some
seconds: its processes live and go on, and not a byte crosses. A frozen rack does nothing and keeps
its connections; those of a killed one are closed. Output must be equal to that of the same input
without a failure each time. Results that the cut-off side computes on its own must not be
delivered together with those of its replacement.

Cuts need workers with a network of their own: ``--network namespaces``, ``--cluster docker``, or a
file of machines with ``cuts: true``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from experiments.stock._figure import draw_around
from experiments.stock._kills import (
    Tables,
    equal,
    mean_gap,
    nothing_dropped,
    really_failed,
    runs,
    shorter,
    tabulate,
    uncontradicted,
)
from harness.claims import all_of, applied, hypothesis
from harness.cluster.base import Action
from harness.engines.base import Setup
from harness.experiment import Context, Experiment, Outcome, Point, Profile, measured
from harness.failures.schedule import FailureEvent, Schedule
from harness.figures.chart import Figure
from harness.judging.run import LiveRun, measure
from harness.stock_kills.own import RATE_PER_S
from harness.stock_kills.scale import SCALES, cluster_spec, keeps
from workloads.wordcount import word_count

FAILURES: Mapping[str, tuple[Action, Action]] = {
    "cut off": (Action.CUT, Action.HEAL),
    "frozen": (Action.PAUSE, Action.RESUME),
    "killed": (Action.KILL, Action.RESTART),
}

DOWN_S = {Profile.SMOKE: 2.0, Profile.QUICK: 10.0, Profile.PAPER: 10.0}
"""Less than the 20 s after which Spark gives up a silent executor: a healed rack goes on."""


def point(failure: str, interval_s: float) -> Point:
    return {"failure": failure, "scheme": "checkpoint", "interval_s": interval_s}


def run(point: Point, context: Context) -> Outcome:
    """Measure one failure: twin, failure, truth."""
    scale, interval_s = SCALES[context.profile], point["interval_s"]
    assert isinstance(interval_s, int | float), point
    cluster = context.cluster(cluster_spec(context.profile))
    racks = sorted({node.rack for node in cluster.nodes()})
    wanted = LiveRun(
        workload=word_count(seed=context.seed("text")),
        setup=Setup(scheme=str(point["scheme"])),
        interval_s=interval_s,
        rate_per_s=RATE_PER_S,
        load_s=scale.load_s,
        warmup_s=scale.warmup_s,
        first_warmup_s=scale.first_warmup_s,
        settle_s=scale.settle_s,
        schedule=schedule(
            str(point["failure"]),
            racks[context.seed("rack") % len(racks)],
            at_s=scale.kill_at_s,
            down_s=DOWN_S[context.profile],
        ),
    )
    outcome = measure(wanted, cluster, context)
    return replace(outcome, values={**outcome.values, "down_s": DOWN_S[context.profile]})


def schedule(failure: str, rack: str, *, at_s: float, down_s: float) -> Schedule:
    """Return the same rack at the same time for every kind of failure."""
    begin, end = FAILURES[failure]
    return Schedule(
        events=(
            FailureEvent(at_s=at_s, action=begin, target=rack),
            FailureEvent(at_s=at_s + down_s, action=end, target=rack),
        ),
        origin=f"rack {rack} {failure} for {down_s:g} s",
    )


MEASUREMENT = measured(
    "stock/partition",
    run=run,
    grid={
        Profile.SMOKE: [point("cut off", 1)],
        Profile.QUICK: [point(failure, 2) for failure in FAILURES],
        Profile.PAPER: [
            point(failure, interval_s) for interval_s in (2, 5) for failure in FAILURES
        ],
    },
    seconds=(50, 170, 220),
    keeps=keeps,
    chooses=["harness.engines.structured.engine"],
    actions=frozenset({Action.CUT, Action.HEAL}),
)

# Shown: no record depends on what follows.


gaps = {failure: applied(mean_gap, runs[runs["failure"] == failure]) for failure in FAILURES}

CLAIMS = [
    really_failed,
    equal("truth", "the batch ground truth"),
    uncontradicted("The rack that was cut off is fenced: no result was delivered with two values"),
    nothing_dropped("a rack that is cut off, frozen or killed"),
    hypothesis(
        "killed-shortest",
        "The output gap after a rack is killed is shorter than after it is cut off or frozen, "
        "because its closed connections tell of its death",
    ).holds(
        all_of([applied(shorter, gaps["killed"], gaps[other]) for other in ("cut off", "frozen")]),
        mean_output_gap_s=gaps,
    ),
]


def draw(tables: Tables, figure: Figure) -> None:
    """Draw throughput and latency over time per failure, with the twin's."""
    firsts = tables["runs"].drop_duplicates("failure").to_dict("records")
    columns = {f"a rack {run['failure']}": [run] for run in firsts}
    draw_around(figure, columns, tables["timeline"])


EXPERIMENT = Experiment(
    measurement=MEASUREMENT,
    paper="Faultline",
    figure="partition",
    title="A rack cut off the network, frozen, or killed",
    statement=(
        "A rack that falls silent costs the output more than one that dies, and its results "
        "are not delivered together with those that replaced them."
    ),
    table=tabulate,
    draw=draw,
    claims=CLAIMS,
    notes=(
        "The workload is the utilization paper's: sliding-window word counts over real text, with "
        "windows of 4 s every 1 s (chosen; the paper prints none), 500 lines/s.",
        "The rack is cut off for 10 s (smoke: 2), less than the 20 s after which Spark gives up a "
        "silent executor. The same rack, drawn from the seed, is taken at the same instant in all "
        "three.",
        "Where no network can be cut (a local cluster on loopback addresses) all of it is skipped, "
        "because the three are compared with each other.",
    ),
    figure_size_in=(9.0, 5.0),
    quick_by_page=True,
)
