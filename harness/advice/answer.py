"""The answer of ``try`` in sentences: what a kill costs, what is in doubt, what Spark can change.

Pure: results of runs in, text out.

Tests: ``tests/advice/test_answer.py``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from harness.advice.costs import KILLS, outage_of, span_of
from harness.results.kills import Unrecovered
from harness.text import format_bytes

if TYPE_CHECKING:
    from harness.results.record import Record

ONE, TWO = "checkpoint", "active"
"""Schemes: one query, and a second one on other workers."""
ROWS = (
    "Spark counts rows: the records of one window and key in a task as one, and a record of "
    "several windows as several"
)
"""The meaning of Spark's number of late rows."""


@dataclass(frozen=True, slots=True)
class SparkSetting:
    """A setting of Spark's own that changes what a kill costs."""

    conf: tuple[str, ...]
    what: str


SPARK_SETTINGS = (
    SparkSetting(
        ("spark.locality.wait=0s",),
        "after a kill no task waits 3 s for a place near its state that is gone",
    ),
    SparkSetting(
        (
            "spark.sql.streaming.stateStore.providerClass=org.apache.spark.sql.execution.streaming."
            "state.RocksDBStateStoreProvider",
            "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled=true",
        ),
        "state lives outside of the heap, and a batch writes its changes alone",
    ),
    SparkSetting(
        ("spark.sql.shuffle.partitions=2",),
        "fewer parts of the state to load again, and fewer tasks in every batch",
    ),
)
"""What ``--try-settings`` tries, one after the other."""


def settings_beside(given: Collection[str]) -> list[SparkSetting]:
    """Return the settings that a job lacks, which has those of the names ``given``."""
    return [
        setting
        for setting in SPARK_SETTINGS
        if not any(each.partition("=")[0] in given for each in setting.conf)
    ]


def headline(kills: pd.DataFrame, runs: pd.DataFrame, *, late_data: bool = False) -> str:
    """Return what was found, in one sentence."""
    known = _known(kills)
    if not len(known):
        return f"What a kill costs is not known: {_why_unknown(kills)}."
    one = known[known["scheme"] == ONE]
    first = one if len(one) else known
    first = first[first["mode"] == first["mode"].iloc[0]]
    said = []
    for number, (kill, mine) in enumerate(first.groupby("kill", sort=False)):
        verb = "makes your results late for" if number == 0 else "makes them late for"
        what = str(kill).removeprefix("a ")
        said.append(f"{'a' if number else 'A'} killed {what} {verb} {outage_of(mine)}")
    said[0] += f" and {_lost(first, late_data=late_data)}"
    two = known[(known["scheme"] == TWO) & (known["kill"] == first["kill"].iloc[0])]
    if len(one) and len(two):
        said.append(f"a second query on other workers makes that {outage_of(two)}{_at_cost(runs)}")
    return "; ".join(said) + "."


def _known(kills: pd.DataFrame) -> pd.DataFrame:
    """Return the kills with an outage, or a lower bound of one above 0."""
    if not len(kills):
        return kills
    return kills[kills["outage_s"].notna() | kills["at_least_s"].astype(float).gt(0)]


def _lost(kills: pd.DataFrame, *, late_data: bool) -> str:
    """Return whether results were lost or wrong, of runs whose results are known."""
    wrong = kills["wrong"]
    if wrong.isna().all():
        return "it is not known whether any is lost"
    worst = int(wrong.max())
    if late_data:
        return f"changes {worst or 'none'} of them"
    return "loses none" if worst == 0 else f"makes {worst} of them wrong or lost"


def _why_unknown(kills: pd.DataFrame) -> str:
    if not len(kills):
        return "no run was valid"
    reasons = kills["why_not"].dropna()
    return str(reasons.iloc[0]) if len(reasons) else "no kill was followed to its end"


def twin_behind(kills: pd.DataFrame) -> bool:
    """Return True if no kill has an outage, because the twin did not keep up."""
    return bool(len(kills)) and bool(kills["why_not"].eq(Unrecovered.TWIN_BEHIND).all())


def _at_cost(runs: pd.DataFrame) -> str:
    used = _used(runs)
    if not {ONE, TWO} <= set(used):
        return ""
    return f", for {used[TWO][0] / used[ONE][0]:.2g} times the processor time"


