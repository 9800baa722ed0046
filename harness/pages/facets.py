"""The facets by which a reader chooses figures, results and kills: paper, scheme, engine, ...

A facet that a record does not have is "not recorded": it is never guessed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from harness.experiment import Experiment
from harness.protocol.schemes import SCHEMES
from harness.results.record import NOT_RECORDED, Record
from harness.results.recorded import setting_of
from harness.results.setting import Setting

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
PAPERS: Mapping[str, str] = {
    "ppa": "PPA",
    "intervals": "intervals",
    "edge": "edge",
    "dpc": "Borealis",
    "live": "live",
    "stock": "stock Spark",
}
"""Short names of the groups of experiments."""


def of_record(record: Record, experiment: Experiment, machine: str, variant: str = "") -> Facets:
    """Return the facets of one run, or of one pass of it, each with a single value."""
    return of_setting(setting_of(record, variant), record, experiment, machine)


def of_setting(setting: Setting, record: Record, experiment: Experiment, machine: str) -> Facets:
    """Return the facets of a run under a setting."""
    mode = "long-lived tasks" if record.engine == "tasks" else ""
    found = {
        "paper": PAPERS[experiment.group],
        "scheme": SCHEMES[setting.scheme].label if setting.scheme in SCHEMES else setting.scheme,
        "workload": setting.workload.replace("-", " "),
        "engine": engine_words(record, experiment),
        "mode": (setting.mode or mode).replace("_", " "),
        "settings": setting.settings,
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
