"""Figure 12 (right), live: the cost of being able to go back, while nothing fails.

A real pair with a real operator's costs: the processor time of both nodes with a checkpoint or a
stream marker every l, over that of the same input without either. The paper's checkpoint copies
the state in memory. Here the state is a value, so such a copy costs a reference; a checkpoint is
what the engine stores, packed and sent to Redis. A marker is the number of a batch in the kept
input, for which no state is read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pandas as pd

from experiments.dpc import _live, _shared
from experiments.live._runs import nodes_cpu_s, outcome_of
from harness.claims import (
    Finding,
    at_least,
    median_of,
    paper,
    unmeasured,
)
from harness.claims.samples import FEWEST
from harness.experiment import Experiment
from harness.failures.schedule import NO_FAILURES
from harness.figures.style import CYCLE, legend_below, not_measured, stamp
from harness.judging.run import Variant, measure_each
from harness.measurement import Context, Measurement, Origin
from harness.protocol.scheme import Method
from harness.results.record import Outcome, Point, Profile
from harness.results.tables import Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RATE_PER_S = 3000
COUNTED_S: Mapping[Profile, float] = {Profile.SMOKE: 4.0, Profile.QUICK: 6.0, Profile.PAPER: 30.0}
"""Time that counts, from when the state is full."""
INTERVALS_S: Mapping[Profile, tuple[float, ...]] = {
    Profile.SMOKE: (0.2,),
    Profile.QUICK: (0.2,),
    Profile.PAPER: (0.1, 0.2, 0.5, 1.0, 2.0),
}
"""The paper takes checkpoints every 200 ms."""
PAIR = tuple(_live.SPEC.node_names[node] for node in (1, _live.OTHERS + 1))
NEVER_S = 90.0
"""Interval longer than any load, of no more batches than the scheme keeps in its buffers."""
NEVER = _live.Cell(method=Method.UNDO, checkpoint_s=NEVER_S)


def cell_of(method: Method, interval_s: float) -> _live.Cell:
    """Return a cell with stored checkpoints, or with markers, every ``interval_s``."""
    if method is Method.CHECKPOINT:
        return _live.Cell(method=method, checkpoint_s=interval_s)
    every_batches = round(interval_s / _live.BUCKET_S)
    return _live.Cell(method=method, snapshot_every=every_batches, checkpoint_s=NEVER_S)


def run(point: Point, context: Context) -> Outcome:
    """Measure both methods at every interval on one size of the state, and neither of them."""
    chain = _live.Chain(
        rate_per_s=RATE_PER_S, state=int(str(point["state"])), process_us=0, failure_s=0.0
    )
    cells = {
        (method, interval_s): cell_of(method, interval_s)
        for method in Method
        for interval_s in INTERVALS_S[context.profile]
    }
    names = {key: f"{key[0].value}-every-{1000 * key[1]:g}-ms" for key in cells}
    variants = {"none": Variant(setup=chain.setup(NEVER), schedule=NO_FAILURES)}
    variants |= {
        names[key]: Variant(setup=chain.setup(cell), schedule=NO_FAILURES)
        for key, cell in cells.items()
    }
    load_s = chain.begin_s + COUNTED_S[context.profile]
    wanted = chain.run(context, load_s=load_s)
    outcomes = measure_each(wanted, variants, context.cluster(_live.SPEC), context)
    spent = {
        name: nodes_cpu_s(one.series["usage"], PAIR, from_s=chain.begin_s, until_s=load_s)
        for name, one in outcomes.items()
    }
    rows = [
        {
            "method": method.value,
            "interval_s": interval_s,
            "cpu_s": spent[names[method, interval_s]],
            "without_cpu_s": spent["none"],
        }
        for method, interval_s in cells
    ]
    judged = [{"cell": name, **_live.judged(one)} for name, one in outcomes.items()]
    return outcome_of(
        outcomes, {"passes": len(variants)}, costs=pd.DataFrame(rows), cells=pd.DataFrame(judged)
    )


MEASUREMENT = Measurement(
    id="dpc/checkpoint-overhead-live",
    origin=Origin.MEASURED,
    grid={
        profile: [{"state": state} for state in states]
        for profile, states in {
            Profile.SMOKE: (2_000,),
            Profile.QUICK: (500, 8_000),
            Profile.PAPER: (500, 2_000, 8_000),
        }.items()
    },
    repeats={Profile.SMOKE: 1, Profile.QUICK: 1, Profile.PAPER: FEWEST},
    seconds_per_run={Profile.SMOKE: 50.0, Profile.QUICK: 56.0, Profile.PAPER: 480.0},
    run=run,
    scheduling=_live.SCHEDULING,
    chooses=["harness.engines.tasks.engine"],
)

# Shown: no record depends on what follows.

LOOKS = {Method.CHECKPOINT.value: ("o-", "checkpoints"), Method.UNDO.value: ("x--", "markers")}


def table(results: Results) -> Mapping[str, pd.DataFrame]:
    """Return ``points``, the share of processor time by state, method and interval.

    Besides ``samples``, the same of each run, and ``passes``."""
    by = ["state", "method", "interval_s"]
    rows = results.series("costs", ["state", "repeat"])
    rows = rows.reindex(columns=[*by, "repeat", "cpu_s", "without_cpu_s"])
    without = rows["without_cpu_s"].astype(float)
    rows = rows.assign(share=(rows["cpu_s"].astype(float) - without) / without)
    return {
        "points": _live.averaged(rows, by, ["share"]),
        "samples": rows,
        "passes": _live.cells_of(results, ["state"]),
    }


def draw(tables: Mapping[str, pd.DataFrame], figure: Figure) -> None:
    """Draw the share over the interval, a colour per size of the state."""
    axes = figure.subplots()
    points = tables["points"]
    for colour, (state, both) in zip(CYCLE, points.groupby("state"), strict=False):
        for method, rows in both.sort_values("interval_s").groupby("method"):
            look, name = LOOKS[str(method)]
            axes.plot(
                1000 * rows["interval_s"], 100 * rows["share"], look, color=colour,
                label=f"{name}, S = {state:,} tuples",
            )  # fmt: skip
    axes.axhline(0, color="black", linewidth=0.8)
    axes.set_xlabel("interval l (ms)")
    axes.set_ylabel("processor time of both nodes,\nbeyond that without either (%)")
    axes.set_xlim(left=0)
    if len(points):
        legend_below(figure, axes, columns=2)
    else:
        not_measured(axes)
    stamp(figure, f"{_live.STAMP}; counted by the kernel")


def _more(samples: pd.DataFrame, column: str, one: Any, other: Any) -> Finding:
    """Return whether the share is larger at ``one`` than at ``other`` in the median repetition."""
    by = [name for name in ("repeat", "state", "method", "interval_s") if name != column]
    wide = samples.pivot_table(index=by, columns=column, values="share")
    if one == other or not {one, other} <= set(wide.columns):
        return unmeasured()
    apart = (wide[one] - wide[other]).dropna().groupby("repeat").mean()
    return at_least(median_of(apart), 0.0, samples=apart.round(4).tolist())


def _checkpoints(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    samples = tables["samples"]
    return samples[samples["method"] == Method.CHECKPOINT.value]


@paper("grows-with-state", "The overhead of checkpoints grows with the state")
def grows_with_state(tables: Mapping[str, pd.DataFrame]) -> Finding:
    mine = _checkpoints(tables)
    return _more(mine, "state", mine["state"].max(), mine["state"].min())


@paper(
    "grows-with-frequency",
    "The overhead of checkpoints grows with their frequency",
    unmeasured_because="Quick has one frequency.",
)
def grows_with_frequency(tables: Mapping[str, pd.DataFrame]) -> Finding:
    mine = _checkpoints(tables)
    return _more(mine, "interval_s", mine["interval_s"].min(), mine["interval_s"].max())


@paper("checkpoints-cost-more", "Checkpoints cost more than stream markers")
def checkpoints_cost_more(tables: Mapping[str, pd.DataFrame]) -> Finding:
    return _more(tables["samples"], "method", Method.CHECKPOINT.value, Method.UNDO.value)


EXPERIMENT = Experiment(
    measurement=MEASUREMENT,
    paper=_shared.PAPER,
    figure="Figure 12 (right), live",
    title="The price of being able to go back, live",
    statement="Checkpoints cost more than stream markers, both grow with S and 1/l.",
    table=table,
    draw=draw,
    claims=[_live.equal_output, grows_with_state, grows_with_frequency, checkpoints_cost_more],
    notes=(
        "A checkpoint of the paper copies the state in memory. Here the state is a value and such "
        "a copy a reference, so what is measured is the checkpoint that the engine stores, packed "
        "and sent; Redis is not counted. A marker is the number of a batch in the kept input: the "
        "paper's is found by reading the state.",
        "A sentence is decided by the median over repetitions, and open with fewer than six or "
        "where their interval contains no difference.",
        "Without a declared speed; quick has one interval, the paper's 200 ms. Neither on "
        "entering UP_FAILURE alone is drawn: without a failure it is the pass without both.",
    ),
    figure_size_in=(7.5, 4.0),
    fewest=_shared.FEWEST,
    smoke_covered_by="stock/worker-kill",
    quick_by_page=True,
)
