"""What kills cost one's own job: a page of the measured costs, the advice, and the next steps.

Pure, apart from `write`: assessments of the kills in, a `Page` out.

Tests: ``tests/advice/test_costs.py``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from harness.claims.samples import FEWEST, lasting, median_of
from harness.figures.style import SCHEMES
from harness.judging.again import FIRST, FURTHER, deliveries
from harness.judging.calibration import MEDIAN_INTERVALS, TAIL_INTERVALS
from harness.measure.versions import compare, versions
from harness.pages.drawing import Picture, data_uri, drawing
from harness.pages.layout import templates
from harness.results.kills import OVERLAPPED, Kill, Seen, Unrecovered, alone
from harness.results.recorded import kill_rows

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from harness.results.tables import Results
    from workloads.base import Workload

KILLS: Mapping[str, str] = {"node": "a worker", "rack": "a rack"}
"""Scopes of failures, and their words."""
_BEHIND = (
    "the same input without a kill came late already, so there is no time to compare with; give a "
    "lower --rate, or the machine to this alone"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """The page, as text and as a picture."""

    title: str
    facts: Sequence[str]
    """What was run, a sentence each."""
    answer: str = ""
    """What was found, in one sentence."""
    verdict: str
    """Whether the results were right."""
    costs: pd.DataFrame
    """A row per scheme and kill, as text."""
    notes: Sequence[str]
    keeps_up: Sequence[str]
    advice: Sequence[str]
    commands: Mapping[str, str]
    """Commands for the next steps, with what each is for."""
    kills: pd.DataFrame = field(default_factory=pd.DataFrame)
    """A row per kill: `kills_of`."""

    def text(self) -> str:
        """Return the page for a terminal."""
        parts = [
            self.title,
            *([self.answer] if self.answer else []),
            "",
            *self.facts,
            "",
            self.verdict,
            "",
            self.costs.to_string(index=False) if len(self.costs) else "no kill was measured",
            *self.notes,
            "",
            *self.keeps_up,
            "",
            *self.advice,
            "",
            "next:",
            *(f"  {command}\n      {what}" for what, command in self.commands.items()),
        ]
        return "\n".join(parts)


def kills_of(results: Results, job: Workload | None = None) -> pd.DataFrame:
    """Return a row per kill of valid runs, with its costs.

    Columns: ``scheme``, ``mode``, ``trigger_s`` (in real-time mode the time between checkpoints),
    ``repeat``, ``kill`` (`KILLS`), ``outage_s``,
    ``at_least_s``, ``why_not``, ``output_gap_s``, and of the time until the next kill ``late``:
    results that came later than the twin's usual ones. Of the whole pass, so the same for each
    kill of it: ``repeated``, ``wrong`` (None where it is unknown). With a ``job`` that has late
    data, wrong results are those that differ from the same input without a kill."""
    rows: list[dict[str, Any]] = []
    if not len(results.frame):
        return pd.DataFrame(rows)
    failures, windows = results.each(kill_rows), results.series("windows")
    late_job = job if job is not None and job.late_data else None
    delivered = {name: results.series(name) for name in (FIRST, FURTHER) if late_job}
    for row in results.frame.to_dict("records"):
        run = {str(name): value for name, value in row.items()}
        mine = failures[failures["run"] == run["run"]].sort_values("at_s")
        kills = [Kill.from_row(each) for each in mine.to_dict("records")]
        broken = windows[(windows["run"] == run["run"]) & (windows["pass"] == "failed")]
        ends = [*(kill.at_s for kill in kills[1:]), float("inf")]
        for kill, end_s, seen in zip(kills, ends, alone(kills), strict=True):
            lasted = seen if isinstance(seen, Seen) else None
            rows.append(
                {
                    "scheme": run["scheme"],
                    "mode": "micro-batch" if pd.isna(run.get("mode")) else run["mode"],
                    "trigger_s": run.get("trigger_s", run["interval_s"]),
                    "repeat": run["repeat"],
                    "kill": KILLS.get(kill.scope, kill.target),
                    "outage_s": lasted.seconds if lasted and lasted.over else None,
                    "at_least_s": lasted.seconds if lasted and not lasted.over else None,
                    "why_not": seen if seen == OVERLAPPED else kill.recovery_why_not,
                    "output_gap_s": kill.output_gap_s,
                    "late": _late(broken, run.get("normal_latency_s"), kill.at_s, end_s),
                    "repeated": run["duplicates"],
                    "wrong": _changed(delivered, run["run"], late_job) if late_job else _wrong(run),
                }
            )
    return pd.DataFrame(rows)


def _late(
    windows: pd.DataFrame, normal_s: float | None, from_s: float, until_s: float
) -> int | None:
    """Return the results of windows that came late, and were complete between two instants."""
    if normal_s is None or pd.isna(normal_s):
        return None
    late = (windows["latency_s"] > normal_s) & (windows["complete_s"] > from_s)
    return int(windows.loc[late & (windows["complete_s"] <= until_s), "expected"].sum())


def _wrong(run: Mapping[str, Any]) -> int | None:
    """Return 0 if the results are right, None if it is unknown, else how many are not."""
    equal = run["output_equals_truth"]
    if equal is None or pd.isna(equal):
        return None
    return 0 if equal else max(1, round(run["results"] * (1 - (run["accuracy_last"] or 0.0))))


def _changed(delivered: Mapping[str, pd.DataFrame], run: str, job: Workload) -> int:
    """Return the number of results that a run's twin lacks, has alone, or gave another value."""
    mine = {name: own for name, f in delivered.items() if len(own := f[f["run"] == run])}
    identity, values, tolerance = job.identity_in_run, job.values, job.tolerance
    twin, failed = (
        versions(deliveries(mine, name), identity, values, tolerance=tolerance).stable
        for name in ("twin", "failed")
    )
    found = compare(failed, twin, identity, values, tolerance=tolerance)
    return len(found.missing) + len(found.extra) + len(found.wrong)


