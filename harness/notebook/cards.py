"""Figures and claims as the report shows them, in a notebook."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.errors import UsageError
from harness.figures.style import new_figure, styled
from harness.pages.assessment import Assessment, assess
from harness.pages.report import Undrawable, attempt, claim_rows, data_uri
from harness.results.library import SHIPPED
from harness.results.store import RecordStore
from harness.running.discovery import all_experiments, find

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MARKS = {"held": "●", "not held": "✕", "undecided": "◐", "not measured": "○"}


@dataclass(frozen=True, slots=True)
class Card:
    """Something to look at; a notebook shows its HTML."""

    content: str

    def _repr_html_(self) -> str:
        return self.content

    def __repr__(self) -> str:
        return "<a figure; show it in a notebook>"


def show(experiment: str, results: str | Path = SHIPPED) -> Card:
    """One experiment's figure and its claims, from the newest records of a results directory.

    Raises `UsageError` where the directory has no record of it."""
    (found,) = find([experiment])
    judged = _newest(found.id, Path(results))
    if judged is None:
        known = sorted({each.experiment.id for each in every(results)})
        raise UsageError(
            f"{results} has no record of {experiment}",
            remedy=f"run it (./faultline run {experiment} --out {results}), or show one of: "
            f"{', '.join(known)}",
        )
    return Card(_content(judged))


def every(results: str | Path = SHIPPED, group: str | None = None) -> Sequence[Assessment]:
    """Every experiment (of a group) that a results directory has records of, judged."""
    found = [_newest(each.id, Path(results)) for each in all_experiments()]
    return [each for each in found if each and group in (None, each.experiment.group)]


def paper(group: str, results: str | Path = SHIPPED) -> Iterator[Card]:
    """Figure by figure, all that was measured of one paper."""
    for judged in every(results, group):
        yield Card(_content(judged))


def drawing(draw: Callable[[Figure], None], size_in: tuple[float, float] = (8.0, 4.0)) -> Card:
    """Draw a figure in the report's style: ``draw`` gets an empty one."""
    import io

    with styled():
        figure = new_figure(size_in)
        draw(figure)
        buffer = io.BytesIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    return Card(_image(data_uri("svg+xml", buffer.getvalue()), "a figure"))


def _newest(experiment: str, root: Path) -> Assessment | None:
    """Return the newest campaign, of any machine and profile."""
    (found,) = find([experiment])
    store, best = RecordStore(root), None
    for machine in sorted(path.name for path in (store.records / found.measurement.id).glob("*")):
        for profile in store.profiles(found.measurement.id, machine)[:1]:
            campaign = store.newest_campaign(
                found.measurement.id, machine, profile, found.grid[profile]
            )
            if campaign is None or not campaign.records:
                continue
            began = max(record.started_unix_s for record in campaign.records)
            if best is None or began > best[0]:
                best = began, assess(found, profile, campaign)
    return best[1] if best else None


def _content(judged: Assessment) -> str:
    experiment = judged.experiment
    record = judged.campaign.records[-1]
    parts = [
        f"<h4>{_text(experiment.title)}</h4>",
        f"<p><em>{_text(experiment.paper)}, {_text(experiment.figure)}</em> · "
        f"{experiment.origin.value} · {judged.profile.value} profile</p>",
        f"<blockquote>{_text(experiment.statement)}</blockquote>",
    ]
    if judged.table is not None:
        drawn = attempt(judged)
        if isinstance(drawn, Undrawable):
            parts.append(f"<pre>{_text(drawn.error)}</pre>")
        else:
            parts.append(_image(data_uri(*drawn), experiment.title))
    if judged.problem:
        parts.append(f"<pre>{_text(judged.problem)}</pre>")
    rows = "".join(_claim(row) for row in claim_rows(judged))
    parts.append(f"<table>{rows}</table>")
    parts.append(
        f"<p><small>{len(judged.campaign.valid)} of {judged.campaign.expected} runs valid · "
        f"{_text(record.machine.get('cpu', '?'))} · commit {_text(record.commit)} · again: "
        f"<code>./faultline run {experiment.id} --profile {judged.profile.value} --again</code>"
        "</small></p>"
    )
    return "".join(parts)


def _claim(row: dict[str, Any]) -> str:
    numbers = " · ".join(f"{_text(key)} = {_text(value)}" for key, value in row["measured"])
    small = f"<small>{numbers}</small>"
    if row["why"]:
        word = f" ({row['cause']})" if row["cause"] else ""
        small += f"<br>Why{word}: {_text(row['why'])}"
    return (
        f'<tr><td style="text-align:left">{MARKS[row["verdict"]]} {row["verdict"]}</td>'
        f'<td style="text-align:left">{_text(row["text"])}<br>{small}</td></tr>'
    )


def _image(source: str, alternative: str) -> str:
    # White behind every figure: they are drawn for paper, and a notebook may be dark.
    return (
        f'<img src="{source}" alt="{_text(alternative)}" '
        'style="max-width:100%;background:white;padding:6px">'
    )


def _text(value: object) -> str:
    return html.escape(str(value))
