"""The kills and the setting of any record, in the form of today (`harness.results.kills`).

Nothing else knows how earlier versions kept them. Before 2026-11-27 a kill was a row of one of
three series: "recoveries" of a judged pass, "kills" of nodes that died one after the other, or
"outages" of several systems; "lateness" had the windows around it. A record named its engine, and
its point, its experiment or a pass's name told the scheme, the mode and the interval."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from harness.results.kills import BETWEEN_NODES, SERIES, Kill
from harness.results.record import Record
from harness.results.setting import AS_IT_COMES, TUNED, Setting
from harness.results.tables import read_series

STEPS = ("restart_s", "restore_s")


def kill_rows(directory: Path) -> pd.DataFrame | None:
    """Return a row per kill of the run in ``directory``; None if it kept none.

    The columns are those of `Kill` that the run has, ``variant`` where it has several passes, and
    columns of a figure's own."""
    if (judged := read_series(directory, SERIES)) is not None:
        return judged if STEPS[0] in judged else _with_steps(judged, directory)
    if (kills := read_series(directory, "kills")) is not None:
        return _in_turn(kills)
    if (outages := read_series(directory, "outages")) is not None:
        return _of_systems(outages)
    return None


def kills_in(record: Record, directory: Path) -> list[tuple[Kill, dict[str, Any]]]:
    """Return the kills of a run with their settings, each with its row, in the order of the table.

    Raises `ValueError`, `KeyError` or `OSError` for a series that cannot be read."""
    rows = kill_rows(directory)
    found = []
    for row in [] if rows is None else rows.to_dict("records"):
        named = {str(name): value for name, value in row.items()}
        variant = named.get("variant")
        setting = setting_of(record, variant if isinstance(variant, str) else "")
        kill = Kill.from_row(row)
        own = {name: value for name, value in setting.row().items() if getattr(kill, name) is None}
        found.append((replace(kill, **own), named))
    return found


def kill_windows(directory: Path, kill: Kill, row: Mapping[str, Any]) -> pd.DataFrame:
    """Return when windows were complete around a kill: ``pass``, ``at_s`` from it, ``latency_s``.

    Empty if the run kept no window. Infinite times are left out."""
    windows = read_series(directory, "windows")
    if windows is not None and {"complete_s", "latency_s"} <= {*windows}:
        mine = windows[["pass", "latency_s"]].assign(at_s=windows["complete_s"] - kill.at_s)
        if isinstance(row.get("variant"), str) and "variant" in windows:
            mine = mine[windows["variant"] == row["variant"]]
    elif windows is not None and {"arrived_s", "late_s"} <= {*windows}:
        at_s = windows["arrived_s"] - kill.at_s
        mine = pd.DataFrame({"pass": "failed", "at_s": at_s, "latency_s": windows["late_s"]})
        if "pass" in windows and "pass" in row:
            mine = mine[windows["pass"] == row["pass"]]
    else:
        mine = _late_windows(read_series(directory, "lateness"), row)
    finite = mine["at_s"].map(math.isfinite) & mine["latency_s"].map(math.isfinite)
    return mine[finite]


def _late_windows(lateness: pd.DataFrame | None, row: Mapping[str, Any]) -> pd.DataFrame:
    if lateness is None or not {"ended_s", "last_s"} <= {*lateness}:
        return pd.DataFrame(columns=["pass", "at_s", "latency_s"])
    mine = lateness[lateness["sample"] == row["sample"]] if "sample" in lateness else lateness
    at_s = mine["ended_s"] + mine["last_s"]
    return pd.DataFrame({"pass": "failed", "at_s": at_s, "latency_s": mine["last_s"]})


def _with_steps(judged: pd.DataFrame, directory: Path) -> pd.DataFrame:
    """Return kills with the engine's steps, which earlier versions kept among the incidents."""
    incidents = read_series(directory, "incidents")
    if incidents is None or not {"there_after_s", "ready_after_s"} <= {*incidents}:
        return judged
    recovered = incidents[incidents["event"] == "recovered"].to_dict("records")
    kills, steps = judged.to_dict("records"), []
    for kill in kills:
        name, at_s = kill.get("variant", ""), kill["at_s"]
        later = (k["at_s"] for k in kills if k["at_s"] > at_s and k.get("variant", "") == name)
        until_s = min(later, default=math.inf)
        nodes = str(kill.get("nodes") or kill["target"]).split(BETWEEN_NODES)
        back = [
            each
            for each in recovered
            # The first signal of many is earlier than the instant that the record has.
            if at_s - 0.2 <= each["at_s"] < until_s
            and (not name or each["variant"] == name)
            and (pd.isna(each["target"]) or each["target"] in nodes)
        ]
        ends = ([each[name] for each in back] for name in ("there_after_s", "ready_after_s"))
        steps.append([pd.Series(end, dtype=float).max() for end in ends])
    return judged.assign(**dict(zip(STEPS, zip(*steps, strict=True), strict=True)))


