"""A kill on one time axis, as SVG that takes its colours from the page's style sheet.

Above, a lane per phase: detection, restart, restore, replay, output. Below, when each window was
complete and how late it was, in the pass with the failure and in its twin."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from html import escape
from pathlib import Path

import numpy as np
import pandas as pd

from harness.pages.kills import PHASES, Kill, Phase, seconds

WIDTH, LEFT, RIGHT = 760, 84, 16
STYLE = Path(__file__).parent / "templates" / "picture.css"
_ON_PAPER = (
    ":root { --ink: #1c2430; --soft: #5b6675; --line: #d8dee6; --failed: #a84200; "
    "--link: #00558f; }"
)
_TOP, _LANE, _PLOT = 22, 28, 170
_AXIS, _GAP = 34, 18
_MARGIN = 0.2
"""Share of the shown time that lies before the kill."""


def draw(kill: Kill) -> str:
    """Return the picture of a kill as an SVG element with a title and a description."""
    from_s, until_s = shown(kill)
    lanes_px = _TOP + _LANE * len(PHASES)
    plot = len(kill.windows[kill.windows["at_s"].between(from_s, until_s)]) > 0
    bottom = lanes_px + (_GAP + _PLOT if plot else 0)

    def x(at_s: float) -> float:
        share = (at_s - from_s) / (until_s - from_s)
        return LEFT + min(1.0, max(0.0, share)) * (WIDTH - LEFT - RIGHT)

    parts = [
        f'<svg class="kill" viewBox="0 0 {WIDTH} {bottom + _AXIS}" role="img" '
        'aria-labelledby="kt kd">',
        f'<title id="kt">{escape(f"{kill.action} of {kill.target} on one time axis")}</title>',
        f'<desc id="kd">{escape(described(kill))}</desc>',
    ]
    marks = [*ticks(from_s, until_s)]
    grid = "".join(f"M{x(at_s):.1f} {_TOP}V{bottom}" for at_s in marks)
    parts.append(f'<path class="grid" d="{grid}"/>')
    parts += (f'<text x="{x(at_s):.1f}" y="{bottom + 14}">{at_s:.6g}</text>' for at_s in marks)
    parts.append(f'<path class="killed" d="M{x(0):.1f} {_TOP - 6}V{bottom}"/>')
    parts.append(f'<text class="killed" x="{x(0):.1f}" y="{_TOP - 9}">{escape(kill.action)}</text>')
    for number, name in enumerate(PHASES):
        phase = kill.phase(name)
        y = _TOP + number * _LANE
        parts.append(
            f'<text class="end" x="{LEFT - 8}" y="{y + 18}">{escape(name)}</text>'
            + _bar(phase, x, y, until_s)
        )
    if plot:
        parts += _plot(kill.windows, x, lanes_px + _GAP, from_s, until_s)
    parts.append(
        f'<text x="{(LEFT + WIDTH) / 2:.0f}" y="{bottom + 30}">'
        "time since the first signal [s]</text></svg>"
    )
    return "\n".join(parts)


def standalone(kill: Kill) -> str:
    """Return the picture as an SVG document of its own, for white paper."""
    svg = draw(kill).replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
    first, rest = svg.split("\n", 1)
    return f"{first}\n<style>{_ON_PAPER}\n{STYLE.read_text()}</style>\n{rest}"


def shown(kill: Kill) -> tuple[float, float]:
    """Return the first and the last second of the picture, counted from the kill."""
    ends = [each.until_s for each in kill.phases if each.until_s is not None]
    span = max([0.01, *ends]) * 1.3
    after = kill.windows["at_s"]
    between = after.drop_duplicates().sort_values().diff().dropna()
    if len(between):
        span = max(span, 8 * float(between.median()))
        if not kill.phase("output").known:  # where it ends is for the reader to see
            span = max(span, float(after.max()))
    return -span * _MARGIN, span


def ticks(from_s: float, until_s: float) -> Iterator[float]:
    """Yield some six round numbers between two instants."""
    raw = (until_s - from_s) / 6
    step = 10 ** math.floor(math.log10(raw))
    step *= next(factor for factor in (1, 2, 5, 10) if factor * step >= raw)
    number = math.ceil(from_s / step)
    while number * step <= until_s:
        yield round(number * step, 9)
        number += 1


def described(kill: Kill) -> str:
    """Return the picture in words."""
    return "; ".join(f"{each.name}: {words(each)}" for each in kill.phases)


def words(phase: Phase) -> str:
    """Return the length of a phase, or the reason why it has none."""
    if phase.from_s is None or phase.until_s is None:
        return phase.why_not or "not recorded"
    text = seconds(phase.until_s - phase.from_s)
    if phase.open:
        text = f"more than {text}"
    if phase.name == "output" and phase.until_s == 0:
        text = "no window was late"
    return f"{text} ({phase.why_not})" if phase.why_not else text


def _bar(phase: Phase, x: Callable[[float], float], y: int, until_s: float) -> str:
    if phase.from_s is None or phase.until_s is None:
        return (
            f'<path class="lacking" d="M{x(0):.1f} {y + 14}H{WIDTH - RIGHT}"/>'
            f'<text class="start soft" x="{x(0) + 6:.1f}" y="{y + 10}">'
            f"{escape(words(phase))}</text>"
        )
    left, right = x(phase.from_s), x(phase.until_s)
    if phase.until_s <= 0.6 * until_s:
        at, place = right + 6, "start"
    elif left - LEFT > 120:
        at, place = left - 6, "end"
    else:
        at, place = left + 6, "start inside"
    return (
        f'<rect class="phase {phase.name}{" open" if phase.open else ""}" x="{left:.1f}" '
        f'y="{y + 4}" width="{max(right - left, 1.5):.1f}" height="18" rx="2"/>'
        f'<text class="{place}" x="{at:.1f}" y="{y + 18}">{escape(words(phase))}</text>'
    )


def _plot(
    windows: pd.DataFrame, x: Callable[[float], float], top: int, from_s: float, until_s: float
) -> Sequence[str]:
    near = windows[windows["at_s"].between(from_s, until_s)]
    most = max(float(near["latency_s"].max()), 1e-3) * 1.08

    def y(latency_s: float) -> float:
        return top + _PLOT * (1 - max(0.0, latency_s) / most)

    marks = [value for value in ticks(0, most) if value <= most]
    grid = "".join(f"M{LEFT} {y(value):.1f}H{WIDTH - RIGHT}" for value in marks)
    parts = [f'<path class="grid" d="{grid}"/>']
    parts += (
        f'<text class="end" x="{LEFT - 8}" y="{y(value) + 4:.1f}">{value:.4g}</text>'
        for value in marks
    )
    for which in ("twin", "failed"):
        mine = near[near["pass"] == which]
        if len(mine):
            parts.append(f'<path class="dots {which}" d="{_dots(mine, x, y)}"/>')
    middle = top + _PLOT / 2
    parts.append(
        f'<text transform="translate(14 {middle:.0f}) rotate(-90)">latency of a window [s]</text>'
    )
    return parts


def _dots(windows: pd.DataFrame, x: Callable[[float], float], y: Callable[[float], float]) -> str:
    """Return a point per window as steps from one to the next, which take half of the bytes."""
    tenths = np.array(
        [
            (round(10 * x(at_s)), round(10 * y(late_s)))
            for at_s, late_s in zip(windows["at_s"], windows["latency_s"], strict=True)
        ]
    )
    steps = np.diff(tenths, axis=0, prepend=0) / 10
    return "".join(f"m{right:g} {down:g}h0" for right, down in steps)
