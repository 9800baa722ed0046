"""The one list of cluster backends, asked by every command, figure and document."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from harness.cluster.base import Cluster, ClusterSpec
from harness.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """One kind of cluster that experiments can run on."""

    name: str
    """As it is given to ``--cluster`` and stands in `Cluster.backend`."""
    summary: str
    make: Callable[[ClusterSpec], Cluster]
    """A cluster of that shape, not started yet."""


def _local(spec: ClusterSpec) -> Cluster:
    # Imported on use: a command that starts no server should not load what servers need.
    from harness.cluster.local.cluster import LocalCluster

    return LocalCluster(spec)


_ALL = (
    Backend(
        name="local",
        summary="child processes on this machine's loopback interface; nothing to install",
        make=_local,
    ),
)

BACKENDS: Mapping[str, Backend] = {backend.name: backend for backend in _ALL}
DEFAULT = "local"


def find_backend(name: str) -> Backend:
    """The backend called ``name``. Raises `UsageError` that lists them all."""
    if name not in BACKENDS:
        raise UsageError(
            f"there is no cluster backend {name!r}", remedy=f"use one of {', '.join(BACKENDS)}"
        )
    return BACKENDS[name]
