"""The one table of kills: a row for each failure of a pass, with what each observer saw of it.

`Kill` is that row. Each of its fields has an observer, a meaning, and its words on a page. The
stored series, the dictionary of results, the facts of a run and the pages are made from the fields.
`harness.results.recorded` reads the rows of any record."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import Any, Self

import pandas as pd

from harness.results.setting import Setting

SERIES = "recoveries"
"""The series in which a run keeps its kills."""
BETWEEN_NODES = "+"
"""Stands between the nodes of one failure."""


class Observer(StrEnum):
    """The observer of a field of a kill."""

    SETTING = "the setting of the pass"
    PLAN = "the schedule"
    INJECTOR = "the injector"
    ENGINE = "the engine"
    OUTSIDE = "the out topic"
    TWIN = "the out topic of the twin"


class Unrecovered(StrEnum):
    """Reasons why a failure has no recovery time."""

    NOT_BY_END = "not caught up by the end of the load"
    LOST = "a result was never delivered"
    DIED = "the engine died"
    STALLED = "the engine stalled: it delivered nothing more"
    UNRESOLVED = "later than the twin, but less than the resolution"
    NOTHING_DUE = "no window was due after the failure"
    TWIN_BEHIND = "the twin fell behind"
    TWIN_INCOMPLETE = "the twin did not complete every window"
    MISTIMED = "the load or the clock was not on time"
    NOTHING_FAILED = "no failure reached a process"
    OVERLAPPED = "another failure came before the output was calm again"

    @property
    def censored(self) -> bool:
        """True if the output was watched and did not come back: a lower bound is known."""
        return self in (
            Unrecovered.NOT_BY_END,
            Unrecovered.LOST,
            Unrecovered.DIED,
            Unrecovered.STALLED,
        )


METRIC = "See the metrics below."


def _seen_by(
    observer: Observer, meaning: str, default: Any = None, *, shown: str = "", of_run: bool = False
) -> Any:
    """Return a field of a kill.

    ``shown``: its words on the page of a kill. ``of_run``: a run has the value of its first failure
    under the same name."""
    about = {"observer": observer, "meaning": meaning, "shown": shown, "of_run": of_run}
    return field(default=default, metadata=about)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """One kill, pause or cut that reached something. ``None``: not known or not recorded.

    Instants (``at_s``) are seconds from the start of the load."""

    engine: str | None = _seen_by(Observer.SETTING, "The engine.")
    scheme: str | None = _seen_by(Observer.SETTING, "The engine's scheme.")
    mode: str | None = _seen_by(Observer.SETTING, "The engine's mode: micro-batch, real-time.")
    interval_s: float | None = _seen_by(
        Observer.SETTING, "Time between two checkpoints, in seconds."
    )
    workload: str | None = _seen_by(Observer.SETTING, "The workload.")
    settings: str | None = _seen_by(Observer.SETTING, "as it comes, or tuned.")
    action: str = _seen_by(Observer.PLAN, "kill, pause or cut.", "kill")
    target: str = _seen_by(Observer.PLAN, "The node or rack.", "")
    scope: str = _seen_by(Observer.PLAN, "node, nodes or rack.", "")
    planned_at_s: float | None = _seen_by(
        Observer.PLAN, "Planned time, in seconds from the start of the load."
    )
    nodes: Sequence[str] = _seen_by(
        Observer.INJECTOR, "The nodes that it reached, with + between them.", ()
    )
    at_s: float = _seen_by(Observer.INJECTOR, "Time of the first signal.", math.nan)
    lateness_s: float | None = _seen_by(
        Observer.INJECTOR,
        "First signal minus planned instant.",
        shown="first signal after its planned instant",
    )
    spread_s: float | None = _seen_by(
        Observer.INJECTOR,
        "Last signal minus first.",
        shown="from the first signal to the last",
    )
    ended_at_s: float | None = _seen_by(
        Observer.INJECTOR,
        "Time of the node's restart, resumption or healing; empty if there was none.",
    )
    detected_at_s: float | None = _seen_by(Observer.ENGINE, "Time at which the engine detected it.")
    detection_s: float | None = _seen_by(Observer.ENGINE, METRIC, shown="detection", of_run=True)
    detected_by: str | None = _seen_by(
        Observer.ENGINE,
        "Sign by which the engine detected it: a closed connection, a heartbeat.",
        of_run=True,
    )
    first_sign_s: float | None = _seen_by(
        Observer.ENGINE, "From the failure until the engine's first report that a part had failed."
    )
    tasks: str | None = _seen_by(
        Observer.ENGINE, "The tasks that ran on the nodes that it reached."
    )
    restart_s: float | None = _seen_by(
        Observer.ENGINE, "From the detection until all that was lost had a place again."
    )
    restore_s: float | None = _seen_by(
        Observer.ENGINE, "From the detection until all that was lost had its state again."
    )
    paper_recovery_s: float | None = _seen_by(
        Observer.ENGINE, METRIC, shown="recovery as the engine reports it", of_run=True
    )
    paper_recovery_why_not: str | None = _seen_by(
        Observer.ENGINE, "Reason why there is no `paper_recovery_s`.", of_run=True
    )
    restored_by: str | None = _seen_by(
        Observer.ENGINE, "The way back: a replica, a checkpoint, the sources."
    )
    recovery_s: float | None = _seen_by(
        Observer.OUTSIDE, METRIC, shown="recovery as seen from outside", of_run=True
    )
    recovery_at_least_s: float | None = _seen_by(
        Observer.OUTSIDE, METRIC, shown="not recovered, watched for", of_run=True
    )
    recovery_why_not: str | None = _seen_by(
        Observer.OUTSIDE, "Reason why there is no `recovery_s`.", of_run=True
    )
    outage_s: float | None = _seen_by(
        Observer.OUTSIDE, METRIC, shown="results were late for", of_run=True
    )
    outage_5_s: float | None = _seen_by(
        Observer.OUTSIDE, METRIC, shown="results were much too late for", of_run=True
    )
    relapse_s: float | None = _seen_by(Observer.OUTSIDE, METRIC, of_run=True)
    relapsing: bool = _seen_by(
        Observer.OUTSIDE,
        "True if the output, which had caught up, was late again when the next failure came or the "
        "load ended: `relapse_s` is a lower bound then.",
        False,
        of_run=True,
    )
    overlaps: bool = _seen_by(
        Observer.OUTSIDE,
        "True if another failure came before the output was on time again.",
        False,
        of_run=True,
    )
    usual_s: float | None = _seen_by(
        Observer.OUTSIDE,
        "How late results usually were, where the pass itself says it.",
        shown="usual lateness of results",
    )
    resolution_s: float | None = _seen_by(
        Observer.OUTSIDE,
        "The least delay above `usual_s` that counts as late.",
        shown="least delay that counts as late",
    )
    twin_recovery_s: float | None = _seen_by(
        Observer.TWIN,
        "The recovery that the rule of `recovery_s` finds in the twin at the instant of the "
        "failure, where nothing failed: noise.",
        shown="the same rule on the twin (noise)",
    )
    twin_outage_s: float | None = _seen_by(
        Observer.TWIN,
        "The outage that the rule of `outage_s` finds in the twin at the instant of the failure: "
        "noise.",
    )
    twin_relapse_s: float | None = _seen_by(
        Observer.TWIN,
        "The relapses that the rule of `relapse_s` finds in the twin after the instant of the "
        "failure: noise.",
    )
    silence_s: float | None = _seen_by(
        Observer.OUTSIDE,
        "The longest time without a new result from the failure to the next one, or to the end of "
        "the load.",
        shown="longest time without a new result",
        of_run=True,
    )
    twin_silence_s: float | None = _seen_by(
        Observer.TWIN,
        "The twin's longest time without a new result from the instant of the failure to that of "
        "the next one, or to the end of the load.",
        shown="the same in the twin",
        of_run=True,
    )
    output_gap_s: float | None = _seen_by(
        Observer.OUTSIDE, METRIC, shown="silence longer than the twin's by", of_run=True
    )

    def row(self) -> dict[str, Any]:
        """Return the row of the stored table."""
        row = {name: getattr(self, name) for name in COLUMNS}
        return {**row, "nodes": BETWEEN_NODES.join(self.nodes)}

    @classmethod
    def from_row(cls, row: Mapping[Any, Any]) -> Self:
        """Read a row of the stored table; columns of its own that a figure adds are ignored."""
        known = {name: row[name] for name in COLUMNS if name in row and not pd.isna(row[name])}
        nodes = known.get("nodes", "")
        kill = cls(**{**known, "nodes": tuple(nodes.split(BETWEEN_NODES)) if nodes else ()})
        if kill.detection_s is None and kill.detected_at_s is not None:
            return replace(kill, detection_s=kill.detected_at_s - kill.at_s)
        return kill

    @property
    def setting(self) -> Setting:
        """The setting of its pass, as far as it is known."""
        known = {each.name: getattr(self, each.name) for each in fields(Setting)}
        return Setting(**{name: value for name, value in known.items() if value is not None})

    @property
    def seen_s(self) -> float | None:
        """The time until the output had caught up, where it is known.

        The lower bound of a recovery that did not happen; 0 below the resolution."""
        if self.recovery_why_not == Unrecovered.UNRESOLVED:
            return 0.0
        return self.recovery_at_least_s if self.recovery_s is None else self.recovery_s

    @property
    def late_for_s(self) -> float | None:
        """The time for which output was late, relapses included, where it is known.

        A lower bound where it is not ``over``. Records from before 2026-11-27 have no outage: in
        them it is the recovery, which counts from the failure, and its relapses."""
        if self.outage_s is not None or self.seen_s is None:
            return self.outage_s
        return self.seen_s + (self.relapse_s or 0.0)

    @property
    def over(self) -> bool:
        """True if output was on time at the end of the time for which it was watched."""
        return self.recovery_at_least_s is None and not self.relapsing

    @property
    def outcome(self) -> dict[str, Any]:
        """The values that a run has of its first failure."""
        return {name: getattr(self, name) for name in OF_ONE_FAILURE}

    @property
    def alone(self) -> Self:
        """The failure without a recovery that another one interrupted."""
        if not self.overlaps:
            return self
        return replace(
            self,
            recovery_s=None,
            recovery_at_least_s=None,
            recovery_why_not=Unrecovered.OVERLAPPED.value,
            outage_s=None,
            outage_5_s=None,
            relapse_s=None,
            relapsing=False,
        )

    @property
    def without_times(self) -> Self:
        """The failure without consequences: the pass's times cannot be trusted."""
        planned = (Observer.SETTING, Observer.PLAN, Observer.INJECTOR)
        known = {n: getattr(self, n) for n, each in FIELDS.items() if each["observer"] in planned}
        mistimed = Unrecovered.MISTIMED.value
        return type(self)(**known, overlaps=self.overlaps, recovery_why_not=mistimed)


