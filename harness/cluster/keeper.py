"""``python -m harness.cluster.keeper RUN``: clean up after a harness that died.

A harness can end without a chance to stop its cluster (SIGKILL, the out-of-memory killer). The
kernel's parent-death signal does not help: it is tied to the thread that forked and does not reach
the children of children, which here are the executors and their Python processes. So one small
process waits for the end of the owner and then removes the cluster. If the keeper is killed too,
the next start does the same from the records."""

from __future__ import annotations

import select
import sys
import time

from harness.cluster.backends import remove_made
from harness.cluster.ownership import ClusterRecords
from harness.cluster.processes import ProcessIdentity, is_alive, open_handle

_LOOK_AGAIN_S = 0.5
"""Interval between two looks, on kernels without pid file descriptors."""


def wait_for_end(owner: ProcessIdentity) -> None:
    """Wait until ``owner`` has ended."""
    try:
        handle = open_handle(owner.pid)
    except ProcessLookupError:
        return
    if handle is not None and is_alive(owner):  # else the pid is somebody else's by now
        select.select([handle], [], [])
    while is_alive(owner):
        time.sleep(_LOOK_AGAIN_S)


def main(run: str) -> None:
    records = ClusterRecords()
    record = next((record for record in records.records() if record.run == run), None)
    if record is None or record.owner is None:
        return
    wait_for_end(record.owner)
    records.clean_up(record, remove_made)


if __name__ == "__main__":
    main(sys.argv[1])
