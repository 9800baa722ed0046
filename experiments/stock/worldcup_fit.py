"""The fit of the World Cup generator to day 66.

Q1 of the PPA papers replays the access log of June 30, 1998. Where the real files are absent,
experiments run on `datasets.worldcup.generator`; this figure is the reason to believe them. It
draws a day with one request in a hundred and compares it with published numbers: requests per
ten minutes and per server (of that day), popularity and types (of 10,000 genuine records)."""

from __future__ import annotations

import numpy as np
import pandas as pd

from datasets.worldcup import facts
from datasets.worldcup.format import TYPES, Records
from datasets.worldcup.generator import START_S, Day66
from harness.claims import Claim, invariant, rows
from harness.experiment import Context, Experiment, Outcome, Point, Results, computed
from harness.figures.chart import Axes, Figure
from harness.figures.style import BLACK, BLUE

THINNING = 100
PARTITIONS = 2


def run(point: Point, context: Context) -> Outcome:
    """Generate the records of one seed, and compare them with published numbers per panel."""
    seed = context.seed("worldcup")
    thin = Day66(seed=seed, partitions=PARTITIONS, requests=facts.DAY_66_REQUESTS // THINNING)
    day = np.concatenate(
        [
            thin.records(partition, 0, round(thin.share(partition) * thin.requests))
            for partition in range(PARTITIONS)
        ]
    )
    full = Day66(seed=seed, partitions=PARTITIONS)
    middle = facts.DAY_66_REQUESTS // (2 * PARTITIONS)
    sample = np.concatenate(
        [full.records(partition, middle, 10_000 // PARTITIONS) for partition in range(PARTITIONS)]
    )
    rows = [*_over_time(day), *_servers(day), *_popularity(sample), *_types(sample)]
    fit = pd.DataFrame(rows, columns=["panel", "x", "published", "generated"])
    return Outcome(values={"records": len(day)}, series={"fit": fit})


Row = tuple[str, float, float, float]


def _over_time(day: Records) -> list[Row]:
    slots = np.bincount((day["timestamp"].astype(int) - START_S) // 600, minlength=144)
    pairs = zip(facts.DAY_66_PER_TEN_MINUTES, slots, strict=True)
    return [
        ("time", slot / 6, real / 600, found * THINNING / 600)
        for slot, (real, found) in enumerate(pairs)
    ]


def _servers(day: Records) -> list[Row]:
    counts = np.bincount(day["server"], minlength=256)
    return [
        ("server", byte, requests / facts.DAY_66_REQUESTS, counts[byte] / len(day))
        for byte, requests in facts.DAY_66_PER_SERVER.items()
    ]


def _popularity(sample: Records) -> list[Row]:
    counts = np.sort(np.bincount(sample["object"]))[::-1]
    return [
        ("popularity", number, share, counts[:number].sum() / len(sample))
        for number, share in facts.TOP_SHARES.items()
    ]


def _types(sample: Records) -> list[Row]:
    counts = np.bincount(sample["type"], minlength=len(TYPES))
    return [
        ("type", kind, facts.TYPE_COUNTS.get(kind, 0) / 10_000, counts[kind] / len(sample))
        for kind in range(len(TYPES))
    ]


MEASUREMENT = computed("stock/worldcup-fit", run=run, grid=[{}], seconds=0.3, repeats=(2, 5, 20))

# Shown: no record depends on what follows.

PANELS = {
    "time": (0.01, "The generated day has the published requests in every ten minutes"),
    "server": (0.05, "Every server has its published share of the requests"),
    "popularity": (
        0.06, "The top 1 to 500 objects get the share that they get among genuine records",
    ),
    "type": (0.03, "Every content type has the share that it has among genuine records"),
}  # fmt: skip
"""Largest error of any seed, relative (time, server) or a difference of shares, and the claim."""


def table(results: Results) -> pd.DataFrame:
    """Return per panel and x the published value, and mean, least and largest over the seeds."""
    fit = results.series("fit")
    grouped = fit.groupby(["panel", "x"], sort=False)
    return grouped.agg(
        published=("published", "first"),
        mean=("generated", "mean"),
        low=("generated", "min"),
        high=("generated", "max"),
        seeds=("generated", "size"),
    ).reset_index()


def _claim(panel: str) -> Claim:
    """Claim that the generator is calibrated: no seed is off by more than the tolerance."""
    tolerance, text = PANELS[panel]
    part = rows[rows["panel"] == panel]
    off = part[["low", "high"]].sub(part["published"], axis=0).abs().max(axis=1)
    error = off / part["published"] if panel in ("time", "server") else off
    return invariant(panel, text).every(
        error <= tolerance, largest_error=error.max(), tolerance=tolerance
    )


CLAIMS = [_claim(panel) for panel in PANELS]


def draw(table: pd.DataFrame, figure: Figure) -> None:
    """Draw published numbers in black, generated ones in blue with their range over the seeds."""
    axes = figure.subplots(2, 2)
    parts = {panel: table[table["panel"] == panel] for panel in PANELS}
    _draw_time(axes[0][0], parts["time"])
    _draw_servers(axes[0][1], parts["server"])
    _draw_popularity(axes[1][0], parts["popularity"])
    _draw_types(axes[1][1], parts["type"])


def _draw_time(axes: Axes, part: pd.DataFrame) -> None:
    axes.step(part["x"], part["published"], where="post", color=BLACK, lw=2.4, label="published")
    axes.step(part["x"], part["mean"], where="post", color=BLUE, lw=1.0, label="generated")
    axes.set_title("Requests over the day")
    axes.set_xlabel("hour of June 30, 1998, in Paris")
    axes.set_ylabel("requests per second")
    axes.set_xticks(range(0, 25, 4))
    axes.set_ylim(0)
    axes.legend(loc="upper left")


def _draw_servers(axes: Axes, part: pd.DataFrame) -> None:
    place = np.arange(len(part))
    axes.bar(place, 100 * part["published"], color="#cccccc", label="published")
    _points(axes, place, part)
    axes.set_title("Requests per server")
    axes.set_xticks(place[::3], [f"{int(byte)}" for byte in part["x"]][::3])
    axes.set_xlabel("server byte (region and number)")
    axes.set_ylabel("share of requests, %")


def _draw_popularity(axes: Axes, part: pd.DataFrame) -> None:
    axes.plot(part["x"], 100 * part["published"], color=BLACK, marker="s", label="genuine records")
    _points(axes, part["x"].to_numpy(), part)
    axes.set_xscale("log")
    axes.set_xticks(part["x"], [f"{int(number)}" for number in part["x"]])
    axes.minorticks_off()
    axes.set_title("Popularity")
    axes.set_xlabel("most requested objects (logarithmic)")
    axes.set_ylabel("share of requests, %")
    axes.legend(loc="upper left")


def _draw_types(axes: Axes, part: pd.DataFrame) -> None:
    shown = part[(part["published"] > 0) | (part["high"] > 0)]
    place = np.arange(len(shown))
    axes.bar(place, 100 * shown["published"], color="#cccccc", label="genuine records")
    _points(axes, place, shown)
    axes.set_yscale("symlog", linthresh=1)
    axes.set_yticks([0, 1, 10, 100], ["0", "1", "10", "100"])
    names = [TYPES[int(kind)].lower() for kind in shown["x"]]
    axes.set_xticks(place, names, rotation=35, ha="right")
    axes.set_title("Content types")
    axes.set_ylabel("share of requests, % (symlog)")


def _points(axes: Axes, place: np.ndarray, part: pd.DataFrame) -> None:
    below, above = part["mean"] - part["low"], part["high"] - part["mean"]
    axes.errorbar(
        place, 100 * part["mean"], yerr=[100 * below, 100 * above], color=BLUE, marker="o", ms=3,
        ls="none", capsize=2, lw=1, label="generated",
    )  # fmt: skip


EXPERIMENT = Experiment(
    measurement=MEASUREMENT,
    paper="Faultline",
    figure="World Cup generator",
    title="The World Cup generator against day 66",
    statement=(
        "Q1 replays the access log of June 30, 1998. Without the files, a generator stands in: "
        "requests over time and per server as published for that day, popularity and types as in "
        "10,000 genuine records of June 14."
    ),
    table=table,
    draw=draw,
    claims=CLAIMS,
    notes=(
        "One request in a hundred of the day is drawn; popularity and types are of 10,000 "
        "consecutive requests. Points are means over the seeds, bars their whole range.",
        "Published: the archive's check files and per-minute counts (M. Arlitt and T. Jin, 1998 "
        "World Cup Web Site Access Logs).",
    ),
    figure_size_in=(9.5, 6.5),
)
