"""The report's first table: the outage under each engine and scheme, over all measured kills."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from harness.claims.samples import median_of
from harness.engines.kinds import find_engine
from harness.engines.structured.parameters import Mode
from harness.measurement import Origin
from harness.report.verdicts import Assessment
from harness.running.discovery import page_of

MEASURES = {
    "late_for_s": "results were late for",
    "recovery_s": "caught up after",
}
"""Columns of an experiment's table that measure an outage, with their words."""


def outages(judged: Sequence[Assessment]) -> list[dict[str, Any]]:
    """Return the figures with an outage: title, link, and a row per engine and scheme.

    What an experiment gives as its `outages` is read, else its first table with a column of
    `MEASURES` and a column ``scheme``. Figures that compare engines come first, then those of one
    engine by their length."""
    figures = [figure for item in judged if (figure := _of_figure(item)) is not None]
    return sorted(
        figures, key=lambda f: (-len({row["engine"] for row in f["rows"]}), len(f["rows"]))
    )


def _of_figure(item: Assessment) -> dict[str, Any] | None:
    if item.experiment.origin is not Origin.MEASURED:
        return None
    found = _kills(item)
    if found is None:
        return None
    measure, kills = found
    rows = [
        {"engine": _engine(str(engine)), "scheme": str(scheme), **row}
        for (engine, scheme), mine in kills.groupby(["engine", "scheme"], sort=False)
        if (row := _summary(mine)) is not None
    ]
    if not rows:
        return None
    return {
        "title": item.experiment.title,
        "href": f"{page_of(item.experiment)}.html#{item.experiment.anchor}",
        "measure": measure,
        "rows": rows,
    }


def _kills(item: Assessment) -> tuple[str, pd.DataFrame] | None:
    """Return words for the measure, and engine, scheme, ``outage_s`` and ``not_over`` by kill."""
    tables = item.tables()
    if not tables:  # no run of it came to an end
        return None
    if item.experiment.outages is not None:
        return MEASURES["late_for_s"], item.experiment.outages(tables)
    engines = item.campaign.engines
    for table in tables.values():
        measure = next((name for name in MEASURES if name in table), None)
        if measure is None or "scheme" not in table:
            continue
        if "engine" not in table and len(engines) != 1:
            continue
        frame = table if "engine" in table else table.assign(engine=engines[0])
        beyond = frame.get("recovery_at_least_s")
        not_over = False if beyond is None else beyond.astype(float).notna()
        return MEASURES[measure], frame.assign(outage_s=frame[measure], not_over=not_over)
    return None


def _summary(kills: pd.DataFrame) -> dict[str, Any] | None:
    """Return the outage of one engine and scheme as text; None without a measured one."""
    over = kills.loc[~kills["not_over"].astype(bool), "outage_s"].astype(float)
    sample, never = median_of(over), int(kills["not_over"].sum())
    if sample is None and not never:
        return None
    text = "–" if sample is None else f"{sample.value:.3g} s"
    if sample is not None and sample.low is not None and sample.high is not None:
        text += f" ({sample.low:.3g} to {sample.high:.3g} s)"
    return {
        "median_s": None if sample is None else sample.value,
        "interval_s": None if sample is None or sample.low is None else (sample.low, sample.high),
        "outage": text,
        "kills": (0 if sample is None else sample.n) + never,
        "never": never,
    }


def _engine(name: str) -> str:
    """Return the words for an engine."""
    known = {
        "structured": "stock Spark (micro-batches)",
        Mode.REAL_TIME.value: "stock Spark (real-time mode)",
        "tasks": "task engine",
        "kafka-streams": "Kafka Streams",
        "flink": "Flink",
    }
    return known[name] if name in known else find_engine(name).name
