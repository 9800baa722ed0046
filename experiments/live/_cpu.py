"""CPU seconds of a live engine's processes, and bytes of their connections, sampled during a pass.

All processes on the workers count (their virtual machines, executors, Python) and the engine's own
(drivers, coordinator). Kafka and Redis are counted apart (`servers_cpu_s`); the Spark master, the
load generator and the harness are not.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np

from harness.measure.sampler import Sampler

if TYPE_CHECKING:
    from harness.cluster.base import Cluster
    from harness.engines.base import Engine

Value = TypeVar("Value")
EVERY_S = 0.5
BROKER, REDIS = "kafka", "redis"
"""Names of the servers, the first as in the journal of a local cluster."""
_REDIS_CPU = ("user", "sys", "user_children", "sys_children")
MACHINES, PYTHON = "java", "python"
"""Parts on the workers: virtual machines, and the Python processes that they start."""


def cpu_s(cluster: Cluster, engine: Engine) -> dict[str, float]:
    """Return CPU seconds used so far by part: `MACHINES`, `PYTHON`, the engine's own processes.

    `Cluster.usage` counts a node's own tree, which leaves an executor out where nodes share it."""
    from harness.cluster.processes import members

    used: defaultdict[str, float] = defaultdict(float)
    for worker, stats in members(cluster.run).items():
        for stat in stats if worker else ():
            used[MACHINES if _is_java(stat.pid) else PYTHON] += stat.cpu_s
    own = {name: usage.cpu_s or 0.0 for name, usage in engine.usage().items()}
    return {**used, **own}


def servers_cpu_s(cluster: Cluster) -> dict[str, float]:
    """Return CPU seconds used so far by the broker and by Redis, which work for both engines.

    The broker's are known of a local cluster alone."""
    from harness.cluster.processes import read_stat
    from harness.cluster.run_directory import read_journal

    used = {}
    broker = dict(read_journal(cluster.run_directory)).get(BROKER)
    stat = read_stat(broker.pid) if broker is not None else None
    if broker is not None and stat is not None and stat.identity == broker:
        used[BROKER] = stat.cpu_s
    with cluster.redis.client() as client:
        cpu = client.info("cpu")
    used[REDIS] = sum(float(cpu[f"used_cpu_{name}"]) for name in _REDIS_CPU)
    return used


def loops_s(cluster: Cluster) -> float:
    """Return CPU seconds used so far by the main threads of the Python processes on the workers.

    They are the nodes' event loops, which do one thing after the other. The threads of clients and
    readers run in parallel and do not count."""
    from harness.cluster.processes import members

    workers = members(cluster.run).items()
    pids = [stat.pid for worker, stats in workers if worker for stat in stats]
    return sum(_main_thread_s(pid) for pid in pids if not _is_java(pid))


def _main_thread_s(pid: int) -> float:
    try:
        running_ns = Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()[0]
    except OSError:  # it has ended meanwhile
        return 0.0
    return int(running_ns) / 1e9


def _is_java(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip() == "java"
    except OSError:  # it has ended meanwhile
        return False


class Counters(Sampler, Generic[Value]):
    """A sampler of what only grows."""

    def __init__(self, read: Callable[[], Value]) -> None:
        """Sample what ``read`` returns."""
        super().__init__(EVERY_S)
        self._read = read
        self._samples: list[tuple[float, Value]] = []
        """Each with its Unix time."""

    def sample(self) -> None:
        """Read them once."""
        value = self._read()
        self._samples.append((time.time(), value))


class CpuWatch(Counters[Mapping[str, float]]):
    """A sampler of the CPU seconds used so far, by name."""

    def between(self, from_unix_s: float, until_unix_s: float | None = None) -> dict[str, float]:
        """Return CPU seconds by part between two instants, the second by default the last sample's.

        The use of a process that ended in between is lost: such runs have no failures."""
        at = np.array([instant for instant, _ in self._samples])
        until = at[-1] if until_unix_s is None else until_unix_s
        found = {}
        for name in sorted({name for _, used in self._samples for name in used}):
            line = np.array([used.get(name, 0.0) for _, used in self._samples])
            begun, ended = np.interp([from_unix_s, until], at, line)
            found[name] = float(ended - begun)
        return found


class Carried(Counters[Mapping[int, int] | None]):
    """A sampler of the bytes that each connection has carried between nodes.

    None where the kernel shows none."""

    def __init__(self, cluster: Cluster) -> None:
        from harness.cluster.processes import members
        from harness.cluster.traffic import between

        def read() -> Mapping[int, int] | None:
            workers = members(cluster.run).items()
            pids = [stat.pid for worker, stats in workers if worker for stat in stats]
            return between(pids, {cluster.redis.port})

        super().__init__(read)

    def between(self, from_unix_s: float, until_unix_s: float) -> float | None:
        """Return the bytes between two instants, scaled from the samples in between.

        None where the kernel shows no connection of the nodes."""
        from harness.cluster.traffic import increase

        inside = [one for one in self._samples if from_unix_s <= one[0] <= until_unix_s]
        if len(inside) < 2:
            return None
        (begun, before), (ended, after) = inside[0], inside[-1]
        if before is None or after is None:
            return None
        return increase(before, after) * (until_unix_s - from_unix_s) / (ended - begun)
