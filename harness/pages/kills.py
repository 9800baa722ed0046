"""What died when, and what followed, of every kill in a set of records.

Two kinds of records have kills. A pass that was judged against a twin has a row per failure in
"recoveries", with the engine's events in "incidents" and every window of both passes in "windows".
A figure that kills nodes one after the other has a row per kill in "kills". Each is read as it is:
what an old record lacks is a phase without times and with the reason."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from harness.experiment import Experiment
from harness.measure.metrics import label
from harness.pages.facets import Facets, of_record
from harness.results.library import Found
from harness.results.tables import read_series

PHASES = ("detection", "restart", "restore", "replay", "output")
MEANINGS: Mapping[str, str] = {
    "detection": "from the first signal until the engine noticed the failure",
    "restart": "until the lost work had a place again: another process, or a replica",
    "restore": "until its state was there",
    "replay": "until it was as far as before the failure",
    "output": "from the first signal until output was on time again, as seen from outside",
}
NOT_KEPT = "not recorded"
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
    found: Found
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


def kills_of(found: Found, experiment: Experiment) -> Iterator[Kill]:
    """Yield every kill, pause and cut of a run, in the order of its tables.

    Raises `ValueError`, `KeyError` or `OSError` for a series that cannot be read."""
    if "recoveries" in found.series:
        yield from _judged(found, experiment)
    elif "kills" in found.series or "lateness" in found.series:
        yield from _in_turn(found, experiment)


def _judged(found: Found, experiment: Experiment) -> Iterator[Kill]:
    failures = read(found, "recoveries")
    tables = {name: read(found, name) for name in ("incidents", "failures", "windows")}
    for number, row in enumerate(_rows(failures)):
        variant = _text(row.get("variant"))
        mine = {name: _of_variant(table, variant) for name, table in tables.items()}
        later = failures["at_s"][(failures["at_s"] > row["at_s"])]
        if "variant" in failures:
            later = later[failures["variant"].reindex(later.index) == row.get("variant")]
        next_s = float(later.min()) if len(later) else math.inf
        at_s = float(row["at_s"])
        nodes = _nodes(row, mine["failures"])
        incidents = _near(mine["incidents"], at_s, next_s, nodes)
        yield Kill(
            name=_name(found, number),
            experiment=experiment,
            found=found,
            variant=variant,
            action=_text(row.get("action")) or "kill",
            target=_text(row.get("target")),
            nodes=", ".join(nodes),
            at_s=at_s,
            phases=[*_own_phases(row, incidents, at_s), _output(row)],
            happenings=_happenings(row, incidents, mine["failures"], at_s, next_s),
            windows=_windows(mine["windows"], at_s),
            facts=_facts(_with_injection(row, mine["failures"])),
            facets=of_record(found.record, experiment, found.machine_name, variant),
        )


def read(found: Found, name: str) -> pd.DataFrame:
    """Return a series of a run, empty if it was not kept."""
    frame = read_series(found.directory, name)
    return pd.DataFrame() if frame is None else frame


def _of_variant(table: pd.DataFrame, variant: str) -> pd.DataFrame:
    return table[table["variant"] == variant] if variant and "variant" in table else table


def _name(found: Found, number: int) -> str:
    place = found.record.experiment.replace("/", "-")
    return f"{place}-{found.record.run.replace('.', '-')}-{number + 1}"


def _nodes(row: Row, injected: pd.DataFrame) -> list[str]:
    """Return the nodes that a failure reached, from its own row or the injector's process ids."""
    if nodes := _text(row.get("nodes")):
        return nodes.split("+")
    target = _text(row.get("target"))
    if "pids" in injected and "at_s" in injected:
        mine = injected[(injected["target"] == target) & (injected["at_s"] == row["at_s"])]
        for pids in mine["pids"].dropna():
            if names := [part.split(":")[0].strip() for part in str(pids).split(";") if part]:
                return names
    return target.split("+")


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


