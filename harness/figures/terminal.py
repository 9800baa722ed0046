"""Small pictures made of characters, for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

_EIGHTHS = " ▁▂▃▄▅▆▇█"


def area_chart(values: Sequence[float], *, height: int, top: float = 1.0) -> list[str]:
    """Return ``height`` lines, the highest first, one column per value in [0, ``top``].

    The resolution is an eighth of a character; any value above zero is visible in the lowest line.
    """
    assert height >= 1, "a chart needs a line"
    assert top > 0, "a chart needs room"
    filled = [max(0, min(8 * height, _eighths(value, height, top))) for value in values]
    return [
        "".join(_EIGHTHS[max(0, min(8, level - 8 * line))] for level in filled)
        for line in reversed(range(height))
    ]


def _eighths(value: float, height: int, top: float) -> int:
    level = round(8 * height * value / top)
    return max(level, 1) if value > 0.0 else 0
