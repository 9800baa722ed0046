"""Kills on real servers in a library of records, one row each.

A row has its ``system`` (`harness.intervals.systems`), ``experiment``, ``run``, ``interval_s``, and
``outage_s``, 0 if no result was late. Where ``over`` is False the output was
not back when it was last watched, and ``outage_s`` is the time until then. Only kills under
checkpoints with the system's own settings, at a known interval, are here: what is tuned, replicated
or planned is another question. `Kills.left_out` counts those."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import pandas as pd

from harness.intervals.systems import SYSTEMS
from harness.results.kills import Kill, Seen, alone
from harness.results.library import Library
from harness.results.record import OK
from harness.results.recorded import kills_in
from harness.results.setting import TUNED
from harness.results.store import StoredRecord

COLUMNS = ("system", "experiment", "run", "interval_s", "outage_s", "over", "detection_s")
_SYSTEM_OF = {system.engine: key for key, system in SYSTEMS.items() if system.engine}
REAL_TIME = "spark-real-time"
"""The system that is a mode of an engine."""
_CHECKPOINTED = frozenset({"checkpoint", "changelog"})
"""Names of schemes without replicas, of any engine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kills:
    """The kills that the sum of `harness.intervals.recovery` is about."""

    frame: pd.DataFrame
    left_out: Mapping[str, int]
    """Reason to number of kills."""


def kills_of(found: Library | Iterable[StoredRecord], system: str | None = None) -> Kills:
    """Return every kill of valid runs on real servers.

    ``system``: only under its engine. The series of other runs are not read then."""
    left_out: Counter[str] = Counter()
    rows: list[dict[str, Any]] = []
    engine = "structured" if system == REAL_TIME else SYSTEMS[system].engine if system else ""
    for run in found.found if isinstance(found, Library) else found:
        # Of passes with several engines a record names none.
        if engine and run.record.setting.get("engine", run.record.engine) not in ("", engine):
            continue
        for kill, seen in _each_alone(run):
            row = _row(run, kill, seen)
            if isinstance(row, str):
                left_out[row] += 1
            else:
                rows.append(row)
    frame = pd.DataFrame(rows, columns=list(COLUMNS))
    return Kills(frame=frame, left_out=dict(left_out.most_common()))


def _each_alone(run: StoredRecord) -> Iterator[tuple[Kill, Seen | str]]:
    """Yield the kills of a run with what each did alone in its pass."""
    kills = kills_in(run.record, run.directory)
    for _, of_pass in groupby(kills, lambda each: str(each[1].get("variant"))):
        mine = [kill for kill, _ in of_pass]
        yield from zip(mine, alone(mine), strict=True)


def _row(run: StoredRecord, kill: Kill, seen: Seen | str) -> dict[str, Any] | str:
    """Return the row of a kill, or the reason why there is none."""
    if run.record.status != OK or kill.action != "kill":
        return "not a kill of a valid run"
    system = _SYSTEM_OF.get(kill.engine or "")
    if kill.mode == "real-time":
        system = REAL_TIME
    plain = kill.scheme in _CHECKPOINTED and kill.settings != TUNED and kill.interval_s is not None
    if system is None or not plain:
        return "not under checkpoints alone, with the system's own settings"
    if isinstance(seen, str):
        return seen
    return {
        "system": system,
        "experiment": run.record.experiment,
        "run": run.record.run,
        "interval_s": kill.interval_s,
        "outage_s": seen.seconds,
        "over": seen.over,
        "detection_s": kill.detection_s,
    }