def _own_phases(row: Row, incidents: pd.DataFrame, at_s: float) -> list[Phase]:
    """Return the phases that the engine reports: detection, restart, restore, replay."""
    detection_s = _number(row.get("detection_s"))
    if detection_s is None:
        why = _text(row.get("paper_recovery_why_not")) or NOT_KEPT
        return [Phase(name=name, why_not=why) for name in PHASES[:4]]
    detection_s = max(0.0, detection_s)
    detection = Phase(name="detection", from_s=0.0, until_s=detection_s)
    own_s = _number(row.get("paper_recovery_s"))
    why = _text(row.get("paper_recovery_why_not")) or NOT_KEPT
    back = incidents[incidents["event"] == "recovered"]
    steps = [
        float(back[name].max()) if name in back and back[name].notna().any() else None
        for name in ("there_after_s", "ready_after_s")
    ]
    end_s = None if own_s is None else detection_s + own_s
    if steps[0] is None or steps[1] is None:
        kept = "the engine reports it together with replay" if own_s is not None else why
        return [
            detection,
            Phase(name="restart", why_not=kept),
            Phase(name="restore", why_not=kept),
            Phase(name="replay", from_s=detection_s, until_s=end_s, why_not="" if end_s else why),
        ]
    there_s, ready_s = detection_s + steps[0], detection_s + max(steps[0], steps[1])
    return [
        detection,
        Phase(name="restart", from_s=detection_s, until_s=there_s),
        Phase(name="restore", from_s=there_s, until_s=ready_s),
        Phase(
            name="replay",
            from_s=ready_s,
            until_s=None if end_s is None else max(ready_s, end_s),
            why_not="" if end_s is not None else why,
        ),
    ]


def _output(row: Row) -> Phase:
    """Return the recovery as seen from outside."""
    seconds, least_s = _number(row.get("recovery_s")), _number(row.get("recovery_at_least_s"))
    why = _text(row.get("recovery_why_not"))
    if seconds is not None:
        mixed = "mixed with that of another failure" if row.get("overlaps") is True else why
        return Phase(name="output", from_s=0.0, until_s=seconds, why_not=mixed)
    if least_s is not None:
        return Phase(name="output", from_s=0.0, until_s=least_s, open=True, why_not=why)
    return Phase(name="output", why_not=why or NOT_KEPT)


def _happenings(
    row: Row,
    incidents: pd.DataFrame,
    injected: pd.DataFrame,
    at_s: float,
    next_s: float,
) -> list[Happening]:
    action, target = _text(row.get("action")) or "kill", _text(row.get("target"))
    found = [Happening(at_s=0.0, words=f"{action} of {target}: first signal")]
    for event, alike in incidents.groupby("event", sort=False):
        rows = alike.assign(at_s=alike["at_s"] - at_s).to_dict("records")
        if len(rows) > FEW and event != "executors":
            found.append(_together(str(event), rows))
        else:
            found += (Happening(at_s=each["at_s"], words=_in_words(each)) for each in rows)
    if "action" in injected:
        ends = injected[injected["action"].isin(["restart", "resume", "heal"])]
        for each in ends[(ends["at_s"] > at_s) & (ends["at_s"] < next_s)].to_dict("records"):
            if each["target"] in (target, *target.split("+")):
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


def _windows(table: pd.DataFrame, at_s: float) -> pd.DataFrame:
    """Return when each window of both passes was complete, counted from the kill."""
    if "complete_s" not in table or "latency_s" not in table:
        return pd.DataFrame(columns=["pass", "at_s", "latency_s"])
    found = table[["pass", "complete_s", "latency_s"]].copy()
    found["at_s"] = found.pop("complete_s") - at_s
    finite = found["at_s"].map(math.isfinite) & found["latency_s"].map(math.isfinite)
    return found[finite]


def _with_injection(row: Row, injected: pd.DataFrame) -> Row:
    """Return a failure's row; old ones have the injector's times in a table of their own."""
    if _number(row.get("lateness_s")) is not None or "lateness_s" not in injected:
        return row
    mine = injected[(injected["target"] == row["target"]) & (injected["at_s"] == row["at_s"])]
    return {**row, "lateness_s": mine["lateness_s"].iloc[0]} if len(mine) else row


_JUDGED_FACTS = {
    "lateness_s": "first signal after its planned instant",
    "spread_s": "from the first signal to the last",
    "detection_s": "detection",
    "paper_recovery_s": "recovery as the engine reports it",
    "recovery_s": "recovery as seen from outside",
    "recovery_at_least_s": "not recovered, watched for",
    "twin_recovery_s": "the same rule on the twin (noise)",
    "silence_s": "longest time without a new result",
    "twin_silence_s": "the same in the twin",
    "output_gap_s": "silence longer than the twin's by",
}


def _facts(row: Row) -> list[tuple[str, str]]:
    """Return every number of the record about a failure, those that it lacks as such."""
    return [(words, seconds(_number(row.get(name)))) for name, words in _JUDGED_FACTS.items()]


