"""What was measured: records, where they are kept, where they come from, and them as tables.

Knows no experiment: whoever only reads results needs nothing else. `load` opens them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.results.library import SHIPPED, Library, load

__all__ = ["SHIPPED", "Library", "load"]


def __getattr__(name: str) -> Any:
    """The public names, imported when they are first used: pandas takes its time."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from harness.results import library

    return getattr(library, name)
