"""``job.yaml``: a job as ``./faultline try`` measured it, or as its metrics show it.

The keys are the options of ``./faultline advise`` without their dashes, so that a file can be
changed by hand, and an option on the command line goes before its line."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from harness.advice.job import Job
from harness.errors import UsageError
from harness.intervals.observed import Observation, parse_observation
from harness.results.kills import Kill, Seen, alone
from harness.results.recorded import kill_rows
from harness.results.tables import Results
from harness.text import parse_bytes, parse_duration_s, read_given
from harness.yaml_files import compose_yaml

NAME = "job.yaml"
_EXAMPLE = "rate: 2000"


@dataclass(frozen=True, slots=True)
class Line:
    """One option of ``advise``."""

    option: str
    values: Sequence[str]
    """More than one for an option that can be repeated."""
    why: str
    """Where the value comes from."""
    used: bool = True
    """False for a line that is a comment."""


def text_of(lines: Sequence[Line], title: str) -> str:
    """Return the file."""
    shown = [
        f"# {title}",
        "# ./faultline advise --job job.yaml reads it; every line can be changed.",
    ]
    for line in lines:
        value = line.values[0] if len(line.values) == 1 else f"[{', '.join(line.values)}]"
        shown.append(f"{'' if line.used else '# '}{line.option}: {value}  # {line.why}")
    return "\n".join(shown) + "\n"


def job_of(lines: Sequence[Line]) -> tuple[Job, list[Observation]]:
    """Return the job of a file with these lines, and its outages, as ``advise --job`` does."""
    given = {line.option: line.values for line in lines if line.used}
    observed = [parse_observation(text) for text in given.pop("observed", ())]
    values = {_FIELDS[option][0]: _FIELDS[option][1](text) for option, (text,) in given.items()}
    return Job(**values), observed


_FIELDS: Mapping[str, tuple[str, Callable[[str], Any]]] = {
    "rate": ("rate_per_s", float),
    "state": ("state_bytes", partial(parse_bytes, name="state")),
    "mttf": ("node_mttf_s", partial(parse_duration_s, name="mttf")),
    "nodes": ("nodes", int),
    "racks": ("racks", int),
    "system": ("system", str),
    **{
        name: (f"{name}_s", partial(parse_duration_s, name=name))
        for name in ("interval", "window", "detection", "restart", "restore")
    },
}
"""The field of a job for each line that `measured` gives, and how its text is read."""


def measured(results: Results, settings: Mapping[str, Any]) -> list[Line]:
    """Return the options that the valid runs of ``stock/worker-kill`` decide.

    ``settings``: ``nodes``, ``racks`` and ``window_s``, and, where they were given, ``mttf`` and
    ``state`` as texts."""
    runs = results.frame
    calm = runs[runs["scheme"] == "checkpoint"]
    runs = calm if len(calm) else runs
    kills = results.each(kill_rows)
    kills = kills[kills["run"].isin(runs["run"])]
    interval_s = float(runs["trigger_s"].median()) if "trigger_s" in runs else 1.0
    lines = [
        Line("rate", [f"{float(runs['rate_per_s'].max()):g}"], "as measured"),
        Line("system", ["spark"], "stock Structured Streaming"),
        Line("nodes", [str(settings["nodes"])], "workers of the measured cluster"),
        Line("racks", [str(settings["racks"])], "of the measured cluster"),
        Line("interval", [_s(interval_s)], "the trigger"),
        Line("window", [_s(float(settings["window_s"]))], "of the workload"),
        _state(results, settings),
        Line(
            "mttf",
            [str(settings.get("mttf") or "30d")],
            "given" if settings.get("mttf") else "assumed: of one node",
        ),
    ]
    return [*lines, *_outages(kills, interval_s)]


def _state(results: Results, settings: Mapping[str, Any]) -> Line:
    if settings.get("state"):
        return Line("state", [str(settings["state"])], "given")
    batches = results.series("batches")
    most = float(batches["state_bytes"].max()) if "state_bytes" in batches and len(batches) else 0
    if most > 0:
        return Line("state", [f"{most / 1e6:.3g}MB"], "the most that it had")
    return Line("state", ["1MB"], "assumed: the state was not reported")


def _outages(kills: pd.DataFrame, interval_s: float) -> list[Line]:
    """Return the outages, and detection, restart and restore as comments: parts of them."""
    found: list[Line] = []
    if not len(kills):
        return found
    seen: list[Seen] = []
    for _, rows in kills.sort_values(["run", "at_s"]).groupby("run"):
        mine = [Kill.from_row(row) for row in rows.to_dict("records")]
        seen += [each for each in alone(mine) if isinstance(each, Seen) and each.seconds > 0]
    if seen:
        pairs = [f"{_s(interval_s)}:{'' if each.over else '>'}{_s(each.seconds)}" for each in seen]
        found.append(Line("observed", pairs, "outages after its kills"))
    for option, column in (
        ("detection", "detection_s"), ("restart", "restart_s"), ("restore", "restore_s"),
    ):  # fmt: skip
        known = kills[column].dropna() if column in kills else pd.Series(dtype=float)
        if len(known):
            why = f"median of {len(known)} kills, {known.min():.3g} to {known.max():.3g} s"
            used = not seen  # outages contain the restart
            found.append(Line(option, [_s(float(known.median()))], why, used=used))
    return found


def _s(seconds: float) -> str:
    return f"{seconds:.4g}s"


def read(path: Path) -> dict[str, list[str]]:
    """Return the options of a file with their values, as texts.

    Raises `UsageError` for what is no mapping of plain values."""
    remedy = f"write a line for each option of ./faultline advise, such as {_EXAMPLE}"
    text = read_given(path, "--job: ", remedy)
    root = compose_yaml(text, name=f"--job: {path}", remedy=remedy)
    if not isinstance(root, yaml.MappingNode) or not root.value:
        raise UsageError(f"--job: {path} has no lines of options", remedy=remedy)
    found: dict[str, list[str]] = {}
    for key, value in root.value:
        several = isinstance(value, yaml.SequenceNode)
        items = value.value if several else [value]
        if not all(isinstance(one, yaml.ScalarNode) for one in items):
            raise UsageError(
                f"--job: {path}, line {key.start_mark.line + 1}: {key.value} is no plain value",
                remedy=remedy,
            )
        found[str(key.value)] = [str(one.value) for one in items]
    return found
