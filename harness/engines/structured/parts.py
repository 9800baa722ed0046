"""Parts of the stock engine that die without their node: a driver, an executor.

They are targets of a schedule beside the cluster's nodes and racks: ``driver-0`` is the driver of
the first application, ``executor-r1n1`` the executor on a worker that lives on. Their processes
must be the machine's own, so only the local cluster has them."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence

from harness.cluster.agent.agent import is_executor
from harness.cluster.base import Cluster, Prepared, Victim
from harness.cluster.processes import (
    RUN_VARIABLE,
    HeldProcess,
    ProcessStat,
    hold,
    members,
    signal_held,
    tree,
)

DRIVER, EXECUTOR = "driver-", "executor-"


def names(cluster: Cluster, applications: int) -> list[str]:
    """Return the parts that can be killed on such a cluster."""
    if cluster.backend != "local":
        return []
    return [
        *(f"{DRIVER}{copy}" for copy in range(applications)),
        *(f"{EXECUTOR}{node.name}" for node in cluster.nodes()),
    ]


def prepare(
    part: str, cluster: Cluster, driver_of: Callable[[int], int], killed: Callable[[int], None]
) -> Prepared:
    """Find the processes of a part and hold them; its `Prepared.apply` kills them.

    ``driver_of`` gives the pid of an application's driver; ``killed`` is told of its end."""
    copy = int(part.removeprefix(DRIVER)) if part.startswith(DRIVER) else None
    held = hold(
        tree([driver_of(copy)])
        if copy is not None
        else _executors(cluster, part.removeprefix(EXECUTOR))
    )

    def apply() -> Sequence[Victim]:
        if copy is not None:
            killed(copy)
        return [_kill(part, held)]

    def close() -> None:
        for process in held:
            process.close()

    return Prepared(apply, close)


def _executors(cluster: Cluster, node: str) -> Sequence[ProcessStat]:
    """Return the executors of a node's worker in this very cluster, with their own children.

    Another run's worker can have the same address."""
    worker = {each.name: each.worker for each in cluster.nodes()}[node]
    own = members(cluster.driver_environment()[RUN_VARIABLE]).get(worker, ())
    return tree(stat.pid for stat in own if is_executor(stat.pid))


def _kill(part: str, held: Sequence[HeldProcess]) -> Victim:
    done = signal_held(held, signal.SIGKILL)
    reached = tuple(stat.pid for stat in done.processes)
    return Victim(
        node=part,
        reached=bool(reached),
        began_unix_s=done.began_unix_s if reached else None,
        at_unix_s=done.at_unix_s,
        executors=len(reached),
        processes=reached,
    )
