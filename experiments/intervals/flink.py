"""Table 1: the paper's Flink experiment, observed and theoretical utilization.

Six rows: λ of 0.05, 0.01 and 0.005 per minute, n of 5 and 7; c, R and δ as measured from
Flink's logs. What the paper *observed* needs its cluster and is quoted here, marked as printed;
what it *computed* is computed again and compared with the print.

The last theory column, U(T*), does not follow from the printed c and R. The reading that
fits: T* was computed from the c of the 30-minute run, U(T*) with the c measured again in the
T* run. Both are shown; the claim stays not held."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from experiments.intervals import _shared
from harness.claims import Cause, Foregone, applied, invariant, paper, rows
from harness.claims.cells import Cells, Derived, Printed
from harness.experiment import Context, Experiment, Outcome, Point, Results, computed
from harness.figures.chart import Axes, Chart, Line, Panel
from harness.figures.style import BLACK, BLUE, GREEN, VERMILION

READING_COST_S = 0.75
"""The one c(T*) that reproduces the three n = 5 rows; found from the printed U(T*)."""

_COLUMNS = (
    "failures_per_min", "depth", "cost_s", "restart_s", "delay_s", "observed_30min", "error_30min",
    "printed_30min", "printed_optimum_min", "observed_optimum", "error_optimum",
    "printed_at_optimum", "printed_increase_percent",
)  # fmt: skip

_PRINTED = (
    (0.05, 5, 1.60, 23.1, 0.027353, 0.4228, 0.014, 0.4222, 1.0418, 0.9416, 0.002, 0.9442, 123),
    (0.05, 7, 3.09, 23.81, 0.032652, 0.4069, 0.011, 0.4216, 1.4526, 0.9223, 0.002, 0.9258, 126),
    (0.01, 5, 1.07, 23.70, 0.013861, 0.8449, 0.001, 0.8536, 1.8945, 0.9806, 0.001, 0.98, 16),
    (0.01, 7, 1.59, 24.12, 0.015071, 0.8447, 0.001, 0.8533, 2.3110, 0.9686, 0.001, 0.9692, 15),
    (0.005, 5, 1.15, 25.37, 0.01261, 0.9109, 0.005, 0.9243, 2.7753, 0.9815, 0.005, 0.9866, 8),
    (0.005, 7, 2.57, 24.07, 0.012851, 0.9118, 0.001, 0.9237, 4.1536, 0.9755, 0.001, 0.9781, 7),
)

POINTS: list[Point] = [dict(zip(_COLUMNS, row, strict=True)) for row in _PRINTED]


def run(point: Point, context: Context) -> Outcome:
    """Return the theory columns of one row, and U(T*) read with c = 0.75 s."""
    system = _shared.system_of(point)
    reading = _shared.system_of({**point, "cost_s": READING_COST_S})
    best = system.optimal_interval_s()
    return Outcome(
        values={
            "utilization_30min": float(system.utilization(_shared.DEFAULT_INTERVAL_S)),
            "optimum_min": float(best) / 60.0,
            "at_optimum": float(system.utilization(best)),
            "at_optimum_reading": float(reading.utilization(best)),
        }
    )


MEASUREMENT = computed("intervals/flink", POINTS, 0.02, run=run)

# Shown: no record depends on what follows.

OBSERVED = "observed (printed ±)"
READING = f"theory, c(T*) = {READING_COST_S:g} s, n = 5 (ours)"


def table(results: Results) -> pd.DataFrame:
    """Return a row per row of the paper's table, with the printed and our numbers."""
    frame = results.frame.drop(columns=["repeat", "run"])
    by = ["failures_per_min", "depth"]
    return frame.sort_values(by, ascending=[False, True], ignore_index=True)


def _points(y: str, shift: float, label: str, color: str, marker: str, error: str = "") -> Line:
    """Return the points of a column, beside those of others, with their printed error."""
    ends = (rows[y] - rows[error], rows[y] + rows[error]) if error else None
    return Line(
        x=applied(np.arange, applied(len, rows)) + shift,
        y=y,
        ends=ends,
        style={
            "label": label,
            "color": color,
            "marker": marker,
            "linestyle": "none",
            **({"linewidth": 0.9} if error else {}),
        },
    )


def _panel(title: str, lines: Sequence[Line], low: float) -> Panel:
    return Panel(
        [*lines, _names],
        "failures per minute, operators on the critical path",
        "utilization U",
        title=title,
        title_style={},
        y_range=(low, 1.0),
        legend={"loc": "lower right"},
    )


def _names(axes: Axes, table: pd.DataFrame) -> None:
    pairs = zip(table["failures_per_min"], table["depth"], strict=True)
    axes.set_xticks(range(len(table)), [f"λ={rate:g}\nn={depth}" for rate, depth in pairs])


digits, printed = (
    rows[column].map("{:.4f}".format) for column in ("optimum_min", "printed_optimum_min")
)
off_30_min = (rows["utilization_30min"] - rows["printed_30min"]).abs()
off = rows["at_optimum"] - rows["printed_at_optimum"]
five = rows[rows["depth"] == 5]
off_read = (five["at_optimum_reading"] - five["printed_at_optimum"]).abs()
away = (rows["observed_30min"] - rows["utilization_30min"]).abs()
gained = 100.0 * (rows["observed_optimum"] / rows["observed_30min"] - 1.0)
predicted = 100.0 * (rows["at_optimum"] / rows["utilization_30min"] - 1.0)

