"""The last used cluster, kept warm between runs, and the logs of a failed one."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

from harness.cluster.base import Cluster, ClusterSpec
from harness.errors import EnvironmentFailure
from harness.measurement import Kept
from harness.running.peaks import files_below
from harness.text import Notify

LOG_ENDINGS, LOG_BYTES = (".log", ".out", ".err"), 1_000_000
"""Patterns of log files, and the number of bytes that are kept of one."""


class ClusterPool:
    """Keeps the last used cluster warm with what runs on it: a start takes many seconds."""

    def __init__(self, make: Callable[[ClusterSpec], Cluster]) -> None:
        self._make = make
        self._cluster: Cluster | None = None
        self._kept: tuple[str, Any] | None = None
        self._closing = ExitStack()

    @property
    def run_directory(self) -> Path | None:
        """Run directory of the cluster that is up."""
        return None if self._cluster is None else self._cluster.run_directory

    @property
    def versions(self) -> Mapping[str, str]:
        """Versions that the servers of the cluster that is up state themselves."""
        stated = None if self._cluster is None else self._cluster.redis.server_version()
        return {} if stated is None else {"redis": stated}

    def get(self, spec: ClusterSpec, report: Notify) -> Cluster:
        """Return a running cluster of that shape with every node alive."""
        if (warm := self._cluster) is not None:
            try:
                if self._made_ready(warm, spec, report):
                    return warm
            except EnvironmentFailure as failure:
                report(f"the warm cluster did not recover ({failure.what}): starting a new one")
        self.close()
        cluster = self._make(spec)
        cluster.start(report)
        self._cluster = cluster
        return cluster

    def _made_ready(self, warm: Cluster, spec: ClusterSpec, report: Notify) -> bool:
        """Return True if the warm cluster has that shape or can take it."""
        if warm.spec != spec:
            self._let_go()
            return warm.reshape(spec, report)
        warm.restore(report)
        warm.tidy()
        return True

    def keep(
        self,
        key: str,
        start: Callable[[], AbstractContextManager[Kept]],
        check: Callable[[Kept], None],
        report: Notify,
    ) -> Kept:
        """Return the object under ``key``: the one of the last run if it is still of use."""
        if self._kept is not None and self._kept[0] == key:
            kept: Kept = self._kept[1]
            try:
                check(kept)
            except EnvironmentFailure as failure:
                report(f"the {key} did not recover ({failure.what}): starting them anew")
            else:
                return kept
        self._let_go()
        started = self._closing.enter_context(start())
        self._kept = (key, started)
        return started

    def _let_go(self) -> None:
        self._kept = None
        self._closing.close()

    def close(self) -> None:
        """Stop the cluster and what runs on it."""
        cluster, self._cluster = self._cluster, None
        try:
            self._let_go()
        finally:
            if cluster is not None:
                cluster.stop()


def keep_logs(where: Path, target: Path) -> None:
    """Copy the log files below ``where``, each with at most its last `LOG_BYTES`."""
    for path in sorted(files_below(where)):
        if path.suffix in LOG_ENDINGS and path.is_file() and not path.is_symlink():
            kept = target / path.relative_to(where)
            with contextlib.suppress(OSError):  # a log that is gone meanwhile says nothing
                kept.parent.mkdir(parents=True, exist_ok=True)
                with path.open("rb") as log:
                    log.seek(max(0, path.stat().st_size - LOG_BYTES))
                    kept.write_bytes(log.read())
