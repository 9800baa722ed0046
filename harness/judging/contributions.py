"""The success of a pass's tuples: its records are made again and joined with their results.

Pure: records follow from the load's plan alone, so they need not be kept from the pass."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from harness.engines.deliveries import relative_windows
from harness.judging.passes import PassRecord
from harness.load.plan import Stream, whole_ms
from harness.measure.success import first_arrivals_s, success_rate
from harness.measure.values import identities
from workloads.base import Contributions, Workload


def tuple_success(record: PassRecord, first: pd.DataFrame, workload: Workload) -> float | None:
    """Return the `success_rate` of the pass's load; None for a workload without contributions.

    ``first`` are the first versions of its results with ``arrival_s``."""
    if workload.contributions is None:
        return None
    parts = contributions(record, workload)
    tuples = first_arrivals_s(parts, first, workload.identity_in_run)
    return success_rate(
        tuples["sent_s"].to_numpy(), tuples["arrival_s"].to_numpy(), until_s=record.until_s
    )


def newest_contributions_s(
    results: pd.DataFrame, record: PassRecord, workload: Workload
) -> NDArray[np.float64]:
    """Return when the newest record of each result was due; NaN for one without a record."""
    parts = contributions(record, workload)
    part_of, result_of = identities([parts, results], workload.identity_in_run)
    newest_s = parts["sent_s"].groupby(part_of).max()
    return newest_s.reindex(result_of).to_numpy(dtype=float)


def contributions(record: PassRecord, workload: Workload) -> pd.DataFrame:
    """Return a row per record of the load and result that it goes into.

    Columns: ``tuple``, ``sent_s``, and the result's identity with ``window_start_s``."""
    assert workload.contributions is not None, workload.name
    parts = [
        _of_partition(stream, source.name, partition, record, workload.contributions)
        for source, stream in zip(workload.sources, record.plan.streams, strict=True)
        for partition in range(stream.partitions)
    ]
    # Records of every part are numbered from 0: the part makes a tuple's number unique.
    whole = pd.concat(parts, keys=range(len(parts)), names=["part", None]).reset_index("part")
    numbered = whole.assign(tuple=whole.groupby(["part", "record"]).ngroup())
    return relative_windows(
        numbered.drop(columns=["part", "record"]), workload, record.origin_unix_s
    )


def _of_partition(
    stream: Stream, source: str, partition: int, record: PassRecord, of: Contributions
) -> pd.DataFrame:
    count = stream.counts()[partition]
    payloads = stream.records.build().payloads(partition, 0, count)
    sent_s = stream.intended_s(partition, np.arange(count))
    event_s = stream.stamped(record.plan.event, sent_s, record.start_unix_s)
    found = of(source, payloads, whole_ms(event_s))
    return found.assign(sent_s=sent_s[found["record"].to_numpy()])
