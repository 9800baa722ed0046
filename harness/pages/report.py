"""The writer of ``results/report``: pages, claims.json, and each figure and table as a file."""

from __future__ import annotations

import base64
import io
import math
import shlex
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pandas as pd

from harness.claims import Verdict, Word
from harness.cluster.backends import BACKENDS, DEFAULT
from harness.experiment import Experiment
from harness.figures.style import new_figure, stamp, styled
from harness.judging.foreign import ForeignLoad
from harness.measure.metrics import label
from harness.measurement import Origin
from harness.pages.assessment import Assessment, as_json, assess
from harness.pages.layout import pages, published
from harness.results.provenance import machine_name
from harness.results.record import FAILED, INVALID, OK, SKIPPED, Profile, point_key
from harness.results.store import Campaign, RecordStore
from harness.running.discovery import GROUPS, all_experiments
from harness.text import format_duration

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LARGEST_INLINE_SVG = 250_000
_LARGEST_INLINE_CSV = 150_000


@dataclass(frozen=True, slots=True)
class WrittenReport:
    """The files of a written report, and every verdict in it."""

    index: Path
    judged: Sequence[Assessment]
    pages: Sequence[Path]
    """All pages, the first one among them."""

    @property
    def claims(self) -> Sequence[Verdict]:
        """Return the verdicts of every experiment in it."""
        return [claim for judged in self.judged for claim in judged.claims]


Requested = Mapping[tuple[str, Profile], Campaign]
"""The campaigns of a command, by experiment and profile."""


def campaigns(
    store: RecordStore,
    experiments: Sequence[Experiment],
    asked: Requested = MappingProxyType({}),
    *,
    machine: str | None = None,
) -> Iterator[tuple[Experiment, Profile, Campaign]]:
    """Yield every measured experiment and profile with its campaign.

    That is the one in ``asked``, else the newest. Those asked for come first, then the profile
    measured last; smoke, which decides little, after all others. ``machine``: the machine's name,
    by default this machine's."""
    machine = machine or machine_name()
    for experiment in experiments:
        profiles = store.profiles(experiment.measurement.id, machine)
        order = sorted(
            profiles, key=lambda p: ((experiment.id, p) not in asked, p is Profile.SMOKE)
        )
        for profile in order:
            campaign = asked.get((experiment.id, profile)) or store.newest_campaign(
                experiment.measurement.id, machine, profile, experiment.grid[profile]
            )
            if campaign is not None and campaign.records:
                yield experiment, profile, campaign


Picture = tuple[str, bytes]
"""A figure's kind ("svg+xml", or "png" where that would be too large) and its bytes."""


@dataclass(frozen=True, slots=True)
class Undrawable:
    """The error that is shown in place of a figure."""

    error: str


Attempt = Picture | Undrawable
Elsewhere = Callable[[Callable[..., Attempt], str, Profile, Campaign], "Future[Attempt]"]
"""Calls a function in another process."""


