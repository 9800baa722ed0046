"""ppa ICDE Fig. 13 = TKDE Fig. 15, live: plans of DP, SA and greedy by the accuracy of live output.

The runs of `live/query-accuracy`: all primaries on one rack, the replicas of a plan on the other,
and the first rack is away for some seconds. Planners that choose the same tasks share a pass."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd

from experiments.live import query_accuracy
from experiments.live._judged import MACHINE, Tables, all_if, equal_output, numbers
from experiments.live.query_accuracy import QUERIES, tables_by
from experiments.ppa import _random
from experiments.ppa.query_fidelity import CONTESTANTS
from harness.claims import Finding, at_most, found, paper
from harness.experiment import Experiment
from harness.figures.style import PLANNERS, not_measured, stamp
from harness.results.tables import Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Shown: no record depends on what follows.

CLOSE = 0.1
"""SA is "quite close" to DP if it is nowhere further below it than this; a live run's accuracy is
that of a few windows."""
MEASURES = {"value": "output fidelity", "measured": "query accuracy, live"}


def table(results: Results) -> dict[str, pd.DataFrame]:
    """Return ``plans`` with their OF and both accuracies, and ``passes`` (`passes_of`)."""
    return tables_by(results, "planner")


def draw(tables: Tables, figure: Figure) -> None:
    """Draw a column per query, OF above, live accuracy below; the axes of `ppa/query-fidelity`."""
    plans = tables["plans"]
    panels = figure.subplots(2, len(QUERIES), sharex=True, sharey=True)
    for row, (measure, label) in zip(panels, MEASURES.items(), strict=True):
        for axes, query in zip(row, QUERIES, strict=True):
            for name in CONTESTANTS:
                part = plans[(plans["query"] == query) & (plans["planner"] == name)]
                part = part.sort_values("ratio")
                under = {"linewidth": 5, "markersize": 11, "alpha": 0.45} if name == "dp" else {}
                axes.plot(part["ratio"], part[measure], **PLANNERS[name].kwargs(), **under)
            axes.set_xlim(0, 1)
            axes.set_ylim(-0.02, 1.02)
            if query not in set(plans["query"]):
                not_measured(axes)
        row[0].set_ylabel(f"{label} (share)")
    for axes, query in zip(panels[0], QUERIES, strict=True):
        axes.set_title(query, loc="left")
    for axes in panels[1]:
        axes.set_xlabel("resource consumption (share)")
    panels[0][-1].legend(loc="upper left")
    stamp(figure, f"{MACHINE}; a rack killed for seconds")


def _accuracies(tables: Tables) -> tuple[pd.DataFrame, bool, dict[str, Any]]:
    """Return accuracies by planner, True if none is missing, and the same as numbers."""
    plans = tables["plans"]
    wide = plans.pivot_table(index=["query", "ratio"], columns="planner", values="measured")
    wide = wide.reindex(columns=list(CONTESTANTS))
    whole = len(plans) > 0 and bool(plans["measured"].notna().all())
    return wide, whole, numbers(wide.round(3).to_dict("index"), "{0[0]} at {0[1]:g}")


@paper("sa-close-to-dp", "SA is quite close to DP in the accuracy of live output")
def sa_close(tables: Tables) -> Finding:
    wide, whole, shown = _accuracies(tables)
    behind = float((wide["dp"] - wide["sa"]).max()) if whole else None
    return at_most(behind, CLOSE, **shown)


@paper("greedy-worst", "Greedy has the worst accuracy of live output for both queries")
def greedy_worst(tables: Tables) -> Finding:
    wide, whole, shown = _accuracies(tables)
    last = (wide["greedy"] <= wide[["dp", "sa"]].min(axis=1) + 1e-9).all()
    strictly = (wide["greedy"] < wide["sa"]).groupby("query").any().all()
    return found(all_if(whole, [last, strictly]), **shown)


CLAIMS = [equal_output, sa_close, greedy_worst]


EXPERIMENT = Experiment(
    measurement=query_accuracy.MEASUREMENT,
    name="live/query-fidelity",
    paper=_random.CONFERENCE,
    figure="Figure 13 (TKDE: 15), live",
    title="Plans of DP, SA and greedy by the accuracy of live tentative output",
    statement="SA is quite close to DP, which is optimal; greedy has the worst performance.",
    table=table,
    draw=draw,
    claims=CLAIMS,
    notes=(
        *query_accuracy.EXPERIMENT.notes,
        "Quick: one budget, 30 % of the tasks, where the planners differ; planners that choose the "
        "same tasks share a pass.",
    ),
    figure_size_in=(10.0, 6.0),
    smoke_covered_by="stock/worker-kill",
    quick_by_page=True,
)
