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


def _of_processes(usage: pd.DataFrame) -> tuple[float | None, float | None]:
    """Return the CPU seconds during the pass, and the largest sum of resident bytes.

    A sample that could not be taken is left out, as null and not as 0. A counter that begins anew
    (another process) counts from 0."""
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
    steps = counter.diff().iloc[1:]
    return float(steps.where(steps >= 0, counter.iloc[1:]).sum())
