"""The same kill under stock Spark and the task engine: those rows of `live/peers`.

It measures nothing of its own. A result is late by its arrival in the out topic minus the end of
its window. Stock Spark runs in both of its modes; in real-time mode a result is the last value of
its window and word, and arrives when that value first came."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from experiments.live import layout, peers
from experiments.live._peers_figure import draw_some
from experiments.live._peers_rows import (
    AS_IT_COMES,
    CHECKPOINTS,
    LABELS,
    LIVE_TUNED,
    STOCK,
    TASKS,
    TUNED,
    WORDS,
    WORKER,
)
from harness.claims import (
    Claim,
    Finding,
    Rule,
    at_most,
    every,
    hypothesis,
    invariant,
    median_of,
    not_asked,
    ratio_of,
)
from harness.experiment import Experiment, Results
from harness.measure.recovery import CALM_S
from harness.measure.windows import LATER_S

# Shown: no record depends on what follows.

System = tuple[str, str]
"""Engine and settings, as in `experiments.live._peers_rows.SYSTEMS`."""
REPLICAS: System = (TASKS, TUNED)
CHECKPOINTED: Mapping[System, System] = {
    (STOCK, AS_IT_COMES): (TASKS, AS_IT_COMES),
    (STOCK, TUNED): (TASKS, CHECKPOINTS),
    (STOCK, LIVE_TUNED): (TASKS, CHECKPOINTS),
}
"""Systems of stock Spark, each with that of the task engine under checkpoints it is compared to."""
SYSTEMS = [*CHECKPOINTED, REPLICAS, *dict.fromkeys(CHECKPOINTED.values())]
SEEN = (
    20160516, 31339, 48017, 60601, 71503, 71504, 71505, 71803, 71811, 90211,
)  # fmt: skip
"""Seeds of the runs that were seen when the rules were changed, also of `live/peers`."""
TENTH = 0.1
"""Most that the task engine may take of the stock engine's recovery, as seen from outside. Fixed
before measuring."""
RULE = Rule(version=7, since="2026-11-27", seen_seeds=SEEN)
"""Passes of `live/peers`, each with one kill and a twin. Versions before judged passes of this
figure's own, on a larger cluster, with a trigger of 0.1 s and checkpoints every 2 s."""
FIRST = Rule(version=5, since="2026-11-27", seen_seeds=SEEN)
"""The same for claims that came later: right output, and those against real-time mode."""
AGAINST = {
    (STOCK, AS_IT_COMES): ("", "stock Spark in micro-batches as it comes", RULE),
    (STOCK, TUNED): ("-as-tuned", "stock Spark in micro-batches with tuned settings", RULE),
    (STOCK, LIVE_TUNED): ("-as-real-time", "stock Spark in real-time mode", FIRST),
}
"""The end of a claim's id, the name in its sentence, and its rule."""
BOTH = ("engine_s", "outage_s")
"""The two measures of a recovery: the engine's, and from outside."""
READ = ("engine", "tuning", "workload", "kill", "outage_s", "caught_up", "restart_s", "restore_s")
"""Columns of a kill that are there, also where there is no kill."""


def tabulate(results: Results) -> Mapping[str, pd.DataFrame]:
    """Return ``runs`` and ``kills`` of stock Spark and the task engine, as in `live/peers`."""
    tables = peers.tabulate(results)
    kills = _mine(tables["outages"])
    kills = kills.reindex(columns=[*dict.fromkeys([*kills, *READ])])
    kills = kills[kills["kill"] == WORKER]
    return {
        "runs": _mine(tables["runs"]),
        "kills": kills.assign(engine_s=kills["restart_s"] + kills["restore_s"]),
    }


