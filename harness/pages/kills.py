"""What died when, and what followed, of every kill in a set of records.

The rows are those of the one table of kills (`harness.results.kills`). What a record lacks is a
phase without times and with the reason."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from harness.experiment import Experiment
from harness.pages.facets import Facets, of_setting
from harness.results import kills as table
from harness.results.kills import BETWEEN_NODES, FIELDS
from harness.results.record import NOT_RECORDED
from harness.results.recorded import kill_windows, kills_in
from harness.results.store import StoredRecord

PHASES = ("detection", "restart", "restore", "replay", "output")
MEANINGS: Mapping[str, str] = {
    "detection": "from the first signal until the engine noticed the failure",
    "restart": "until the lost work had a place again: another process, or a replica",
    "restore": "until its state was there",
    "replay": "until it was as far as before the failure",
    "output": "from the first signal until output was on time again, as seen from outside",
}
FEW = 3
"""Events of a kind around one kill that have a line each."""
Row = Mapping[Any, Any]
"""One row of a series, by column."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """One phase of an outage; times are seconds from the kill."""

    name: str
    from_s: float | None = None
    until_s: float | None = None
    why_not: str = ""
    """Reason why it has no times, or why its end is a lower bound."""
    open: bool = False
    """True if it had not ended when the load did: ``until_s`` is a lower bound."""

    @property
    def known(self) -> bool:
        """True if it has a begin and an end."""
        return self.from_s is not None and self.until_s is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Happening:
    """One event around a kill, or several alike; seconds from it."""

    at_s: float
    words: str
    until_s: float | None = None
    """Time of the last one, of several."""

    @property
    def when(self) -> str:
        """The time for people."""
        first = seconds(self.at_s)
        return first if self.until_s is None else f"{first} to {seconds(self.until_s)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """One failure of one run."""

    name: str
    """Unique in a set; the name of its page."""
    experiment: Experiment
    found: StoredRecord
    variant: str
    action: str
    target: str
    nodes: str
    at_s: float | None
    """Seconds from the start of the load."""
    phases: Sequence[Phase]
    happenings: Sequence[Happening]
    windows: pd.DataFrame
    """``pass``, ``at_s`` (seconds from the kill), ``latency_s``; empty if no window was kept."""
    facts: Sequence[tuple[str, str]]
    facets: Facets

    def phase(self, name: str) -> Phase:
        """Return a phase by its name."""
        return next(each for each in self.phases if each.name == name)


def kills_of(found: StoredRecord, experiment: Experiment) -> Iterator[Kill]:
    """Yield every kill, pause and cut of a run, in the order of its table.

    Raises `ValueError`, `KeyError` or `OSError` for a series that cannot be read."""
    kills = kills_in(found.record, found.directory)
    place = f"{found.record.experiment.replace('/', '-')}-{found.record.run.replace('.', '-')}"
    tables = {name: found.read(name) for name in ("incidents", "failures")}
    for number, (kill, row) in enumerate(kills):
        variant = _text(row.get("variant"))
        mine = {
            name: each[each["variant"] == variant] if variant and "variant" in each else each
            for name, each in tables.items()
        }
        later = (
            k.at_s for k, r in kills if k.at_s > kill.at_s and _text(r.get("variant")) == variant
        )
        next_s = min(later, default=math.inf)
        nodes = kill.nodes or kill.target.split(BETWEEN_NODES)
        incidents = _near(mine["incidents"], kill.at_s, next_s, nodes)
        yield Kill(
            name=f"{place}-{number + 1}",
            experiment=experiment,
            found=found,
            variant=variant,
            action=kill.action,
            target=kill.target,
            nodes=", ".join(nodes),
            at_s=_number(kill.at_s),
            phases=[*_own_phases(kill), _output(kill)],
            happenings=_happenings(kill, incidents, mine["failures"], next_s),
            windows=kill_windows(found.directory, kill, row),
            facts=_facts(kill),
            facets=of_setting(kill.setting, found.record, experiment, found.machine_name),
        )


def _near(
    incidents: pd.DataFrame, at_s: float, next_s: float, nodes: Sequence[str]
) -> pd.DataFrame:
    """Return the engine's events from a failure to the next one; other nodes' are left out."""
    if "at_s" not in incidents:
        return pd.DataFrame(columns=["at_s", "event", "target", "cause"])
    # The first signal of many is earlier than the instant that the record has.
    near = incidents[(incidents["at_s"] >= at_s - 0.2) & (incidents["at_s"] < next_s)]
    if "target" not in near:
        return near.assign(target=None)
    return near[near["target"].isna() | near["target"].isin(nodes)].sort_values("at_s")


def _own_phases(kill: table.Kill) -> list[Phase]:
    """Return the phases that the engine reports: detection, restart, restore, replay."""
    why = kill.paper_recovery_why_not or NOT_RECORDED
    if kill.detection_s is None:
        return [Phase(name=name, why_not=why) for name in PHASES[:4]]
    since_s = max(0.0, kill.detection_s)
    phases = [Phase(name="detection", from_s=0.0, until_s=since_s)]
    own_s = kill.paper_recovery_s
    end_s = None if own_s is None else since_s + own_s
    if kill.restart_s is None or kill.restore_s is None:
        kept = "the engine reports it together with replay" if own_s is not None else why
        phases += [Phase(name=name, why_not=kept) for name in ("restart", "restore")]
    else:
        there_s = since_s + kill.restart_s
        ready_s = since_s + max(kill.restart_s, kill.restore_s)
        phases += [
            Phase(name="restart", from_s=since_s, until_s=there_s),
            Phase(name="restore", from_s=there_s, until_s=ready_s),
        ]
        since_s, end_s = ready_s, None if end_s is None else max(ready_s, end_s)
    lacking = why if end_s is None else ""
    return [*phases, Phase(name="replay", from_s=since_s, until_s=end_s, why_not=lacking)]


def _output(kill: table.Kill) -> Phase:
    """Return the recovery as seen from outside."""
    why = kill.recovery_why_not or ""
    if kill.recovery_s is not None:
        mixed = "mixed with that of another failure" if kill.overlaps else why
        return Phase(name="output", from_s=0.0, until_s=kill.recovery_s, why_not=mixed)
    least_s = kill.recovery_at_least_s
    if least_s is not None:
        return Phase(name="output", from_s=0.0, until_s=least_s, open=True, why_not=why)
    return Phase(name="output", why_not=why or NOT_RECORDED)


def _happenings(
    kill: table.Kill, incidents: pd.DataFrame, injected: pd.DataFrame, next_s: float
) -> list[Happening]:
    at_s, target = kill.at_s, kill.target
    tasks = f", which had {kill.tasks}" if kill.tasks else ""
    found = [Happening(at_s=0.0, words=f"{kill.action} of {target}{tasks}: first signal")]
    if kill.restored_by:
        restored_s = (kill.detection_s or 0.0) + (kill.paper_recovery_s or 0.0)
        found.append(Happening(at_s=restored_s, words=f"restored: {kill.restored_by}"))
    for event, alike in incidents.groupby("event", sort=False):
        rows = alike.assign(at_s=alike["at_s"] - at_s).to_dict("records")
        if len(rows) > FEW and event != "executors":
            found.append(_together(str(event), rows))
        else:
            found += (Happening(at_s=each["at_s"], words=_in_words(each)) for each in rows)
    if "action" in injected:
        ends = injected[injected["action"].isin(["restart", "resume", "heal"])]
        for each in ends[(ends["at_s"] > at_s) & (ends["at_s"] < next_s)].to_dict("records"):
            if each["target"] in (target, *target.split(BETWEEN_NODES)):
                words = f"{each['action']} of {each['target']} by the injector"
                found.append(Happening(at_s=each["at_s"] - at_s, words=words))
    return sorted(found, key=lambda each: each.at_s)


def _in_words(incident: Row) -> str:
    node, cause = _text(incident.get("target")), _text(incident.get("cause"))
    if incident["event"] == "executors":
        words = f"{_number(incident.get('count')) or 0:.0f} executors at work"
    else:
        words = f"{node} {incident['event']}" if node else str(incident["event"])
    return words + _tasks(incident) + (f": {cause}" if cause else "")


def _tasks(incident: Row) -> str:
    return f" ({tasks})" if (tasks := _text(incident.get("tasks"))) else ""


def _together(event: str, incidents: Sequence[Row]) -> Happening:
    """Return one line for events of a kind; a cause is named if all have the same."""
    listed = (
        f"{_text(each.get('target'))}{_tasks(each)} {seconds(each['at_s'])}".strip()
        for each in incidents
    )
    causes = {_text(each.get("cause")) for each in incidents}
    (cause,) = causes if len(causes) == 1 else ("",)
    return Happening(
        at_s=incidents[0]["at_s"],
        until_s=incidents[-1]["at_s"],
        words=f"{event}, {len(incidents)} times{f' ({cause})' if cause else ''}: "
        + ", ".join(listed),
    )


def _facts(kill: table.Kill) -> list[tuple[str, str]]:
    """Return the numbers of the record about a failure, those that it lacks as such.

    Only a field whose name ends in ``_s`` is a time."""

    def text(name: str) -> str:
        value = _number(getattr(kill, name))
        return seconds(value) if value is None or name.endswith("_s") else f"{value:g}"

    return [(about["shown"], text(name)) for name, about in FIELDS.items() if about["shown"]]


def seconds(value: float | None) -> str:
    """Return a time for people: "12 ms", "3.4 s", or that it was not recorded."""
    if value is None:
        return NOT_RECORDED
    if abs(value) < 1e-6:  # less than the clocks resolve
        return "0 s"
    factor, unit = (
        (1, "s") if abs(value) >= 1 else (1e3, "ms") if abs(value) >= 1e-3 else (1e6, "µs")
    )
    return f"{value * factor:.3g} {unit}"


def _number(value: Any) -> float | None:
    if value is None or isinstance(value, str | bool | list):
        return None
    number = float(value)
    return number if math.isfinite(number) else None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
