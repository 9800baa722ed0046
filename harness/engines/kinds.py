"""The list of live engines, from which commands, experiments and documents are made."""

from __future__ import annotations

from harness.engines.base import EngineKind
from harness.engines.structured.engine import StructuredKind
from harness.engines.tasks.engine import TaskEngineKind
from harness.errors import UsageError
from harness.text import did_you_mean

ENGINES: tuple[EngineKind, ...] = (
    StructuredKind(),
    TaskEngineKind(),
)
"""The simulator is not in it: it runs in virtual time, where nothing can begin or drain."""


def find_engine(name: str) -> EngineKind:
    """Return the engine of that name; raise `UsageError` with the nearest one if there is none."""
    for kind in ENGINES:
        if kind.name == name:
            return kind
    raise UsageError(
        f"there is no engine {name!r}", remedy=did_you_mean(name, [kind.name for kind in ENGINES])
    )