class ReportWriter:
    """Writes a store's report, repeatedly while runs come in.

    A claim is judged and a figure drawn again only if the runs behind them have changed."""

    def __init__(
        self,
        store: RecordStore,
        *,
        elsewhere: Elsewhere | None = None,
        into: Path | None = None,
        machine: str | None = None,
    ) -> None:
        """Create a writer.

        ``elsewhere`` draws figures in another process, None in this one. ``into`` is the directory
        of the report, by default ``report`` in the store's. ``machine`` names the machine whose
        records are shown, by default this one."""
        self._store = store
        self._folder = into or store.root / "report"
        self._machine = machine or machine_name()
        self._elsewhere = elsewhere
        self._judged: dict[tuple[str, ...], Assessment] = {}
        self._drawn: dict[tuple[str, ...], dict[str, Any]] = {}
        self._pictures: dict[tuple[str, ...], Future[Attempt]] = {}

    def judge(self, experiment: Experiment, profile: Profile, campaign: Campaign) -> Assessment:
        """Judge a campaign, and request its figure."""
        judged = self._assess(experiment, profile, campaign)
        runs = _identity(experiment, profile, campaign)
        if self._elsewhere is not None and judged.table is not None and runs not in self._pictures:
            self._pictures[runs] = self._elsewhere(attempt_of, experiment.id, profile, campaign)
        return judged

    def write(self, asked: Requested = MappingProxyType({})) -> WrittenReport:
        """Write the report from the records of one machine.

        The campaigns in ``asked`` are judged even if newer ones with other settings exist."""
        found = campaigns(self._store, all_experiments(), asked, machine=self._machine)
        judged = [self._assess(*each) for each in found]
        folder = self._folder
        (folder / "figures").mkdir(parents=True, exist_ok=True)
        (folder / "data").mkdir(exist_ok=True)
        documents = [
            {**document, "machine_name": self._machine}
            for item in judged
            for document in item.documents()
        ]
        _replace(folder / "claims.json", as_json(documents))
        newest: dict[str, Assessment] = {}
        for item in judged:
            newest.setdefault(item.experiment.id, item)
        cards = [self._card(item, folder) for item in newest.values()]
        written = pages(cards, list(newest.values()), folder, self._store.records)
        for name, text in written.items():
            _replace(folder / name, text)
        for stale in {f"{group}.html" for group in GROUPS} - set(written):
            (folder / stale).unlink(missing_ok=True)
        return WrittenReport(
            folder / "index.html", judged, [folder / name for name in sorted(written)]
        )

    def _assess(self, experiment: Experiment, profile: Profile, campaign: Campaign) -> Assessment:
        runs = _identity(experiment, profile, campaign)
        if runs not in self._judged:
            self._judged[runs] = assess(experiment, profile, campaign)
        return self._judged[runs]

    def _card(self, judged: Assessment, folder: Path) -> dict[str, Any]:
        runs = _identity(judged.experiment, judged.profile, judged.campaign)
        if runs not in self._drawn:
            self._drawn[runs] = card(judged, folder, self._picture(judged, runs))
        return self._drawn[runs]

    def _picture(self, judged: Assessment, runs: tuple[str, ...]) -> Attempt | None:
        if judged.table is None:
            return None
        if (asked := self._pictures.get(runs)) is not None:
            # An interruption ends the process that draws.
            with suppress(CancelledError, BrokenProcessPool):
                return asked.result()
        return attempt(judged)


def _identity(experiment: Experiment, profile: Profile, campaign: Campaign) -> tuple[str, ...]:
    """Return the key of a verdict and a figure: the runs, and the number expected."""
    runs = [record.run for record in campaign.records]
    return (experiment.id, profile.value, str(campaign.expected), *runs)


def write_report(
    store: RecordStore, *, into: Path | None = None, machine: str | None = None
) -> WrittenReport:
    """Write the report from the records of this machine, or of another one, once."""
    return ReportWriter(store, into=into, machine=machine).write()


def _replace(path: Path, text: str) -> None:
    partial = path.with_suffix(path.suffix + ".partial")
    partial.write_text(text)
    partial.rename(path)


