"""The PPA papers' recovery topology on the task engine, and the same in virtual time.

16 source tasks on four nodes, 15 synthetic tasks (8, 4, 2, 1) on a node each, 15 standby nodes:
the papers' 34 nodes, each a process that is killed alone. Times (windows, slides, batches,
checkpoint and trimming intervals) are divided by `Shape.faster`; rates and the declared speed of a
node are not. So a latency is that part of the papers', too, and a figure fits into minutes. In the
paper profile it is 1.

The simulator runs the same wiring, placement, scheme and failures with nodes of the same speed."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pandas as pd

from experiments.live._runs import task_run
from experiments.ppa._recovery import LEVELS, MACHINE, SOURCES, SYNTHETIC, TASKS_PER_SOURCE_NODE
from harness.cluster.base import TOGETHER, Action, ClusterSpec
from harness.engines.base import Setup
from harness.engines.tasks.parameters import TaskParameters
from harness.experiment import Context, Outcome, Point, Profile
from harness.failures.schedule import FailureEvent, Schedule
from harness.hosting.restoration import Restorations
from harness.judging.failures import regained
from harness.judging.run import LiveRun, Variant, measure_each
from harness.load.plan import GATHER_S
from harness.measure.recovery import CALM_S
from harness.protocol.coordinator.registry import NodeInfo
from harness.protocol.planned import wiring_of
from harness.protocol.schemes import make_scheme
from harness.protocol.wiring import Wiring
from harness.results.kills import SERIES, Kill
from harness.simulator.faults import Fault, FaultKind
from harness.simulator.options import Costs, Network, Options
from harness.simulator.synthetic import counts
from harness.simulator.world import World
from harness.topology import named
from workloads.synthetic import synthetic

SPEC = ClusterSpec(
    racks=2, workers_per_rack=1, nodes_per_worker=17, cores_per_worker=17, memory_mb_per_worker=768
)
"""The cluster: primaries of the synthetic tasks on the first rack, the others on the second."""
FIRST_SOURCE_NODE = 17
SLOTS = tuple(
    TASKS_PER_SOURCE_NODE
    if FIRST_SOURCE_NODE <= node < FIRST_SOURCE_NODE + SOURCES // TASKS_PER_SOURCE_NODE
    else 1
    for node in range(len(SPEC.node_names))
)
"""Room of each node, in tasks: a synthetic task has a machine to itself, as in the papers. With
more room new replicas of promoted tasks would be built up on the standby nodes where lost tasks are
restored, and a node of the declared speed does one thing at a time."""
TUPLES_PER_S = 1_000_000 / MACHINE.tuple_us
CHECKPOINT_BYTES_PER_S = 16 / MACHINE.store_us * 1_000_000
"""A tuple of the state is two numbers of 8 bytes."""
COPIED_TUPLES_PER_S = 1_000_000 / MACHINE.store_us
"""State is copied in memory as fast as it is written into a checkpoint."""
SHARE_OF_BATCH = 0.05
"""Time for which the generator gathers records, as a share of a batch: each of 16 sources has a
record every millisecond, and two cores have no room for sending them one by one."""
SUSPECT_S = 3.0
"""Longest silence. A killed process is found by its closed connection: 15 that die at once are
found at once, as we assume of the papers' master when it looks. By their heartbeats they are found
one after another, and the first ones are back before the last is missed."""
KEPT = "tasks on 34 nodes"
LIVE, PACED, SIMULATED = "live", "live at declared speed", "simulated"
RESTART_S = 3.0
"""Time until a killed process is there again as an empty node. There are as many standby nodes as
tasks, and 15 processes that start at once would take the cores of those that restore."""
GIVE_UP_S = 240.0
BEGIN_EARLY_S = 0.1
"""Most by which an event may precede the instant that was read for the kill."""
NOTE = (
    "The papers' 16 source tasks on 4 nodes, 15 tasks on a node each and 15 standby nodes: 34 "
    f"processes on one machine. Declared speed: {TUPLES_PER_S:,.0f} tuples/s and "
    f"{CHECKPOINT_BYTES_PER_S / 1e6:.1f} MB/s of checkpoints a node, state copied as fast; held "
    "by timers; chosen, since the papers do not print theirs."
)

TWO_MEASURES = (
    "Two measures of each recovery. As the engine reports it: from the detection until the failed "
    "tasks are where they were. As seen from outside: from the first signal until output was on "
    "time for the papers' 5 s again, by the judge's rule; if it was not by the end of the load, "
    "the time for which it was watched (a lower bound, an arrow upwards; in_vain in the table).",
    "Why the second is longer: a window comes out with the batch that closes it, so a takeover "
    "between two batches costs at least one of them; the batches of the outage are processed next "
    "to those that arrive, by nodes of the declared speed; and results cross up to three "
    "more operators. Why it can be shorter: tentative output goes on before the tasks are back.",
    "Killed processes start again on the same cores some seconds later, which can make windows "
    "late once more: that counts as another disturbance if output had been on time before. What "
    "the same rule finds in the twin, where nothing failed, is in the table (twin_s).",
)
"""What the two measures are, and why they differ."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """A scheme of the papers' legends, in the papers' time."""

    scheme: str
    checkpoint_s: float = 15.0
    trim_s: float = 5.0
    plan: tuple[int, ...] = ()


WARM_S = 80.0
"""Load before the first twin on an engine, except in the smoke profile. Until the broker has
compiled its code, some 70 s, it takes half a core more, and two cores have no room for times."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """One cell: windows in the papers' seconds, tuples a second of a source, and the speed-up."""

    window_s: float
    rate: int
    faster: float
    speed: bool = True
    """True if nodes have the declared speed."""

    @property
    def batch_s(self) -> float:
        return 1.0 / self.faster

    @property
    def names(self) -> Sequence[str]:
        return SPEC.node_names

    def live(self, context: Context, *, load_s: float) -> LiveRun:
        """Return the common part of all passes of the cell.

        Output that was on time for `CALM_S` of the papers' time is back."""
        slide_s = self.batch_s
        wanted = task_run(
            workload=synthetic(
                seed=context.seed("input"),
                keys=round(self.rate * slide_s / 2),
                window_s=self.window_s / self.faster,
                slide_s=slide_s,
            ),
            setup=self.setup(Contender(scheme="checkpoint", checkpoint_s=30)),
            interval_s=self.batch_s,
            rate_per_s=self.rate * SOURCES,
            load_s=load_s,
            first_warmup_s=3 if context.profile is Profile.SMOKE else WARM_S,
        )
        gather_s = max(GATHER_S, SHARE_OF_BATCH * self.batch_s)
        return replace(wanted, calm_s=CALM_S / self.faster, gather_s=gather_s)

    def setup(self, contender: Contender) -> Setup:
        """Return the engine's setup for a contender."""
        given = TaskParameters(
            checkpoint_s=contender.checkpoint_s / self.faster,
            trim_s=contender.trim_s / self.faster,
            suspect_s=SUSPECT_S,
            placement=placement(),
            slots=SLOTS,
            restart_s=RESTART_S,
            plan=contender.plan,
            tuples_per_s=TUPLES_PER_S if self.speed else 0.0,
            copied_tuples_per_s=COPIED_TUPLES_PER_S if self.speed else 0.0,
            checkpoint_bytes_per_s=CHECKPOINT_BYTES_PER_S if self.speed else 0.0,
        )
        return Setup(scheme=contender.scheme, parameters=given)

    def simulated(self, contender: Contender, at_s: Mapping[int, float], seed: int) -> Options:
        """Return a simulation in which these tasks' nodes die at ``at_s`` and come back empty."""
        wiring = self.wiring()
        faster = self.faster
        scheme = make_scheme(
            contender.scheme,
            wiring,
            checkpoint_every=round(contender.checkpoint_s),
            plan=contender.plan,
            trim_every_us=round(contender.trim_s / faster * 1e6),
            suspect_after_us=round(SUSPECT_S * 1e6),
        )
        racks = [name.partition("n")[0] for name in self.names]
        return Options(
            seed=seed,
            topology="recovery",
            wiring=wiring,
            scheme=scheme,
            nodes=tuple(
                NodeInfo(name=name, rack=rack, slots=most)
                for name, rack, most in zip(self.names, racks, SLOTS, strict=True)
            ),
            placement=placement(),
            batches=round((max(at_s.values()) + GIVE_UP_S) * faster),
            interval_us=round(self.batch_s * 1e6),
            tuples=round(self.rate * self.batch_s),
            percent=50,
            closes_connections=True,
            costs=Costs(
                batch_us=round(MACHINE.batch_us / faster),
                tuple_us=MACHINE.tuple_us,
                store_us=MACHINE.store_us,
                load_us=MACHINE.load_us,
                copy_us=MACHINE.store_us,
            ),
            network=Network(delay_us=500, jitter_us=500),
            faults=tuple(
                Fault(
                    kind=FaultKind.KILL,
                    at_us=round(seconds * 1e6),
                    until_us=round((seconds + RESTART_S) * 1e6),
                    target=placement()[task],
                )
                for task, seconds in at_s.items()
            ),
        )

    def wiring(self) -> Wiring:
        return wiring_of(named.recovery(self.rate), dict.fromkeys(LEVELS, round(self.window_s)))


