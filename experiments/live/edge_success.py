"""edge Fig. 7 and 8, live: success rate and throughput over the input rate, with a failure.

The runs of `live/edge-latency`. A tuple succeeds, as in the paper, if it is in a result 30 s after
the input. Beside it stands the share that is in one within the printed timeout of a tuple, 5 s."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from experiments.edge import _deployment, _runs, success
from experiments.edge._deployment import MECHANISMS, line
from experiments.edge._runs import TIMEOUT_S
from experiments.live import edge_latency
from experiments.live._judged import Tables, equal_output, passes_of
from experiments.live.edge_latency import STAMP, live
from harness.claims import Cause, Finding, every, hypothesis, not_asked
from harness.experiment import Experiment
from harness.results.tables import Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Shown: no record depends on what follows.

PRINTED = {"RPPG+DRA": 0.95, "ck-only+DRA": 0.8}
ALMOST_ALL = 0.95
"""As close as `experiments.edge.success.NEAR` has it."""


def table(results: Results) -> dict[str, pd.DataFrame]:
    """Return ``rates``, a row per mechanism and rate, and ``passes`` (`passes_of`)."""
    columns = ["success", "in_time", "offered_per_s", "throughput_per_s"]
    return {
        "rates": _runs.means(results, columns),
        "passes": passes_of(results, ["mechanism", "rate"], "uncorrected"),
    }


def draw(tables: Tables, figure: Figure) -> None:
    """Draw on the axes of `edge/success`; the share in time is thin and dashed."""
    rows = tables["rates"]
    success.draw(rows, figure, stamped=STAMP)
    left, _ = figure.axes
    for name in MECHANISMS:
        mine = rows[rows["mechanism"] == name].sort_values("rate")
        look = {**line(name), "linestyle": "--", "linewidth": 1.0, "markersize": 3, "label": None}
        left.plot(mine["rate"], 100 * mine["in_time"], **look)
    for name, share in PRINTED.items():
        left.axhline(100 * share, color="black", linestyle=":", linewidth=0.9)
        left.annotate(
            f"printed: {name} {share:.0%}".replace("%", " %"), (1, 100 * share),
            xycoords=("axes fraction", "data"), xytext=(-2, -9), textcoords="offset points",
            ha="right", fontsize=7,
        )  # fmt: skip
    left.annotate(
        f"dashed: in a result within {TIMEOUT_S:g} s", (0.98, 0.03), xycoords="axes fraction",
        ha="right", fontsize=7,
    )  # fmt: skip


@hypothesis(
    "in-time",
    f"Within {TIMEOUT_S:g} s RPPG+RAS and full-rep+DRA have nearly all tuples in a result, and "
    "ck-only+DRA has the fewest",
)
def in_time(tables: Tables) -> Finding:
    rows = tables["rates"]
    if not set(MECHANISMS) <= set(rows["mechanism"]):
        return not_asked()
    share = _runs.mean_of(rows, "in_time")
    kept = [share[name] >= ALMOST_ALL for name in ("full-rep+DRA", "RPPG+RAS")]
    fewest = min(share, key=share.__getitem__) == "ck-only+DRA"
    return every([*kept, fewest], **share, nearly_all=ALMOST_ALL)


NOTHING_DROPPED = (
    "By Storm's rules a tuple that is replayed behind the watermark is dropped. This repository's "
    "protocol drops none: a lost task goes back to its checkpoint and reads what its sources still "
    "have. So its tuples presumably come late, and all of them come."
)
CAUGHT_UP = (
    f"{NOTHING_DROPPED} The outage's tuples come at once when the worker is there, and the mean of "
    "the run is the input rate again."
)
CLAIMS = [
    equal_output,
    live(success.none_twice, "rates", None, None),
    live(success.all_in_the_end, "rates", None, None),
    live(success.hundred_percent, "rates", None, None),
    *(
        live(each, "rates", NOTHING_DROPPED, Cause.READING)
        for each in success.CLAIMS
        if each.id in ("rppg-dra-95", "ck-only-80")
    ),
    live(success.match_rate, "rates", CAUGHT_UP, Cause.READING),
    in_time,
]


EXPERIMENT = Experiment(
    measurement=edge_latency.MEASUREMENT,
    name="live/edge-success",
    paper=_deployment.PAPER,
    figure="Figures 7 and 8, live",
    title="Success rate and throughput of accident detection over the input rate, live",
    statement=success.EXPERIMENT.statement,
    table=table,
    draw=draw,
    claims=CLAIMS,
    notes=edge_latency.NOTES,
    figure_size_in=(9.5, 4.2),
    smoke_covered_by="stock/worker-kill",
    quick_by_page=True,
)