def seconds(value: float | None) -> str:
    """Return a time for people: "12 ms", "3.4 s", or that it was not recorded."""
    if value is None:
        return NOT_KEPT
    if abs(value) < 1e-6:  # less than the clocks resolve
        return "0 s"
    factor, unit = (
        (1, "s") if abs(value) >= 1 else (1e3, "ms") if abs(value) >= 1e-3 else (1e6, "µs")
    )
    return f"{value * factor:.3g} {unit}"


def _in_turn(found: Found, experiment: Experiment) -> Iterator[Kill]:
    """Yield the kills of a figure that kills one node after the other."""
    lateness = read(found, "lateness")
    # A record from before the kill had a row has its windows alone.
    rows = _rows(read(found, "kills")) or ([{}] if len(lateness) else [])
    for number, row in enumerate(rows):
        at_s = _number(row.get("at_s"))
        node = _text(row.get("node")) or "a worker"
        tasks, how = _text(row.get("tasks")), _text(row.get("how"))
        known = [
            (str(name), value)
            for name, value in row.items()
            if name not in ("node", "tasks", "how") and _number(value) is not None
        ]
        happened = f"kill of {node}" + (f", which had {tasks}" if tasks else "")
        yield Kill(
            name=_name(found, number),
            experiment=experiment,
            found=found,
            variant="",
            action="kill",
            target=node,
            nodes=node,
            at_s=at_s,
            phases=_stepwise(row),
            happenings=[
                Happening(at_s=0.0, words=happened),
                *([Happening(at_s=_back_s(row), words=f"restored: {how}")] if how else []),
            ],
            windows=_late_windows(lateness, row),
            facts=[(label(name), f"{_number(value):.4g}") for name, value in known],
            facets=of_record(found.record, experiment, found.machine_name),
        )


def _time(row: Row, name: str) -> float | None:
    """Return a time of a row in seconds, from a column in seconds or in milliseconds."""
    value = _number(row.get(f"{name}_s"))
    if value is not None:
        return value
    value = _number(row.get(f"{name}_ms"))
    return None if value is None else value / 1000


def _back_s(row: Row) -> float:
    return _time(row, "restored") or _time(row, "engine") or 0.0


def _stepwise(row: Row) -> list[Phase]:
    """Return the phases of a kill whose steps count from its detection."""
    seen_s = _time(row, "detection")
    restored_s, takeover_s = _time(row, "restored"), _time(row, "takeover")
    if seen_s is None and restored_s is not None and takeover_s is not None:
        seen_s = max(0.0, restored_s - takeover_s)
    there_s, ready_s = _time(row, "there"), _time(row, "ready")
    if takeover_s is None:
        takeover_s = _time(row, "engine")
    bounds = [seen_s] + [
        None if step is None or seen_s is None else seen_s + step
        for step in (there_s, ready_s, takeover_s)
    ]
    found = []
    since: float | None = 0.0
    for name, until in zip(PHASES, bounds, strict=False):
        if until is None:
            found.append(Phase(name=name, why_not=NOT_KEPT))
            continue
        found.append(Phase(name=name, from_s=since, until_s=max(until, since or 0.0)))
        since = max(until, since or 0.0)
    outside = {
        "recovery_s": _time(row, "outside"),
        "recovery_at_least_s": _time(row, "outside_at_least"),
        "recovery_why_not": row.get("outside_why_not"),
        "overlaps": row.get("overlaps"),
    }
    return [*found, _output(outside)]


def _late_windows(lateness: pd.DataFrame, row: Row) -> pd.DataFrame:
    """Return the windows around a kill of a figure that keeps each window's lateness."""
    if not {"ended_s", "last_s"} <= {*lateness}:
        return pd.DataFrame(columns=["pass", "at_s", "latency_s"])
    mine = lateness
    if "sample" in lateness:
        mine = lateness[lateness["sample"] == row.get("sample")]
    return pd.DataFrame(
        {"pass": "failed", "at_s": mine["ended_s"] + mine["last_s"], "latency_s": mine["last_s"]}
    )


def _number(value: Any) -> float | None:
    if value is None or isinstance(value, str | bool | list):
        return None
    number = float(value)
    return number if math.isfinite(number) else None


def _rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows by the names of their columns."""
    return [{str(name): value for name, value in row.items()} for row in frame.to_dict("records")]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
