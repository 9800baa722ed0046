"""Fig. 6a, 6b: latency over the input rate, of the whole run and during recovery.

The paper: over the whole run RPPG+RAS is like full-rep+DRA, around 2.5 s, and ck-only+DRA like
RPPG+DRA, around or above 5 s. During recovery all but RPPG+RAS rise above 5 s, even full-rep+DRA,
whose replicas are badly placed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from experiments.edge import _deployment, _runs
from experiments.edge._deployment import LOOKS, MECHANISMS
from experiments.edge._runs import FAILURE_S, RECOVERY_S
from harness.claims import Claim, Finding, all_of, at_most, found, paper
from harness.experiment import Experiment
from harness.figures.style import stamp
from harness.measurement import Context
from harness.results.record import Outcome, Point
from harness.results.tables import Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PARTS: dict[str, tuple[float, ...]] = {
    "overall": (),
    "recovery": (FAILURE_S, FAILURE_S + RECOVERY_S),
}


def run(point: Point, context: Context) -> Outcome:
    """One minute with a failure at one rate."""
    measured = _runs.at(point, context, failure=True)
    values: dict[str, float] = {}
    for name, times in PARTS.items():
        mean, low, high = measured.latencies(*times)
        values |= {f"{name}_s": mean, f"{name}_p5_s": low, f"{name}_p95_s": high}
    return Outcome(values=values)


MEASUREMENT = _runs.over_rates(
    id="edge/latency",
    run=run,
)

# Shown: no record depends on what follows.

ALIKE = 0.15
"""Two mechanisms are similar if their means differ by at most this share."""

PAPER_S = {"fast": 2.5, "slow": 5.0}

TWICE = 1.5
"""The paper's 5 s against 2.5 s is a factor of two; this much counts as "higher"."""

PANELS = {"overall": "(a) overall", "recovery": "(b) during recovery"}


def table(results: Results) -> pd.DataFrame:
    """Return a row per mechanism and rate: mean, 5th and 95th percentile of both panels."""
    columns = [f"{name}{part}_s" for name in PANELS for part in ("", "_p5", "_p95")]
    return _runs.means(results, columns)


def draw(table: pd.DataFrame, figure: Figure) -> None:
    """Bars per rate, a colour per mechanism, ticks from the 5th to the 95th percentile."""
    panels = figure.subplots(1, 2, sharey=True)
    rates = sorted(table["rate"].unique())
    for axes, (panel, title) in zip(panels, PANELS.items(), strict=True):
        for number, name in enumerate(MECHANISMS):
            rows = table[table["mechanism"] == name].set_index("rate").reindex(rates)
            mean, low, high = (rows[f"{panel}{part}_s"].to_numpy() for part in ("", "_p5", "_p95"))
            spread = [np.maximum(mean - low, 0), np.maximum(high - mean, 0)]
            axes.bar(
                np.arange(len(rates)) + (number - 1.5) * 0.2, mean, width=0.2, yerr=spread,
                color=LOOKS[name].color, label=name, capsize=1.5, error_kw={"linewidth": 0.8},
            )  # fmt: skip
        axes.set_xticks(range(len(rates)), [str(rate) for rate in rates])
        axes.set_xlabel("input rate (tuples/s per gateway)")
        axes.set_title(title, loc="left")
    panels[0].set_ylabel("latency (s): mean, 5th to 95th percentile")
    panels[0].legend(loc="upper left")
    stamp(figure, _runs.STAMP)


def _overall(table: pd.DataFrame) -> dict[str, Any]:
    """Return each mechanism's mean over the rates, in seconds."""
    return _runs.mean_of(table, "overall_s")


def _alike(id: str, one: str, other: str, because: str | None = None) -> Claim:  # noqa: A002
    text = f"Overall latency of {one} is similar to that of {other}"

    @paper(id, text, because=because)
    def alike(table: pd.DataFrame) -> Finding:
        means = _overall(table)
        apart = abs(means[one] / means[other] - 1)
        return at_most(apart, ALIKE, **{one: means[one], other: means[other]}, apart=apart)

    return alike


