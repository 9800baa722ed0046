"""The page docs/advice.md: how far the advice is off. ``./faultline advise --judge`` prints it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from harness.advice.evidence import FEATURES, FailureKind, SchemeName, evidence, fit
from harness.advice.judged import AIM, FEWEST_KILLS, Judged, judge, published
from harness.advice.live import Kills, kills_of
from harness.claims.samples import Lasting, lasting
from harness.intervals.systems import SYSTEMS, Failure
from harness.results.library import Library
from harness.text import format_duration

TEXT = Path(__file__).with_name("accuracy.md")
"""The words of the page; its tables follow."""


def document(results: Library) -> dict[str, Any]:
    """Return everything that `markdown` shows, with every kill, for ``--json``."""
    kills = kills_of(results)
    return {
        "aim": AIM,
        "published": published().to_dict("records"),
        "live": {
            system: {
                "median_error": judged.median_error,
                "median_error_is_at_least_that": judged.error is not None
                and not judged.error.known,
                "kills": judged.kills.to_dict("records"),
            }
            for system, judged in judge(kills.frame).items()
        },
        "left_out": dict(kills.left_out),
        "simulated": _simulated(results).to_dict("records"),
    }


def markdown(results: Library) -> str:
    """Return the page: its text, published outages, live kills, simulated runs, settings."""
    return "\n".join([
        TEXT.read_text(encoding="utf-8"),
        *_published(),
        "",
        *_live(kills_of(results)),
        "",
        *_of_simulation(_simulated(results)),
        "",
        *_settings(),
    ]) + "\n"  # fmt: skip


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [head, ["---"] * len(head), *rows]
    return [f"| {' | '.join(line)} |" for line in lines]


def _published() -> Iterator[str]:
    table = published()
    yield "## Outages that others published"
    yield ""
    yield from _table(
        ["system", "guarantee", "predicted", "best to worst", "published", "ratio"],
        [
            [
                str(row["framework"]),
                str(row["guarantee"]),
                f"{row['predicted_s']:.1f} s",
                f"{row['best_s']:.1f} to {row['worst_s']:.1f} s",
                f"{row['published_s']:g} s",
                f"{row['ratio']:.2f}",
            ]
            for _, row in table.iterrows()
        ],
    )
    yield ""
    error = lasting((table["ratio"] - 1.0).abs(), [True] * len(table))
    assert error is not None
    yield _verdict(error, "row")


def _verdict(error: Lasting, what: str) -> str:
    """Return a median error beside the aim; an interval with the aim inside decides nothing."""
    within = "within the aim" if error.median <= AIM else "not within the aim"
    least = "" if error.known else "at least "
    text = f"Median error of the {error.n} {what}s: {least}{error.shown:.1%}"
    if error.low is not None and error.high is not None and math.isfinite(error.high):
        text += f" (95 % interval {error.low:.1%} to {error.high:.1%})"
        if error.low <= AIM < error.high:
            within = "undecided beside the aim"
    return f"{text}, {within} of {AIM:.0%}."


def _live(kills: Kills) -> Iterator[str]:
    yield "## Kills on real servers"
    yield ""
    judged = judge(kills.frame)
    rows = [row for one in judged.values() for row in _rows(one)]
    if rows:
        yield from _table(
            [
                "system", "experiment", "interval", "kills", "not over", "predicted", "measured",
                "ratio",
            ],
            rows,
        )  # fmt: skip
        yield ""
    for system, one in judged.items():
        if one.error is None:
            felt = int((one.kills["outage_s"] > 0).sum())
            yield (
                f"* {system}: {felt} kills with late results in {one.kills['run'].nunique()} runs, "
                f"too few to judge: a prediction needs {FEWEST_KILLS} of other runs."
            )
        else:
            few = "" if one.error.low is not None else " From fewer than six runs: undecided."
            yield f"* {system}: {_verdict(one.error, 'kill')}{few}"
    for reason, count in kills.left_out.items():
        yield f"* Left out, {count}: {reason}."


def _rows(judged: Judged) -> Iterator[list[str]]:
    """Return a row per experiment and interval, with medians."""
    for (experiment, interval_s), mine in judged.kills.groupby(["experiment", "interval_s"]):
        felt = mine[mine["outage_s"] > 0]
        start = [judged.system, str(experiment), f"{float(str(interval_s)):g} s"]
        if not len(felt):
            yield [*start, str(len(mine)), "", "", "no late result", ""]
            continue
        predicted = ratio = ""
        measured = lasting(felt["outage_s"], felt["over"], passes=felt["run"])
        assert measured is not None
        known = felt.dropna(subset=["predicted_s"])
        if len(known):
            predicted_s = float(known["predicted_s"].median())
            predicted = f"{predicted_s:.2f} s"
            below = "" if measured.known else "under "
            ratio = f"{below}{predicted_s / measured.shown:.2f}"
        count = f"{len(felt)}" if len(felt) == len(mine) else f"{len(felt)} of {len(mine)}"
        never = str(measured.not_over or "")
        yield [*start, count, never, predicted, measured.describe(), ratio]


def _simulated(results: Library) -> pd.DataFrame:
    """Return, for each scheme and failure, the error of the formula and of the sum.

    Both on the simulated runs: the formula's, fitted without the run; the sum in the papers'
    measure, restore and replay from the detection on."""
    rows = evidence(results)
    found = []
    for scheme in SchemeName:
        for failure in FailureKind:
            fitted = fit(rows, scheme, failure)
            if fitted is None:
                continue
            runs = fitted.runs
            total = runs[list(FEATURES)].sum(axis=1)
            found.append(
                {
                    "scheme": str(scheme),
                    "failure": str(failure),
                    "points": len(runs),
                    "formula": float((runs["off"] - 1.0).abs().median()),
                    "sum": float((total / runs["recovery_s"] - 1.0).abs().median()),
                }
            )
    return pd.DataFrame(found, columns=["scheme", "failure", "points", "formula", "sum"])


def _of_simulation(table: pd.DataFrame) -> Iterator[str]:
    yield "## Simulated runs"
    yield ""
    yield from _table(
        ["scheme", "failure", "points", "median error of the formula", "of the sum"],
        [
            [
                str(row["scheme"]),
                str(row["failure"]),
                str(row["points"]),
                f"{row['formula']:.1%}",
                f"{row['sum']:.1%}",
            ]
            for _, row in table.iterrows()
        ],
    )


def _settings() -> Iterator[str]:
    yield "## Default settings"
    yield ""
    yield from _table(
        ["system", "detection, process killed", "machine lost", "waits", "transactions"],
        [
            [
                f"`{key}`",
                system.detect[Failure.PROCESS].describe(),
                system.detect[Failure.MACHINE].describe(),
                system.wait.describe(),
                system.settled.describe() if system.settled else format_duration(0.0),
            ]
            for key, system in SYSTEMS.items()
        ],
    )
    yield ""
    yield from _table(
        ["setting", "default", "source"],
        [
            [f"`{setting.name}`", setting.value, setting.source]
            for setting in dict.fromkeys(
                each for system in SYSTEMS.values() for each in system.settings
            )
        ],
    )