def verdict_of(runs: pd.DataFrame, *, late_data: bool = False) -> str:
    """Return whether the results were right, in a sentence.

    With ``late_data`` a stream differs from its batch by the records that came too late."""
    if not len(runs):
        return "No run was valid, so nothing is known of its results."
    if late_data:
        same = runs["output_equals_twin"].eq(True)
        other = "" if same.all() else f" ({runs.loc[~same, 'difference_from_twin'].iloc[0]})"
        return (
            f"After the kills {int(same.sum())} of {len(runs)} runs delivered exactly the results "
            f"of the same input without a kill{other}. A batch drops no late record; with the "
            f"kills the results differ from its by: {runs['difference_from_truth'].iloc[0]}"
        )
    right = runs["output_equals_truth"].eq(True) & runs["output_equals_twin"].eq(True)
    wrong = runs["output_equals_truth"].eq(False) | runs["output_equals_twin"].eq(False)
    said = (
        f"Right: after the kills {int(right.sum())} of {len(runs)} runs delivered exactly the "
        "results of the same query run as a batch, and of the same input without a kill."
    )
    if wrong.any():
        which = runs.loc[wrong, ["difference_from_truth", "difference_from_twin"]].iloc[0]
        said = (
            f"WRONG: {int(wrong.sum())} of {len(runs)} runs delivered other results: "
            f"{which.iloc[0] or which.iloc[1]}"
        )
    unknown = ~right & ~wrong
    if unknown.any():
        said += f" Of {int(unknown.sum())} it is unknown: " + str(
            runs.loc[unknown, "incomplete"].iloc[0] or "the twin differs, too"
        )
    return said