def _mine(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the figure's systems under word count."""
    if not len(table):
        return table
    pairs = pd.MultiIndex.from_frame(table[["engine", "tuning"]])
    mine = pairs.isin(SYSTEMS) & (table["workload"] == WORDS)
    return table[mine].reset_index(drop=True)


def _of(table: pd.DataFrame, system: System) -> pd.DataFrame:
    engine, tuning = system
    return table[(table["engine"] == engine) & (table["tuning"] == tuning)]


def samples(tables: Mapping[str, pd.DataFrame], system: System, measure: str) -> list[float]:
    """Return a recovery per kill; one that was watched in vain is infinite under our engine.

    Under the stock engine it is the time for which it was watched, so that it never gains."""
    mine = _of(tables["kills"], system).dropna(subset=[measure])
    values = mine[measure].astype(float)
    if measure == "outage_s" and system not in CHECKPOINTED:
        values = values.where(mine["caught_up"].astype(bool), float("inf"))
    return [float(value) for value in values]


@invariant(
    "right-output",
    "No result is lost or wrong under either engine, where no row came too late.",
    rule=FIRST,
)
def right_output(tables: Mapping[str, pd.DataFrame]) -> Finding:
    runs = tables["runs"]
    runs = runs[runs["dropped"] == 0]
    wrong = runs.reindex(columns=["lost", "contradictions"]).sum(axis=1)
    return every(wrong == 0, wrong=int(wrong.sum()) if len(wrong) else None, runs=len(wrong))


def _shorter(ours: System, way: str, stock: System) -> Claim:
    ending, name, rule = AGAINST[stock]

    @hypothesis(
        f"late-a-tenth-as-long-with-{way}{ending}",
        f"With {way} the task engine's results are late, after the same kill, for at most a "
        f"tenth as long as those of {name}.",
        because="Spark's outage is presumably shorter than its ordinary lateness, so that it "
        "counts as none, and to none no outage is a tenth.",
        rule=rule,
    )
    def shorter(tables: Mapping[str, pd.DataFrame]) -> Finding:
        if not all(len(_of(tables["runs"], one)) for one in (stock, ours)):
            return not_asked()
        both: dict[str, Any] = {}
        for measure in BOTH:
            for one in (ours, stock):
                median = median_of(samples(tables, one, measure))
                both[f"{LABELS[one]} {measure}"] = None if median is None else median.value
        ratio = ratio_of(samples(tables, ours, "outage_s"), samples(tables, stock, "outage_s"))
        return at_most(ratio, TENTH, **both)

    return shorter


CLAIMS = [
    right_output,
    *(
        _shorter(ours, way, stock)
        for stock, checkpointed in CHECKPOINTED.items()
        for ours, way in ((REPLICAS, "replicas"), (checkpointed, "checkpoints"))
    ),
]


EXPERIMENT = Experiment(
    measurement=peers.MEASUREMENT,
    name="live/same-kill",
    paper="Faultline",
    figure="same kill",
    title="The same kill under stock Spark, in both of its modes, and under the task engine",
    statement=(
        "Stock Spark in micro-batches stops until its executor is given up and its tasks run "
        "elsewhere, in real-time mode until the query is started again from its checkpoint; the "
        "task engine goes on with the next batch."
    ),
    table=tabulate,
    draw=lambda tables, figure: draw_some(tables["kills"], figure),
    claims=CLAIMS,
    smoke_covered_by="live/engines",
    scaled_by=layout.EXPERIMENT,
    notes=[
        "The passes are those of live/peers, with its layout, rate, settings and twins: word count "
        "alone, and the systems that run on Spark. Without the others, which have to be fetched: "
        "--engine structured --engine tasks.",
        "Checkpoints: what comes as it comes is compared with the task engine as it comes, and "
        "what is tuned with its checkpoints every second. The quick profile has what is tuned.",
        "As the engine reports it (engine_s): from the detection until all that had been processed "
        "before is processed again; Spark reports it with the next batch, in real-time mode with "
        "the next checkpoint. As seen from outside (outage_s): the time in which windows come more "
        f"than {LATER_S:g} s later than the median of the twin, a pass without a kill, until they "
        f"have been on time for {CALM_S:g} s, with every relapse. A window comes out when it ends, "
        "and the backlog of the outage has to be processed: so the second measure is longer, and "
        "where the outage fits between two windows it is 0.",
        "Parts of the stock engine's outage are from Spark's own event log. No task runs while "
        "Spark reschedules or starts a query again, and while it waits for a slot near a task's "
        "state.",
    ],
    figure_size_in=(8.5, 4.0),
)
