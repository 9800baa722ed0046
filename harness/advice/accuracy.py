"""The page docs/advice.md: how far the advice is off. ``./faultline advise --judge`` prints it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd

from harness.advice.evidence import FEATURES, FailureKind, SchemeName, evidence, fit
from harness.advice.judged import AIM, FEWEST_KILLS, Judged, judge, published
from harness.advice.live import kills_of
from harness.claims.samples import Lasting, lasting
from harness.intervals.systems import SYSTEMS, Failure
from harness.pages.layout import templates
from harness.results.library import Library


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
    kills, table = kills_of(results), published()
    judged = judge(kills.frame)
    error = lasting((table["ratio"] - 1.0).abs(), [True] * len(table))
    assert error is not None
    page = templates(Path(__file__).parent, escape=False).get_template("accuracy.md.j2")
    text: str = page.render(
        published=table.to_dict("records"),
        published_error=_verdict(error, "row"),
        kills=[row for one in judged.values() for row in _rows(one)],
        judged={system: _in_words(one) for system, one in judged.items()},
        left_out=kills.left_out,
        simulated=_simulated(results).to_dict("records"),
        systems=SYSTEMS.values(),
        settings=dict.fromkeys(each for system in SYSTEMS.values() for each in system.settings),
        Failure=Failure,
    )
    return text


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


def _in_words(judged: Judged) -> str:
    """Return how far the predictions of a system's kills are off."""
    if judged.error is None:
        felt = int((judged.kills["outage_s"] > 0).sum())
        return (
            f"{felt} kills with late results in {judged.kills['run'].nunique()} runs, "
            f"too few to judge: a prediction needs {FEWEST_KILLS} of other runs."
        )
    few = "" if judged.error.low is not None else " From fewer than six runs: undecided."
    return f"{_verdict(judged.error, 'kill')}{few}"


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
    for scheme, failure in product(SchemeName, FailureKind):
        if (fitted := fit(rows, scheme, failure)) is None:
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
