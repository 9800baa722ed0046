"""Recoveries as the simulator predicts them from this machine's costs, and as they were measured.

Live: word count on six nodes, killed one after the other, under active replication and under
checkpoints, at two rates. Simulated: the same topology, placement, scheme and kills in virtual
time, with the costs of `experiments.live._measured_costs`, none of which was taken from a
recovery and none of which is fitted. Both latencies are the papers': from the detection until all
tasks of the node are where they were."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pandas as pd

from experiments.live._cpu import CpuWatch, loops_s
from experiments.live._judged import right_output, stacked
from experiments.live._kills import OUTSIDE_NOTE, measure_kills
from experiments.live._measured_costs import MeasuredCosts, counters, measure_costs, program_at
from experiments.live._rates import WATERMARK_S
from experiments.live._six_nodes import KEPT, warm
from harness.claims import Finding, at_most, hypothesis
from harness.engines.tasks.parameters import TaskParameters
from harness.experiment import Context, Experiment, Outcome, Point, Profile, Results, measured
from harness.figures.chart import Figure
from harness.figures.style import BLUE, GREEN, GREY, ORANGE, SKY, plain_ticks

if TYPE_CHECKING:
    from harness.engines.base import Work
    from harness.hosting.restoration import Noted, Restoration
    from harness.judging.passes import PassRecord
    from harness.simulator.options import Options
    from workloads.base import Workload

INTERVAL_S, CHECKPOINT_S = 0.1, 2.0
DEPTH = 4
SETTLE_S = 2.0
"""Time of the pass without failures until copies are placed."""
QUIET_S = {Profile.SMOKE: 8.0, Profile.QUICK: 8.0, Profile.PAPER: 30.0}
TURN_S = 1.2
"""Interval at which replicas move from one counter to the other in the pass without failures:
seldom enough for a node to have a reader ready again, as it has when something fails."""
KILLS = {Profile.SMOKE: 2, Profile.QUICK: 6, Profile.PAPER: 60}
SETTLED_S = 2 * CHECKPOINT_S
"""Delay of the simulated kills after the live ones: whole checkpoint intervals."""
BACK_S = 0.7
"""Absence of a killed node, as live on an idle machine; nothing waits for it."""
FOLLOWED_S = 2.0
"""Virtual seconds that are followed from a kill on: less than until the next one."""
STEPS = {"there_ms": "until a primary is there", "ready_ms": "until it has its state",
         "takeover_ms": "until it is where the other was"}  # fmt: skip
"""Columns, in milliseconds from detection, with their meaning."""


def run(point: Point, context: Context) -> Outcome:
    """Measure one scheme at one rate: costs, live kills, simulated kills."""
    rate_per_s = float(str(point["rate_per_s"]))
    costs = _costs(context, rate_per_s)
    parameters = TaskParameters(checkpoint_s=CHECKPOINT_S)
    runner = warm("tasks", str(point["scheme"]), parameters, context)
    kills = KILLS[context.profile]
    outcome = measure_kills(
        runner,
        workload=_words(),
        rate_per_s=rate_per_s,
        interval_s=INTERVAL_S,
        checkpoint_s=CHECKPOINT_S,
        kills=kills,
    )
    context.progress("simulating")
    nodes = [(node.name, node.rack) for node in runner.engine.targets()]
    # At the instants of the real kills: the phase between two checkpoints decides.
    kills_s = [SETTLED_S + at_s for at_s in outcome.series["kills"]["at_s"]]
    simulated = predict(str(point["scheme"]), nodes, costs, kills_s)
    return replace(
        outcome,
        values={**outcome.values, **costs.values()},
        series={**outcome.series, "simulated": simulated},
    )


def _words() -> Workload:
    from workloads.wordcount import word_count

    return word_count(window_s=4, slide_s=1, depth=DEPTH, watermark_delay_s=WATERMARK_S)


def _costs(context: Context, rate_per_s: float) -> MeasuredCosts:
    """Measure the costs by a pass without failures and by parts that need no engine."""
    from harness.engines.base import EventKind

    workload = _words()
    replicated = counters(workload, INTERVAL_S)
    parameters = TaskParameters(
        checkpoint_s=CHECKPOINT_S, alternate_s=TURN_S, plan=tuple(replicated)
    )
    runner = warm("tasks", "rppg", parameters, context)
    copies = program_at(workload, INTERVAL_S).topology.task_count + len(replicated) // 2
    watch = CpuWatch(lambda: {"loops": loops_s(runner.cluster)})
    costs: list[MeasuredCosts] = []

    def measure(work: Work, record: PassRecord) -> None:
        start, until = SETTLE_S, record.until_s
        used = watch.between(record.start_unix_s + start, record.start_unix_s + until)
        found = measure_costs(
            runner.cluster,
            work.topic_of["lines"],
            changes=record.incidents[record.incidents["event"] == EventKind.ADAPTED.value],
            busy_s=used["loops"],
            processed=copies * (until - start) / INTERVAL_S,
        )
        costs.append(found)

    quiet_s = QUIET_S[context.profile]
    runner.steady("costs", workload, rate_per_s, quiet_s, INTERVAL_S, watch=watch, then=measure)
    return costs[0]


def predict(
    scheme: str, nodes: Sequence[tuple[str, str]], costs: MeasuredCosts, kills_s: Sequence[float]
) -> pd.DataFrame:
    """Return a row per kill in virtual time, at these instants.

    The lost ``tasks``, and `STEPS` of the last one back; null if the node had no task."""
    from harness.hosting.restoration import Restorations
    from harness.simulator.synthetic import counts
    from harness.simulator.world import World

    options = simulated_kills(scheme, nodes, costs, kills_s)
    world = World(options, counts(options), validate=False, notes_progress=True, kept=0)
    world.start()
    world.kernel.run(until=options.faults[-1].at_us + round(FOLLOWED_S * 1e6))
    ways = Restorations(world.notes).every()
    rows = []
    for number, fault in enumerate(options.faults):
        until = fault.at_us + round(FOLLOWED_S * 1e6)
        mine = [way for way in ways if fault.at_us <= way.detected_us < until]
        names = [world.wiring.names[way.task] for way in sorted(mine, key=lambda way: way.task)]
        rows.append({"number": number, "tasks": ", ".join(names), **_steps_ms(mine, world.notes)})
    return pd.DataFrame(rows, columns=["number", "tasks", *STEPS])


def _steps_ms(ways: Sequence[Restoration], notes: Sequence[Noted]) -> dict[str, float]:
    from harness.hosting.restoration import steps_of

    every = [steps_of(way, notes) for way in ways]
    whole = [steps for steps in every if steps is not None]
    assert len(whole) == len(ways), f"{ways} are not all back after {FOLLOWED_S:g} s"
    if not whole:
        return {}
    last = max(whole, key=lambda steps: steps.restored_us)
    taken = (last.there_us, last.ready_us, last.restored_us)
    return {name: us / 1000 for name, us in zip(STEPS, taken, strict=True)}


def simulated_kills(
    scheme: str, nodes: Sequence[tuple[str, str]], costs: MeasuredCosts, kills_s: Sequence[float]
) -> Options:
    """Return the topology, placement and scheme of the live run, and kills at these instants."""
    from harness.protocol.coordinator.registry import NodeInfo
    from harness.protocol.planned import wiring_of
    from harness.protocol.schemes import make_scheme
    from harness.simulator.faults import Fault, FaultKind
    from harness.simulator.options import Costs, Network, Options

    program = program_at(_words(), INTERVAL_S)
    wiring = wiring_of(program.topology, {"count": program.timeline.batches_per_window})
    delay_us, store_us = max(0, costs.hop_us - costs.batch_us), costs.load_us // 2
    # An order leaves once the registry is stored: what is left of its cost is on its way.
    order_us = max(0, costs.order_us - 2 * store_us)
    among = [[delay_us] * len(nodes) + [order_us] for _ in nodes]
    # Dealt out rack by rack in turn, as the engine does it.
    order = sorted(range(len(nodes)), key=lambda node: (nodes[node][0].partition("n")[2], node))
    found = make_scheme(
        scheme,
        wiring,
        checkpoint_every=round(CHECKPOINT_S / INTERVAL_S),
        heartbeat_us=250_000,
        suspect_after_us=1_000_000,
    )
    # Each has enough for the loss of a rack, as with the engine.
    slots = -(-(len(wiring.names) + len(found.replicated)) * 2 // len(nodes))
    return Options(
        seed=0,
        topology="word count",
        wiring=wiring,
        scheme=found,
        nodes=tuple(NodeInfo(name=n, rack=rack, slots=slots) for n, rack in nodes),
        placement=tuple(order[task % len(order)] for task in wiring.tasks),
        batches=round((kills_s[-1] + FOLLOWED_S) / INTERVAL_S) + 10,
        interval_us=round(INTERVAL_S * 1e6),
        tuples=1,
        closes_connections=True,
        costs=Costs(batch_us=costs.batch_us, host_us=costs.host_us, reader_us=costs.reader_us),
        network=Network(
            delay_us=delay_us,
            jitter_us=0,
            pairs_us=tuple(map(tuple, [*among, [order_us] * (len(nodes) + 1)])),
            store_us=store_us,
            log_us=delay_us,
        ),
        faults=tuple(
            Fault(
                kind=FaultKind.KILL,
                at_us=round(at_s * 1e6),
                until_us=round((at_s + BACK_S) * 1e6),
                target=number % len(nodes),
            )
            for number, at_s in enumerate(kills_s)
        ),
    )


_ALL: list[Point] = [
    {"scheme": scheme, "rate_per_s": rate}
    for scheme in ("active", "checkpoint")
    for rate in (2_000.0, 20_000.0)
]

MEASUREMENT = measured(
    "live/predicted",
    run=run,
    grid={Profile.SMOKE: _ALL[:1], Profile.QUICK: _ALL[::2], Profile.PAPER: _ALL},
    seconds=(50, 40, 250),
    keeps=KEPT,
)

# Shown: no record depends on what follows.

NEAR = 0.25
"""Accepted error of the median. Fixed before measuring."""


def tabulate(results: Results) -> pd.DataFrame:
    """Return a row per kill: ``how`` is live or simulated."""
    columns = ["scheme", "rate_per_s", "failures"]
    parts = [
        results.series(series, columns).assign(how=how)
        for series, how in (("kills", "live"), ("simulated", "simulated"))
    ]
    return pd.concat(parts, ignore_index=True)


def pairs(table: pd.DataFrame) -> pd.DataFrame:
    """Return median latencies in ms by scheme and rate: columns live, simulated, error."""
    known = table.dropna(subset=["takeover_ms"])
    found = known.pivot_table(
        index=["scheme", "rate_per_s"], columns="how", values="takeover_ms", aggfunc="median"
    ).reindex(columns=["live", "simulated"])
    return found.assign(error=(found["simulated"] - found["live"]).abs() / found["live"])


def outside(table: pd.DataFrame) -> dict[tuple[str, float], float]:
    """Return the median time in ms until output was on time again, by scheme and rate."""
    known = table.reindex(columns=["scheme", "rate_per_s", "outside_ms"]).dropna()
    return {
        (str(scheme), float(str(rate))): float(cell["outside_ms"].median())
        for (scheme, rate), cell in known.groupby(["scheme", "rate_per_s"])
    }


def steps(table: pd.DataFrame) -> pd.DataFrame:
    """Return the median time of each of `STEPS` after the one before, by scheme, rate and how."""
    known = table.reindex(columns=["scheme", "rate_per_s", "how", *STEPS]).dropna()
    took = known[list(STEPS)].diff(axis=1).fillna(known[["there_ms"]])
    return took.groupby([known["scheme"], known["rate_per_s"], known["how"]]).median()


def draw(table: pd.DataFrame, figure: Figure) -> None:
    """Draw left a pair of columns per scheme and rate with every kill, right the steps."""
    axes, parts = figure.subplots(1, 2, width_ratios=[3, 4])
    medians = pairs(table)
    for place, (scheme, rate) in enumerate(medians.index):
        mine = table[(table["scheme"] == scheme) & (table["rate_per_s"] == rate)]
        for shift, how, color in ((-0.15, "live", ORANGE), (0.15, "simulated", BLUE)):
            values = mine[mine["how"] == how]["takeover_ms"].dropna()
            axes.scatter([place + shift] * len(values), values, s=10, color=color, alpha=0.5)
            middle = medians.loc[(scheme, rate), how]
            ends = [place + shift - 0.1, place + shift + 0.1]
            axes.plot(ends, [middle] * 2, color=color, linewidth=2.5,
                      label=how if not place else None)  # fmt: skip
        seen = outside(table).get((scheme, rate))
        if seen is not None:
            axes.plot([place - 0.15], [max(seen, 1.0)], "o", color=ORANGE, markerfacecolor="none",
                      label=None if place else "live, seen from outside")  # fmt: skip
    axes.set_xticks(
        range(len(medians)), [f"{scheme}\n{rate:,.0f}/s" for scheme, rate in medians.index]
    )
    if len(medians):
        axes.set_yscale("log")
        plain_ticks(axes.yaxis)
        axes.legend(loc="upper left")
    axes.set_ylabel("detection to restored (ms)")
    axes.set_title("every kill, and the medians")
    took = steps(table)
    names = [f"{how}, {scheme}, {rate:,.0f}/s" for scheme, rate, how in took.index]
    looks = zip(STEPS.values(), (GREY, SKY, GREEN), strict=True)
    stacked(parts, names, took, dict(zip(STEPS, looks, strict=True)))
    parts.invert_yaxis()
    parts.tick_params(axis="y", labelsize=7)
    parts.set_xlabel("medians of the steps, one after the other (ms)")
    parts.set_title("where the time goes")


@hypothesis(
    "within-a-quarter",
    "Given the costs of this machine, the simulator says live recovery latencies within 25 % "
    "(median over schemes and rates).",
)
def within_a_quarter(table: pd.DataFrame) -> Finding:
    by, took = pairs(table).reset_index(), steps(table).reset_index()
    errors = by["error"].dropna()
    error = float(errors.median()) if len(errors) else None
    seen = outside(table)
    latencies = {
        f"{row['scheme']}_{row['rate_per_s']:g}_per_s": f"live {row['live']:.1f} ms, "
        f"simulated {row['simulated']:.1f} ms, "
        f"seen from outside {seen.get((row['scheme'], row['rate_per_s']), float('nan')):.1f} ms"
        for row in by.to_dict("records")
    }
    sums = {
        f"steps_{row['how']}_{row['scheme']}_{row['rate_per_s']:g}_per_s": " + ".join(
            f"{row[step]:.1f}" for step in STEPS
        )
        for row in took.to_dict("records")
    }
    return at_most(error, NEAR, _apart_most(table), median_error=error, **latencies, **sums)


def _apart_most(table: pd.DataFrame) -> str | None:
    """Return the steps that differ most, and the other load of the machine meanwhile."""
    took = steps(table)
    found = []
    for scheme, rate in took.index.droplevel("how").unique():
        mine = took.loc[(scheme, rate)]
        if not {"live", "simulated"} <= set(mine.index):
            continue
        gap = mine.loc["live"] - mine.loc["simulated"]
        step = str(gap.abs().idxmax())
        found.append(
            f"{mine.loc['live', step]:.1f} ms live and {mine.loc['simulated', step]:.1f} ms "
            f"simulated {STEPS[step]} ({scheme}, {rate:,.0f}/s)"
        )
    if not found:
        return None
    return (
        f"Apart most: {'; '.join(found)}. In the simulator a recovery has the machine to itself. "
        "Here the cores are presumably also busy with the end of the killed process, whose memory "
        "is given back, with Spark's handling of it and with the start of its next boot."
    )


CLAIMS = [right_output(lambda table: table[table["how"] == "live"]), within_a_quarter]


EXPERIMENT = Experiment(
    measurement=MEASUREMENT,
    paper="Faultline",
    figure="predicted",
    title="Recovery latency, predicted by the simulator from this machine's costs, and measured",
    statement=(
        "The simulator runs the engine's own protocol code: given what messages, readers, "
        "orders, checkpoints and operators cost here, it predicts how long a recovery takes."
    ),
    table=tabulate,
    draw=draw,
    claims=CLAIMS,
    smoke_covered_by="live/engines",
    notes=[
        "Half of the marks are simulated, in virtual time; the others are real kills.",
        "Costs of the simulator: an order, a new reader and a checkpoint take the time that they "
        "take when a plan changes without a failure, in the same processes; a hop the time between "
        "two tasks' notes of a batch in that pass; a batch its share of the nodes' main threads "
        "there. All of it is in the runs' values.",
        "The simulator has no cost for the machine's other load after a kill, above all the start "
        "of the node's next life, so its latencies lack it.",
        "Simulated kills fall where the live ones did, one after the other in one run.",
        OUTSIDE_NOTE,
    ],
    figure_size_in=(9.5, 4.2),
)