CLAIMS = [
    paper("t-star", "T* of all six rows, to the printed digits").every(
        digits == printed, ours_min=digits.tolist(), printed_min=printed.tolist()
    ),
    paper("theory-30-min", "Theoretical utilization at 30 minutes of all six rows").every(
        off_30_min <= 1e-4, largest_difference=off_30_min.max(), tolerance=1e-4
    ),
    paper(
        "theory-t-star",
        "Theoretical utilization at T* of all six rows (not reproducible from the printed c and R; "
        "the differences have both signs)",
        cause=Cause.LOST,
        because="The printed values do not follow from the printed c, R and T*. A cost of 0.75 s, "
        "found from them, gives the three rows of five operators. Presumably the authors took T* "
        "from the 30-minute run and U(T*) with the c of another run. No single "
        "cost gives the rows of seven operators too: one of them differs in the other direction.",
    ).every(
        off.abs() <= 1e-4,
        ours=rows["at_optimum"].round(4).tolist(),
        printed=rows["printed_at_optimum"].tolist(),
        difference=off.round(4).tolist(),
        tolerance=1e-4,
    ),
    invariant(
        "reading",
        "Our reading: with c measured again as 0.75 s in the T* run, the theoretical utilization "
        "at T* of the three n = 5 rows is the printed one",
        foregone=Foregone.CIRCULAR,
        foregone_because="c was chosen by it",
    ).every(
        off_read <= 3e-4,
        ours=five["at_optimum_reading"].round(4).tolist(),
        printed=five["printed_at_optimum"].tolist(),
        largest_difference=off_read.max(),
        tolerance=3e-4,
    ),
    paper(
        "predicts",
        "Theoretical predictions of utilization compare well with the observed (within 0.02 at 30 "
        "minutes)",
        foregone=Foregone.CONSTRUCTION,
        foregone_because="both sides are columns of the paper's own table",
    ).every(away <= 0.02, largest_difference=away.max(), tolerance=0.02),
    paper(
        "increases",
        "Utilization increases in every case, by the printed percentages",
        foregone=Foregone.CONSTRUCTION,
        foregone_because="both sides are columns of the paper's own table",
    ).every(
        (gained > 0) & ((gained - rows["printed_increase_percent"]).abs() < 1.0),
        ours_from_observed_percent=gained.round(2).tolist(),
        printed_percent=rows["printed_increase_percent"].tolist(),
        from_theory_percent=predicted.round(2).tolist(),
        tolerance_percentage_points=1.0,
    ),
]

MODEL = "Observed on the paper's cluster; ours is the model's, with the paper's c and R."
LATER_COST = "The printed values do not follow from the printed c."


def _gain_percent(table: pd.DataFrame) -> pd.Series[float]:
    return 100.0 * (table["at_optimum"] / table["utilization_30min"] - 1.0)


def _column(what: str, unit: str, ours: str | Derived, theirs: str, why: str = "") -> Printed:
    return Printed(
        what=what,
        unit=unit,
        place="Table 1",
        by=("failures_per_min", "depth"),
        values={
            (point["failures_per_min"], point["depth"]): float(str(point[theirs]))
            for point in POINTS
        },
        ours=Cells("", ours),
        why=why,
    )


EXPERIMENT = Experiment(
    measurement=MEASUREMENT,
    paper=_shared.PAPER,
    figure="Table 1",
    title="The Flink experiment: observed and theoretical utilization",
    statement="Theory predicts the observed utilization, and T* raises it in every case.",
    table=table,
    draw=Chart(
        [
            _panel(
                "T = 30 minutes",
                [
                    _points("observed_30min", -0.12, OBSERVED, BLACK, "o", "error_30min"),
                    _points("printed_30min", 0.0, "theory (printed)", VERMILION, "s"),
                    _points("utilization_30min", 0.12, "theory (ours)", BLUE, "D"),
                ],
                0.35,
            ),
            _panel(
                "T = T*",
                [
                    _points("observed_optimum", -0.18, OBSERVED, BLACK, "o", "error_optimum"),
                    _points("printed_at_optimum", -0.06, "theory (printed)", VERMILION, "s"),
                    _points("at_optimum", 0.06, "theory, printed c (ours)", BLUE, "D"),
                    _points("at_five", 0.18, READING, GREEN, "^"),
                ],
                0.9,
            ),
        ],
        prepare=lambda table: table.assign(
            at_five=table["at_optimum_reading"].where(table["depth"] == 5)
        ),
        stamp="observed: the paper's Flink cluster, quoted; theory: equation 10",
    ),
    main=True,
    printed=[
        _column("T*", "min", "optimum_min", "printed_optimum_min"),
        _column("utilization at 30 min, theory", "", "utilization_30min", "printed_30min"),
        _column("utilization at T*, theory", "", "at_optimum", "printed_at_optimum", LATER_COST),
        _column(
            "utilization at 30 min, observed", "", "utilization_30min", "observed_30min", MODEL
        ),
        _column("utilization at T*, observed", "", "at_optimum", "observed_optimum", MODEL),
        _column("gain of T*", "%", _gain_percent, "printed_increase_percent", MODEL),
    ],
    claims=CLAIMS,
    notes=(
        "Observed utilizations are the paper's, from Flink 1.3.3 on five nodes; they are quoted, "
        "not measured here.",
        "Row 4's c is read as 1.59 ± 1.441 s: its T* then has the printed digits.",
        "U(T*) is not reproducible from the printed c; it is reproducible with c(T*) = 0.75 s "
        "for the three n = 5 rows. No omitted factor explains it: the differences have both "
        "signs, and row 5 lies above the bound with R = δ = 0.",
    ),
    figure_size_in=(10.5, 4.5),
)
