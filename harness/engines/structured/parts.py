"""Parts of the stock engine that die without their node: a driver, an executor.

They are targets of a schedule beside the cluster's nodes and racks: ``driver-0`` is the driver of
the first application, ``executor-r1n1`` the executor on a worker that lives on. Their processes
must be the machine's own, so only the local cluster has them."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable, Sequence

import psutil

from harness.cluster.base import Cluster, Prepared, Victim

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
    """Find the processes of a part; its `Prepared.apply` kills them.

    ``driver_of`` gives the pid of an application's driver; ``killed`` is told of its end."""
    if part.startswith(DRIVER):
        copy = int(part.removeprefix(DRIVER))
        root = psutil.Process(driver_of(copy))
        found = [root, *root.children(recursive=True)]

        def end_driver() -> Sequence[Victim]:
            killed(copy)
            return [_kill(part, found)]

        return Prepared(end_driver)
    host = {node.name: node.host for node in cluster.nodes()}[part.removeprefix(EXECUTOR)]
    executors = list(_executors(host))
    return Prepared(lambda: [_kill(part, executors)])


def _executors(host: str) -> Iterable[psutil.Process]:
    """Yield the executors of a worker's address, with their own children."""
    for process in psutil.process_iter():
        try:
            command = process.cmdline()
            if any("CoarseGrainedExecutorBackend" in word for word in command) and host in command:
                yield process
                yield from process.children(recursive=True)
        except psutil.Error:  # it ended meanwhile, or is another user's
            continue


def _kill(part: str, found: Iterable[psutil.Process]) -> Victim:
    began_unix_s = time.time()
    reached = []
    for process in found:
        try:
            if process.is_running():  # not another process with its pid
                os.kill(process.pid, signal.SIGKILL)
                reached.append(process.pid)
        except (ProcessLookupError, psutil.Error):
            continue
    return Victim(
        node=part,
        reached=bool(reached),
        began_unix_s=began_unix_s if reached else None,
        at_unix_s=time.time(),
        executors=len(reached),
        processes=tuple(reached),
    )