def _used(runs: pd.DataFrame) -> dict[str, tuple[float, float]]:
    """Return cores and bytes of each scheme without a kill, where they could be counted."""
    found: dict[str, tuple[float, float]] = {}
    if not {"twin_cpu_s", "twin_resident_bytes", "load_s"} <= set(runs.columns):
        return found
    for scheme, mine in runs.groupby("scheme", sort=False):
        cores = (mine["twin_cpu_s"].astype(float) / mine["load_s"].astype(float)).median()
        held = mine["twin_resident_bytes"].astype(float).median()
        if cores > 0 and held > 0:
            found[str(scheme)] = float(cores), float(held)
    return found


def without_a_kill(runs: pd.DataFrame, windows: pd.DataFrame) -> list[str]:
    """Return latency and resources of the passes without a kill, a sentence each."""
    said = []
    if len(windows):
        calm = windows.loc[windows["pass"] == "twin", "latency_s"].dropna()
        came = calm[np.isfinite(calm)]
        lost = int((calm == np.inf).sum())
        if len(came):
            said.append(
                f"without a kill results come {calm.median():.2g} s after they are due (median; "
                f"the slowest window {came.max():.2g} s"
                f"{f'; results of {lost} windows did not come' if lost else ''})"
            )
    words = {ONE: "one query", TWO: "two queries"}
    used = [
        f"{words.get(scheme, scheme)} {cores:.2g} cores and {format_bytes(held)}"
        for scheme, (cores, held) in _used(runs).items()
    ]
    if used:
        said.append(f"without a kill the engine's processes use: {', '.join(used)}")
    return said


def late_data(runs: pd.DataFrame) -> list[str]:
    """Return the records that the watermark dropped, without a kill and with it."""
    if not {"dropped_rows", "twin_dropped_rows"} <= set(runs.columns):
        return []
    calm, killed = (
        runs[name].dropna().astype(int).tolist() for name in ("twin_dropped_rows", "dropped_rows")
    )
    if not any(calm) and not any(killed):
        return []
    more = [after - before for before, after in zip(calm, killed, strict=True)]
    return [
        f"rows that the watermark dropped: {span_of(calm)} without a kill, {span_of(killed)} with "
        f"it, so {span_of(more)} due to the kill ({ROWS})"
    ]


def doubts(records: Sequence[Record]) -> list[str]:
    """Return what is in doubt of the runs that count, and of how many of them."""
    reasons = Counter(record.again for record in records if record.again is not None)
    return [
        f"in doubt, {count} of {len(records)} {'run' if len(records) == 1 else 'runs'}: {reason}"
        for reason, count in reasons.items()
    ]


def of_settings(kills: pd.DataFrame, given: Collection[str]) -> list[str]:
    """Return the settings of Spark that the job does not have, and what each would change.

    ``given``: names of settings that it has."""
    one = kills[kills["scheme"] == ONE] if len(kills) else kills
    if not len(one):
        return []
    said = ["Settings of Spark that change what a kill costs (--try-settings measures them):"]
    for setting in settings_beside(given):
        words = " ".join(f"--conf {each}" for each in setting.conf)
        said.append(f"  {words}: {setting.what}")
    trigger_s = float(one["trigger_s"].max())
    said.append(
        f"  a shorter trigger than {trigger_s:g} s: a kill costs at least the batch that it hits"
    )
    return said


def compared(setting: SparkSetting, kills: pd.DataFrame, before: pd.DataFrame) -> str:
    """Return what a setting made of the outage of each kill, beside that without it."""
    words = " ".join(setting.conf)
    said = [
        f"{kill} {outage_of(mine)} (without it "
        f"{outage_of(before[(before['scheme'] == ONE) & (before['kill'] == kill)])})"
        for kill, mine in (kills.groupby("kill", sort=False) if len(kills) else ())
    ]
    return f"{words}: {', '.join(said) or 'no run was valid'}"


def measured_beside(kills: pd.DataFrame, scheme: str) -> str:
    """Return the measured outage of a scheme after a worker's kill, for a line of advice."""
    known = _known(kills)
    if len(known):
        known = known[(known["scheme"] == scheme) & (known["kill"] == KILLS["node"])]
    return f" (measured here: {outage_of(known)})" if len(known) else ""