def costs_of(kills: pd.DataFrame) -> pd.DataFrame:
    """Return a row of text per scheme, mode and kill: medians with their intervals."""
    rows = []
    keys = ["scheme", "mode", "trigger_s", "kill"]
    groups = kills.groupby(keys, sort=False) if len(kills) else ()
    for (scheme, mode, trigger_s, kill), mine in groups:
        rows.append(
            {
                "scheme": SCHEMES[str(scheme)].label,
                "mode": mode,
                "trigger": f"{trigger_s:g} s",
                "killed": kill,
                "kills": len(mine),
                "outage": outage_of(mine),
                "silence": span_of(mine["output_gap_s"], " s"),
                "late": span_of(mine["late"]),
                "repeated": span_of(mine["repeated"]),
                "wrong": span_of(mine["wrong"]),
            }
        )
    return pd.DataFrame(rows)


def outage_of(kills: pd.DataFrame) -> str:
    """Return the median outage; one that was not over is longer than it was watched."""
    seconds = kills["outage_s"].astype(float).fillna(kills["at_least_s"].astype(float))
    known = seconds.notna()
    found = lasting(seconds[known], kills.loc[known, "at_least_s"].isna())
    if found is None or not found.not_over:
        return span_of(kills["outage_s"], " s")
    if not found.known:
        return found.describe()
    return f"{found.describe()}, {found.not_over} of {found.n} not over"


def span_of(values: Iterable[Any], unit: str = "") -> str:
    """Return a median with its interval, or with least and most below `FEWEST` values."""
    known = [float(each) for each in values if each is not None and not pd.isna(each)]
    sample = median_of(known)
    if sample is None:
        return "–"
    form = ".3g" if unit else ",.0f"
    text = f"{sample.value:{form}}{unit}"
    low, high = (
        (min(known), max(known)) if sample.low is None or sample.high is None
        else (sample.low, sample.high)
    )  # fmt: skip
    return text if len(known) == 1 or low == high else f"{text} ({low:{form}} to {high:{form}})"


def notes_of(kills: pd.DataFrame) -> list[str]:
    """Return what the columns mean, and why numbers are missing; nothing without a kill."""
    if not len(kills):
        return []
    notes = [
        "outage: for how long results came late after the kill; silence: how much longer than "
        "without a kill nothing came; late: results later than without a kill; repeated, wrong: "
        "results of the whole pass, with all its kills; under active replication both copies send "
        "every result, so each is repeated without a kill, too",
        f"medians; in brackets the 95 % interval from {FEWEST} kills on, below it the least and "
        "the most",
    ]
    missing = kills[kills["outage_s"].isna() & kills["why_not"].notna()]
    for why, mine in missing.groupby("why_not"):
        more = f": {_BEHIND}" if why == Unrecovered.TWIN_BEHIND else ""
        notes.append(f"– because {why} ({len(mine)}){more}")
    return notes


def keeps_up(ramp: pd.DataFrame | None) -> list[str]:
    """Return at which trigger and rate the machine keeps up, from a calibration's ramp."""
    if ramp is None or not len(ramp):
        return ["At which trigger and rate this machine keeps up was not measured."]
    lines = [
        f"It keeps up where the median window comes within {MEDIAN_INTERVALS:g} triggers after it "
        f"was due, and the slowest within {TAIL_INTERVALS:g}."
    ]
    for step in ramp.to_dict("records"):
        said = "keeps up" if step["held"] else "does not keep up"
        late = (
            step["why_not"]
            if not pd.isna(step["why_not"]) and step["why_not"]
            else f"median window {step['latency_median_s']:.2g} s, slowest "
            f"{step['latency_slowest_s']:.2g} s after it was due"
        )
        lines.append(
            f"with a trigger of {step['interval_s']:g} s at {step['rate_per_s']:.4g} records/s it "
            f"{said}: {late}"
        )
    return ["This machine, with two queries (active replication):", *(f"  {one}" for one in lines)]


