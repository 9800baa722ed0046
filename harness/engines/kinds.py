"""The engines, once: commands, experiments and documents are made from this list."""

from __future__ import annotations

from harness.engines.base import EngineKind
from harness.engines.structured.engine import StructuredKind
from harness.engines.tasks.engine import TaskEngineKind
from harness.errors import UsageError
from harness.text import did_you_mean

ENGINES: tuple[EngineKind, ...] = (StructuredKind(), TaskEngineKind())
"""Live engines. The simulator runs in virtual time, so nothing can begin or drain in it."""


def find_engine(name: str) -> EngineKind:
    """The engine of that name. Raises `UsageError` that lists them."""
    for kind in ENGINES:
        if kind.name == name:
            return kind
    raise UsageError(
        f"there is no engine {name!r}", remedy=did_you_mean(name, [kind.name for kind in ENGINES])
    )
