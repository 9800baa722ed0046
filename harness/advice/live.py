"""Kills on real servers in a library of records, one row each, whatever series holds them.

A row has its ``system`` (`harness.intervals.systems`), ``experiment``, ``run``, ``interval_s``, and
``recovery_s`` as a user sees it, 0 if no result was late. Where ``over`` is False the output was
not back when it was last watched, and ``recovery_s`` is the time until then. Only kills under
checkpoints with the system's own settings are here: what is tuned, replicated or planned is another
question, and so is a kill whose interval no record or module tells. `Kills.left_out` counts
those."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import pandas as pd

from harness.intervals.systems import SYSTEMS
from harness.measure.recovery import Unrecovered
from harness.results.library import Library
from harness.results.record import OK
from harness.running.discovery import all_experiments

COLUMNS = ("system", "experiment", "run", "interval_s", "recovery_s", "over", "detection_s")
_SYSTEM_OF = {system.engine: key for key, system in SYSTEMS.items() if system.engine}
_CHECKPOINTED = frozenset({"checkpoint", "changelog"})
"""Names of schemes without replicas, of any engine."""
_SERIES = ("recoveries", "kills", "outages")
_RECOVERY = {
    "recovery_s": ("recovery_at_least_s", 1.0),
    "outside_s": ("outside_at_least_s", 1.0),
    "outside_ms": ("outside_at_least_ms", 1e-3),
    "outage_s": ("", 1.0),
}
"""Columns with the user's recovery, with those of its lower bound, and their unit in seconds."""
UNKNOWN = "its recovery is not known"
OVERLAPPED = "it struck before output was calm after another failure"
_NAMED = re.compile(r"^(?:CKP-|PPA-0-every-)(\d+(?:\.\d+)?)s")
"""Names of passes with checkpoints alone, and their interval."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The time for which output was seen to be late after one failure."""

    seconds: float
    over: bool
    """False if it was still late at the end of that time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kills:
    """The kills that the sum of `harness.intervals.recovery` is about."""

    frame: pd.DataFrame
    left_out: Mapping[str, int]
    """Reason to number of kills."""


def kills_of(results: Library) -> Kills:
    """Return every kill of valid runs on real servers."""
    left_out: Counter[str] = Counter()
    rows: list[dict[str, Any]] = []
    about = _about(results)
    for name in _SERIES:
        if name not in results.series_names:
            continue
        series = results.recoveries if name == "recoveries" else results.series(name)
        failures = series.to_dict("records")
        for kill, seen in zip(failures, alone(failures), strict=True):
            found = _row(kill, seen, about.get(str(kill["run"]), {}))
            if isinstance(found, str):
                left_out[found] += 1
            else:
                rows.append(found)
    frame = pd.DataFrame(rows, columns=list(COLUMNS))
    return Kills(frame=frame, left_out=dict(left_out.most_common()))


def alone(failures: Sequence[Mapping[Any, Any]]) -> Sequence[Seen | str]:
    """Return what each failure alone did, by the rows of a record, or why that is unknown.

    Failures overlap if the output was not calm between them. Of those the first counts; if it was
    not over when the next one came, it is known until then. What the later ones did is unknown."""
    found = [_seen(failure) for failure in failures]
    passes: dict[tuple[str, str], list[tuple[float, int]]] = {}
    for place, failure in enumerate(failures):
        if failure.get("overlaps") == 1:
            name = str(failure.get("run")), str(failure.get("variant"))
            passes.setdefault(name, []).append((float(failure["at_s"]), place))
    for mixed in map(sorted, passes.values()):
        late_until_s = -math.inf
        for (at_s, place), (next_s, _) in zip(mixed, [*mixed[1:], (math.inf, -1)], strict=True):
            seen = found[place]
            if at_s < late_until_s:
                found[place] = OVERLAPPED
                continue
            late_until_s = math.inf
            if isinstance(seen, Seen):
                late_until_s = at_s + seen.seconds if seen.over else math.inf
                if seen.seconds > next_s - at_s:
                    found[place] = Seen(seconds=next_s - at_s, over=False)
    return found


def _seen(failure: Mapping[Any, Any]) -> Seen | str:
    """Return the recovery of a failure's row as a user sees it, with all that came after it."""
    for name, (at_least, unit_s) in _RECOVERY.items():
        if pd.notna(failure.get(name)):
            over = failure.get("caught_up", True) != 0  # True where nothing is said of it
            return Seen(seconds=float(failure[name]) * unit_s, over=bool(over))
        if pd.notna(failure.get(at_least)):
            return Seen(seconds=float(failure[at_least]) * unit_s, over=False)
    if Unrecovered.UNRESOLVED in (failure.get("recovery_why_not"), failure.get("outside_why_not")):
        return Seen(seconds=0.0, over=True)
    return UNKNOWN


