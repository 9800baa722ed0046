"""The figure of `experiments.live.peers`: every outage on one axis, split into its parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from experiments.live._outages import PARTS
from experiments.live._peers_rows import LABELS, WORDS
from harness.figures.style import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    VERMILION,
    legend_below,
    not_measured,
    stamp,
)

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

RELAPSE = "relapse_s"
LOOKS: Mapping[str, tuple[str, str]] = {
    "detection_s": ("detection", VERMILION),
    "restart_s": ("new place", ORANGE),
    "restore_s": ("restoration", PURPLE),
    "transaction_s": ("open transaction", BLUE),
    "replay_s": ("replay", GREEN),
    RELAPSE: ("late again", BLACK),
}
"""Parts of an outage, in their order."""
NOT_SPLIT, APART = "not split: nothing was reported", "in no part"
WRITTEN = 0.055
"""Least share of the axis of a part that has its seconds written on it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A recovery in OSPBench (van Dongen and Van den Poel, IEEE Access 2021), in seconds.

    One of five workers killed, at least once. Read off figures; another machine and another job."""

    system: str
    least_s: float
    most_s: float
    timeout_s: float
    """The detection timeout of its time that such a kill waits for; 0 without one."""
    timeout: str

    def row(self) -> dict[str, Any]:
        """Return the row of a table, with the share that the timeout explains."""
        return {
            **asdict(self),
            "least_share": self.timeout_s / self.most_s,
            "most_share": self.timeout_s / self.least_s,
        }


PUBLISHED: Sequence[Published] = (
    Published(
        system="Structured Streaming", least_s=20.0, most_s=20.0, timeout_s=0.0, timeout="none"
    ),
    Published(
        system="Kafka Streams", least_s=21.0, most_s=32.0, timeout_s=10.0,
        timeout="session.timeout.ms",
    ),
    Published(
        system="Flink", least_s=53.0, most_s=58.0, timeout_s=50.0, timeout="heartbeat.timeout"
    ),
)  # fmt: skip


def draw_outages(tables: Mapping[str, pd.DataFrame], figure: Figure) -> None:
    """Draw a bar per system and kind of kill, a cross per kill, and below what was published."""
    kills = tables["outages"]
    if not len(kills):
        not_measured(figure.subplots())
        return
    known = kills[kills["outage_s"].notna()]
    rows = [
        (_named(*map(str, names)), mine)
        for names, mine in known.groupby(["engine", "tuning", "workload", "kill"], sort=False)
    ]
    most_s = max([*known["outage_s"].astype(float), *(one.most_s for one in PUBLISHED)])
    above, below = figure.subplots(
        2, 1, sharex=True, gridspec_kw={"height_ratios": [max(len(rows), 1), len(PUBLISHED)]}
    )
    for place, (_, mine) in enumerate(rows):
        _draw_row(above, place, mine, most_s)
    _name(above, [name for name, _ in rows])
    above.set_title("measured here: crosses outages, bars parts of the recovery", loc="left")
    above.set_xlim(0, most_s * 1.04)
    above.set_ylabel("system, and what is killed")
    for place, one in enumerate(PUBLISHED):
        _draw_published(below, place, one)
    _name(below, [one.system for one in PUBLISHED])
    below.set_title("published by OSPBench, 2021: another machine, another job", loc="left")
    below.set_xlabel("seconds")
    for label, color in LOOKS.values():
        above.barh([0], [0], color=color, label=label)
    above.barh([0], [0], color="none", edgecolor=GREY, hatch="////", label=APART)
    above.barh([0], [0], color=GREY, alpha=0.6, label=NOT_SPLIT)
    above.plot([], [], "x", color=BLACK, markersize=4, linestyle="none", label="each kill")
    legend_below(figure, above, columns=4)
    stamp(figure, "bars: medians of the parts from the kill; >: not over when the load ended")


def _named(engine: str, tuning: str, workload: str, kind: str) -> str:
    """Return a row's name; the workload is in it where it is not word count."""
    name = LABELS.get((engine, tuning), engine)
    return f"{name}: {kind}" if workload == WORDS else f"{name}, {workload}: {kind}"


def _name(axes: Axes, names: Sequence[str]) -> None:
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.grid(visible=False, axis="y")


def _draw_row(axes: Axes, place: int, mine: pd.DataFrame, most_s: float) -> None:
    over = mine["caught_up"].astype(bool)
    for marker, some in (("x", mine[over]), (">", mine[~over])):
        axes.plot(
            some["outage_s"], [place] * len(some), marker, color=BLACK, markersize=4,
            linestyle="none",
        )  # fmt: skip
    if idle := int(mine.reindex(columns=["hit_work"])["hit_work"].eq(False).sum()):
        axes.text(
            float(mine["outage_s"].max()) + 0.02 * most_s, place,
            f"{idle} of {len(mine)} kills hit no work", va="center", fontsize=7,
        )  # fmt: skip
    split = mine[over].dropna(subset=list(PARTS))
    whole_s = float(mine["outage_s"].median())
    if not len(split):
        axes.barh([place], [whole_s], color=GREY, alpha=0.6)
        return
    left = 0.0
    for part in (*PARTS, RELAPSE):
        if part not in split:  # records from before it was counted
            continue
        width = float(split[part].astype(float).median())
        axes.barh([place], [width], left=left, color=LOOKS[part][1], alpha=0.8)
        _write(axes, place, left, width, most_s)
        left += width
    if left < whole_s:
        axes.barh(
            [place], [whole_s - left], left=left, color="none", edgecolor=GREY, hatch="////",
            linewidth=0.5,
        )  # fmt: skip


def _draw_published(axes: Axes, place: int, one: Published) -> None:
    axes.barh([place], [one.timeout_s], color=VERMILION, alpha=0.4)
    axes.plot(
        [one.least_s, one.most_s],
        [place, place],
        color=BLACK,
        marker="|",
        linewidth=3,
        markersize=9,
    )
    row = one.row()
    said = (
        f"{one.timeout} {one.timeout_s:g} s: {row['least_share']:.0%} to {row['most_share']:.0%}"
        if one.timeout_s
        else "no timeout explains it"
    )
    inside = one.timeout_s > one.least_s / 2
    axes.text(0.5 if inside else one.most_s + 1, place, said, va="center", fontsize=8)


def _write(axes: Axes, place: int, left: float, width: float, most_s: float) -> None:
    if width >= WRITTEN * most_s:
        axes.text(
            left + width / 2, place, f"{width:.1f}", ha="center", va="center", fontsize=7,
            color="white",
        )  # fmt: skip
