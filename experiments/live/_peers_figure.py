"""The figure of `experiments.live.peers`: every outage on one axis, split into its parts."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pandas as pd

from experiments.live._judged import stacked
from experiments.live._outages import PARTS
from experiments.live._peers_rows import LABELS, WORDS
from harness.figures.chart import Axes, Figure
from harness.figures.style import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    VERMILION,
    not_measured,
    stamp,
)

RELAPSE, NOT_SPLIT = "relapse_s", "not_split_s"
LOOKS: Mapping[str, tuple[str, str]] = {
    "detection_s": ("detection", VERMILION),
    "restart_s": ("new place", ORANGE),
    "restore_s": ("restoration", PURPLE),
    "transaction_s": ("open transaction", BLUE),
    "replay_s": ("replay", GREEN),
    RELAPSE: ("late again", BLACK),
    NOT_SPLIT: ("not split: nothing was reported", GREY),
}
"""Parts of an outage, in their order."""


PUBLISHED = pd.DataFrame(
    [
        ("Structured Streaming", 20.0, 20.0, 0.0, "none"),
        ("Kafka Streams", 21.0, 32.0, 10.0, "session.timeout.ms"),
        ("Flink", 53.0, 58.0, 50.0, "heartbeat.timeout"),
    ],
    columns=["system", "least_s", "most_s", "timeout_s", "timeout"],
)
"""Recoveries in OSPBench (van Dongen and Van den Poel, IEEE Access 2021), in seconds.

One of five workers killed, at least once. Read off figures; another machine and another job.
``timeout_s``: the detection timeout of its time that such a kill waits for; 0 without one."""


def draw_outages(tables: Mapping[str, pd.DataFrame], figure: Figure) -> None:
    """Draw a bar per system and kind of kill, a cross per kill, and below what was published."""
    rows = _rows(tables["outages"])
    if not len(tables["outages"]):
        not_measured(figure.subplots())
        return
    above, below = figure.subplots(2, 1, height_ratios=[max(len(rows), 1), len(PUBLISHED)])
    _draw_rows(rows, above)
    above.set_title("measured here: crosses outages, bars medians of their parts", loc="left")
    for place, one in enumerate(PUBLISHED.itertuples()):
        below.barh([place], [one.timeout_s], color=VERMILION, alpha=0.4)
        below.plot([one.least_s, one.most_s], [place, place], color=BLACK, marker="|", linewidth=3)
    below.set_yticks(range(len(PUBLISHED)), list(PUBLISHED["system"] + ": " + PUBLISHED["timeout"]))
    below.set_title("published by OSPBench, 2021 (another machine, another job)", loc="left")
    below.set_xlabel("seconds; below light: the timeout of its time")
    below.invert_yaxis()
    stamp(figure, STAMP)


def draw_some(kills: pd.DataFrame, figure: Figure) -> None:
    """Draw the same bars and crosses of some systems alone."""
    axes = figure.subplots()
    if not len(kills):
        not_measured(axes)
        return
    _draw_rows(_rows(kills), axes)
    stamp(figure, STAMP)


STAMP = "parts count from the kill; >: not over at the next failure or the end of the load"


def _rows(kills: pd.DataFrame) -> Mapping[str, pd.DataFrame]:
    """Return the kills with an outage of each system and kind of kill, by the name of the row."""
    known = kills[kills["outage_s"].notna()] if len(kills) else kills
    by = ["engine", "tuning", "workload", "kill"]
    return {_named(*map(str, names)): mine for names, mine in known.groupby(by, sort=False)}


def _draw_rows(rows: Mapping[str, pd.DataFrame], above: Axes) -> None:
    medians = pd.DataFrame([_medians(mine) for mine in rows.values()])
    stacked(above, list(rows), medians, LOOKS)
    ends_s = [float(bar_s) for bar_s in medians.sum(axis=1)]
    for place, mine in enumerate(rows.values()):
        over = mine["caught_up"].astype(bool)
        for marker, some in (("x", mine[over]), (">", mine[~over])):
            above.plot(
                some["outage_s"], [place] * len(some), marker, color=BLACK, markersize=4,
                linestyle="none",
            )  # fmt: skip
        # As in findings: one that was not over is endless, and was watched for so long at least.
        lasted_s, watched_s = mine["outage_s"].where(over, math.inf).median(), mine["outage_s"]
        known = math.isfinite(lasted_s)
        shown_s = float(lasted_s if known else watched_s.median())
        above.plot(shown_s, place, "|", color=BLACK, markersize=20, markeredgewidth=2.5)
        ends_s[place] = max(ends_s[place], float(watched_s.max()))
        above.annotate(
            f"median {'' if known else '> '}{shown_s:.3g} s", (ends_s[place], place), (7, 9),
            textcoords="offset points", va="center", fontweight="bold",
        )  # fmt: skip
    above.set_xlim(0, 1.3 * max(1.0, *ends_s))
    above.set_ylabel("system, and what is killed")
    above.set_xlabel("seconds from the kill until output is on time again")
    above.invert_yaxis()


def _named(engine: str, tuning: str, workload: str, kind: str) -> str:
    """Return a row's name; the workload is in it where it is not word count."""
    name = LABELS.get((engine, tuning), engine)
    return f"{name}: {kind}" if workload == WORDS else f"{name}, {workload}: {kind}"


def _medians(kills: pd.DataFrame) -> pd.Series[float]:
    """Return the medians of the parts, of the kills that have them; else of the whole outage."""
    over = kills["caught_up"].astype(bool)
    split = kills[over].dropna(subset=list(PARTS)).reindex(columns=[*PARTS, RELAPSE])
    if not len(split):
        return pd.Series({NOT_SPLIT: float(kills["outage_s"].median())})
    return split.astype(float).median()
