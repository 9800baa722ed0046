"""Figure 12 (right): the cost of being able to go back, while nothing fails.

The paper: the CPU overhead of a checkpoint every l is S p_copy / l per second, so it grows with
the state and with the frequency. That of a stream marker is S p_comp / l, as a marker is found by
reading the state (both restored by aligning Table 2's fragment with the prose). A node that does
either only when it enters UP_FAILURE pays nothing until then (l = 0 in Table 2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from experiments.dpc import _shared
from harness.claims import Finding, every, paper
from harness.experiment import Experiment
from harness.figures.style import CYCLE, label_line_ends, not_measured, stamp
from harness.measurement import Context, Measurement, Origin
from harness.results.record import Outcome, Point
from harness.results.tables import Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RATE_PER_S = 990
BATCHES = 800
EACH_US = {"checkpoint": _shared.COPY_US, "undo": _shared.COMPARE_US}
"""Cost per tuple of state: copied into a checkpoint, or read for a stream marker."""


def grid(states: tuple[int, ...], every: tuple[int, ...]) -> list[Point]:
    return [
        {"method": method, "state": state, "snapshot_every": e}
        for method in EACH_US
        for state in states
        for e in every
    ]


def run(point: Point, context: Context) -> Outcome:
    """Measure eighty seconds without a failure."""
    setting = _shared.setting_of(
        point, context, failure_s=0.0, settle_us=0, rate_per_s=RATE_PER_S, batches=BATCHES
    )
    return _shared.outcome(setting, ("copy_share", "tentative"))


MEASUREMENT = Measurement(
    id="dpc/checkpoint-overhead",
    origin=Origin.SIMULATED,
    grid=_shared.profiles(grid((2_000,), (20, 0)), grid((500, 2_000, 8_000), (1, 2, 5, 10, 20, 0))),
    repeats=_shared.ONCE,
    seconds_per_run=_shared.profiles(0.4, 0.4),
    run=run,
)

# Shown: no record depends on what follows.

TOLERANCE = 0.1


def table(results: Results) -> pd.DataFrame:
    """Return a row per state size and interval; interval 0 means "on entering UP_FAILURE"."""
    order = ["method", "state", "snapshot_every"]
    frame = results.frame.sort_values(order).reset_index(drop=True)
    frame["state_tuples"] = frame["state"]
    frame["interval_s"] = frame["snapshot_every"] * _shared.BUCKET_US / 1e6
    per_interval = frame["state_tuples"] * frame["method"].map(EACH_US)
    normal = RATE_PER_S * frame["interval_s"] * _shared.PROCESS_US
    frame["analytic"] = (per_interval / normal).where(frame["interval_s"] > 0, 0.0)
    return frame[["method", "state_tuples", "interval_s", "copy_share", "analytic"]]


def draw(table: pd.DataFrame, figure: Figure) -> None:
    """Draw the ratio over the interval, a line per state size, on logarithmic axes."""
    axes = figure.subplots()
    periodic = table[table["interval_s"] > 0]
    if periodic.empty:
        not_measured(axes)
    for colour, (state, both) in zip(CYCLE, periodic.groupby("state_tuples"), strict=False):
        for method, rows in both.groupby("method"):
            copies = method == "checkpoint"
            axes.plot(
                rows["interval_s"], 100 * rows["copy_share"], "o-" if copies else "x--",
                color=colour, label=f"S = {state:,.0f} tuples" if copies else "_",
            )  # fmt: skip
            axes.plot(rows["interval_s"], 100 * rows["analytic"], ":", color=colour, label="_")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("interval l (s, logarithmic); dotted: Table 2")
    axes.set_ylabel("checkpoints (circles) or stream markers (crosses)\nover processing (%, log.)")
    label_line_ends(axes)
    stamp(figure, f"{_shared.STAMP}; one run per point")


@paper(
    "table-2",
    "The CPU overhead of checkpoints is S p_copy / l, that of stream markers S p_comp / l (Table "
    "2), within 10 %",
)
def table_2(table: pd.DataFrame) -> Finding:
    periodic = table[table["interval_s"] > 0]
    off = (periodic["copy_share"] / periodic["analytic"] - 1.0).abs()
    return every(off <= TOLERANCE, largest_relative_error=float(off.max()), tolerance=TOLERANCE)


@paper("on-entry", "Checkpoints or markers only when a failure begins cost nothing without one")
def on_entry(table: pd.DataFrame) -> Finding:
    shares = table[table["interval_s"] == 0]["copy_share"]
    return every(shares == 0, copy_share=shares.tolist())


@paper("copies-cost-more", "Checkpoints cost more than stream markers")
def copies_cost_more(table: pd.DataFrame) -> Finding:
    shares = table[table["interval_s"] > 0].pivot_table(
        index=["state_tuples", "interval_s"], columns="method", values="copy_share"
    )
    ratio = (shares["checkpoint"] / shares["undo"]).dropna()
    return every(
        ratio > 1.0,
        ratio_least=float(ratio.min()),
        ratio_most=float(ratio.max()),
        chosen_ratio=_shared.COPY_US / _shared.COMPARE_US,
    )


CLAIMS = [table_2, on_entry, copies_cost_more]


EXPERIMENT = Experiment(
    measurement=MEASUREMENT,
    paper=_shared.PAPER,
    figure="Figure 12 (right)",
    title="The price of being able to go back",
    statement="Overhead grows with the state and the frequency, and is avoidable altogether.",
    table=table,
    draw=draw,
    claims=CLAIMS,
    notes=(
        _shared.CHOSEN,
        "That reading a tuple of state costs less than copying it is the paper's; by how much is "
        "chosen, and the ratio of the curves follows from it.",
    ),
    figure_size_in=(7.5, 4.0),
)