FIELDS: Mapping[str, Mapping[str, Any]] = {each.name: each.metadata for each in fields(Kill)}
"""What is said of each column, in the order of the table."""
COLUMNS = tuple(FIELDS)
OF_ONE_FAILURE = tuple(name for name, about in FIELDS.items() if about["of_run"])
"""The values of a run that describe its first failure."""
MEANINGS: Mapping[str, str] = {name: about["meaning"] for name, about in FIELDS.items()}


def frame_of(kills: Iterable[Kill]) -> pd.DataFrame:
    """Return kills as the series that a run keeps."""
    frame = pd.DataFrame([kill.row() for kill in kills], columns=list(COLUMNS))
    return frame.astype({name: float for name in COLUMNS if name.endswith("_s")})


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The time for which output was seen to be late after one failure."""

    seconds: float
    over: bool
    """False if it was still late at the end of that time."""


UNKNOWN = "its recovery is not known"
OVERLAPPED = "it struck before output was calm after another failure"


def alone(kills: Sequence[Kill]) -> Sequence[Seen | str]:
    """Return what each failure of one pass did alone, or why that is unknown.

    Failures overlap if the output was not calm between them. Of those the first counts; if it was
    not over when the next one came, it is known until then. What the later ones did is unknown."""
    found: list[Seen | str] = [
        UNKNOWN if kill.late_for_s is None else Seen(seconds=kill.late_for_s, over=kill.over)
        for kill in kills
    ]
    mixed = sorted((kill.at_s, place) for place, kill in enumerate(kills) if kill.overlaps)
    late_until_s = -math.inf
    for (at_s, place), (next_s, _) in zip(mixed, [*mixed[1:], (math.inf, -1)], strict=False):
        kill, seen = kills[place], found[place]
        if at_s < late_until_s:
            found[place] = OVERLAPPED
            continue
        late_until_s = math.inf
        if isinstance(seen, Seen) and kill.seen_s is not None:
            late_until_s = at_s + kill.seen_s if seen.over else math.inf
            if seen.seconds > next_s - at_s:
                found[place] = Seen(seconds=next_s - at_s, over=False)
    return found
