"""The writer of a site: the report's pages with filters, every point, every kill, in one folder.

Nothing in it depends on the clock or on this machine: equal records and equal code give equal
bytes."""

from __future__ import annotations

import io
import json
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from harness import __version__
from harness.experiment import Experiment
from harness.figures.style import styled
from harness.measurement import Origin
from harness.pages import points
from harness.pages.assessment import Assessment, assess
from harness.pages.digest import FILE, digest
from harness.pages.facets import (
    FACETS,
    NOT_RECORDED,
    PAPERS,
    Facets,
    of_record,
    union,
)
from harness.pages.headline import draw as drawn_outages
from harness.pages.headline import in_words
from harness.pages.kill_picture import STYLE, draw, words
from harness.pages.kills import MEANINGS, PHASES, Kill, kills_of, seconds
from harness.pages.layout import TEMPLATES, groups_of, overview, templates
from harness.pages.outages import outages
from harness.pages.report import Attempt, Undrawable, attempt, campaigns, card
from harness.results.library import Found
from harness.results.record import OK, Profile, Record, point_key
from harness.results.setting import AS_IT_COMES, TUNED
from harness.results.store import Campaign, RecordStore
from harness.running.code import of_other_code
from harness.running.discovery import GROUPS, all_experiments, page_of

Tell = Callable[[str], None]
HEADLINE = "figures/outages.svg"


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


@dataclass(slots=True)
class _Shown:
    """What the pages show, gathered over all sets and machines."""

    judged: list[Assessment] = field(default_factory=list)
    cards: list[dict[str, Any]] = field(default_factory=list)
    points: list[dict[str, Any]] = field(default_factory=list)
    kills: list[Kill] = field(default_factory=list)
    sets: list[dict[str, Any]] = field(default_factory=list)
    runs: set[tuple[str, str]] = field(default_factory=set)
    places: dict[tuple[str, str], str] = field(default_factory=dict)
    """The link to the figure of an experiment on a machine."""
    warnings: list[str] = field(default_factory=list)


def write_site(sets: Sequence[Set], into: Path, *, tell: Tell = lambda text: None) -> WrittenSite:
    """Write the pages of these sets of results into a folder, in place of an earlier site.

    A record or figure that cannot be read is a message on the first page; the others are shown.
    ``tell`` gets a line for each figure."""
    for name in ("figures", "data", "kills"):
        shutil.rmtree(into / name, ignore_errors=True)
        (into / name).mkdir(parents=True)
    shown = _Shown()
    for each in sets:
        for machine in _machines(each.root):
            _gather(each, machine, into, shown, tell)
    if (headline := _headline(shown.judged)) is not None:
        (into / HEADLINE).write_bytes(headline)
    pages = _pages(sets, shown, digest([each.root for each in sets]))
    for stale in {f"{group}.html" for group in GROUPS} - {*pages}:
        (into / stale).unlink(missing_ok=True)
    for name, text in pages.items():
        (into / name).write_text(text)
    styles = (TEMPLATES / "style.css", TEMPLATES / "site.css", STYLE)
    (into / "style.css").write_text("".join(path.read_text() for path in styles))
    shutil.copyfile(TEMPLATES / "site.js", into / "site.js")
    written = [into / name for name in pages]
    return WrittenSite(into / "index.html", written, len(shown.kills), shown.warnings)


def _machines(root: Path) -> list[str]:
    return sorted({path.name for path in RecordStore(root).records.glob("*/*/*") if path.is_dir()})


