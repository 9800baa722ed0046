"""Nodes that share a container, reached by their process trees: `harness.cluster.docker.inside`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from harness.cluster.docker.containers import Containers
from harness.cluster.docker.daemon import told
from harness.cluster.processes import HostProcess
from harness.errors import EnvironmentFailure


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """One node's processes: what was done to them, and what they had used until then."""

    reached: bool = False
    began_unix_s: float | None = None
    """Just before the first process was signalled; None where none was."""
    at_unix_s: float | None = None
    """When the last one had been signalled."""
    cpu_s: float = 0.0
    resident_bytes: int = 0


def perform(
    containers: Containers, worker: str, hosts: Sequence[HostProcess], order: str
) -> list[Tree]:
    """``order`` ("kill", "pause", "resume" or "look"), in one sweep, to the trees of ``hosts``.

    A worker that does not run has no trees. Raises `EnvironmentFailure` where the container cannot
    be asked.
    """
    if not hosts:
        return []
    trees = [{"pid": host.pid, "started_ticks": host.started_ticks} for host in hosts]
    command = ["python", "-m", "harness.cluster.docker.inside"]
    what = f"{order} of processes {', '.join(str(host.pid) for host in hosts)} in {worker} failed"
    with told(what):
        code, output = containers.of(worker).exec_run(
            [*command, json.dumps({"do": order, "trees": trees})]
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
