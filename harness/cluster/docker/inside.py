"""``python -m harness.cluster.docker.inside ORDER``: what is done to nodes inside their container.

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


def perform(order: dict[str, Any]) -> list[dict[str, Any]]:
    """``{"do": "kill" | "pause" | "resume" | "look", "trees": [{"pid": ..., "started_ticks": ...},
    ...]}``

    One answer for each tree, in the order that was given. All are signalled in one sweep.
    """
    roots = [ProcessIdentity(**root) for root in order["trees"]]
    families = [tree([root.pid]) if is_alive(root) else [] for root in roots]
    answers: list[dict[str, Any]] = [
        {
            "reached": bool(family),
            "began_unix_s": None,
            "at_unix_s": None,
            "cpu_s": sum(stat.cpu_s for stat in family),
            "resident_bytes": sum(stat.resident_bytes for stat in family),
        }
        for family in families
    ]
    living = [root.pid for root, family in zip(roots, families, strict=True) if family]
    if order["do"] == "look" or not living:
        return answers
    done = signal_all(lambda: tree(living), SIGNALS[order["do"]])
    reached = {stat.identity for stat in done.processes}
    if order["do"] == "kill":
        wait_until_gone(reached, limit_s=10)
    for answer, family in zip(answers, families, strict=True):
        answer["reached"] = bool(reached & {stat.identity for stat in family})
        answer |= {"began_unix_s": done.began_unix_s, "at_unix_s": done.at_unix_s}
    return answers


if __name__ == "__main__":
    print(json.dumps(perform(json.loads(sys.argv[1]))))
