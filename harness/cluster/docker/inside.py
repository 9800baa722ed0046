"""Process trees inside a container, for nodes that share one: both ends of an order.

Pids are valid inside the container alone, so `perform` runs there: ``python -m
harness.cluster.docker.inside ORDER``. The order is one JSON argument, the answer one line on
standard output; neither holds a secret. `order` is the harness's end."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.cluster.processes import (
    HostProcess,
    ProcessIdentity,
    is_alive,
    signal_all,
    tree,
    wait_until_gone,
)
from harness.errors import EnvironmentFailure

if TYPE_CHECKING:
    from harness.cluster.docker.containers import Containers

SIGNALS = {"kill": signal.SIGKILL, "pause": signal.SIGSTOP, "resume": signal.SIGCONT}


def perform(order: dict[str, Any]) -> list[dict[str, Any]]:
    """Carry out an order on all of its trees in one sweep, and return an answer for each.

    ``{"do": "kill" | "pause" | "resume" | "look", "trees": [{"pid": ..., "started_ticks": ...}]}``
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """The answer for one tree: the effect, and the usage until then."""

    reached: bool = False
    began_unix_s: float | None = None
    """Just before the first signal; None where there was none."""
    at_unix_s: float | None = None
    """Just after the last signal."""
    cpu_s: float = 0.0
    resident_bytes: int = 0

    def joined(self, other: Tree) -> Tree:
        """Return this tree and another one of the same node as one."""
        begins = [t for t in (self.began_unix_s, other.began_unix_s) if t is not None]
        ends = [t for t in (self.at_unix_s, other.at_unix_s) if t is not None]
        return Tree(
            reached=self.reached or other.reached,
            began_unix_s=min(begins, default=None),
            at_unix_s=max(ends, default=None),
            cpu_s=self.cpu_s + other.cpu_s,
            resident_bytes=self.resident_bytes + other.resident_bytes,
        )


def order(containers: Containers, worker: str, do: str, hosts: Sequence[HostProcess]) -> list[Tree]:
    """Do "kill", "pause", "resume" or "look" to the trees of ``hosts``, in one sweep.

    A worker that does not run has no trees. Raises `EnvironmentFailure` where the container does
    not answer."""
    from harness.cluster.docker.daemon import failing

    if not hosts:
        return []
    trees = [{"pid": host.pid, "started_ticks": host.started_ticks} for host in hosts]
    command = ["python", "-m", "harness.cluster.docker.inside"]
    what = f"{do} of processes {', '.join(str(host.pid) for host in hosts)} in {worker} failed"
    with failing(what):
        code, output = containers.of(worker).exec_run(
            [*command, json.dumps({"do": do, "trees": trees})]
        )
    if code != 0:
        text = output.decode(errors="replace")
        if "is not running" in text or "is paused" in text:
            return [Tree() for _ in hosts]
        raise EnvironmentFailure(
            f"{what}: {text[-500:]}",
            remedy="see `docker logs` of the container; its machine may be short of memory",
        )
    return [Tree(**answer) for answer in json.loads(output)]


if __name__ == "__main__":
    print(json.dumps(perform(json.loads(sys.argv[1]))))