def _gather(each: Set, machine: str, into: Path, shown: _Shown, tell: Tell) -> None:
    """Add the figures, points and kills of one machine of a set."""
    warnings: list[str] = []
    store = RecordStore(each.root, warn=warnings.append)
    first = not shown.sets
    records: list[Record] = []
    for experiment in all_experiments():
        for beside, (_, profile, campaign) in enumerate(_by_backend(store, experiment, machine)):
            tell(f"{experiment.id} ({profile.value}), {machine}")
            item = assess(experiment, profile, campaign)
            name = experiment.anchor + ("--" + "-".join(campaign.backends) if beside else "")
            _show(item, name, machine, into, shown, first=first)
            if not beside:
                shown.judged.append(item)
        if experiment.id == experiment.measurement.id:
            kept = store.read(experiment.id, machine)
            records += [record for record, _ in kept]
            measured = {_run_of(record) for record, _ in kept if record.status == OK}
            for record, directory in kept:
                if record.status != OK and _run_of(record) in measured:
                    continue  # made again, as it was invalid: kept in the records, and in no figure
                found = Found(
                    record=record, directory=directory, machine_name=machine, root=each.root
                )
                _add_kills(found, experiment, shown)
    shown.warnings += [f"{each.label}: {text}" for text in [*warnings, *_unknown(each.root)]]
    if records:
        shown.sets.append(_described(each.label, machine, records))


def _run_of(record: Record) -> tuple[str, str]:
    """Return what all attempts at a run of an experiment have in common."""
    return record.campaign, point_key(record.point, record.repeat)


def _by_backend(
    store: RecordStore, experiment: Experiment, machine: str
) -> Sequence[tuple[Experiment, Profile, Campaign]]:
    """Return the first campaign, and the first one on each further kind of cluster."""
    found: dict[tuple[str, ...], tuple[Experiment, Profile, Campaign]] = {}
    for each in campaigns(store, [experiment], machine=machine):
        found.setdefault(tuple(each[2].backends), each)
    return [*found.values()]


def _unknown(root: Path) -> Iterator[str]:
    """Yield a message for each folder of records that no experiment of this version has."""
    known = {experiment.measurement.id for experiment in all_experiments()}
    for path in sorted(RecordStore(root).records.glob("*/*")):
        name = f"{path.parent.name}/{path.name}"
        if path.is_dir() and name not in known:
            yield f"records of {name} are left out: this version has no such experiment"


def _show(
    item: Assessment, name: str, machine: str, into: Path, shown: _Shown, *, first: bool
) -> None:
    """Add one figure with its points; ``name`` is that of its files, and its anchor."""
    if not first:
        name = re.sub(r"[^\w.-]", "-", f"{name}--{machine}-{len(shown.sets) + 1}")
    drawn = None if item.table is None else _drawn(item)
    facets = union(of_record(record, item.experiment, machine) for record in item.campaign.records)
    href = f"{page_of(item.experiment)}.html#{name}"
    shown.places.setdefault((item.experiment.id, machine), href)
    shown.cards.append(
        {**card(item, into, drawn, name=name, inline=False), "facets": facets, "href": href}
    )
    shown.points += points.rows(item, machine, href)


_POINTS = re.compile(r'((?:\sd|\sx|\sy|\spoints)="|translate\()([^")]*)')
_DIGITS = re.compile(r"(-?\d+\.\d\d)\d+")
_STYLE = re.compile(r'(?<= )style="([^"]+)"')


_TEXT_AS_TEXT = {"svg.fonttype": "none"}


def _drawn(item: Assessment) -> Attempt:
    """Draw a figure with its text as text, which a reader can search, and in fewer bytes."""
    with styled(_TEXT_AS_TEXT):
        drawn = attempt(item, raster="webp", dpi=130)
    if isinstance(drawn, Undrawable) or drawn[0] != "svg+xml":
        return drawn
    return "svg+xml", _light(drawn[1])


def _headline(judged: Sequence[Assessment]) -> bytes | None:
    """Return the picture of every outage, None if no figure measures one."""
    found = outages(judged)
    if not found:
        return None
    live = (item for item in judged if item.experiment.origin is Origin.MEASURED)
    profiles = ", ".join(sorted({item.profile.value for item in live}))
    with styled(_TEXT_AS_TEXT):
        buffer = io.BytesIO()
        drawn_outages(found, f"{profiles} profile").savefig(
            buffer, format="svg", metadata={"Date": None}
        )
    return _light(buffer.getvalue())


