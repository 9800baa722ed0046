"""The report's first table: the outage under each engine and scheme, over all measured passes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from harness.claims.samples import lasted, median_of
from harness.engines.structured.parameters import Mode
from harness.measurement import Origin
from harness.pages.assessment import Assessment
from harness.pages.cards import address
from harness.results.kills import Kill

_ENGINES = {
    "structured": "stock Spark (micro-batches)",
    Mode.REAL_TIME.value: "stock Spark (real-time mode)",
    "tasks": "the task engine",
    "kafka-streams": "Kafka Streams",
    "flink": "Flink",
}
"""Words for engines; one of a user's own has its name alone."""
MEASURES = ("late_for_s", "outage_s", "recovery_s")
"""Columns of an experiment's table that measure an outage. The last is that of records from before
2026-11-27, which lack an outage: their relapses are added to it."""
PASS = ("run", "variant", "pass")
"""Columns that tell the passes of a table of kills apart, those that it has. Without one each kill
has a pass of its own."""


def outages(judged: Sequence[Assessment]) -> list[dict[str, Any]]:
    """Return the figures with an outage: title, link, and a row per engine and scheme.

    What an experiment gives as its `outages` is read, else its first table with a column of
    `MEASURES` and a column ``scheme``. Figures that compare engines come first, then those of one
    engine by their length."""
    figures: list[dict[str, Any]] = []
    for item in judged:
        rows = outage_rows(item) if item.experiment.origin is Origin.MEASURED else []
        if rows:
            title, href = item.experiment.title, address(item.experiment)
            figures.append({"title": title, "href": href, "rows": rows})
    return sorted(
        figures, key=lambda f: (-len({row["engine"] for row in f["rows"]}), len(f["rows"]))
    )


def outage_rows(item: Assessment, where: Mapping[str, Any] = {}) -> list[dict[str, Any]]:
    """Return the outages of a figure's kills, those with these values, by engine and scheme."""
    kills = _kills(item)
    if kills is None:
        return []
    for name, value in where.items():
        kills = kills[kills[name] == value]
    return [
        {"engine": _ENGINES.get(str(engine), str(engine)), "scheme": str(scheme), **row}
        for (engine, scheme), own in kills.groupby(["engine", "scheme"], sort=False)
        if (row := _summary(own)) is not None
    ]


def _kills(item: Assessment) -> pd.DataFrame | None:
    """Return engine, scheme, ``outage_s`` and ``not_over`` by kill."""
    tables = item.tables()
    if not tables:  # no run of it came to an end
        return None
    if item.experiment.outages is not None:
        return item.experiment.outages(tables)
    engines = item.campaign.engines
    for table in tables.values():
        measure = next((name for name in MEASURES if name in table), None)
        if measure is None or "scheme" not in table:
            continue
        if "engine" not in table and len(engines) != 1:
            continue
        frame = table if "engine" in table else table.assign(engine=engines[0])
        if measure == "late_for_s":
            return frame.assign(outage_s=frame[measure], not_over=False)
        kills = [Kill.from_row(row) for row in frame.to_dict("records")]
        outage_s = pd.Series([kill.late_for_s for kill in kills], frame.index, dtype=float)
        return frame.assign(outage_s=outage_s, not_over=[not kill.over for kill in kills])
    return None


def _summary(kills: pd.DataFrame) -> dict[str, Any] | None:
    """Return the outage of one engine and scheme as text; None without a measured one.

    A sample is a pass, with the median of its kills. An outage that was not over while it was
    watched has no known end: it counts as endless, and with the time that it was watched for what
    the median is at least."""
    kills = kills.reset_index(drop=True)
    not_over = kills["not_over"].astype(bool)
    outage_s = kills["outage_s"].astype(float)
    lasted_s = outage_s.mask(not_over, math.inf)
    watched_s = outage_s.mask(not_over & outage_s.isna(), 0.0)
    passes = [kills[name] for name in PASS if name in kills] or [kills.index.to_series()]
    sample, least = (median_of(each.groupby(passes).median()) for each in (lasted_s, watched_s))
    if sample is None or least is None:
        return None
    known = math.isfinite(sample.value)
    kill_count = int(lasted_s.notna().sum())
    shown_s = sample.value if known else least.value
    return {
        "median_s": sample.value if known else None,
        "at_least_s": shown_s,
        "interval_s": None if sample.low is None else (sample.low, sample.high),
        "outage": lasted(shown_s, sample.low, sample.high, known=known),
        "passes": sample.n,
        "count": f"{kill_count} {'kill' if kill_count == 1 else 'kills'} in "
        f"{sample.n} {'pass' if sample.n == 1 else 'passes'}",
        "never": int(not_over.sum()),
    }
