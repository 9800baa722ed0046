"""Other clusters that live on this machine: what runs beside a measurement slows it.

A result directory has a lock, a machine has none: two commands with different ``--out``, or a
cluster that was left up, share processor and disk. They are found by the register of clusters
(`harness.cluster.ownership`), so each harness learns of the others whichever began first. Of
another user's only the load is seen (`harness.judging.foreign`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

from harness.cluster.ownership import ClusterRecord, ClusterRecords
from harness.cluster.processes import Machine
from harness.text import Notify, format_duration


def neighbours(records: ClusterRecords | None = None) -> Sequence[ClusterRecord]:
    """This user's clusters that live on this machine and are not this process's, oldest first."""
    here = Machine.here()
    return [
        record
        for record in (records or ClusterRecords()).records()
        if record.machine == here
        and not record.abandoned(here)
        and (record.owner is None or record.owner.pid != os.getpid())
    ]


def described(record: ClusterRecord) -> str:
    """Whose it is, in words."""
    whose = "that was left up" if record.owner is None else f"of process {record.owner.pid}"
    age = format_duration(max(0.0, time.time() - record.started_unix_s))
    return f"a cluster {whose} ({record.backend}, up for {age}, {record.directory})"


def warn_of_neighbours(report: Notify) -> None:
    """Say what else runs here before anything is measured: both will be slower for it."""
    for other in neighbours():
        report(
            f"beside this {described(other)} runs on this machine: what is measured meanwhile is "
            "slower, and the records say so. Better wait for its end, or take it down "
            "(./faultline cluster status, down)"
        )
