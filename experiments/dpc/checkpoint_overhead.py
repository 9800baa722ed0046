"""Figure 12 (right): the cost of being able to go back, while nothing fails.

The paper: the CPU overhead of a checkpoint every l is S p_copy / l per second, so it grows with
the state and with the frequency. That of a stream marker is S p_comp / l, as a marker is found by
reading the state (both restored by aligning Table 2's fragment with the prose). A node that does
either only when it enters UP_FAILURE pays nothing until then (l = 0 in Table 2).

Live on a pair of nodes, at a real operator's costs: the processor time of both nodes with a
checkpoint or a stream marker every l, over that of the same input without either. The paper's
checkpoint copies the state in memory. Here the state is a value, so such a copy costs a reference;
a checkpoint is what the engine stores, packed and sent to Redis. A marker is the number of a batch
in the kept input, for which no state is read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from experiments.dpc import _live, _shared
from experiments.live._runs import nodes_cpu_s, outcome_of
from harness.claims import Claim, applied, median_of, paper, quantity, rows
from harness.claims.rules import Sentence
from harness.claims.samples import FEWEST
from harness.experiment import Context, Experiment, Outcome, Point, Profile, Results
from harness.failures.schedule import NO_FAILURES
from harness.figures.chart import Axes, Chart, Panel
from harness.figures.style import CYCLE
from harness.judging.run import Variant, measure_each
from harness.protocol.scheme import Method

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


MEASUREMENT = _shared.simulated(
    "dpc/checkpoint-overhead",
    run=run,
    grid=_shared.profiles(grid((2_000,), (20, 0)), grid((500, 2_000, 8_000), (1, 2, 5, 10, 20, 0))),
    repeats=1,
    seconds=0.4,
)

LIVE_RATE_PER_S = 3000
COUNTED_S: Mapping[Profile, float] = {Profile.SMOKE: 4.0, Profile.QUICK: 6.0, Profile.PAPER: 30.0}
"""Time that counts, from when the state is full."""
INTERVALS_S: Mapping[Profile, tuple[float, ...]] = {
    Profile.SMOKE: (0.2,),
    Profile.QUICK: (0.1, 0.2, 1.0),
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


def run_live(point: Point, context: Context) -> Outcome:
    """Measure both methods at every interval on one size of the state, and neither of them."""
    chain = _live.Chain(
        rate_per_s=LIVE_RATE_PER_S, state=int(str(point["state"])), process_us=0, failure_s=0.0
    )
    cells = {
        f"{method.value}-every-{1000 * interval_s:g}-ms": (method, interval_s)
        for method in Method
        for interval_s in INTERVALS_S[context.profile]
    }
    setups = {"none": NEVER, **{name: cell_of(*cell) for name, cell in cells.items()}}
    variants = {
        name: Variant(setup=chain.setup(cell), schedule=NO_FAILURES)
        for name, cell in setups.items()
    }
    load_s = chain.begin_s + COUNTED_S[context.profile]
    wanted = chain.run(context, load_s=load_s)
    outcomes = measure_each(wanted, variants, context.cluster(_live.SPEC), context)
    spent = {
        name: nodes_cpu_s(one.series["usage"], PAIR, from_s=chain.begin_s, until_s=load_s)
        for name, one in outcomes.items()
    }
    costs = [
        {
            "method": method.value,
            "interval_s": interval_s,
            "cpu_s": spent[name],
            "without_cpu_s": spent["none"],
        }
        for name, (method, interval_s) in cells.items()
    ]
    judged = [{"cell": name, **_live.judged(one)} for name, one in outcomes.items()]
    return outcome_of(
        outcomes, {"passes": len(variants)}, costs=pd.DataFrame(costs), cells=pd.DataFrame(judged)
    )


LIVE_MEASUREMENT = _live.measurement(
    "dpc/checkpoint-overhead-live",
    run=run_live,
    grid=_live.over("state", smoke=(2_000,), quick=(500, 8_000), paper=(500, 2_000, 8_000)),
    repeats=FEWEST,
    seconds=(50.0, 115.0, 480.0),
)

# Shown: no record depends on what follows.

TOLERANCE = 0.1
LOOKS = {Method.CHECKPOINT.value: ("o-", "checkpoints"), Method.UNDO.value: ("x--", "markers")}


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


def live_table(results: Results) -> Mapping[str, pd.DataFrame]:
    """Return ``points``, the share of processor time by state, method and interval.

    Besides ``samples``, the same of each run, and ``passes``."""
    by = ["state", "method", "interval_s"]
    samples = results.series("costs", ["state", "repeat"])
    samples = samples.reindex(columns=[*by, "repeat", "cpu_s", "without_cpu_s"])
    without = samples["without_cpu_s"].astype(float)
    samples = samples.assign(share=(samples["cpu_s"].astype(float) - without) / without)
    return {
        "points": _live.averaged(samples, by, ["share"]),
        "samples": samples,
        "passes": _live.cells_of(results, ["state"]),
    }


def _lines(table: pd.DataFrame, state: str) -> Iterator[tuple[str, Any, str, pd.DataFrame]]:
    """Yield the colour, the size of the state, the method and the rows of each line."""
    for colour, (size, both) in zip(CYCLE, table.groupby(state), strict=False):
        for method, own in both.sort_values("interval_s").groupby("method"):
            yield colour, size, str(method), own


def _draw(axes: Axes, table: pd.DataFrame) -> None:
    for colour, size, method, own in _lines(table, "state_tuples"):
        label = f"S = {size:,.0f} tuples" if method == "checkpoint" else "_"
        x, (look, _) = own["interval_s"], LOOKS[method]
        axes.plot(x, 100 * own["copy_share"], look, color=colour, label=label)
        axes.plot(x, 100 * own["analytic"], ":", color=colour, label="_")


def _draw_live(axes: Axes, points: pd.DataFrame) -> None:
    for colour, size, method, own in _lines(points, "state"):
        look, name = LOOKS[method]
        label = f"{name}, S = {size:,} tuples"
        axes.plot(1000 * own["interval_s"], 100 * own["share"], look, color=colour, label=label)
    if len(points):
        axes.axhline(0, color="black", linewidth=0.8)


periodic = rows[rows["interval_s"] > 0]
off = (periodic["copy_share"] / periodic["analytic"] - 1.0).abs()
on_entry = rows[rows["interval_s"] == 0]["copy_share"]
shares = periodic.pivot_table(
    index=["state_tuples", "interval_s"], columns="method", values="copy_share"
)
ratio = (shares["checkpoint"] / shares["undo"]).dropna()


@quantity
def _apart(
    tables: Mapping[str, pd.DataFrame], column: str, one: str, other: str
) -> pd.Series[float] | None:
    """Return the share of one less that of the other, by repetition.

    They are methods, or the least and greatest state or interval of checkpoints. None where they
    are the same."""
    samples = tables["samples"]
    if column != "method":
        samples = samples[samples["method"] == Method.CHECKPOINT.value]
    by = [name for name in ("repeat", "state", "method", "interval_s") if name != column]
    wide = samples.pivot_table(index=by, columns=column, values="share")
    ends: dict[str, Any] = {"least": samples[column].min(), "greatest": samples[column].max()}
    first, second = ends.get(one, one), ends.get(other, other)
    if first == second or not {first, second} <= set(wide.columns):
        return None
    apart: pd.Series[float] = (wide[first] - wide[second]).dropna()
    return apart.groupby("repeat").mean()


def _larger(sentence: Sentence, apart: Any) -> Claim:
    """Claim that the share is larger in the median repetition."""
    return sentence.at_least(
        median_of(apart),
        0.0,
        given=applied(lambda each: each is not None, apart),
        samples=apart.round(4).tolist(),
    )


EXPERIMENT = Experiment(
    measurement=MEASUREMENT,
    paper=_shared.PAPER,
    figure="Figure 12 (right)",
    title="The price of being able to go back",
    statement="Overhead grows with the state and the frequency, and is avoidable altogether.",
    table=table,
    draw=Chart(
        [
            Panel(
                [_draw],
                "interval l (s, logarithmic); dotted: Table 2",
                "checkpoints (circles) or stream markers (crosses)\nover processing (%, log.)",
                log="xy",
                ends=True,
                where=rows["interval_s"] > 0,
            )
        ],
        stamp=f"{_shared.STAMP}; one run per point",
    ),
    claims=[
        paper(
            "table-2",
            "The CPU overhead of checkpoints is S p_copy / l, that of stream markers S p_comp / l "
            "(Table 2), within 10 %",
            **_shared.BY_COSTS,
        ).every(off <= TOLERANCE, largest_relative_error=off.max(), tolerance=TOLERANCE),
        paper(
            "on-entry",
            "Checkpoints or markers only when a failure begins cost nothing without one",
            **_shared.BY_COSTS,
        ).every(on_entry == 0, copy_share=on_entry.tolist()),
        paper(
            "copies-cost-more", "Checkpoints cost more than stream markers", **_shared.BY_COSTS
        ).every(
            ratio > 1.0,
            ratio_least=ratio.min(),
            ratio_most=ratio.max(),
            chosen_ratio=_shared.COPY_US / _shared.COMPARE_US,
        ),
    ],
    notes=(
        _shared.CHOSEN,
        "That reading a tuple of state costs less than copying it is the paper's; by how much is "
        "chosen, and the ratio of the curves follows from it.",
    ),
    figure_size_in=(7.5, 4.0),
)

LIVE_EXPERIMENT = _live.shown(
    EXPERIMENT,
    LIVE_MEASUREMENT,
    sentences={
        "checkpoints-cost-more": "dpc/checkpoint-overhead/copies-cost-more",
        "grows-with-state": "dpc/checkpoint-overhead/table-2",
        "grows-with-frequency": "dpc/checkpoint-overhead/table-2",
    },
    title="The price of being able to go back, live",
    statement="Checkpoints cost more than stream markers, both grow with S and 1/l.",
    table=live_table,
    draw=Chart(
        [
            Panel(
                [_draw_live],
                "interval l (ms)",
                "processor time of both nodes,\nbeyond that without either (%)",
                x_range=(0, None),
                table="points",
            )
        ],
        legend={"ncols": 2},
        stamp=f"{_live.STAMP}; counted by the kernel",
    ),
    claims=[
        _live.equal_output,
        _larger(
            paper("grows-with-state", "The overhead of checkpoints grows with the state"),
            _apart("state", "greatest", "least"),
        ),
        _larger(
            paper(
                "grows-with-frequency",
                "The overhead of checkpoints grows with their frequency",
                unmeasured_because="Quick had one frequency until 2026-11-27.",
            ),
            _apart("interval_s", "least", "greatest"),
        ),
        _larger(
            paper("checkpoints-cost-more", "Checkpoints cost more than stream markers"),
            _apart("method", Method.CHECKPOINT.value, Method.UNDO.value),
        ),
    ],
    notes=(
        "A checkpoint of the paper copies the state in memory. Here the state is a value and such "
        "a copy a reference, so what is measured is the checkpoint that the engine stores, packed "
        "and sent; Redis is not counted. A marker is the number of a batch in the kept input: the "
        "paper's is found by reading the state.",
        "A sentence is decided by the median over repetitions, and open with fewer than six or "
        "where their interval contains no difference.",
        "Without a declared speed; the paper's interval is 200 ms. Neither on "
        "entering UP_FAILURE alone is drawn: without a failure it is the pass without both.",
    ),
)
