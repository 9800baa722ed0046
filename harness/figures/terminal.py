"""Small pictures made of characters, for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

_EIGHTHS = " ▁▂▃▄▅▆▇█"


def area_chart(values: Sequence[float], *, height: int) -> list[str]:
    """Return ``height`` lines, the highest first, one column per value in [0, 1].

    The resolution is an eighth of a character; any value above zero is visible in the lowest line.
    """
    assert height >= 1, "a chart needs a line"
    filled = [max(int(each > 0.0), min(8 * height, round(8 * height * each))) for each in values]
    return [
        "".join(_EIGHTHS[max(0, min(8, level - 8 * line))] for level in filled)
        for line in reversed(range(height))
    ]
