"""The facets by which a reader chooses figures, results and kills: paper, scheme, engine, ...

A facet that a record does not have is "not recorded": it is never guessed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from harness.experiment import Experiment
from harness.results.record import Record

Facets = Mapping[str, Sequence[str]]
"""The values of each facet; a figure may have several, a kill has one."""

FACETS: Mapping[str, str] = {
    "paper": "Paper",
    "scheme": "Scheme",
    "workload": "Workload",
    "engine": "Engine",
    "mode": "Mode",
    "settings": "Settings",
    "backend": "Backend",
    "machine": "Machine",
}
"""Each facet with its title, in the order of the page."""
NOT_RECORDED = "not recorded"
AS_IT_COMES, TUNED = "as it comes", "tuned"
PAPERS: Mapping[str, str] = {
    "ppa": "PPA",
    "intervals": "intervals",
    "edge": "edge",
    "dpc": "Borealis",
    "live": "live",
    "stock": "stock Spark",
}
"""Short names of the groups of experiments."""
_SCHEMES = {
    "ckp": "checkpoint",
    "ck-only": "checkpoint",
    "checkpoint": "checkpoint",
    "active": "active replication",
    "full": "active replication",
    "storm": "source replay",
    "replay": "source replay",
    "ppa": "PPA",
    "rppg": "RPPG",
    "dpc": "Borealis",
}
"""Beginnings of the names that experiments give to a scheme with its settings."""


def of_record(record: Record, experiment: Experiment, machine: str, variant: str = "") -> Facets:
    """Return the facets of one run, or of one pass of it, each with a single value."""
    point = record.point
    row = str(point.get("row", ""))
    found = {
        "paper": PAPERS[experiment.group],
        "scheme": _scheme([*_named(point, "scheme", "contender", "mechanism"), row, variant]),
        "workload": next(iter(_named(point, "workload", "query")), "").replace("-", " "),
        "engine": engine_words(record, experiment),
        "mode": _mode(record),
        "settings": _settings(record, row),
        "backend": record.backend or "no servers",
        "machine": machine,
    }
    return {name: [found[name] or NOT_RECORDED] for name in FACETS}


def union(several: Iterable[Facets]) -> Facets:
    """Return all values of each facet."""
    found: dict[str, dict[str, None]] = {name: {} for name in FACETS}
    for each in several:
        for name, values in each.items():
            found[name].update(dict.fromkeys(values))
    return {name: sorted(values) for name, values in found.items()}


def engine_words(record: Record, experiment: Experiment) -> str:
    """Return the name of the engine that a run measured, or the origin of its numbers."""
    if not record.engine:
        named = str(record.point.get("engine", ""))
        live = named in ("structured", "tasks") or named.startswith("live")
        return "" if live else experiment.origin.value
    known = {"structured": "stock Spark", "tasks": "task engine"}
    return known.get(record.engine, record.engine)


def _named(point: Mapping[str, Any], *names: str) -> list[str]:
    return [str(point[name]) for name in names if point.get(name)]


def _scheme(names: Iterable[str]) -> str:
    for name in filter(None, names):
        lower = name.lower()
        known = next((s for begin, s in _SCHEMES.items() if lower.startswith(begin)), None)
        if known is not None:
            return known
    return ""


def _mode(record: Record) -> str:
    named = str(record.point.get("mode", ""))
    if named:
        return named.replace("_", " ")
    if record.engine == "structured":
        row = str(record.point.get("row", record.experiment))
        return "real-time" if "real-time" in row else "micro-batch"
    return "long-lived tasks" if record.engine == "tasks" else ""


def _settings(record: Record, row: str) -> str:
    named = str(record.point.get("settings", ""))
    if "tuned" in named or "tuned" in row:
        return TUNED
    if not record.engine:
        return ""
    return AS_IT_COMES if named in ("", AS_IT_COMES, "default") else named
