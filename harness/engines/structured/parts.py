"""Parts of the stock engine that die without their node: a driver, an executor.

They are targets of a schedule beside the cluster's nodes and racks: ``driver`` or ``driver-0`` is
the driver of the first application, ``executor-r1n1`` the executor on a worker that lives on. Their
processes must be the machine's own, so only the local cluster has them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from harness.cluster.agent.finding import is_executor
from harness.cluster.base import Cluster, Prepared
from harness.cluster.killing import prepare_kill
from harness.cluster.processes import RUN_VARIABLE, members, tree
from harness.errors import UsageError

FIRST, DRIVER, EXECUTOR = "driver", "driver-", "executor-"
BACKEND = "local"
"""The only cluster that has them."""


def names(nodes: Sequence[str], applications: int) -> list[str]:
    """Return the parts that can be killed."""
    return [
        FIRST,
        *(f"{DRIVER}{copy}" for copy in range(applications)),
        *(f"{EXECUTOR}{node}" for node in nodes),
    ]


def demand(targets: Iterable[str], backend: str, what: str) -> None:
    """Raise `UsageError` if one of ``targets`` is a part, and the cluster has none to kill."""
    mine = [name for name in targets if name == FIRST or name.startswith((DRIVER, EXECUTOR))]
    if mine and backend != BACKEND:
        raise UsageError(
            f"{what} kills {mine[0]} alone, which a cluster {backend} cannot do",
            remedy=f"use --cluster {BACKEND}, or kill a node or a rack",
        )


def prepare(
    part: str, cluster: Cluster, driver_of: Callable[[int], int], killed: Callable[[int], None]
) -> Prepared:
    """Find the processes of a part and hold them; its `Prepared.apply` kills them.

    ``driver_of`` gives the pid of an application's driver; ``killed`` is told of its end."""
    if part.startswith(EXECUTOR):
        name = part.removeprefix(EXECUTOR)
        worker = next(node.worker for node in cluster.nodes() if node.name == name)
        # Of this very cluster: another run's worker can have the same address.
        own = members(cluster.driver_environment()[RUN_VARIABLE]).get(worker, ())
        return prepare_kill(part, tree(stat.pid for stat in own if is_executor(stat.pid)))
    copy = 0 if part == FIRST else int(part.removeprefix(DRIVER))
    return prepare_kill(part, tree([driver_of(copy)]), before=lambda: killed(copy))
