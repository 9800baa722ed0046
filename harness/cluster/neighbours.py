"""Other clusters on this machine, which slow down a measurement.

A result directory has a lock, a machine has none: two commands with different ``--out``, or a
cluster that was left up, share processor and disk. They are found in the register of clusters
(`harness.cluster.ownership`), whichever began first. Of other users' clusters only the load is seen
(`harness.judging.foreign`)."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

from harness.cluster.ownership import ClusterRecord, ClusterRecords
from harness.cluster.processes import Machine
from harness.text import Notify, format_duration


def neighbours(records: ClusterRecords | None = None) -> Sequence[ClusterRecord]:
    """Return this user's living clusters on this machine without this process's, oldest first."""
    here = Machine.here()
    return [
        record
        for record in (records or ClusterRecords()).records()
        if record.machine == here
        and not record.abandoned(here)
        and (record.owner is None or record.owner.pid != os.getpid())
    ]


def described(record: ClusterRecord) -> str:
    """Return a text with the cluster's owner, backend and age."""
    whose = "that was left up" if record.owner is None else f"of process {record.owner.pid}"
    age = format_duration(max(0.0, time.time() - record.started_unix_s))
    return f"a cluster {whose} ({record.backend}, up for {age}, {record.directory})"


def warn_of_neighbours(report: Notify) -> None:
    """Report other clusters before anything is measured, because both will be slower."""
    for other in neighbours():
        report(
            f"beside this {described(other)} runs on this machine: what is measured meanwhile is "
            "slower, and the records say so. Better wait for its end, or take it down "
            "(./faultline cluster status, down)"
        )
