"""``report/trends.html``: every metric over all nights, a chart a class of machine.

Change points are marked where the level of the history moves (`harness.nightly.moves`)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.figures.style import BLACK, BLUE, GREY, VERMILION
from harness.nightly.history import History, Night
from harness.nightly.metrics import METRICS
from harness.nightly.moves import change_points, medians, step_in_words, steps, unit_of
from harness.pages.drawing import data_uri, drawing
from harness.pages.layout import templates

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST_LABELS = 8
"""Dates on the axis: more of them overlap."""
_TEMPLATE = "trends.html.j2"
SIZE_IN = (7.0, 2.4)


def draw(nights: Sequence[Night], name: str, figure: Figure) -> None:
    """Draw a metric's samples and median of every night, with the change points."""
    axes = figure.subplots()
    scale, label = _axis(name)
    for index, night in enumerate(nights):
        metric = night.metrics.get(name)
        samples = [
            scale * value for value in (metric.seconds if metric else ()) if value is not None
        ]
        axes.plot([index] * len(samples), samples, ".", color=GREY, alpha=0.35, markersize=3)
    at, values = medians(nights, name)
    axes.plot(at, scale * values, "-o", color=BLUE)
    unit = unit_of(nights, name)
    points = change_points(values.tolist(), unit)
    for point, step in zip(points, steps(values, points, unit), strict=True):
        where = (at[point - 1] + at[point]) / 2
        axes.axvline(where, color=VERMILION, linestyle="--", linewidth=1.2)
        axes.annotate(
            f"level moves {step_in_words(step, unit)}",
            xy=(where, 1.0), xycoords=("data", "axes fraction"),
            xytext=(3, -3), textcoords="offset points", va="top", fontsize=7, color=VERMILION,
        )  # fmt: skip
    axes.set_ylim(bottom=0.0, top=1.15 * axes.get_ylim()[1])  # room for the words above the line
    axes.set_ylabel(label)
    _nights_axis(axes, nights)


_KNOWN = {metric.name: metric for metric in METRICS}


def _axis(name: str) -> tuple[float, str]:
    """Return the factor for a metric's values, and the label of its axis."""
    metric = _KNOWN.get(name, METRICS[0])  # one that is no longer measured was a loop
    if metric.turns:
        return 1.0, f"{metric.what} ({metric.scale.unit})" if metric.scale.unit else metric.what
    return 1e3, "processor time of a call (ms)"


def live_numbers(nights: Sequence[Night]) -> dict[str, list[tuple[int, float]]]:
    """Return the numbers of the claims about live engines: title to (night, value)."""
    found: dict[str, list[tuple[int, float]]] = {}
    for index, night in enumerate(nights):
        for claim in night.claims:
            for name, value in claim.numbers.items():
                title = f"{claim.experiment} ({claim.profile}): {name}. {claim.text}"
                found.setdefault(title, []).append((index, value))
    return found


def draw_live(points: Sequence[tuple[int, float]], nights: Sequence[Night], figure: Figure) -> None:
    """Draw one number of live runs, night by night, without change points."""
    axes = figure.subplots()
    axes.plot([index for index, _ in points], [value for _, value in points], "-o", color=BLUE)
    axes.set_ylim(bottom=min(0.0, *(value for _, value in points)))
    _nights_axis(axes, nights)


def _nights_axis(axes: Axes, nights: Sequence[Night]) -> None:
    """Label the nights, and mark those with changed code by a triangle on the axis."""
    changed = [
        index
        for index, (before, night) in enumerate(pairwise(nights), start=1)
        if night.commit != before.commit
    ]
    axes.plot(
        changed, [0.0] * len(changed), "^", color=BLACK, markersize=4, clip_on=False,
        transform=axes.get_xaxis_transform(), gid="changed code",
    )  # fmt: skip
    axes.set_xlim(-0.5, max(len(nights) - 0.5, 0.5))
    shown = range(0, len(nights), -(-len(nights) // _MOST_LABELS))
    axes.set_xticks(
        list(shown), [f"{_day(nights[index])}\n{nights[index].commit[:8]}" for index in shown]
    )


def write_trends(history: History) -> Path:
    """Write ``report/trends.html`` next to ``history``."""
    machines = [
        _machine(name, nights) for name in history.machines() if (nights := history.read(name))
    ]
    folder = history.folder.parent / "report"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "trends.html"
    report = (folder / "index.html").exists()
    partial = path.with_suffix(".partial")
    page = templates(Path(__file__).parent).get_template(_TEMPLATE)
    partial.write_text(page.render(machines=machines, report=report))
    partial.rename(path)
    return path


def _machine(name: str, nights: Sequence[Night]) -> dict[str, Any]:
    newest = nights[-1]
    titles = {name: metric.title for name, metric in _KNOWN.items()}
    names = list(titles)
    names += sorted({each for night in nights for each in night.metrics} - set(names))
    drawn = [
        (titles.get(each, each), _axis(each)[1], partial(draw, nights, each))
        for each in names
        if len(medians(nights, each)[0])
    ]
    drawn += [
        (title, "as live runs measured it", partial(draw_live, points, nights))
        for title, points in live_numbers(nights).items()
    ]
    return {
        "name": name,
        "machine": newest.machine,
        "nights": len(nights),
        "charts": [
            {"title": title, "about": about, "source": data_uri("svg+xml", drawing(it, SIZE_IN))}
            for title, about, it in drawn
        ],
        "alarms": [
            {"day": _day(night), "commit": night.commit, "baseline": night.baseline, "text": alarm}
            for night in reversed(nights)
            for alarm in night.alarms
        ][:50],
    }


def _day(night: Night) -> str:
    return datetime.fromtimestamp(night.started_unix_s, UTC).strftime("%Y-%m-%d")
