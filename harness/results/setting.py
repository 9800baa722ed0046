"""The setting of a pass: what a record says of itself, so that nobody infers it from names."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

AS_IT_COMES, TUNED = "as it comes", "tuned"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Engine, scheme and settings of a pass; empty where several passes of a run differ."""

    engine: str = ""
    scheme: str = ""
    """The engine's name for it, such as ``checkpoint``."""
    mode: str = ""
    """The mode of an engine that has several."""
    interval_s: float | None = None
    """Time between two checkpoints."""
    workload: str = ""
    settings: str = ""
    """`AS_IT_COMES`, `TUNED`, or a name."""

    def row(self) -> dict[str, Any]:
        """Return what is known, by name."""
        return {name: value for name, value in asdict(self).items() if value not in ("", None)}

    def common(self, other: Setting) -> Setting:
        """Return what both have alike."""
        mine, others = asdict(self), asdict(other)
        return Setting(**{name: value for name, value in mine.items() if others[name] == value})


NOT_SET = Setting()
"""The setting of what runs no engine."""
