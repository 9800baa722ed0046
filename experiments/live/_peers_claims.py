"""The claims of `experiments.live.peers`, with their limits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from experiments.live._outages import PARTS
from experiments.live._peers_rows import AS_IT_COMES, STREAMS, TUNED, WAITS
from harness.claims import (
    Finding,
    Rule,
    applied,
    every,
    hypothesis,
    invariant,
    median_of,
    not_asked,
    quantity,
    rows_of,
)
from harness.engines.base import Guarantee

if TYPE_CHECKING:
    import pandas as pd

# Shown: no record depends on what follows.

ADDS_UP = 0.1
"""Largest difference between an outage and the sum of its parts, as a share of the outage: the
median of the kills of a system and kind. Version 1 cut the outage at instants, so that the parts
added up by themselves. Versions up to 6 counted an open transaction, and the end of an outage, in
other ways; version 7 counted relapses, too; version 8 compares the parts with the time from the
kill until output had caught up, because an outage begins with its first late result."""
JUDGED_S = 2.0
"""Shortest such time of that claim. Windows end every second, so the parts of a shorter one cannot
be told from the wait for the next end."""
RULE = Rule(version=8, since="2026-11-27", seen_seeds=(48017, 60601, 71803, 71811))
"""A pass has one kill and is a sample; results are late by the twin's median and `LATER_S`.
Versions before took the kills of one pass together, and what is late from the pass itself."""
AT_ONCE_S = 1.0
"""Most time of an "instant" fail-over, from detection until the state is there. Fixed on
2026-11-23, before a kill was measured."""
HALF = 0.5
"""Least share of detection in the recovery of Kafka Streams as it comes. Fixed on 2026-11-23,
before a kill was measured."""

NO_HIT = (
    "no kill hit any work, not even that of the busiest node: no result was late after it, and the "
    "engine reported no recovery (one whose copies take over without delay has to report it: "
    "docs/own-engine.md, events)"
)


def _by_system(runs: pd.DataFrame, numbers: pd.Series[Any]) -> str:
    """Return the number of each run, by name."""
    return ", ".join(
        f"{row.engine} {row.tuning} {row.workload}: {int(number)}"
        for row, number in zip(runs.itertuples(), numbers, strict=True)
    )


runs = rows_of("runs")
once = runs[runs["exactly_once"] & ~runs["own"]]
more = runs[~runs["exactly_once"] & ~runs["own"]]
wrong_once = once[["lost", "duplicated", "contradictions"]].sum(axis=1)
wrong_more = more[["lost", "contradictions"]].sum(axis=1)


@invariant(
    "own-engine-keeps-its-guarantee",
    "An engine of your own keeps the guarantee in its file through every kill: it loses and "
    "changes no result and, under exactly-once, repeats none",
)
def guarantee_kept(tables: Mapping[str, pd.DataFrame]) -> Finding:
    runs = tables["runs"]
    mine = runs[runs["own"]]
    if not len(mine) or "guarantee" not in mine:
        return not_asked()
    repeated = mine["duplicated"].where(mine["guarantee"] == Guarantee.EXACTLY_ONCE.value, 0)
    wrong = mine["lost"] + mine["contradictions"] + repeated
    # A guarantee is not tried by kills that hit nothing.
    kept = (wrong == 0).where((wrong > 0) | (mine["hits"] > 0))
    counted = ("lost", "contradictions", "duplicated", "kills", "hits")
    shown = {name: int(mine[name].sum()) for name in counted}
    why = None if (mine["hits"] > 0).all() else NO_HIT
    return every(kept, why, guarantee=", ".join(mine["guarantee"].unique()), **shown)


@hypothesis(
    "waiting-loses-nothing",
    "Kafka Streams at its defaults loses results because its tasks do not wait for the slower "
    "partition: with max.task.idle.ms, and a repartition topic for each input partition so that a "
    "task can wait at all, it neither loses nor changes one",
    counted=True,
)
def waiting(tables: Mapping[str, pd.DataFrame]) -> Finding:
    runs = tables["runs"]
    both = runs[(runs["engine"] == STREAMS) & runs["tuning"].isin([AS_IT_COMES, WAITS])]
    mine = both[both["tuning"] == WAITS]
    if not len(mine):
        return not_asked()
    wrong = both[["lost", "contradictions"]].sum(axis=1)
    return every(wrong[mine.index] == 0, wrong=_by_system(both, wrong))


@hypothesis(
    "parts-add-up",
    "The parts of the time from a kill until output has caught up, each seen by another observer, "
    f"add up to it within {ADDS_UP:.0%} in the median of the kills of a system and kind, where it "
    f"lasts {JUDGED_S:g} s or longer",
    because="Under Spark's real-time mode and Kafka Streams no observer sees the whole: between "
    "the restart and the first result state is presumably read, or partitions move, once more.",
    rule=RULE,
)
def adds_up(tables: Mapping[str, pd.DataFrame]) -> Finding:
    by = ["engine", "tuning", "workload", "kill"]
    kills = until_caught_up(tables["outages"]).reindex(
        columns=[*by, "recovery_s", "caught_up", *PARTS]
    )
    kills = kills[kills["caught_up"].eq(True)].drop(columns="caught_up").dropna()
    kills = kills[kills["recovery_s"] >= JUDGED_S]
    off = (kills[list(PARTS)].sum(axis=1) / kills["recovery_s"] - 1).abs().astype(float)
    median = off.groupby([kills[name] for name in by]).median()
    shown = {
        " ".join(names): round(float(one), 3)
        for names, one in zip(median.index.tolist(), median, strict=True)
    }
    return every(median <= ADDS_UP, by_system=shown, kills=len(off))


def until_caught_up(kills: pd.DataFrame) -> pd.DataFrame:
    """Return kills with the time from each until output had caught up, ``recovery_s``.

    In records from before 2026-11-27 it is the outage without its relapses."""
    if "recovery_s" in kills or "outage_s" not in kills:
        return kills
    relapse_s = kills.get("relapse_s", 0.0)
    return kills.assign(recovery_s=kills["outage_s"].astype(float) - relapse_s)


@quantity
def _of_streams(tables: Mapping[str, pd.DataFrame], tuning: str) -> pd.DataFrame:
    """Return the kills of Kafka Streams whose parts are known."""
    columns = ["engine", "tuning", "run", "recovery_s", *PARTS]
    kills = until_caught_up(tables["outages"]).reindex(columns=columns)
    mine = kills[(kills["engine"] == STREAMS) & (kills["tuning"] == tuning)]
    return mine.dropna().astype(dict.fromkeys(columns[3:], float))


tuned, plain = _of_streams(TUNED), _of_streams(AS_IT_COMES)
back_s = (tuned["restart_s"] + tuned["restore_s"]).groupby(tuned["run"]).median()
detecting = (plain["detection_s"] / plain["recovery_s"]).groupby(plain["run"]).median()

CLAIMS = (
    invariant("killed", "Every planned kill reached a process").every(
        runs["kills"] == runs["planned"], runs=applied(len, runs)
    ),
    hypothesis(
        "exact-under-exactly-once",
        "Every system that promises exactly once gives the due results, each once, through every "
        "kill",
        counted=True,
    ).every(wrong_once == 0, wrong=applied(_by_system, once, wrong_once)),
    hypothesis(
        "at-least-once-loses-nothing",
        "Every system that promises at least once may repeat a result, and neither loses nor "
        "changes one",
        counted=True,
    ).every(
        wrong_more == 0,
        wrong=applied(_by_system, more, wrong_more),
        came_too_late=applied(_by_system, more, more["dropped"]),
    ),
    guarantee_kept,
    waiting,
    adds_up,
    hypothesis(
        "standby-takes-over-at-once",
        f"Kafka Streams with a standby has its state back within {AT_ONCE_S:g} s of the detection",
        rule=RULE,
    ).at_most(median_of(back_s), AT_ONCE_S, kills=applied(len, tuned)),
    hypothesis(
        "detection-is-most-of-it",
        f"Kafka Streams as it comes waits for its session timeout for at least {HALF:.0%} of the "
        "time until output has caught up",
        rule=RULE,
    ).at_least(
        median_of(detecting),
        HALF,
        asked=((runs["engine"] == STREAMS) & (runs["tuning"] == AS_IT_COMES)).any(),
        kills=applied(len, plain),
    ),
)