def card(
    judged: Assessment,
    folder: Path,
    drawn: Attempt | None,
    *,
    name: str | None = None,
    inline: bool = True,
) -> dict[str, Any]:
    """Return the content of a figure's card, and write its picture and tables into ``folder``.

    ``name`` is the name of its files and its anchor, by default the experiment's. Without
    ``inline``, picture and tables stay files, and the card links to them."""
    experiment, campaign = judged.experiment, judged.campaign
    name = name or experiment.anchor
    undrawable = drawn.error if isinstance(drawn, Undrawable) else None
    figure = None
    if drawn is not None and not isinstance(drawn, Undrawable):
        figure = _kept(drawn, folder, name, inline)
    newest = max(campaign.records, key=lambda record: record.started_unix_s)
    return {
        "id": experiment.id,
        "anchor": name,
        "experiment": experiment,
        "profile": judged.profile.value,
        "figure": figure,
        "alt": f"{experiment.title}. {experiment.statement} {_count(judged.claims)}",
        "claims": claim_rows(judged),
        "published": [
            {**row, "printed": _number(row["printed"]), "ours": _number(row["ours"])}
            for row in published(judged.claims)
        ],
        "problem": judged.problem,
        "undrawable": undrawable,
        "own": _own_parts(campaign),
        "valid": len(campaign.valid),
        "expected": campaign.expected,
        "attempts": _attempts(campaign),
        "busy": _busy(campaign),
        "engines": campaign.engines,
        "backends": campaign.backends,
        "seed": newest.root_seed,
        "commit": newest.commit,
        "when": datetime.fromtimestamp(newest.started_unix_s, UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "took": format_duration(sum(record.seconds for record in campaign.records)),
        "command": command(judged, newest.root_seed),
        "tables": [_table_link(folder, name, inline, *each) for each in judged.tables().items()],
    }


def _attempts(campaign: Campaign) -> list[dict[str, str]]:
    """Return every attempt that did not count, or counts with a doubt."""
    chosen = {record.run for record in campaign.records}
    found = []
    for record in sorted([*campaign.records, *campaign.others], key=lambda r: r.run):
        words = {
            OK: "was valid",
            INVALID: "was invalid",
            FAILED: "failed",
            SKIPPED: "was skipped, because it cannot be made",
        }[record.status]
        reason = record.reason or record.again
        if reason is None and record.run in chosen:
            continue
        if record.status == OK and record.run not in chosen:
            words += ", and a newer one stands for it"
        found.append(
            {
                "run": record.run,
                "css": "soft" if record.status == OK else "not-held",
                "words": f"(attempt {record.attempt}) {words}",
                "reason": reason or "",
            }
        )
    return found


def _busy(campaign: Campaign) -> list[str]:
    """Return the runs during which others used much of the machine, in words."""
    found = []
    for record in campaign.valid:
        for prefix, name in (("twin_", "twin"), ("", "failures")):
            load = ForeignLoad(
                foreign_share=record.values.get(f"{prefix}foreign_share"),
                steal_share=record.values.get(f"{prefix}steal_share"),
            )
            if others := record.values.get(f"{prefix}other_clusters"):
                found.append(
                    f"{record.run} ({name}): {others} other "
                    f"{'cluster' if others == 1 else 'clusters'} ran on the machine"
                )
            if load.high:
                found.append(
                    f"{record.run} ({name}): other processes used "
                    f"{load.foreign_share or 0:.0%} of the machine, and the hypervisor kept "
                    f"{load.steal_share or 0:.0%}"
                )
    return found


def command(judged: Assessment, seed: int) -> str:
    """Return the command that measures the same again, with the user's options and points."""
    campaign = judged.campaign
    words = ["./faultline run", judged.experiment.id, f"--profile {judged.profile.value}"]
    words.append(f"--seed {seed}")
    newest = max(campaign.records, key=lambda record: record.started_unix_s)
    if newest.repeats != judged.experiment.measurement.repeats[judged.profile]:
        words.append(f"--repeats {newest.repeats}")
    if len(campaign.backends) == 1 and campaign.backends[0] in {*BACKENDS} - {DEFAULT}:
        words.append(f"--cluster {campaign.backends[0]}")
    for name, value in newest.options.items():
        for each in value if isinstance(value, list) else [value]:
            given = each["path"] if isinstance(each, dict) and "path" in each else each
            words.append(f"--{name} {shlex.quote(str(given))}")
    if campaign.left_out and len({point_key(r.point, 0) for r in campaign.records}) == 1:
        point = campaign.records[0].point
        words.append("--point " + ",".join(f"{key}={value}" for key, value in point.items()))
    return " ".join([*words, "--again"])


def _own_parts(campaign: Campaign) -> list[str]:
    """Return the user's own files that the runs used, in words."""
    newest = max(campaign.records, key=lambda record: record.started_unix_s)
    words = {"workload": "own workload", "failures": "own failure schedule", "text": "own text"}
    given = [
        (words[name], each)
        for name, value in newest.options.items()
        for each in (value if isinstance(value, list) else [value])
        if name in words
    ]
    return [f"{word} {each['path']}" for word, each in given if isinstance(each, dict)]


def drawn(judged: Assessment) -> Figure:
    """Return the figure with the words that a reader must not miss.

    Call it, and save the figure, inside `styled`."""
    experiment = judged.experiment
    assert judged.table is not None
    figure = new_figure(experiment.figure_size_in)
    experiment.draw(judged.table, figure)
    words = [] if experiment.origin is Origin.MEASURED else [experiment.origin.value]
    if judged.profile.value != "paper":
        words.append(f"{judged.profile.value} profile")
    if not judged.campaign.complete:
        words.append("incomplete")
    runs = Counter(point_key(record.point, 0) for record in judged.campaign.valid).values()
    if max(runs, default=1) > 1:
        words.append(f"{'–'.join(str(n) for n in sorted({min(runs), max(runs)}))} runs a point")
    stamp(figure, " · ".join(words))
    return figure


def attempt_of(experiment: str, profile: Profile, campaign: Campaign) -> Attempt:
    """Judge a campaign and draw its figure, in a process that has done neither."""
    (found,) = (each for each in all_experiments() if each.id == experiment)
    return attempt(assess(found, profile, campaign))


def attempt(judged: Assessment, **look: Any) -> Attempt:
    """Draw the experiment's figure; an error of the drawing is a message in its place.

    ``look``: further arguments of `picture`."""
    try:
        return picture(judged, **look)
    except Exception:
        return Undrawable(traceback.format_exc(limit=-3))


def picture(judged: Assessment, *, raster: str = "png", dpi: int = 150) -> Picture:
    """Return the experiment's figure, as SVG unless that is large; then as ``raster``."""
    with styled():
        figure = drawn(judged)
        buffer = io.BytesIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None})
        if buffer.tell() <= _LARGEST_INLINE_SVG:
            return "svg+xml", buffer.getvalue()
        buffer = io.BytesIO()
        figure.savefig(buffer, format=raster, dpi=dpi)
        return raster, buffer.getvalue()


