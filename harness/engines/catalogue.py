"""The engines, once: commands, experiments and documents are made from this list."""

from __future__ import annotations

from contextlib import AbstractContextManager

from harness.cluster.base import Cluster
from harness.engines.base import Engine, EngineKind, Setup
from harness.engines.structured.engine import StructuredKind
from harness.errors import UsageError
from harness.experiment import Context
from harness.text import did_you_mean

ENGINES: tuple[EngineKind, ...] = (StructuredKind(),)
"""Live engines. The simulator runs in virtual time, so nothing can begin or drain in it."""


def find_engine(name: str) -> EngineKind:
    """The engine of that name. Raises `UsageError` that lists them."""
    for kind in ENGINES:
        if kind.name == name:
            return kind
    raise UsageError(
        f"there is no engine {name!r}", remedy=did_you_mean(name, [kind.name for kind in ENGINES])
    )


def warm_engine(kind: EngineKind, setup: Setup, cluster: Cluster, context: Context) -> Engine:
    """An engine that is ready: the one that an earlier run opened with the same setup on the same
    cluster, whatever its workload was, because opening one takes half a minute."""

    def start() -> AbstractContextManager[Engine]:
        context.progress(f"opening the engine {kind.name} ({setup.scheme})")
        return kind.open(setup, cluster)

    return context.keep(kind.key(setup), start, check=lambda engine: engine.check())