def _light(svg: bytes) -> bytes:
    """Return a figure without what no reader sees, and every style once.

    No reader sees metadata, names of groups, turns by no angle, and digits beyond a pixel."""
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", svg.decode(), flags=re.DOTALL)
    text = re.sub(r'(<g) id="\w+"| transform="rotate\(-0 [^"]*"', r"\1", text)
    # Verdana has the widths of DejaVu Sans, for which the places of the texts were computed.
    text = text.replace("'DejaVu Sans'", "'DejaVu Sans', Verdana, sans-serif")
    text = _POINTS.sub(lambda found: found[1] + _DIGITS.sub(r"\1", found[2]), text)
    names = {style: f"s{n}" for n, style in enumerate(dict.fromkeys(_STYLE.findall(text)))}
    text = _STYLE.sub(lambda found: f'class="{names[found[1]]}"', text)
    rules = "".join(f"\n.{name}{{{style}}}" for style, name in names.items())
    text = text.replace("</style>", f"{rules}\n</style>", 1)
    return re.sub(r"\n +", "\n", text[text.index("<svg") :]).encode()


def _add_kills(found: Found, experiment: Experiment, shown: _Shown) -> None:
    key = (found.record.run, found.machine_name)
    if key in shown.runs:  # a run that is in two sets counts once
        return
    shown.runs.add(key)
    if experiment.origin is not Origin.MEASURED:
        return
    try:
        shown.kills += kills_of(found, experiment)
    except (ValueError, KeyError, TypeError, OSError) as error:
        shown.warnings.append(
            f"the kills of {found.directory} cannot be read and were left out: "
            f"{type(error).__name__}: {error}"
        )


def _described(label: str, machine: str, records: Sequence[Record]) -> dict[str, Any]:
    newest = max(records, key=lambda record: record.started_unix_s)
    oldest = min(records, key=lambda record: record.started_unix_s)
    named = ("cpu", "cores", "memory_gib", "system")
    return {
        "label": label,
        "machine": machine,
        "records": len(records),
        "first": _date(oldest.started_unix_s),
        "last": _date(newest.started_unix_s),
        "commits": sorted({record.commit[:8] for record in records}),
        **{name: newest.machine.get(name, NOT_RECORDED) for name in named},
        "other_code": sorted(of_other_code(records).items()),
    }


def _date(unix_s: float) -> str:
    return datetime.fromtimestamp(unix_s, UTC).strftime("%Y-%m-%d")


def _pages(sets: Sequence[Set], shown: _Shown, made_from: str) -> dict[str, str]:
    """Return every page by its name."""
    environment = templates()
    groups = groups_of(shown.cards)
    shared = {
        "layout": "site.html.j2",
        "version": __version__,
        "digest": made_from,
        "newest": max((each["last"] for each in shown.sets), default="–"),
        "navigation": [
            ("index.html", "Overview"),
            *((group["page"], PAPERS[group["name"]]) for group in groups),
            ("results.html", "Points"),
            ("kills.html", "Kills"),
            ("published.html", "Published"),
        ],
        "up": "",
    }

    def page(template: str, here: str, title: str, **values: Any) -> str:
        found = environment.get_template(template)
        return found.render(**{**shared, **values}, here=here, title=f"Faultline: {title}")

    sources = {"records": made_from, "sets": [each.label for each in sets]}
    return {
        "index.html": _first_page(shown, groups, page),
        **_group_pages(groups, page),
        **_tables(shown, page),
        **_kill_pages(shown, page),
        FILE: json.dumps(sources, indent=1) + "\n",
    }


def _first_page(
    shown: _Shown, groups: Sequence[Mapping[str, Any]], page: Callable[..., str]
) -> str:
    return page(
        "home.html.j2",
        "index.html",
        "what breaking the cluster showed",
        **overview(shown.judged),
        groups=groups,
        sets=shown.sets,
        warnings=shown.warnings,
        kill_count=len(shown.kills),
        unmeasured=_unmeasured(shown),
        choices=_choices(card["facets"] for card in shown.cards),
        trends=False,
        headline=HEADLINE,
        headline_alt=in_words(outages(shown.judged)),
    )