@paper("fast", "Overall latency of RPPG+RAS and full-rep+DRA is around 2.5 s")
def fast(table: pd.DataFrame) -> Finding:
    means, paper_s = _overall(table), PAPER_S["fast"]
    near = [abs(means[name] - paper_s) <= 1 for name in ("RPPG+RAS", "full-rep+DRA")]
    return found(all_of(near), **means, paper_s=paper_s, tolerance_s=1)


@paper(
    "slow",
    "Overall latency of ck-only+DRA and RPPG+DRA is around 5 s or higher",
    because="Without a failure a result takes as long here as under RPPG+RAS; the outage adds to "
    "the mean the results that it delays, presumably the more the less a node has left to catch up "
    "with. What a node can take is not in the paper and is chosen.",
)
def slow(table: pd.DataFrame) -> Finding:
    means, paper_s = _overall(table), PAPER_S["slow"]
    least = min(means["ck-only+DRA"], means["RPPG+DRA"])
    return found(least >= paper_s - 1, **means, paper_s=paper_s, tolerance_s=1)


@paper(
    "slower",
    "ck-only+DRA and RPPG+DRA are slower than RPPG+RAS (relative reading)",
    because="ck-only+DRA is; RPPG+DRA is not: the replica of one of the two aggregators takes over "
    "at once, as Fig. 5b has it, so half of the results presumably have no delay.",
)
def slower(table: pd.DataFrame) -> Finding:
    means = _overall(table)
    least = min(means["ck-only+DRA"], means["RPPG+DRA"])
    factors: dict[str, Any] = {"needed_factor": TWICE, "paper_factor": 2}
    return found(least >= TWICE * means["RPPG+RAS"], **means, **factors)


@paper(
    "recovery-above-5",
    "During recovery all but RPPG+RAS rise above 5 s, even full-rep+DRA",
    because="A replica takes over as soon as the failure is detected, so full replication has "
    "nothing to restore. Where it becomes slower all replicas together presumably take more than "
    "the nodes have. It is not where the replicas are: both aggregators' are on a living node. Why "
    "full replication was slow in the paper is not said there, and not known.",
)
def recovery_above_5(table: pd.DataFrame) -> Finding:
    during = _runs.mean_of(table, "recovery_s")
    above = [(during[name] > PAPER_S["slow"]) == (name != "RPPG+RAS") for name in MECHANISMS]
    return found(all_of(above), **during, paper_s=PAPER_S["slow"])


@paper("ras-lowest", "During recovery RPPG+RAS has the lowest latency and rises least")
def ras_lowest(table: pd.DataFrame) -> Finding:
    overall = _runs.by_mechanism(table, "overall_s")
    recovery = _runs.by_mechanism(table, "recovery_s")
    during = _runs.mean_of(table, "recovery_s")
    rise = {name: float((recovery[name] / overall[name]).mean()) for name in MECHANISMS}
    least = [min(each, key=each.__getitem__) == "RPPG+RAS" for each in (during, rise)]
    return found(all_of(least), **during, rise_over_the_whole_run=rise)


CLAIMS = [
    _alike("ras-like-full", "RPPG+RAS", "full-rep+DRA"),
    _alike(
        "ck-like-rppg",
        "ck-only+DRA",
        "RPPG+DRA",
        because="DRA leaves one of the two aggregators' replicas on its primary's node, where it "
        "dies with it, and one elsewhere. That is presumably what makes Fig. 5b's throughput drop "
        "to half, and so half of the results is not late. With checkpoints alone all are. Both "
        "sentences of the paper together would need that the results of a living replica are as "
        "late as those that are restored.",
    ),
    fast,
    slow,
    slower,
    recovery_above_5,
    ras_lowest,
]


EXPERIMENT = Experiment(
    measurement=MEASUREMENT,
    paper=_deployment.PAPER,
    figure="Figure 6",
    title="Latency of accident detection over the input rate",
    statement=(
        "Overall RPPG+RAS is like full-rep+DRA, around 2.5 s, and the other two are around 5 s or "
        "higher; during recovery all but RPPG+RAS are above 5 s."
    ),
    table=table,
    draw=draw,
    claims=CLAIMS,
    notes=(
        *_deployment.NOTES,
        *_runs.NOTES,
        "During recovery: tuples sent in the ten seconds after the failure. The second that the "
        "aggregators wait for late tuples is part of every latency.",
    ),
    figure_size_in=(9.5, 4.2),
)
