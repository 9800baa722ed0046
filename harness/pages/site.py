"""The writer of a site: the report's pages with filters, every point, every kill, in one folder.

Nothing in it depends on the clock or on this machine: equal records and equal code give equal
bytes."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

from harness import __version__
from harness.claims.cells import Nearness
from harness.experiment import Experiment
from harness.measurement import Origin
from harness.pages import points, published
from harness.pages.answers import Answer, answers
from harness.pages.assessment import Assessment, assess
from harness.pages.cards import Files, address, card, groups_of
from harness.pages.drawing import light_picture
from harness.pages.facets import FACETS, PAPERS, of_record, union
from harness.pages.kill_picture import STYLE, draw, words
from harness.pages.kills import MEANINGS, PHASES, Kill, kills_of, seconds
from harness.pages.layout import TEMPLATES, overview, templates
from harness.pages.questions import QUESTIONS
from harness.pages.walk import campaigns
from harness.results import archive
from harness.results.library import SHIPPED
from harness.results.record import NOT_RECORDED, OK, Record, point_key
from harness.results.setting import AS_IT_COMES, TUNED
from harness.results.store import RecordStore, StoredRecord
from harness.running.discovery import GROUPS, all_experiments
from harness.text import Notify

SOURCES = "site.json"
"""The file with the digest of the records that a site was made from."""
SHIPPED_SITE = SHIPPED / "site"
"""The pages of the results that come with the repository."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Set:
    """A results directory, with the words by which the pages name it."""

    root: Path
    label: str


@dataclass(frozen=True, slots=True)
class WrittenSite:
    """A written site."""

    index: Path
    pages: Sequence[Path]
    kills: int
    warnings: Sequence[str]
    findings: Sequence[Answer]


def write_site(sets: Sequence[Set], into: Path, *, tell: Notify = lambda text: None) -> WrittenSite:
    """Write the pages of these sets of results into a folder, in place of an earlier site.

    A record or figure that cannot be read is a message on the first page; the others are shown.
    ``tell`` gets a line for each figure."""
    for name in ("figures", "data", "kills"):
        shutil.rmtree(into / name, ignore_errors=True)
        (into / name).mkdir(parents=True)
    shown = _Shown(into, tell)
    for each in sets:
        for machine in RecordStore(each.root).machines():
            shown.add(each, machine)
    findings = answers(shown.judged, QUESTIONS)
    pages = _Pages(shown, findings, digest([each.root for each in sets])).all(sets)
    for stale in {f"{group}.html" for group in GROUPS} - {*pages}:
        (into / stale).unlink(missing_ok=True)
    for name, text in pages.items():
        (into / name).write_text(text)
    styles = (TEMPLATES / "style.css", TEMPLATES / "site.css", STYLE)
    (into / "style.css").write_text("".join(path.read_text() for path in styles))
    shutil.copyfile(TEMPLATES / "site.js", into / "site.js")
    written = [into / name for name in pages]
    return WrittenSite(into / "index.html", written, len(shown.kills), shown.warnings, findings)


def digest(roots: Sequence[Path]) -> str:
    """Return a digest of all records in these results directories or archives.

    It is the same for a directory and for an archive of it, so that a test can say cheaply whether
    a site is up to date."""
    content = sha256()
    for root in roots:
        for path in archive.records(archive.readable(root)):
            # Group, experiment, machine and run; not the place of the set.
            content.update("/".join(path.parts[-5:]).encode())
            content.update(path.read_bytes())
    return content.hexdigest()


