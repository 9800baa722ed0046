"""The kill of a worker and of a rack under a stock query.

``./faultline try`` measures it of a user's file, and the stock figures of our workloads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from harness.cluster.base import ClusterSpec, Node
from harness.engines.base import Setup
from harness.engines.structured.parameters import Mode, StockParameters
from harness.failures.files import read_schedule
from harness.failures.generators import in_turn, random_target
from harness.failures.schedule import Schedule
from harness.judging.calibration import NOTHING_HELD, GridScale
from harness.judging.run import LiveRun, lacking, measure
from harness.measurement import Context
from harness.results.record import Outcome, Point
from harness.seeds import generator
from harness.stock_kills.own import RATE_PER_S
from harness.stock_kills.scale import SCALES, RunScale, cluster_spec, conf_of, own_or_words, words
from workloads.base import Workload


def point(scheme: str, interval_s: float) -> Point:
    """Return the point of a scheme and a trigger interval."""
    return {"scheme": scheme, "interval_s": interval_s}


REAL_TIME: Point = {"scheme": "checkpoint", "interval_s": 5, "mode": Mode.REAL_TIME.value}
"""The point of a user's own workload in real-time mode, whose interval is that of checkpoints."""
BEGINS_S = 1.0
"""Time to which the begin of a pass is rounded in that mode, which has no trigger interval."""


def run_kill(
    point: Point,
    context: Context,
    *,
    racks: bool = False,
    workload: Workload | None = None,
    rate_per_s: float = RATE_PER_S,
) -> Outcome:
    """Measure one point: kill a worker, and with ``racks`` a whole rack after its restart.

    The seed chooses them. Without a ``workload`` it is the user's own, or word count. Trigger and
    rate are those of the point, stretched to what this machine holds."""
    # This comes first: a bad file is refused before anything starts.
    mine = own_or_words(context) if workload is None else words(workload, rate_per_s)
    stretch = GridScale.read(context.calibration)
    if stretch is None:
        return Outcome(values={}, skipped=NOTHING_HELD)
    event = mine.event_at(stretch.rate_share)
    scale = SCALES[context.profile].following(mine.workload, event.speed)
    interval = point["interval_s"]
    assert isinstance(interval, int | float), point
    real_time = point.get("mode") == Mode.REAL_TIME
    if not real_time:
        interval *= stretch.intervals_times
    rate_per_s = mine.rate_per_s * stretch.rate_share
    spec = cluster_spec(context.profile, context.options)
    spare = 0
    if real_time:
        spec, spare = roomy(spec, sum(one.partitions for one in mine.workload.sources))
    stretched_s = scale.stretched_s(interval)
    back_s = scale.kill_at_s + stretched_s + interval + scale.restart_after_s
    longer_s = max(stretched_s, back_s - scale.load_s)
    if racks and scale.rack_after_s is not None:
        longer_s += scale.rack_after_s + scale.stretched_s(interval)
    run = LiveRun(
        workload=mine.workload,
        setup=Setup(
            scheme=str(point["scheme"]),
            parameters=StockParameters(
                conf=conf_of(mine, context.options),
                mode=(Mode.REAL_TIME if real_time else Mode.MICRO_BATCH).value,
                checkpoint_s=interval if real_time else None,
                spare_slots=spare,
            ),
        ),
        interval_s=BEGINS_S if real_time else interval,
        rate_per_s=rate_per_s,
        load_s=scale.load_s + longer_s,
        warmup_s=scale.warmup_s,
        first_warmup_s=scale.first_warmup_s,
        settle_s=scale.settle_s,
        event=event,
    )
    if (reason := lacking(run, spec)) is not None:
        return Outcome(values={}, skipped=reason)
    cluster = context.cluster(spec)
    schedule = _schedule(context, scale, interval, cluster.nodes(), racks=racks)
    outcome = measure(replace(run, schedule=schedule), cluster, context)
    return replace(
        outcome,
        values={
            **outcome.values,
            "trigger_s": interval,
            "rate_per_s": rate_per_s,
            "event_speed": event.speed,
        },
    )


def roomy(spec: ClusterSpec, sources: int) -> tuple[ClusterSpec, int]:
    """Return a cluster for a query in real-time mode, and the slots that it leaves free.

    All of its tasks run at once: one for each of the ``sources`` partitions, and one with state or
    more. It leaves the slots of a rack free and one more, for tasks that are slow to end."""
    slots = -(-(sources + 2) // spec.workers_per_rack)
    spec = replace(spec, cores_per_worker=slots)
    return spec, spec.task_slots // spec.racks + 1


def _schedule(
    context: Context, scale: RunScale, interval_s: float, nodes: Sequence[Node], *, racks: bool
) -> Schedule:
    """Return a worker's kill and, if there is time for two, a rack's later on.

    Each is in a phase of the trigger interval of its own."""
    given = context.options.get("failures")
    if given is not None:
        return read_schedule(Path(given))
    stretched_s = scale.stretched_s(interval_s)

    def kill(what: str, targets: Iterable[str], after_s: float) -> Schedule:
        phase = generator(context.seed("phase", what), "phase").random()
        return random_target(
            sorted(set(targets)),
            at_s=scale.kill_at_s + stretched_s / 2 + phase * interval_s + after_s,
            seed=context.seed("target", what),
            restart_after_s=scale.restart_after_s + stretched_s / 2,
        )

    worker = kill("worker", (node.name for node in nodes), 0.0)
    if not racks or scale.rack_after_s is None:
        return worker
    after_s = scale.rack_after_s + stretched_s
    return in_turn(worker, kill("rack", (node.rack for node in nodes), after_s))