def data_uri(kind: str, content: bytes) -> str:
    """Return an image source that needs no network."""
    return f"data:image/{kind};base64,{base64.b64encode(content).decode()}"


def _kept(drawn: Picture, folder: Path, name: str, inline: bool) -> str:
    """Write a figure to a file, and return an image source."""
    kind, content = drawn
    path = folder / "figures" / f"{name}.{kind.partition('+')[0]}"
    path.write_bytes(content)
    return data_uri(kind, content) if inline else f"figures/{path.name}"


def _table_link(
    folder: Path, card: str, inline: bool, name: str, table: pd.DataFrame
) -> dict[str, str]:
    """Write a table to a file, and return a link to it."""
    path = folder / "data" / (f"{card}-{name}.csv" if name else f"{card}.csv")
    # Files of a site are for reading; the records have every digit.
    table.to_csv(path, index=False, float_format=None if inline else "%.7g")
    href = f"data/{path.name}"
    if inline and path.stat().st_size <= _LARGEST_INLINE_CSV:
        href = "data:text/csv;base64," + base64.b64encode(path.read_bytes()).decode()
    return {"title": name or "data", "file": path.name, "href": href}


def claim_rows(judged: Assessment) -> list[dict[str, Any]]:
    """Return each claim as text: its verdict and the numbers behind it."""
    return [_claim_row(claim) for claim in judged.claims]


def _claim_row(claim: Verdict) -> dict[str, Any]:
    verdict = {"holds": "held", "does not hold": "not held"}.get(claim.word, claim.word.value)
    return {
        "id": claim.id,
        "text": claim.text,
        "kind": claim.kind.value,
        "verdict": verdict,
        "css": verdict.replace(" ", "-"),
        "measured": [(label(key), _number(value)) for key, value in claim.measured.items()],
        "why": claim.why,
        "cause": claim.cause and claim.cause.value,
        "post_hoc": claim.post_hoc,
        "rule": claim.rule,
    }


def _number(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "–"}[value]
    if isinstance(value, dict):
        return (
            "; ".join(f"{label(str(key))}: {_number(item)}" for key, item in value.items()) or "–"
        )
    if isinstance(value, list | tuple):
        return ", ".join(_number(item) for item in value) or "none"
    if hasattr(value, "item"):
        return _number(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return "–"
    if isinstance(value, int | float) and 10_000 <= abs(value) < 1e15:
        return f"{float(f'{value:.4g}') if isinstance(value, float) else value:,.0f}"
    if isinstance(value, float):
        return f"{value:z.4g}"
    return str(value)


def _count(claims: Sequence[Verdict]) -> str:
    counts = Counter(claim.word for claim in claims)
    open_ = f"{counts[Word.UNDECIDED]} are undecided, " if counts[Word.UNDECIDED] else ""
    return (
        f"{counts[Word.HOLDS]} claims hold, {counts[Word.DOES_NOT_HOLD]} do not, {open_}"
        f"{counts[Word.NOT_MEASURED]} were not measured."
    )