@dataclass(slots=True)
class _Shown:
    """What the pages show, gathered over all sets and machines."""

    into: Path
    tell: Notify
    judged: list[Assessment] = field(default_factory=list)
    printed: list[published.Row] = field(default_factory=list)
    """The numbers of papers beside those of ``judged``."""
    cards: list[dict[str, Any]] = field(default_factory=list)
    points: list[dict[str, Any]] = field(default_factory=list)
    kills: list[Kill] = field(default_factory=list)
    sets: list[dict[str, Any]] = field(default_factory=list)
    runs: set[tuple[str, str]] = field(default_factory=set)
    places: dict[tuple[str, str], str] = field(default_factory=dict)
    """The link to the figure of an experiment on a machine."""
    warnings: list[str] = field(default_factory=list)

    def add(self, each: Set, machine: str) -> None:
        """Add the figures, points and kills of one machine of a set."""
        warnings: list[str] = []
        store = RecordStore(each.root, warn=warnings.append)
        records: list[Record] = []
        for experiment in all_experiments():
            self._add_figures(store, experiment, machine)
            if experiment.id == experiment.measurement.id:
                there = store.read(experiment.id, machine)
                records += [stored.record for stored in there]
                self._add_kills(experiment, there)
        self.warnings += [f"{each.label}: {text}" for text in [*warnings, *_unknown(store)]]
        if records:
            self.sets.append(_described(each.label, machine, records))

    def _add_figures(self, store: RecordStore, experiment: Experiment, machine: str) -> None:
        """Add the first campaign, and the first one on each further kind of cluster."""
        backends: dict[tuple[str, ...], None] = {}
        for _, profile, campaign in campaigns(store, [experiment], machine=machine):
            if tuple(campaign.backends) in backends:
                continue
            self.tell(f"{experiment.id} ({profile.value}), {machine}")
            item = assess(experiment, profile, campaign)
            name = experiment.anchor
            further = bool(backends)
            if further:
                name += "--" + "-".join(campaign.backends)
            if any(name == known["anchor"] for known in self.cards):
                name = re.sub(r"[^\w.-]", "-", f"{name}--{machine}-{len(self.sets) + 1}")
            backends[tuple(campaign.backends)] = None
            self._add_figure(item, name, machine)
            if not further:
                self.judged.append(item)
                self.printed += self.cards[-1]["published"]

    def _add_figure(self, item: Assessment, name: str, machine: str) -> None:
        """Add one figure with its points; ``name`` is that of its files, and its anchor."""
        drawn = None if item.table is None else light_picture(item)
        href = address(item.experiment, name)
        self.places.setdefault((item.experiment.id, machine), href)
        self.cards.append(
            {
                **card(item, Files(self.into, inline=False), drawn, name=name),
                "facets": union(
                    of_record(record, item.experiment, machine) for record in item.campaign.records
                ),
                "href": href,
            }
        )
        self.points += points.rows(item, machine, href)

    def _add_kills(self, experiment: Experiment, there: Sequence[StoredRecord]) -> None:
        """Add the kills of a live experiment's runs; a run that is in two sets counts once."""
        measured = {_run_of(each.record) for each in there if each.record.status == OK}
        for each in there:
            if each.record.status != OK and _run_of(each.record) in measured:
                continue  # made again, as it was invalid: kept in the records, and in no figure
            key = (each.record.run, each.machine_name)
            if key in self.runs or experiment.origin is not Origin.MEASURED:
                continue
            self.runs.add(key)
            try:
                self.kills += kills_of(each, experiment)
            except (ValueError, KeyError, TypeError, OSError) as error:
                self.warnings.append(
                    f"the kills of {each.directory} cannot be read and were left out: "
                    f"{type(error).__name__}: {error}"
                )


def _run_of(record: Record) -> tuple[str, str]:
    """Return what all attempts at a run of an experiment have in common."""
    return record.campaign, point_key(record.point, record.repeat)


def _unknown(store: RecordStore) -> Iterator[str]:
    """Yield a message for each folder of records that no experiment of this version has."""
    known = {experiment.measurement.id for experiment in all_experiments()}
    for path in sorted(store.records.glob("*/*")):
        name = f"{path.parent.name}/{path.name}"
        if path.is_dir() and name not in known:
            yield f"records of {name} are left out: this version has no such experiment"