def kept(point: Point) -> str:
    """Return the name of the processes that a point's run keeps warm, if it is live."""
    return SIMULATED if point.get("engine") == SIMULATED else KEPT


def placement() -> tuple[int, ...]:
    """Return each task's node: four sources to one of the second rack, synthetic ones alone."""
    sources = [FIRST_SOURCE_NODE + source // TASKS_PER_SOURCE_NODE for source in range(SOURCES)]
    return (*sources, *range(len(SYNTHETIC)))


def kills(at_s: Mapping[int, float]) -> Schedule:
    """Kill the nodes of these tasks at those instants; the engine starts them again."""
    at_once: dict[float, list[str]] = {}
    for task, seconds in at_s.items():
        at_once.setdefault(seconds, []).append(SPEC.node_names[placement()[task]])
    return Schedule(
        events=[
            FailureEvent(at_s=seconds, action=Action.KILL, target=TOGETHER.join(nodes))
            for seconds, nodes in at_once.items()
        ],
        origin="one task after another" if len(set(at_s.values())) > 1 else "all at once",
        parameters={"tasks": list(at_s)},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Ways:
    """The recovery of the killed tasks of one pass."""

    detected_s: Mapping[int, float] = field(default_factory=dict)
    """Instant at which each task was given up."""
    restored_s: Mapping[int, float | None] = field(default_factory=dict)
    """Instant at which each task was where it had been; None: never."""

    def latency_s(self, tasks: Collection[int]) -> float | None:
        """Return the papers' latency: from the detection until the last of these tasks was back.

        A failure of several nodes is detected when the last of them is found: we assume that the
        papers' master finds all of them in one look. Here 15 processes that are killed at once are
        found within 0.1 to 0.15 s, one after another: a tenth of a second that counts as one of the
        papers' where runs are ten times as fast, and that no simulated node has. Until 2026-11-22
        the first one found counted. The time before a failure is found is not a part of either."""
        back = [self.restored_s.get(task) for task in tasks]
        if any(one is None for one in back) or not tasks:
            return None
        detected = max(self.detected_s[task] for task in tasks)
        return max(0.0, max(one for one in back if one is not None) - detected)


def simulate(options: Options) -> Ways:
    """Simulate until every task of a crashed node is back; `RuntimeError` if one is not in time."""
    world = World(options, counts(options), validate=False, notes_progress=True)
    world.start()
    hit = {fault.target for fault in options.faults}
    lost = {task for task, node in enumerate(options.placement) if node in hit}
    followed, seen = Restorations(), 0

    def back() -> bool:
        nonlocal seen
        for noted in world.notes[seen:]:
            followed.note(noted)
        seen = len(world.notes)
        return lost <= {way.task for way in followed.done}

    last_us = max(fault.at_us for fault in options.faults)
    if not world.kernel.run(until=last_us + round(GIVE_UP_S * 1e6), stop=back):
        left = ", ".join(world.wiring.names[task] for task in followed.open)
        raise RuntimeError(f"{left} not back {GIVE_UP_S:g} s after the last failure")
    mine = [way for way in reversed(followed.done) if way.task in lost]
    return Ways(
        detected_s={way.task: way.detected_us / 1e6 for way in mine},
        restored_s={way.task: (way.restored_us or 0) / 1e6 for way in mine},
    )


def ways(incidents: pd.DataFrame, at_s: Mapping[int, float]) -> Ways:
    """Return the recoveries of killed tasks from the engine's incidents."""
    detected: dict[int, float] = {}
    restored: dict[int, float | None] = {}
    for task, killed_s in at_s.items():
        node = SPEC.node_names[placement()[task]]
        mine = incidents[
            (incidents["target"] == node) & (incidents["at_s"] >= killed_s - BEGIN_EARLY_S)
        ]
        noticed = mine[mine["event"] == "detected"]
        if not len(noticed):
            restored[task] = None
            continue
        first = noticed.iloc[0]
        detected[task] = float(first["at_s"])
        back = regained(mine, first)
        restored[task] = float(back.iloc[0]["at_s"]) if len(back) else None
    return Ways(detected_s=detected, restored_s=restored)


Row = dict[str, Any]
"""A row of a table of recoveries: its cell, `LATENCIES`, and what else is known of a live kill."""
LATENCIES = ("latency_s", "simulated_s", "outside_s", "outside_why_not", "overlaps", "twin_s")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One pass: a contender, and the instant at which each task's node is killed."""

    contender: Contender
    at_s: Mapping[int, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recoveries:
    """The recoveries of one pass."""

    back: Ways
    kills: Mapping[int, Kill] = field(default_factory=dict)
    """Of a live pass, by task."""
    simulated: Ways | None = None
    """Of a live pass: the same kills in virtual time, at the instants at which they really were.
    Between two checkpoints the place of a kill decides what is lost."""

    def row(self, tasks: Sequence[int], *, whole: bool = True, **cell: Any) -> Row:
        """Return the row of a cell in which these tasks failed together.

        ``whole``: the output hangs on all of them, so that what is seen from outside is theirs."""
        kill = self.kills.get(tasks[0]) if whole else None
        return {
            **cell,
            "latency_s": self.back.latency_s(tasks),
            "simulated_s": self.simulated and self.simulated.latency_s(tasks),
            **(outside(kill) if kill is not None else {}),
        }


def recoveries_simulated(
    shape: Shape, cases: Mapping[str, Case], context: Context
) -> dict[str, Recoveries]:
    """Simulate the same topology, placement, rates, speed and failures in virtual time."""
    found, seed = {}, context.seed("network")
    for name, case in cases.items():
        context.progress(f"simulating {name}")
        found[name] = Recoveries(back=simulate(shape.simulated(case.contender, case.at_s, seed)))
    return found


def recoveries_live(
    shape: Shape, cases: Mapping[str, Case], context: Context, *, load_s: float
) -> tuple[Mapping[str, Outcome], dict[str, Recoveries]]:
    """Measure a pass for each case, and simulate its kills; return both by name."""
    outcomes = measure_each(
        shape.live(context, load_s=load_s),
        {
            name: Variant(setup=shape.setup(case.contender), schedule=kills(case.at_s))
            for name, case in cases.items()
        },
        context.cluster(SPEC),
        context,
    )
    found, seed = {}, context.seed("network")
    for name, case in cases.items():
        context.progress(f"simulating {name}")
        done = kills_of(outcomes[name], case.at_s)
        real_s = {task: kill.at_s for task, kill in done.items()}
        options = shape.simulated(case.contender, real_s, seed) if done else None
        found[name] = Recoveries(
            back=ways(outcomes[name].series["incidents"], case.at_s),
            kills=done,
            simulated=Ways() if options is None else simulate(options),
        )
    return outcomes, found


def first_tentative_s(outcome: Outcome, back: Ways) -> float | None:
    """Return the time from the detection until the first tentative result was in the out topic.

    It is 0 if that came before the last of the nodes was found."""
    results = outcome.series["results"]
    if not back.detected_s or "stability" not in results:
        return None
    tentative = results[(results["pass"] == "failed") & (results["stability"] == "tentative")]
    if not len(tentative):
        return None
    return max(0.0, float(tentative["arrival_s"].min()) - max(back.detected_s.values()))


def latencies_of(rows: Sequence[Row], cell: Sequence[str]) -> pd.DataFrame:
    """Return the table of these rows, whose cells have the columns ``cell``."""
    frame = pd.DataFrame(rows, columns=[*cell, *LATENCIES])
    return frame.astype(dict.fromkeys(["latency_s", "simulated_s", "outside_s", "twin_s"], float))


def outside(kill: Kill) -> Row:
    """Return what a user saw of a kill, as columns of a table of latencies."""
    return {
        "outside_s": kill.late_for_s,
        "outside_why_not": kill.recovery_why_not,
        "overlaps": kill.overlaps,
        "twin_s": kill.twin_recovery_s,
    }


def kills_of(outcome: Outcome, at_s: Mapping[int, float]) -> dict[int, Kill]:
    """Return by task the kill that was planned for that instant; the judge found the rest."""
    rows = outcome.series[SERIES]
    found: dict[int, Kill] = {}
    for task, planned_s in at_s.items():
        planned = rows[(rows["planned_at_s"].astype(float) - planned_s).abs() < 1e-6]
        if len(planned):
            found[task] = Kill.from_row(planned.iloc[0].to_dict())
    return found