def draw(kills: pd.DataFrame, figure: Figure) -> None:
    """Draw the outage and the late results of every kill, with their medians."""
    titles = {"outage_s": "outage (s)", "late": "late results"}
    ways = kills["scheme"], kills["mode"], kills["kill"]
    places = list(dict.fromkeys(zip(*ways, strict=True)))
    for axes, (column, title) in zip(figure.subplots(1, 2), titles.items(), strict=True):
        for place, way in enumerate(places):
            scheme = way[0]
            mine = kills[[each == way for each in zip(*ways, strict=True)]]
            values = mine[column].astype(float).dropna()
            look = SCHEMES[scheme]
            if len(values):  # an empty line outside of the axes would take their place
                axes.plot(
                    [place] * len(values), values, color=look.color, marker=look.marker,
                    linestyle="none", alpha=0.6, clip_on=False,
                )  # fmt: skip
            beyond = mine.loc[mine[column].isna(), "at_least_s"].astype(float).dropna()
            if column == "outage_s" and len(beyond):
                axes.plot(
                    [place] * len(beyond), beyond, color=look.color, marker="^",
                    markerfacecolor="none", linestyle="none", clip_on=False,
                )  # fmt: skip
            if (sample := median_of(values)) is not None:
                axes.hlines(sample.value, place - 0.2, place + 0.2, color=look.color)
                if sample.low is not None and sample.high is not None:
                    axes.vlines(place, sample.low, sample.high, color=look.color, linewidth=2.5)
        axes.set_xticks(range(len(places)), [_place(*way) for way in places], fontsize=7)
        axes.set_xlim(-0.5, max(len(places), 1) - 0.5)
        axes.set_ylim(0, max(1.0, axes.get_ylim()[1]))
        axes.set_title(title)
        if not kills[column].notna().any() and not kills["at_least_s"].notna().any():
            axes.text(0.5, 0.5, "not measured", transform=axes.transAxes, ha="center")
        if column == "outage_s" and kills["at_least_s"].notna().any():
            axes.set_xlabel("hollow: at least that, not over by the end of the load", fontsize=7)


def _place(scheme: str, mode: str, kill: str) -> str:
    """Return the label of a place of the drawing, in short lines."""
    lines = [*SCHEMES[scheme].label.split(), *([mode] if mode != "micro-batch" else []), kill]
    return "\n".join(lines)


def write(page: Page, folder: Path, figures: Sequence[tuple[str, Picture]]) -> list[Path]:
    """Write the page as HTML, Markdown and a picture into ``folder``; return the files.

    ``figures`` are further pictures of the HTML page, each with its title."""
    folder.mkdir(parents=True, exist_ok=True)
    png = None
    if len(page.kills):
        png = drawing(partial(draw, page.kills), (8.0, 3.4), "png", dpi=150)
    shown = [("Every kill", ("png", png))] if png else []
    html = templates(Path(__file__).parent).get_template("costs.html.j2")
    uris = [(title, data_uri(*picture)) for title, picture in [*shown, *figures]]
    text = html.render(title=page.title, page=page, figures=uris)
    contents = {"index.html": text.encode(), "page.md": _markdown(page, png is not None).encode()}
    if png:
        contents |= {"kills.png": png, "kills.csv": page.kills.to_csv(index=False).encode()}
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    return [folder / name for name in contents]


def _markdown(page: Page, drawn: bool) -> str:
    lines = [f"# {page.title}", "", *([f"**{page.answer}**", ""] if page.answer else [])]
    lines += [*(f"* {fact}" for fact in page.facts), "", page.verdict, ""]
    if len(page.costs):
        cells = [list(page.costs.columns), ["---"] * page.costs.shape[1], *page.costs.to_numpy()]
        lines += ["| " + " | ".join(map(str, row)) + " |" for row in cells]
    lines += ["", *(f"* {note}" for note in page.notes)]
    lines += ["", "![Every kill](kills.png)"] if drawn else []
    lines += ["", "## Keeping up", "", *page.keeps_up, "", "## Advice", "", *page.advice]
    lines += ["", "## Next", ""]
    lines += [f"* {what}: `{command}`" for what, command in page.commands.items()]
    return "\n".join(lines) + "\n"