def _described(label: str, machine: str, records: Sequence[Record]) -> dict[str, Any]:
    """Return the content of a set's line on the first page."""
    ordered = sorted(records, key=lambda record: record.started_unix_s)
    first, last = (
        datetime.fromtimestamp(each.started_unix_s, UTC).strftime("%Y-%m-%d")
        for each in (ordered[0], ordered[-1])
    )
    named = ("cpu", "cores", "memory_gib", "system")
    return {
        "label": label,
        "machine": machine,
        "records": len(records),
        "first": first,
        "last": last,
        "commits": sorted({record.commit[:8] for record in records}),
        **{name: ordered[-1].machine.get(name, NOT_RECORDED) for name in named},
    }


class _Pages:
    """The pages of what is shown, by their names."""

    def __init__(self, shown: _Shown, findings: Sequence[Answer], made_from: str) -> None:
        self._shown, self._findings, self._made_from = shown, findings, made_from
        self._groups = groups_of(shown.cards)
        self._templates = templates()
        self._shared = {
            "layout": "site.html.j2",
            "version": __version__,
            "digest": made_from,
            "newest": max((each["last"] for each in shown.sets), default="–"),
            "navigation": [
                ("index.html", "Overview"),
                *((group["page"], PAPERS[group["name"]]) for group in self._groups),
                ("results.html", "Points"),
                ("kills.html", "Kills"),
                ("published.html", "Published"),
            ],
            "up": "",
        }

    def all(self, sets: Sequence[Set]) -> dict[str, str]:
        """Return every page."""
        sources = {"records": self._made_from, "sets": [each.label for each in sets]}
        return {
            "index.html": self._first(),
            **{group["page"]: self._group(group) for group in self._groups},
            **self._tables(),
            **{
                f"kills/{kill.name}.html": self._kill(number)
                for number, kill in enumerate(self._shown.kills)
            },
            SOURCES: json.dumps(sources, indent=1) + "\n",
        }

    def _page(self, template: str, here: str, title: str, **values: Any) -> str:
        """Render a page; rows with facets get filters, by the facets with at least two values."""
        content = {**self._shared, **values, "here": here, "title": f"Faultline: {title}"}
        found = union(values.get("faceted", ()))
        content["choices"] = [(n, title, found[n]) for n, title in FACETS.items() if found[n][1:]]
        return self._templates.get_template(template).render(content)

    def _first(self) -> str:
        shown = self._shown
        return self._page(
            "home.html.j2",
            "index.html",
            "what breaking the cluster showed",
            **overview(
                shown.judged, self._findings, Files(shown.into, inline=False), shown.printed
            ),
            killed={kill.found.record.experiment for kill in shown.kills},
            groups=self._groups,
            sets=shown.sets,
            warnings=shown.warnings,
            kill_count=len(shown.kills),
            unmeasured=_unmeasured(shown),
            faceted=[card["facets"] for card in shown.cards],
            trends=False,
        )

    def _group(self, group: Mapping[str, Any]) -> str:
        return self._page(
            "figures.html.j2",
            group["page"],
            group["title"],
            group=group,
            notebook=None,
            faceted=[card["facets"] for card in group["cards"]],
        )

    def _tables(self) -> dict[str, str]:
        """Return the pages that are one table each: points, kills, published numbers."""
        shown, numbers = self._shown, _published(self._shown)
        return {
            "results.html": self._page(
                "results.html.j2",
                "results.html",
                "every measured point",
                columns=points.columns(),
                sections=_by_settings(shown.points),
                faceted=[row["facets"] for row in shown.points],
            ),
            "published.html": self._page(
                "published.html.j2",
                "published.html",
                "published numbers beside ours",
                rows=numbers,
                summary=published.sentence(numbers),
                counts=published.counts(numbers),
                nearness=[*Nearness],
                faceted=[row["facets"] for row in numbers],
            ),
            "kills.html": self._page(
                "kills.html.j2",
                "kills.html",
                "every kill",
                sections=_by_settings(_kill_rows(shown.kills)),
                phases=PHASES,
                meanings=MEANINGS,
                faceted=[kill.facets for kill in shown.kills],
            ),
        }

    def _kill(self, number: int) -> str:
        """Return the page of a kill, with links to the ones before and after it."""
        kills = self._shown.kills
        kill = kills[number]
        record, experiment, heading = kill.found.record, kill.experiment, _heading(kill)
        reason = f": {record.reason}" if record.reason else ""
        return self._page(
            "kill.html.j2",
            f"kills/{kill.name}.html",
            f"{heading}, {experiment.id}",
            up="../",
            words=f"{heading[:1].upper()}{heading[1:]}",
            figure=self._shown.places.get((experiment.id, kill.found.machine_name)),
            experiment=experiment,
            facets=[(FACETS[each], values[0]) for each, values in kill.facets.items()],
            status="" if record.status == OK else f"this run was {record.status}{reason}",
            svg=draw(kill),
            windows=len(kill.windows) > 0,
            twin=(kill.windows["pass"] == "twin").any(),
            phases=[(p.name, MEANINGS[p.name], words(p), p.known) for p in kill.phases],
            happenings=[(each.when, each.words) for each in kill.happenings],
            facts=[("what died", kill.nodes), *kill.facts],
            run=record.run,
            variant=kill.variant,
            at="" if kill.at_s is None else seconds(kill.at_s),
            point=", ".join(f"{key}={value}" for key, value in record.point.items()) or "–",
            commit=record.commit,
            before=kills[number - 1].name if number else "",
            after=kills[number + 1].name if number + 1 < len(kills) else "",
        )


