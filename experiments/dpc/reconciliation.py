"""Figure 12 (left, middle) and Table 2: checkpoint/redo against undo/redo.

The paper: the time to reconcile grows linearly with the state's size S and with the tuples Dλ
to process again. Undo/redo is slower because it rebuilds the state from input (S p_proc) instead
of copying it (S p_copy). Table 2's analytic delays, restored by aligning its fragment with the
prose, are P + S p_copy + (D + l/2) λ p_proc and P + S (p_comp + p_proc) + (D + l/2) λ (p_comp +
p_proc), with l the interval between checkpoints or stream markers. A node that checkpoints is
blocked for αX before it goes on, so its last checkpoint is of the state before the failure and l
is 0 in the first. Undo/redo always pays its half of l, as markers are set while tuples are
processed. A history without tentative tuples changes nothing. Two boxes in series double λ and
increase the slopes. For the memory l is 0 in checkpoint/redo, and λ is the aggregate input rate.

Live on a pair of nodes, without a declared speed: a tuple costs what the join takes for it. New
tuples are suspended while a node reconciles, so their delay shows it. The state is counted in
tuples. It is a value, so a copy of it costs a reference: Table 2's S p_copy is nothing there, and
what is left of checkpoint/redo is D λ p_proc."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from operator import is_not
from typing import Any

import pandas as pd

from experiments.dpc import _live, _shared
from experiments.dpc._table2 import FAILURE_S, SNAPSHOT_EVERY, analytic, memory
from harness.claims import (
    Cause,
    Finding,
    Rule,
    Sample,
    all_of,
    applied,
    hypothesis,
    mean_of,
    median_of,
    paper,
    quantity,
    rows,
)
from harness.claims.samples import FEWEST
from harness.experiment import Context, Experiment, Outcome, Point, Profile, Results
from harness.figures.chart import Axes, Chart, Line, Panel
from harness.figures.style import BLUE, ORANGE, PURPLE, SKY, VERMILION, Look
from harness.protocol.scheme import Method, Policy
from harness.seeds import DEFAULT_SEED

BOUND_S = 1.0
RATES_PER_S = (990, 1980, 3000, 3990, 4980)
LIMITED = "undo, limited history"
METHODS = ("checkpoint", "undo", "checkpoint, 2 boxes", "undo, 2 boxes", LIMITED)


def grid(states: tuple[int, ...], rates: tuple[int, ...]) -> list[Point]:
    found: list[Point] = []
    for method in METHODS:
        if method != LIMITED:
            found += [
                {"panel": "state", "method": method, "state": s, "rate_per_s": RATES_PER_S[0]}
                for s in states
            ]
        found += [
            {"panel": "tuples", "method": method, "state": 20, "rate_per_s": rate} for rate in rates
        ]
    return found


def run(point: Point, context: Context) -> Outcome:
    """Measure one failure; new tuples wait while the node reconciles, so their delay shows it."""
    method, _, variant = str(point["method"]).partition(", ")
    setting = _shared.setting_of(
        {"state": point["state"], "rate_per_s": point["rate_per_s"], "method": method},
        context,
        failure_s=FAILURE_S,
        bound_s=BOUND_S,
        snapshot_every=SNAPSHOT_EVERY,
        boxes=2 if variant == "2 boxes" else 1,
        logs_tentative=variant != "limited history",
        during_stabilization=Policy.SUSPEND,
    )
    measured = _shared.measure(setting)
    return Outcome(
        values={"delay_s": measured.delay_after_heal_s, "kept_tuples": measured.kept_tuples}
    )


MEASUREMENT = _shared.simulated(
    "dpc/reconciliation",
    run=run,
    grid=_shared.profiles(
        grid((100, 16_000), (990, 4980)),
        grid((200, 2_000, 4_000, 8_000, 12_000, 16_000), RATES_PER_S),
        quick=grid((200, 4_000, 16_000), RATES_PER_S[::2]),
    ),
    repeats=(1, FEWEST, FEWEST),
    seconds=(0.1, 0.25, 0.25),
)

LOW_PER_S, SMALL = 990, 20
"""Live: the rate at which the state varies (the paper's 1,000, in three equal streams), and the
state at which the rate does, as in the paper."""
BOXES: Mapping[Profile, tuple[int, ...]] = {
    **dict.fromkeys(Profile, (1,)),
    Profile.PAPER: (1, 2),
}


def live_points(states: tuple[int, ...], rates: tuple[int, ...]) -> list[Point]:
    chosen = [*((state, LOW_PER_S) for state in states), *((SMALL, rate) for rate in rates)]
    return [{"state": state, "rate_per_s": rate} for state, rate in chosen]


def run_live(point: Point, context: Context) -> Outcome:
    """Measure one failure with both methods."""
    state, rate = int(str(point["state"])), int(str(point["rate_per_s"]))
    found = []
    for boxes in BOXES[context.profile]:
        chain = _live.Chain(
            rate_per_s=rate, state=state, boxes=boxes, process_us=0, failure_s=FAILURE_S
        )
        more = "" if boxes == 1 else f", {boxes} boxes"
        cells = {
            f"{method.value}{more}": _live.Cell(
                bound_s=BOUND_S,
                method=method,
                snapshot_every=SNAPSHOT_EVERY,
                during_stabilization=Policy.SUSPEND,
            )
            for method in Method
        }
        found.append(_live.measure(chain, cells, context))
    return _live.joined(found)


LIVE_MEASUREMENT = _live.measurement(
    "dpc/reconciliation-live",
    run=run_live,
    grid={
        Profile.SMOKE: live_points((SMALL,), (9000,)),
        Profile.QUICK: live_points((SMALL, 12000), (9000,)),
        Profile.PAPER: live_points((SMALL, 3000, 6000, 9000, 12000), (3000, 4980, 6990, 9000)),
    },
    seconds=(70.0, 80.0, 150.0),
)

# Shown: no record depends on what follows.

LOOKS = {
    "checkpoint": Look("checkpoint/redo", BLUE, "s"),
    "undo": Look("undo/redo", VERMILION, "o"),
    "checkpoint, 2 boxes": Look("checkpoint/redo, 2 boxes", SKY, "s", "--"),
    "undo, 2 boxes": Look("undo/redo, 2 boxes", ORANGE, "o", "--"),
    LIMITED: Look("undo/redo, limited history", PURPLE, "D", ":"),
}
ONE_BOX = ("checkpoint", "undo")
TOLERANCE = 0.2
FACTOR = 2.0
"""Largest factor between what undo/redo takes longer and S p_proc, live. Fixed on 2026-11-23,
before anything was measured."""
SEVERAL = Rule(version=2, since="2026-11-25", seen_seeds=(DEFAULT_SEED, 71701))
"""Version 1 compared means of three runs, and the runs decided it."""
SEEN = (DEFAULT_SEED, 71701, 71704, 71705, 71806, 71821, 71822, 71823, 71824)
MEDIANS = Rule(version=2, since="2026-11-26", seen_seeds=SEEN)
"""Version 1 took the mean delay of the runs of a point, which one of five can move by a fifth: it
waited for a bucket of 100 ms less."""
DECLARED: Mapping[str, Any] = {"rule": MEDIANS, **_shared.BY_COSTS}
STEEPER = Rule(version=3, since="2026-11-26", seen_seeds=SEEN)
"""As `MEDIANS`. Version 2 took means, too; version 1 asked for twice the slope."""
IN_PAIRS = Rule(version=3, since="2026-11-28", seen_seeds=(*SEEN, 71811))
"""The median of the runs' differences with its interval. Version 2 judged their mean alone."""
RESOLUTION_S = 0.001
"""Least difference of two delays: arrivals are read in milliseconds."""
PANELS = {"state": "state_tuples", "tuples": "redo_tuples"}
"""The column over which each panel shows the delay."""


def table(results: Results) -> pd.DataFrame:
    """Return a row per method and point, with S, Dλ, Table 2's delay and its memory.

    ``delay_s``: the median of the runs, as now and then one waits for a bucket (100 ms) less.
    ``kept_tuples``: their mean; ``memory_low``, ``memory_high``: its 95 % interval, null
    where the runs are too few for one."""
    points = results.frame.groupby(["panel", "method", "state", "rate_per_s"])
    frame = points.agg(
        delay_s=("delay_s", "median"),
        kept_tuples=("kept_tuples", "mean"),
        runs=("kept_tuples", "size"),
    ).reset_index()
    kept = [mean_of(each["kept_tuples"]) for _, each in points]
    frame["memory_low"], frame["memory_high"] = zip(*map(_ends, kept), strict=True)
    frame["state_tuples"] = frame["state"]
    frame["redo_tuples"] = frame["rate_per_s"] * FAILURE_S
    each_row = frame.to_dict("records")
    frame["analytic_s"] = [
        analytic(row["method"], row["state_tuples"], row["redo_tuples"], row["rate_per_s"])
        for row in each_row
    ]
    frame["analytic_tuples"] = [
        memory(row["method"], row["state_tuples"], row["rate_per_s"]) for row in each_row
    ]
    return frame.drop(columns=["state", "rate_per_s"])


def _ends(sample: Sample | None) -> tuple[float, float]:
    if sample is None or sample.low is None or sample.high is None:
        return math.nan, math.nan
    return sample.low, sample.high


def live_table(results: Results) -> Mapping[str, pd.DataFrame]:
    """Return ``points``, the delay by method, S and Dλ, and ``passes``."""
    passes = _live.cells_of(results, ["state", "rate_per_s"])
    passes = passes.assign(
        method=passes["cell"],
        delay_s=passes["delay_after_heal_s"],
        redo=passes["rate_per_s"].astype(float) * FAILURE_S,
    )
    by = ["method", "state", "redo"]
    return {"points": _live.averaged(passes, by, ["delay_s"]), "passes": passes}


def _panel_of(points: pd.DataFrame, panel: str) -> pd.DataFrame:
    """Return the live points in which the state varies, or the tuples to process again."""
    low = points["redo"] == LOW_PER_S * FAILURE_S
    return points[low if panel == "state" else points["state"] == SMALL].sort_values(panel)


def _panel(name: str, x: str) -> Panel:
    over = {"x": rows[PANELS[name]] / 1000, "by": "method", "looks": LOOKS}
    dotted = {"linestyle": ":", "linewidth": 1.0, "marker": "", "label": "_"}
    return Panel(
        [Line(y="delay_s", **over), Line(y="analytic_s", **over, style=dotted)],
        x,
        "delay of new tuples while reconciling (s)",
        y_range=(0, None),
        where=rows["panel"] == name,
    )


def _finish(panels: Sequence[Axes], _: pd.DataFrame) -> None:
    left, right = panels
    legends = [axes.get_legend_handles_labels() for axes in panels]
    right.legend(*max(legends, key=lambda each: len(each[1])), loc="upper left", fontsize=7)
    left.set_title("dotted: Table 2's formulas", fontsize=8, fontweight="normal", loc="right")


def _live_panel(panel: str, label: str) -> Panel:
    def draw(axes: Axes, points: pd.DataFrame) -> None:
        Line(x=panel, y="delay_s", by="method", looks=LOOKS).draw(axes, _panel_of(points, panel))

    first = "longest delay of tuples\nafter the failure (s)" if panel == "state" else ""
    return Panel([draw], label, first, y_range=(0, None), table="points")


@quantity
def _slopes(table: pd.DataFrame, panel: str) -> dict[str, float]:
    """Return µs per tuple by method."""
    own = table[table["panel"] == panel]
    slopes = _shared.fits(own, "method", PANELS[panel], "delay_s")["slope"]
    return {str(method): 1e6 * slope for method, slope in slopes.items()}


@quantity
def _fits(table: pd.DataFrame) -> dict[str, float]:
    """Return R² of the straight line by panel and method."""
    return {
        " ".join((str(panel), str(method))): float(
            _shared.line(own[PANELS[str(panel)]], own["delay_s"])["r_squared"]
        )
        for (panel, method), own in table.groupby(["panel", "method"])
    }


@quantity
def _live_slope(tables: Mapping[str, pd.DataFrame], method: str, panel: str) -> float | None:
    """Return the seconds per tuple of one panel; None with fewer than two points."""
    own = _panel_of(tables["points"], panel)
    own = own[own["method"] == method]
    if own[panel].nunique() < 2:
        return None
    return float(_shared.line(own[panel], own["delay_s"])["slope"])


def _all_above(*pairs: tuple[float | None, float | None]) -> bool | None:
    """Return whether the first number of each pair is above the second; None if one is missing."""
    if any(None in pair for pair in pairs):
        return None
    return all(one > other for one, other in pairs)  # type: ignore[operator]


def _us(slopes: Mapping[str, float | None]) -> dict[str, float | None]:
    return {name: slope and 1e6 * slope for name, slope in slopes.items()}


fits, over_state, over_tuples = _fits(), _slopes("state"), _slopes("tuples")
two_boxes = {name: over_tuples[f"{name}, 2 boxes"] / over_tuples[name] for name in ONE_BOX}
one_box = rows[rows["method"].isin(ONE_BOX)]
kept = one_box.groupby("method")["kept_tuples"].mean()
off = (rows["delay_s"] / rows["analytic_s"] - 1.0).abs()
judged = off[rows["method"].isin(ONE_BOX)]


@paper(
    "memory",
    "Table 2's memory holds within 20 %: the state and the input of the failure",
    cause=Cause.READING,
    because="Checkpoint/redo with a state of 20 tuples keeps about a quarter less. While one of "
    "three streams is cut, the input of the two others accumulates; the third's comes when it has "
    "healed, and presumably what is redone is let go before all of it is there. Of two streams' "
    "input it keeps a tenth more. The paper's rate is the aggregate input rate, of all three.",
    rule=SEVERAL,
)
def memory_as_printed(table: pd.DataFrame) -> Finding:
    """Judge the interval of the mean of each point with one box, relative to Table 2's memory."""
    points = table[table["method"].isin(ONE_BOX)].to_dict("records")
    errors = [_memory_error(point) for point in points]
    worst = max(errors, key=lambda error: abs(error.value))
    return Finding(
        held=all_of(all_of([e.above(-TOLERANCE), e.below(TOLERANCE)]) for e in errors),
        measured={
            "largest_relative_error": worst.value,
            "interval_95": [worst.low, worst.high],
            "tolerance": TOLERANCE,
        },
        per_cell=True,
        sample=worst,
    )


def _memory_error(point: Mapping[Any, Any]) -> Sample:
    """Return how far the kept tuples of a point are from Table 2's, relative to these."""
    kept, low, high = (
        float(point[column] / point["analytic_tuples"] - 1.0)
        for column in ("kept_tuples", "memory_low", "memory_high")
    )
    few = math.isnan(low)
    return Sample(
        value=kept, low=None if few else low, high=None if few else high, n=int(point["runs"])
    )


redo = {method.value: _live_slope(method.value, "redo") for method in Method}
state = {method.value: _live_slope(method.value, "state") for method in Method}


@quantity
def _margins_s(tables: Mapping[str, pd.DataFrame]) -> pd.Series[float]:
    """Return the time that undo/redo takes longer in each run over Dλ."""
    passes = _panel_of(tables["passes"], "redo").astype({"delay_s": float})
    wide = passes.pivot_table(index="run", columns="method", values="delay_s")
    wide = wide.reindex(columns=list(ONE_BOX))
    return (wide["undo"] - wide["checkpoint"]).dropna()


def _ratio(undo: float | None, checkpoint: float | None, process: float | None) -> float | None:
    """Return rebuilding a tuple of state by processing a tuple of input."""
    if undo is None or checkpoint is None or not process:
        return None
    return (undo - checkpoint) / process


ratio = applied(_ratio, state["undo"], state["checkpoint"], redo["checkpoint"])

EXPERIMENT = Experiment(
    measurement=MEASUREMENT,
    paper=_shared.PAPER,
    figure="Figure 12 (left, middle), Table 2",
    title="Checkpoint/redo against undo/redo",
    statement=(
        "Reconciliation takes time linear in the state and in the tuples to process again; "
        "checkpoint/redo is faster, as the analytic costs say."
    ),
    table=table,
    draw=Chart(
        [
            _panel("state", "state size S (thousand tuples), 990 tuples/s"),
            _panel("tuples", "tuples to process again Dλ (thousands)"),
        ],
        finish=_finish,
        stamp=lambda table: _shared.stamped(table, "median"),
    ),
    claims=[
        paper(
            "linear",
            "The delay of reconciliation is linear in S and in Dλ, for both methods",
            **DECLARED,
        ).holds(
            all_of(applied(pd.Series, fits) >= _shared.STRAIGHT),
            r_squared=fits,
            at_least=_shared.STRAIGHT,
        ),
        paper(
            "undo-steeper",
            "Undo/redo is steeper in the state's size: it rebuilds where the other copies",
            **DECLARED,
        ).holds(over_state["undo"] > over_state["checkpoint"], us_per_tuple=over_state),
        paper(
            "checkpoint-beats-undo",
            "Checkpoint/redo beats undo/redo over Dλ, too",
            **DECLARED,
        ).holds(over_tuples["undo"] > over_tuples["checkpoint"], us_per_tuple=over_tuples),
        paper(
            "limited-history",
            "... and a history without tentative tuples leaves a difference",
            rule=MEDIANS,
        ).holds(over_tuples[LIMITED] > over_tuples["checkpoint"], us_per_tuple=over_tuples),
        paper(
            "two-boxes",
            "Two boxes in series increase the slope over Dλ, for both methods",
            rule=STEEPER,
            **_shared.BY_COSTS,
        ).every([ratio > 1.0 for ratio in two_boxes.values()], ratio_of_slopes=two_boxes),
        memory_as_printed,
        paper("undo-more-memory", "Undo/redo needs more memory than checkpoint/redo").holds(
            kept["undo"] > kept["checkpoint"], mean_kept_tuples=kept.to_dict()
        ),
        paper(
            "delays",
            "Table 2's analytic delays hold within 20 % (one box, as in the table)",
            **DECLARED,
        ).every(
            judged <= TOLERANCE,
            largest_relative_error=judged.max(),
            tolerance=TOLERANCE,
            by_method=off.groupby(rows["method"]).max().to_dict(),
        ),
    ],
    notes=(
        _shared.CHOSEN,
        "The state is a window of tuples, 20 of them in the right panel, as in the paper. Input is "
        "kept in whole buckets, also where a part of one would do.",
        "Table 2 leaves out that tuples keep coming while a node reconciles, and are processed "
        "behind those that are redone: the delay is 1 / (1 - λ p_proc) times as long. With "
        "two boxes p_proc is twice as large, so they more than double the slope.",
        "Two boxes have the state of one between them; undo/redo rebuilds both from the input of "
        "the first.",
    ),
    figure_size_in=(9.0, 4.0),
)

LIVE_EXPERIMENT = _live.shown(
    EXPERIMENT,
    LIVE_MEASUREMENT,
    sentences={"grows": "dpc/reconciliation/linear"},
    figure="Figure 12 (left, middle), live",
    title="Checkpoint/redo against undo/redo, at a real operator's costs",
    statement=(
        "Reconciliation takes time linear in the state and in the tuples to process again; "
        "checkpoint/redo is faster."
    ),
    table=live_table,
    draw=Chart(
        [
            _live_panel("state", "state in tuples (S)"),
            _live_panel("redo", "tuples to process again (Dλ)"),
        ],
        layout={"sharey": True},
        legend={},
        stamp=f"{_live.STAMP}; a real operator's costs",
    ),
    claims=[
        _live.converges,
        paper("grows", "The time to reconcile grows with Dλ, for both methods").holds(
            applied(_all_above, *((slope, 0.0) for slope in redo.values())),
            us_per_tuple=applied(_us, redo),
        ),
        paper(
            "undo-steeper",
            "Undo/redo is steeper in the state's size: it rebuilds, and does not copy",
        ).holds(
            applied(_all_above, (state["undo"], state["checkpoint"])),
            us_per_tuple=applied(_us, state),
        ),
        paper(
            "checkpoint-beats-undo", "Checkpoint/redo beats undo/redo over Dλ, too", rule=IN_PAIRS
        ).at_least(median_of(_margins_s()), RESOLUTION_S, margins_s=_margins_s().tolist()),
        hypothesis(
            "rebuild-costs-processing",
            "What undo/redo takes longer per tuple of state is what a tuple of input takes "
            f"(p_proc), within a factor of {FACTOR:g}",
            because="Presumably chance: one pass differs from the next by the wait for a bucket, "
            "and rebuilding so small a state takes hardly longer. It takes several runs of each "
            "point.",
        ).holds(
            (ratio >= 1 / FACTOR) & (ratio <= FACTOR),
            given=applied(is_not, ratio, None),
            rebuilding_by_processing=ratio,
            processing_us=applied(_us, redo)["checkpoint"],
            tolerance=FACTOR,
        ),
    ],
    notes=(
        "No declared speed: a nested-loop join, tuple by tuple. The state is a value, so a copy "
        "of it costs a reference, and Table 2's S p_copy is nothing; undo/redo rebuilds it from S "
        "tuples of input. The history without tentative tuples and the reading back of it are not "
        "there: a batch that is taken back is dropped, not read.",
    ),
)
