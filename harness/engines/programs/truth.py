"""What is due: the results of the topics' whole input, computed in this process.

A workload's topology of tasks gives them, or a function of its own under `TRUTH`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from harness.engines.base import Work
from harness.engines.tasks.reading import plain, read_input
from workloads.base import TASKS, Reference, Workload
from workloads.toolkit.local import run_locally
from workloads.toolkit.operators import program_of, timeline_of

TRUTH = "truth"
"""The form of a workload that computes what is due: the `Reference` of a function of ``sources``
(source name to a table of `workloads.toolkit.operators.SOURCE_SCHEMA`) that returns a DataFrame of
the workload's columns, with ``window_start`` in ms since the epoch."""


def truth_of(client: Mapping[str, Any], work: Work, start_unix_s: float) -> pd.DataFrame:
    """Return the due results of the records in the topics, from the start of the load on."""
    workload, start_us = work.workload, round(start_unix_s * 1e6)
    sources = {
        source.name: read_input(client, work.topic_of[source.name], source.partitions, start_us)
        for source in workload.sources
    }
    own = workload.forms.get(TRUTH)
    if isinstance(own, Reference):
        due: pd.DataFrame = own.build(sources=sources)[workload.columns]
        return due
    timeline = timeline_of(workload, start_us=start_us, batch_s=workload.slide_s)
    results = run_locally(program_of(workload, timeline=timeline), sources)
    return plain(results, workload.columns)


def why_no_truth(workload: Workload) -> str | None:
    """Return the reason why nothing can be compared with the results; None if something can."""
    if TASKS in workload.forms or TRUTH in workload.forms:
        return None
    return (
        f"workload {workload.name!r} has neither the form {TASKS!r} nor {TRUTH!r}, from which the "
        "due results are computed"
    )