def _by_settings(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows in sections: as it comes, tuned, and those without the distinction."""
    titles = {
        AS_IT_COMES: "Engines as they come",
        TUNED: "Engines with tuned settings",
    }
    there = union(row["facets"] for row in rows)["settings"]
    others = [name for name in there if name not in (*titles, NOT_RECORDED)]
    titles |= {name: f"Other settings: {name}" for name in others}
    titles[NOT_RECORDED] = "Settings not recorded"
    return [
        {"title": title, "rows": mine}
        for name, title in titles.items()
        if (mine := [row for row in rows if name in row["facets"]["settings"]])
    ]


def _unmeasured(shown: _Shown) -> list[dict[str, Any]]:
    there = {item.experiment.id for item in shown.judged}
    return [
        {
            **{name: getattr(each, name) for name in ("id", "title", "paper", "figure")},
            "facets": {"paper": [PAPERS[each.group]]},
            "other": any(kill.experiment is each for kill in shown.kills),
        }
        for each in all_experiments()
        if each.id not in there
    ]


def _published(shown: _Shown) -> list[dict[str, Any]]:
    return [
        {
            **row,
            "href": each["href"],
            "facets": each["facets"],
            "figure": f"{each['experiment'].paper}, {each['experiment'].figure}",
            "origin": each["experiment"].origin.value,
        }
        for each in shown.cards
        for row in each["published"]
    ]


_LACKING = "–"
"""A part of an outage that the record does not have."""


def _kill_rows(kills: Sequence[Kill]) -> list[dict[str, Any]]:
    """Return the kills, first those with the most recorded facts and phases."""
    return sorted(
        map(_kill_row, kills),
        key=lambda row: row["cells"].count(_LACKING) + (row["scheme"] == NOT_RECORDED),
    )


def _kill_row(kill: Kill) -> dict[str, Any]:
    record = kill.found.record
    return {
        "name": kill.name,
        "words": _heading(kill),
        "place": " · ".join(
            each
            for each in (record.experiment, kill.facets["workload"][0], kill.variant)
            if each not in ("", NOT_RECORDED)
        ),
        "status": record.status if record.status != OK else "",
        "scheme": kill.facets["scheme"][0],
        "engine": kill.facets["engine"][0],
        "cells": [
            words(kill.phase(name)) if kill.phase(name).known else _LACKING for name in PHASES
        ],
        "facets": kill.facets,
        "experiment": record.experiment,
    }


def _heading(kill: Kill) -> str:
    """Return "kill of r1n1", or the number of nodes where there are many."""
    count = kill.target.count("+") + 1
    what = kill.target if count <= 3 else f"{count} nodes"
    return f"{kill.action} of {what}"
