"""Results: records of runs, their store, their provenance, and their tables.

It does not depend on experiments, so a reader of results needs nothing else. `load` opens them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.results.library import SHIPPED, Library, load

__all__ = ["SHIPPED", "Library", "load"]


def __getattr__(name: str) -> Any:
    """Import a public name on its first use, because importing pandas is slow."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from harness.results import library

    return getattr(library, name)