def _about(results: Library) -> Mapping[str, Mapping[str, Any]]:
    """Return the parameters of each run, with its engine."""
    points = results.points[results.points["kind"] == "parameter"]
    values = points["value"].astype(object).where(points["value"].notna(), points["text"])
    about: dict[str, dict[str, Any]] = {}
    for run, quantity, value in zip(points["run"], points["quantity"], values, strict=True):
        about.setdefault(str(run), {})[str(quantity)] = value
    for run, engine in zip(results.runs["run"], results.runs["engine"], strict=True):
        about.setdefault(str(run), {})["engine of the run"] = engine
    return about


def _row(
    kill: Mapping[Any, Any], seen: Seen | str, about: Mapping[str, Any]
) -> dict[str, Any] | str:
    """Return the row of a kill, or the reason why there is none."""
    if kill["status"] != OK or kill.get("action", "kill") != "kill":
        return "not a kill of a valid run"
    system, scheme = _setting(str(kill["experiment"]), about)
    variant = kill.get("variant")
    named = _NAMED.match(variant) if isinstance(variant, str) else None
    if system is None or not (named or scheme in _CHECKPOINTED):
        return "not under checkpoints alone, with the system's own settings"
    if isinstance(seen, str):
        return seen
    interval_s = float(named[1]) if named else _interval_s(str(kill["experiment"]), system, about)
    if interval_s is None:
        return "its interval is not known"
    return {
        "system": system,
        "experiment": kill["experiment"],
        "run": kill["run"],
        "interval_s": interval_s,
        "recovery_s": seen.seconds,
        "over": seen.over,
        "detection_s": kill.get("detection_s"),
    }


def _setting(experiment: str, about: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """Return the system and the scheme of a run; None for what is not as it comes."""
    row = _module_rows(experiment).get(str(about.get("row")))
    if "row" in about:
        if row is None or (getattr(row, "conf", None) and "tuned" in str(about["row"])):
            return None, None
        real_time = dict(getattr(row, "more", {})).get("mode") == "real-time"
        return ("spark-real-time" if real_time else _SYSTEM_OF.get(row.engine)), row.scheme
    if "tuned" in str(about.get("tuning")):
        return None, None
    if about.get("mode") == "real-time" or experiment == "stock/real-time-kill":
        return "spark-real-time", "checkpoint"
    engine = about.get("engine")
    system = _SYSTEM_OF.get(str(engine), _SYSTEM_OF.get(str(about.get("engine of the run"))))
    scheme = about.get("scheme", "checkpoint" if "tuning" in about else None)
    return system, scheme if isinstance(scheme, str) else None


def _module_rows(experiment: str) -> Mapping[str, Any]:
    rows: Mapping[str, Any] = getattr(_module(experiment), "ROWS", {})
    return rows


def _interval_s(experiment: str, system: str, about: Mapping[str, Any]) -> float | None:
    """Return the checkpoint interval of a run: from its point, or fixed in its module."""
    names = {
        "spark": ("interval_s", "trigger_s"),
        "spark-real-time": ("checkpoint_s",),
    }.get(system, ("checkpoint_s",))
    for name in names:
        if isinstance(about.get(name), float | int):
            return float(about[name])
    module = _module(experiment)
    fixed = getattr(module, "INTERVAL_S" if system == "spark" else "CHECKPOINT_S", None)
    if isinstance(fixed, Mapping):  # by engine
        fixed = next((fixed[key] for key in fixed if _SYSTEM_OF.get(str(key)) == system), None)
    return float(fixed) if isinstance(fixed, float | int) else None


def _module(experiment: str) -> Any:
    """Return the module of an experiment; None if this version has it no more."""
    roots = {each.measurement.id: each.measurement.root for each in all_experiments()}
    root = roots.get(experiment)
    return root and import_module(root.partition(":")[0])


def systems_in(kills: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield the kills of each system that has any, sorted by name."""
    for system in sorted(set(kills["system"])):
        yield system, kills[kills["system"] == system]
