"""The list of live engines, from which commands, experiments and documents are made."""

from __future__ import annotations

from pathlib import Path

from harness.engines.base import EngineKind
from harness.engines.flink.engine import FlinkKind
from harness.engines.kafka_streams.engine import KafkaStreamsKind
from harness.engines.programs.described import SUFFIXES, engine_of_file
from harness.engines.structured.engine import StructuredKind
from harness.engines.tasks.engine import TaskEngineKind
from harness.errors import UsageError
from harness.text import did_you_mean

ENGINES: tuple[EngineKind, ...] = (
    StructuredKind(),
    TaskEngineKind(),
    KafkaStreamsKind(),
    FlinkKind(),
)
"""The simulator is not in it: it runs in virtual time, where nothing can begin or drain."""


def is_file(name: str) -> bool:
    """Return True if an engine's name is that of a file of the user's own."""
    return name.endswith((*SUFFIXES, ".py"))


def find_engine(name: str) -> EngineKind:
    """Return the engine of that name, or the one that a file describes or defines.

    Raises `UsageError` with the nearest name if there is none, or with the mistake in the file."""
    if is_file(name):
        kind = engine_of_file(Path(name))
        if kind.name in [one.name for one in ENGINES]:
            raise UsageError(
                f"{name}: the engine is called {kind.name!r}, as one of Faultline's own",
                remedy="give it another name: results are kept and shown by it",
            )
        return kind
    for kind in ENGINES:
        if kind.name == name:
            return kind
    raise UsageError(
        f"there is no engine {name!r}", remedy=did_you_mean(name, [kind.name for kind in ENGINES])
    )
