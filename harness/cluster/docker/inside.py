"""``python -m harness.cluster.docker.inside ORDER``: what is done to one node inside its container.

Where several nodes share a worker they share its container, and only their process trees tell
them apart. Pids mean something inside the container alone, so this runs there. The order is one
JSON argument, the answer one line on standard output; neither holds a secret.
"""

from __future__ import annotations

import json
import signal
import sys
from typing import Any

from harness.cluster.processes import ProcessIdentity, is_alive, signal_all, tree, wait_until_gone

SIGNALS = {"kill": signal.SIGKILL, "pause": signal.SIGSTOP, "resume": signal.SIGCONT}


def perform(order: dict[str, Any]) -> dict[str, Any]:
    """``{"do": "kill" | "pause" | "resume" | "look", "pid": ..., "started_ticks": ...}``"""
    root = ProcessIdentity(pid=order["pid"], started_ticks=order["started_ticks"])
    family = tree([root.pid]) if is_alive(root) else []
    used = {
        "cpu_s": sum(stat.cpu_s for stat in family),
        "resident_bytes": sum(stat.resident_bytes for stat in family),
    }
    if order["do"] == "look" or not family:
        return {"reached": bool(family), "at_unix_s": None, **used}
    done = signal_all(lambda: tree([root.pid]), SIGNALS[order["do"]])
    if order["do"] == "kill":
        wait_until_gone([stat.identity for stat in done.processes], limit_s=10)
    return {"reached": bool(done.processes), "at_unix_s": done.at_unix_s, **used}


if __name__ == "__main__":
    print(json.dumps(perform(json.loads(sys.argv[1]))))
