"""Resources that the passes of a run used: processor time, memory, network."""

from __future__ import annotations

from typing import Any

import pandas as pd

from harness.judging.passes import PassRecord


def used(twin: PassRecord, failed: PassRecord) -> dict[str, Any]:
    """Return the usage of the pass with failures and of its twin, by the names of metrics.

    Values are null where a process could not be counted."""
    cpu_s, resident = _of_processes(failed.usage)
    twin_cpu_s, twin_resident = _of_processes(twin.usage)
    return {
        "cpu_s": cpu_s,
        "twin_cpu_s": twin_cpu_s,
        "resident_bytes": resident,
        "twin_resident_bytes": twin_resident,
        "network_bytes": _crossed(failed.usage),
        "twin_network_bytes": _crossed(twin.usage),
    }


def records_per_core_s(
    usage: pd.DataFrame, rate_per_s: float, *, from_s: float, until_s: float
) -> float | None:
    """Return the records per CPU-second of all processes in these seconds of a constant load.

    For seconds without failures; None without two samples."""
    mine = usage[usage["at_s"].between(from_s, until_s)]
    ends = mine.groupby("who")["cpu_s"].agg(["first", "last"])
    spent_s = float((ends["last"] - ends["first"]).sum())
    elapsed_s = float(mine["at_s"].max() - mine["at_s"].min())
    return rate_per_s * elapsed_s / spent_s if spent_s > 0 else None


def _of_processes(usage: pd.DataFrame) -> tuple[float | None, float | None]:
    """Return the CPU seconds during the pass, and the largest sum of resident bytes.

    A sample that could not be taken is left out, as null and not as 0."""
    counted = usage.dropna(subset=["cpu_s", "resident_bytes"])
    if not len(usage) or set(counted["who"]) != set(usage["who"]):
        return None, None
    cpu_s = sum(_increase(samples) for _, samples in counted.groupby("who")["cpu_s"])
    whole = usage.groupby("at_s")["resident_bytes"].sum(min_count=usage["who"].nunique())
    return float(cpu_s), None if whole.isna().all() else float(whole.max())


def _crossed(usage: pd.DataFrame) -> float | None:
    """Return the bytes into and out of the nodes during the pass; None where there is no counter.

    `Usage.method` has the reason. Processes of no node are left out: their traffic is the other end
    of the nodes'."""
    counters = ["received_bytes", "sent_bytes"]
    counted = usage.reindex(columns=["who", *counters]).dropna()
    if not len(counted):
        return None
    return float(
        sum(_increase(samples[name]) for _, samples in counted.groupby("who") for name in counters)
    )


def _increase(counter: pd.Series[float]) -> float:
    """Return by how much a counter grew.

    One that falls below half and stays there has begun anew, from 0. Any other fall was read while
    a process ended, before what it had used was added to the rest, and is left out."""
    values = counter.tolist()
    ahead = pd.Series(values[::-1]).cummax().tolist()[::-1]
    total, high = 0.0, values[0]
    for value, highest in zip(values[1:], ahead[1:], strict=True):
        anew = value < high / 2 and highest < high
        if anew or value > high:
            total += value - (0.0 if anew else high)
            high = value
    return total
