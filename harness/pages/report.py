"""The report of one results folder: pages, claims.json, and each figure and table as a file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType

from harness import __version__
from harness.experiment import Experiment
from harness.figures.style import styled
from harness.pages.answers import answers
from harness.pages.assessment import Assessment, assess
from harness.pages.cards import Card, Files, card, groups_of, table_file
from harness.pages.drawing import Attempt, attempt, attempt_of, drawn, saved
from harness.pages.layout import overview, templates
from harness.pages.questions import QUESTIONS
from harness.pages.sentences import claims_json
from harness.pages.walk import Requested, campaigns, named
from harness.results.provenance import ROOT, machine_name
from harness.results.record import Profile
from harness.results.store import Campaign, RecordStore
from harness.running.discovery import GROUPS


@dataclass(frozen=True, slots=True)
class WrittenReport:
    """The first page of a written report, and every verdict in it."""

    index: Path
    judged: Sequence[Assessment]


Elsewhere = Callable[[Callable[..., Attempt], str, Profile, Campaign], "Future[Attempt]"]
"""Calls a function in another process."""
Runs = tuple[str, ...]
"""The key of a verdict and a figure: the runs, and the number expected."""


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
        self._judged: dict[Runs, Assessment] = {}
        self._cards: dict[Runs, Card] = {}
        self._pictures: dict[Runs, Future[Attempt]] = {}

    def judge(self, experiment: Experiment, profile: Profile, campaign: Campaign) -> Assessment:
        """Judge a campaign, and request its figure."""
        judged = self._assess(experiment, profile, campaign)
        runs = _identity(experiment, profile, campaign)
        if self._elsewhere is not None and judged.table is not None and runs not in self._pictures:
            self._pictures[runs] = self._elsewhere(attempt_of, experiment.id, profile, campaign)
        return judged

    def write(self, requested: Requested = MappingProxyType({})) -> WrittenReport:
        """Write the report from the records of one machine.

        The campaigns in ``requested`` are judged even if newer ones with other settings exist."""
        chosen = campaigns(self._store, requested=requested, machine=self._machine)
        judged = [self._assess(*each) for each in chosen]
        folder = self._folder
        folder.mkdir(parents=True, exist_ok=True)
        _replace(folder / "claims.json", claims_json(judged))
        newest: dict[str, Assessment] = {}
        for item in judged:
            newest.setdefault(item.experiment.id, item)
        written = self._pages([*newest.values()])
        for name, text in written.items():
            _replace(folder / name, text)
        for stale in {f"{group}.html" for group in GROUPS} - set(written):
            (folder / stale).unlink(missing_ok=True)
        return WrittenReport(folder / "index.html", judged)

    def _assess(self, experiment: Experiment, profile: Profile, campaign: Campaign) -> Assessment:
        runs = _identity(experiment, profile, campaign)
        if runs not in self._judged:
            self._judged[runs] = assess(experiment, profile, campaign)
        return self._judged[runs]

    def _pages(self, judged: Sequence[Assessment]) -> dict[str, str]:
        """Return a short first page, and one with all figures of each paper, by file name.

        No page needs a network or a server."""
        cards = [self._card(item) for item in judged]
        groups = groups_of(cards)
        environment = templates()
        shared = {
            "version": __version__,
            "written": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        }
        pages = {
            str(group["page"]): environment.get_template("paper.html.j2").render(
                **shared,
                title=f"Faultline: {group['title']}",
                group=group,
                notebook=_notebook(str(group["name"]), self._folder),
            )
            for group in groups
        }
        pages["index.html"] = environment.get_template("index.html.j2").render(
            **shared,
            **overview(
                judged,
                answers(judged, QUESTIONS),
                Files(self._folder, inline=True),
                [row for card in cards for row in card["published"]],
            ),
            killed=(),
            title="Faultline report",
            groups=groups,
            records=self._store.records,
            trends=(self._folder / "trends.html").exists(),
        )
        return pages

    def _card(self, judged: Assessment) -> Card:
        runs = _identity(judged.experiment, judged.profile, judged.campaign)
        if runs not in self._cards:
            files = Files(self._folder, inline=True)
            self._cards[runs] = card(judged, files, self._picture(judged, runs))
        return self._cards[runs]

    def _picture(self, judged: Assessment, runs: Runs) -> Attempt | None:
        if judged.table is None:
            return None
        if (requested := self._pictures.get(runs)) is not None:
            # An interruption ends the process that draws.
            with suppress(CancelledError, BrokenProcessPool):
                return requested.result()
        return attempt(judged)


def _identity(experiment: Experiment, profile: Profile, campaign: Campaign) -> Runs:
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


def _notebook(group: str, folder: Path) -> Mapping[str, str] | None:
    """Return the notebook with a group's figures, with its path from the report's folder."""
    name = "my_own_run" if group == "stock" else f"paper_{group}"
    path = ROOT / "notebooks" / f"{name}.ipynb"
    if not path.exists():
        return None
    return {"name": name, "href": os.path.relpath(path, folder.absolute())}


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenFigure:
    """One figure, with what was written of it."""

    experiment: str
    files: Sequence[Path]
    error: str | None = None
    """The reason why it could not be drawn; its tables are there if they could be made."""


def write_figures(
    store: RecordStore, folder: Path, formats: Sequence[str], experiment: str | None = None
) -> Iterator[WrittenFigure]:
    """Write every figure of a results directory in these formats, and its tables.

    The profile measured last is drawn. ``experiment`` (an id, or a group) chooses. Where the
    records are of several machines, each has a folder of its own."""
    machines = store.machines()
    for machine in machines:
        into = folder / machine if len(machines) > 1 else folder
        seen = set()
        for each, profile, campaign in campaigns(store, named(experiment), machine=machine):
            if each.id not in seen and campaign.valid:
                seen.add(each.id)
                into.mkdir(parents=True, exist_ok=True)
                yield _write(assess(each, profile, campaign), into, formats)


def _write(judged: Assessment, folder: Path, formats: Sequence[str]) -> WrittenFigure:
    name, why = judged.experiment.anchor, None
    contents: dict[str, bytes] = {
        table_file(name, title): table.to_csv(index=False).encode()
        for title, table in judged.tables().items()
    }
    if judged.table is None:
        why = (judged.problem or "no table").strip().splitlines()[-1]
    else:
        with styled():
            try:
                figure = drawn(judged)
                contents |= {f"{name}.{kind}": saved(figure, kind) for kind in formats}
            except Exception as error:
                why = f"{type(error).__name__}: {error}"
    for file, content in contents.items():
        (folder / file).write_bytes(content)
    files = [folder / file for file in contents]
    return WrittenFigure(experiment=judged.experiment.id, files=files, error=why)
