"""Kills in the notebooks: one on a time axis, and all of them as medians with intervals."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING

import pandas as pd

from harness.claims.samples import median_of
from harness.errors import UsageError
from harness.notebook.cards import Card
from harness.pages.drawing import data_uri
from harness.pages.kill_picture import described, standalone
from harness.pages.kills import Kill, kills_of
from harness.pages.walk import named

if TYPE_CHECKING:
    from harness.results.library import Library


def kills(results: Library, experiment: str) -> list[Kill]:
    """Return every kill in the runs of an experiment.

    Raises `UsageError` if there is none."""
    (known,) = named(experiment)
    found = [
        kill
        for each in results.found
        if each.record.experiment == experiment
        for kill in kills_of(each, known)
    ]
    if not found:
        raise UsageError(
            f"no run of {experiment} here has a kill",
            remedy="load other results, or name another experiment",
        )
    return found


def show_kill(kill: Kill) -> Card:
    """Show what died, what followed, and the output, on one time axis."""
    alt = escape(f"{kill.action} of {kill.target}. {described(kill)}", quote=True)
    return Card(
        f'<img style="background: #fff; max-width: 48rem; width: 100%" alt="{alt}" '
        f'src="{data_uri("svg+xml", standalone(kill).encode())}">'
    )


def intervals(results: Library, *experiments: str) -> pd.DataFrame:
    """Return the parts of an outage by engine and scheme: median and 95 % interval in seconds.

    A sample is a pass, with the median of its kills; an interval needs six, else it is empty."""
    names = ["experiment", "engine", "scheme", "part"]
    rows = [row for name in experiments for row in _parts(kills(results, name))]
    frame = pd.DataFrame(rows, columns=[*names, "pass", "seconds"])
    found = {}
    for key, mine in frame.groupby(names, sort=False):
        sample = median_of(mine.groupby("pass")["seconds"].median())
        if sample is not None:
            found[key] = {
                "median_s": sample.value,
                "low_s": sample.low,
                "high_s": sample.high,
                "passes": sample.n,
                "kills": len(mine),
            }
    return pd.DataFrame.from_dict(found, orient="index").rename_axis(names)


def _part(kill: Kill, name: str) -> str:
    """Return the name of a part; an engine may report its restart and restore with the replay."""
    together = name == "replay" and not kill.phase("restart").known
    return "restart to replay" if together else name


def _parts(found: list[Kill]) -> Iterator[tuple[str, str, str, str, str, float]]:
    for kill in found:
        if kill.found.record.status != "ok":
            continue
        for phase in kill.phases:
            if phase.from_s is not None and phase.until_s is not None and not phase.open:
                yield (
                    kill.experiment.id,
                    kill.facets["engine"][0],
                    kill.facets["scheme"][0],
                    _part(kill, phase.name),
                    f"{kill.found.record.run}/{kill.variant}",
                    phase.until_s - phase.from_s,
                )
