"""The output of a recorded run, compared with the truth once more, from the run's series alone.

A judged run keeps every delivery: the first ones, with their latencies, and the further ones
(repetitions, corrections, undos). So a verdict on its output can be checked without a cluster.

Tests: ``tests/judging/test_again.py``."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from harness.measure.versions import Comparison, compare, versions
from workloads.base import Workload

FIRST, FURTHER, TRUTH = "results", "further", "truth"
"""Series: first deliveries, all others (column ``pass`` in both), and the correct results."""


def deliveries(series: Mapping[str, pd.DataFrame], name: str = "failed") -> pd.DataFrame:
    """Return every delivery of a pass in the order of arrival; ``name``: failed or twin."""
    frames = [series[kind] for kind in (FIRST, FURTHER) if kind in series]
    parts = [frame[frame["pass"] == name] for frame in frames]
    together = pd.concat([part for part in parts if len(part)] or parts[:1])
    return together.sort_values("arrival_s", kind="stable", ignore_index=True)


def against_truth(
    series: Mapping[str, pd.DataFrame], workload: Workload
) -> tuple[Comparison, Comparison]:
    """Compare the first stable results of the pass with failures with the truth, and the last ones.

    ``series``: those of one pass (a run of several has a column ``variant``). The output equals the
    truth if both comparisons are equal."""
    identity, truth = workload.identity_in_run, series[TRUTH]
    seen = versions(deliveries(series), identity, workload.values, tolerance=workload.tolerance)
    stable, last = (
        compare(found, truth, identity, workload.values, tolerance=workload.tolerance)
        for found in (seen.stable, seen.last)
    )
    return stable, last