def _group_pages(groups: Sequence[Mapping[str, Any]], page: Callable[..., str]) -> dict[str, str]:
    return {
        group["page"]: page(
            "figures.html.j2",
            group["page"],
            group["title"],
            group=group,
            notebook=None,
            choices=_choices(card["facets"] for card in group["cards"]),
        )
        for group in groups
    }


def _tables(shown: _Shown, page: Callable[..., str]) -> dict[str, str]:
    """Return the pages that are one table each: points, kills, published numbers."""
    numbers = [*_published(shown)]
    return {
        "results.html": page(
            "results.html.j2",
            "results.html",
            "every measured point",
            columns=points.columns(),
            sections=_by_settings(shown.points),
            choices=_choices(row["facets"] for row in shown.points),
        ),
        "published.html": page(
            "published.html.j2",
            "published.html",
            "published numbers beside ours",
            rows=numbers,
            choices=_choices(row["facets"] for row in numbers),
        ),
        "kills.html": page(
            "kills.html.j2",
            "kills.html",
            "every kill",
            sections=_by_settings([_kill_row(kill) for kill in shown.kills]),
            phases=PHASES,
            meanings=MEANINGS,
            choices=_choices(kill.facets for kill in shown.kills),
        ),
    }


def _choices(facets: Iterable[Facets]) -> list[tuple[str, str, Sequence[str]]]:
    """Return the facets with at least two values, with these."""
    found = union(facets)
    return [(name, title, found[name]) for name, title in FACETS.items() if len(found[name]) > 1]


def _by_settings(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows in sections: as it comes, tuned, and those without the distinction."""
    titles = {
        AS_IT_COMES: "Engines as they come",
        TUNED: "Engines with tuned settings",
        NOT_RECORDED: "Settings not recorded",
    }
    there = union(row["facets"] for row in rows)["settings"]
    titles |= {name: f"Other settings: {name}" for name in there if name not in titles}
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


def _published(shown: _Shown) -> Iterator[dict[str, Any]]:
    for each in shown.cards:
        verdicts = {claim["text"]: claim for claim in each["claims"]}
        for row in each["published"]:
            claim = verdicts[row["text"]]
            yield {
                **row,
                "href": each["href"],
                "facets": each["facets"],
                "figure": f"{each['experiment'].paper}, {each['experiment'].figure}",
                "origin": each["experiment"].origin.value,
                "verdict": claim["verdict"],
                "css": claim["css"],
            }


def _status(record: Record) -> str:
    reason = f": {record.reason}" if record.reason else ""
    return "" if record.status == OK else f"this run was {record.status}{reason}"


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
        "cells": [words(kill.phase(name)) if kill.phase(name).known else "–" for name in PHASES],
        "facets": kill.facets,
    }


def _heading(kill: Kill) -> str:
    """Return "kill of r1n1", or the number of nodes where there are many."""
    count = kill.target.count("+") + 1
    what = kill.target if count <= 3 else f"{count} nodes"
    return f"{kill.action} of {what}"


def _kill_pages(shown: _Shown, page: Callable[..., str]) -> dict[str, str]:
    found = {}
    kills = shown.kills
    for number, kill in enumerate(kills):
        record, experiment = kill.found.record, kill.experiment
        name = f"kills/{kill.name}.html"
        found[name] = page(
            "kill.html.j2",
            name,
            f"{_heading(kill)}, {experiment.id}",
            up="../",
            words=f"{_heading(kill)[:1].upper()}{_heading(kill)[1:]}",
            figure=shown.places.get((experiment.id, kill.found.machine_name)),
            experiment=experiment,
            facets=[(FACETS[each], values[0]) for each, values in kill.facets.items()],
            status=_status(record),
            svg=draw(kill),
            windows=len(kill.windows) > 0,
            twin=(kill.windows["pass"] == "twin").any(),
            phases=[
                (each.name, MEANINGS[each.name], words(each), each.known) for each in kill.phases
            ],
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
    return found
