"""A common form of live runs, and the outcome of several passes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

import numpy as np
import pandas as pd

from harness.engines.base import Setup
from harness.judging.run import LiveRun, together
from harness.results.record import Outcome, Scalar
from workloads.base import Workload


def task_run(
    *, workload: Workload, setup: Setup, interval_s: float, rate_per_s: float, load_s: float,
    first_warmup_s: float = 3,
) -> LiveRun:  # fmt: skip
    """Return a run of the task engine that stays valid if its load falls behind."""
    return LiveRun(
        workload=workload, engine="tasks", setup=setup, interval_s=interval_s,
        rate_per_s=rate_per_s, load_s=load_s, first_warmup_s=first_warmup_s,
        settle_s=1, timed=False,
    )  # fmt: skip


def nodes_cpu_s(
    usage: pd.DataFrame, nodes: Collection[str], *, from_s: float, until_s: float
) -> float:
    """Return the processor seconds of these nodes between two instants of a pass.

    Interpolated between samples; of several passes the judged one counts."""
    mine = usage[usage["who"].isin(nodes)]
    mine = mine[mine["pass"] == "failed"] if "pass" in mine else mine
    found = 0.0
    for _, samples in mine.dropna(subset=["cpu_s"]).groupby("who"):
        at_s, cpu_s = samples["at_s"].to_numpy(), samples["cpu_s"].to_numpy()
        begun, ended = np.interp([from_s, until_s], at_s, cpu_s)
        found += float(ended - begun)
    return found


def outcome_of(
    passes: Mapping[str, Outcome], values: Mapping[str, Scalar], **series: pd.DataFrame
) -> Outcome:
    """Return one outcome of all passes, with further values and series."""
    if not passes:
        return Outcome(values={"passes": 0, **values}, series=series)
    merged = together(passes)
    assert not set(series) & set(merged.series), "the passes have series of these names"
    return replace(merged, values={**merged.values, **values}, series={**series, **merged.series})