_IN_TURN = {
    "late_ms": "lateness_s",
    "signal_ms": "spread_s",
    "seen_ms": "first_sign_s",
    "there_ms": "restart_s",
    "ready_ms": "restore_s",
    "takeover_ms": "paper_recovery_s",
    "outside_ms": "recovery_s",
    "outside_at_least_ms": "recovery_at_least_s",
    "usual_ms": "usual_s",
    "resolution_ms": "resolution_s",
}
"""Columns of earlier kills, in milliseconds."""
_IN_SECONDS = {
    "node": "target",
    "how": "restored_by",
    "engine_s": "paper_recovery_s",
    "outside_s": "recovery_s",
    "outside_at_least_s": "recovery_at_least_s",
    "outside_why_not": "recovery_why_not",
}


def _in_turn(kills: pd.DataFrame) -> pd.DataFrame:
    """Return earlier kills of one node after the other."""
    found = kills.rename(columns=_IN_SECONDS)
    if {"restored_ms", "takeover_ms"} <= {*kills}:
        found["detection_s"] = ((kills["restored_ms"] - kills["takeover_ms"]) / 1000).clip(lower=0)
    for before, name in _IN_TURN.items():
        if before in kills:
            found[name] = kills[before].astype(float) / 1000
    found = found.drop(columns=[*_IN_TURN, "restored_ms"], errors="ignore")
    target = found.get("target", "a worker")
    return found.assign(action="kill", scope="node", target=target, nodes=target)


def _of_systems(outages: pd.DataFrame) -> pd.DataFrame:
    """Return kills of the figures about several systems; earlier ones have an outage alone."""
    over = outages["caught_up"].astype(bool)
    back_s = outages.get("recovery_s", outages["outage_s"])
    return outages.assign(
        action="kill",
        scope=outages["kill"].replace("worker", "node") if "kill" in outages else "node",
        nodes=outages.get("nodes", outages["target"]),
        recovery_s=back_s.where(over),
        recovery_at_least_s=back_s.mask(over),
    )


_SCHEMES = {
    "ckp": "checkpoint",
    "ck-only": "checkpoint",
    "checkpoint": "checkpoint",
    "ppa-0-": "checkpoint",
    "active": "active",
    "full": "active",
    "storm": "replay",
    "replay": "replay",
    "ppa": "ppa",
    "rppg": "rppg",
    "dpc": "dpc",
    "changelog": "changelog",
    "global": "global",
}
"""Beginnings of the names that earlier points, rows and passes gave to a scheme."""
_NAMED = re.compile(r"^(?:CKP-|PPA-0-every-)(\d+(?:\.\d+)?)s")
"""Names of passes with checkpoints alone, and their interval."""
_INTERVAL_S = dict.fromkeys(["live/engines", "live/predicted", "live/state", "live/same-kill"], 2.0)
"""Intervals of checkpoints that only the module of an experiment said."""


def setting_of(record: Record, variant: str = "") -> Setting:
    """Return the setting of a run, or of its pass: what it says, and else what names say."""
    point = record.point
    row, tuning = str(point.get("row", "")), str(point.get("tuning", ""))
    names = [*(str(point.get(each) or "") for each in ("scheme", "contender", "mechanism")), row]
    real_time = (
        record.engine == "structured"
        and "real-time" in f"{row}{tuning}{point.get('mode')}{record.experiment}"
    )
    scheme = _scheme([*names, variant])
    if not scheme and (record.engine == "structured" or tuning):
        scheme = "checkpoint"
    mode = ("real-time" if real_time else "micro-batch") if record.engine == "structured" else ""
    named = _NAMED.match(variant)
    interval = point.get("checkpoint_s")
    if record.engine == "structured" and not real_time:
        interval = point.get("interval_s", point.get("trigger_s"))
    if interval is None:
        interval = named[1] if named else _INTERVAL_S.get(record.experiment)
    earlier = {
        "engine": record.engine,
        "scheme": scheme,
        "mode": str(point.get("mode") or mode),
        "interval_s": None if interval is None else float(str(interval)),
        "workload": str(point.get("workload") or point.get("query") or ""),
        "settings": _settings(record, row + tuning),
    }
    return Setting(**{**earlier, **record.setting})


def _scheme(names: Sequence[str]) -> str:
    known = (s for name in names for begin, s in _SCHEMES.items() if name.lower().startswith(begin))
    return next(known, "")


def _settings(record: Record, names: str) -> str:
    named = str(record.point.get("settings") or "")
    if "tuned" in named or "tuned" in names:
        return TUNED
    if not record.engine:
        return ""
    return AS_IT_COMES if named in ("", AS_IT_COMES, "default") else named
