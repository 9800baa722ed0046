"""``python -m harness.cluster.keeper RUN``: outlives the harness by a moment, and cleans up.

A harness can end without a chance to stop its cluster (SIGKILL, the out-of-memory killer). The
kernel's parent-death signal does not help: it is tied to the thread that forked and does not reach
the children of children, which here are the executors and their Python processes. So one small
process waits for the end of the owner and then buries the cluster. If the keeper is killed too,
the next start does the same from the registry.
"""

from __future__ import annotations

import os
import select
import sys

from harness.cluster.processes import ProcessIdentity, is_alive
from harness.cluster.registry import Registry


def wait_for_end(owner: ProcessIdentity) -> None:
    """Return when ``owner`` is no longer there. Burns no CPU meanwhile."""
    try:
        handle = os.pidfd_open(owner.pid)
    except ProcessLookupError:
        return
    if is_alive(owner):  # else the pid is somebody else's by now
        select.select([handle], [], [])
    os.close(handle)


def main(run: str) -> None:
    registry = Registry()
    record = next((record for record in registry.records() if record.run == run), None)
    if record is None or record.owner is None:
        return
    wait_for_end(record.owner)
    registry.bury(record)


if __name__ == "__main__":
    main(sys.argv[1])
