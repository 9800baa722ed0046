"""``faultline advise``: a scheme, an interval and a plan for a job."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harness.advice.job import ASSUMED
from harness.cli.output import emit_json, json_option
from harness.text import format_duration, parse_bytes, parse_duration_s, parse_share, read_given

if TYPE_CHECKING:
    from harness.advice.advise import Advice, Option, Range

_EPILOG = """\b
Durations have a unit (ms, s, min, h, d), and so have amounts of data (MB, GB, MiB, GiB).

\b
Examples:
  ./faultline advise --rate 20000 --state 4GB --mttf 30d
  ./faultline advise --rate 20000 --state 4GB --mttf 30d --nodes 40 --racks 4 --within 10s
  ./faultline advise --rate 5000 --state 500MB --mttf 7d --window 1min --budget 0.3 --json
"""


_OPTION_OF = {
    "nodes": ("--nodes", 1, ""),
    "racks": ("--racks", 1, ""),
    "depth": ("--depth", 1, ""),
    "speed_per_s": ("--speed", 1, ""),
    "storage_bytes_per_s": ("--storage", 1e6, "MB"),
    "restart_s": ("--restart", 1, "s"),
    "detection_s": ("--detection", 1, "s"),
    "budget": ("--budget", 1, ""),
}
"""Name of an assumed value to the option that gives it, and its unit there."""
_ASSUMED = {
    option: f"{ASSUMED[name] / size:g}{unit}" for name, (option, size, unit) in _OPTION_OF.items()
}


def _help(option: str, words: str) -> str:
    return f"{words}  [assumed: {_ASSUMED[option]}]"


@click.command("advise", epilog=_EPILOG)
@click.option("--rate", "rate_per_s", type=float, required=True, help="Tuples per second, in all.")
@click.option("--state", required=True, metavar="SIZE", help="State of all tasks together.")
@click.option("--mttf", required=True, metavar="DURATION", help="Mean time to failure of a node.")
@click.option("--nodes", type=int, help=_help("--nodes", "Nodes of the job."))
@click.option("--racks", type=int, help=_help("--racks", "Racks that hold them."))
@click.option("--rack-mttf", metavar="DURATION", help="Mean time to failure of a whole rack.")
@click.option("--depth", type=int, help=_help("--depth", "Operators in a row."))
@click.option("--window", metavar="DURATION", help="Length of the window that the state covers.")
@click.option(
    "--speed", "speed_per_s", type=float, help=_help("--speed", "Tuples/s that a task can do.")
)
@click.option(
    "--storage",
    metavar="SIZE",
    help=_help("--storage", "State that a node can store, or read, in a second."),
)
@click.option(
    "--restart", metavar="DURATION", help=_help("--restart", "Time until a new task runs.")
)
@click.option(
    "--detection", metavar="DURATION", help=_help("--detection", "Time until a failure is noticed.")
)
@click.option(
    "--budget",
    metavar="SHARE",
    help=_help("--budget", "Share of the tasks that may be replicated: 0.5 or 50%."),
)
@click.option(
    "--within",
    metavar="DURATION",
    help="The longest recovery that is allowed: then a scheme, and its interval, are chosen.",
)
@click.option(
    "--topology",
    type=click.Path(path_type=Path),
    help="The job's topology, as a file for ./faultline plan.",
)
@click.option(
    "--from",
    "roots",
    multiple=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Results to learn from; repeatable.  [default: those that ship with the repository]",
)
@json_option
def command(roots: tuple[Path, ...], as_json: bool, **given: Any) -> None:
    """Compare every scheme for a job: interval, utilization, recovery and replicas.

    Recovery times come from a formula whose constants are fitted to recorded runs. The first lines
    of the output give its error on runs that it was not fitted to; the last ones list the values
    that were assumed because they were not given. Nothing is started.

    With --within, checkpoints are also tried at the longest interval whose recovery is short
    enough, and the scheme that leaves the most useful work per task is named."""
    from harness.advice.advise import advise
    from harness.environment.cache import to_stderr
    from harness.results import load
    from harness.topology.text import from_yaml_text

    within, topology = given.pop("within"), given.pop("topology")
    job, assumed = _job(given)
    found = advise(
        job,
        load(*roots, warn=to_stderr),
        target_s=parse_duration_s(within, name="--within") if within else None,
        assumed=assumed,
        topology=from_yaml_text(_read(topology), name=str(topology)) if topology else None,
    )
    if as_json:
        emit_json(found.document())
    else:
        click.echo("\n".join(_words(found)))


def _read(path: Path) -> str:
    return read_given(
        path, "--topology: ", "name a topology in YAML; ./faultline plan --help shows one"
    )


def _job(given: dict[str, Any]) -> tuple[Any, list[str]]:
    from harness.advice.job import Job

    values: dict[str, Any] = {
        "rate_per_s": given["rate_per_s"],
        "state_bytes": parse_bytes(given["state"], name="--state"),
        "node_mttf_s": parse_duration_s(given["mttf"], name="--mttf"),
        **{name: given[name] for name in ("nodes", "racks", "depth", "speed_per_s")},
    }
    for option, name in (
        ("rack_mttf", "rack_mttf_s"),
        ("window", "window_s"),
        ("restart", "restart_s"),
        ("detection", "detection_s"),
    ):
        if given[option] is not None:
            flag = "--" + option.replace("_", "-")
            zero = option in ("restart", "detection")
            values[name] = parse_duration_s(given[option], name=flag, zero=zero)
    if given["budget"] is not None:
        values["budget"] = parse_share(given["budget"], name="--budget")
    if given["storage"] is not None:
        values["storage_bytes_per_s"] = parse_bytes(given["storage"], name="--storage")
    values = {name: value for name, value in values.items() if value is not None}
    missing = [_OPTION_OF[name][0] for name in ASSUMED if name not in values]
    assumed = [f"{option} {_ASSUMED[option]}" for option in missing]
    return Job(**values), assumed


def _words(found: Advice) -> list[str]:
    lines = [
        found.job.describe(),
        *_accuracy(found),
        "",
        f"{'scheme':<20} {'interval':>9} {'utilization':>11} {'replicas':>8} "
        f"{'recovery, one node':>26} {'every node at once':>26}",
        *map(_line, sorted(found.options, key=lambda option: option.recovery is None)),
        "",
    ]
    if found.target_s is not None:
        target = format_duration(found.target_s)
        lines += [
            f"most useful work per task with a node's recovery within {target}, nine times of ten: "
            + (_chosen(found.chosen) if found.chosen else "none of them recovers so fast"),
            "",
        ]
    for option in found.options:
        if option.first_output_s is not None:
            lines.append(
                f"{option.label}: output again after {format_duration(option.first_output_s)}, "
                f"{option.output_fidelity:.0%} of it right until recovery is complete"
            )
        lines += [f"{option.label}: {note}" for note in option.notes]
    lines += ["", "if the interval were chosen for another mean time to failure:"]
    lines += [
        f"  {each.factor:g} times as long: every {format_duration(each.interval_s)}, "
        f"{each.lost:.2%} of the time lost"
        for each in found.interval_if_wrong
    ]
    lines += ["", "placement:", *(f"  {text}" for text in found.placement), "", *_evidence(found)]
    if found.assumed:
        lines += ["", f"assumed, because not given: {', '.join(found.assumed)}"]
    return [*lines, "", *(f"source: {text}" for text in found.sources)]


def _accuracy(found: Advice) -> list[str]:
    """Return the error of the recovery times, before anybody reads one."""
    if not found.off_by:
        return []
    lines = [
        "recovery times are a formula's; on nine of ten simulated runs that it was not fitted to "
        f"it is off by a factor of at most {max(found.off_by.values()):.2f}"
    ]
    if found.off_by_live is not None:
        lines.append(
            f"on the {len(found.live)} failures that were measured on real servers it is off by a "
            f"factor of up to {found.off_by_live:.1f}"
        )
    return lines


def _chosen(option: Option) -> str:
    every = f", every {format_duration(option.interval_s)}" if option.interval_s else ""
    return f"{option.scheme}{every}"


def _evidence(found: Advice) -> list[str]:
    lines = [
        "recorded runs that are most like this job (if simulated, without detection and restart)"
        + (", and all that were measured on real servers:" if len(found.live) else ":")
    ]
    lines += [
        f"  {row.experiment}, {row.point} ({row.origin}): "
        f"{format_duration(float(str(row.recovery_s)))}; the formula, "
        f"fitted without it, gives {format_duration(float(str(row.predicted_s)))}"
        for row in [*found.nearest.itertuples(), *found.live.itertuples()]
    ]
    lines += [
        f"  {name}: nine of ten runs that it was not fitted to are within a factor of {factor:.2f}"
        for name, factor in found.off_by.items()
    ]
    return lines


def _line(option: Option) -> str:
    interval = format_duration(option.interval_s) if option.interval_s else "–"
    recovery, every = (
        _span(each) if each else option.unknown for each in (option.recovery, option.recovery_all)
    )
    return (
        f"{option.label:<20} {interval:>9} {option.utilization:>11.2%} {option.extra_tasks:>8.0%} "
        f"{recovery:>26} {every:>26}"
    )


def _span(found: Range) -> str:
    ends = f"({format_duration(found.low_s)} to {format_duration(found.high_s)})"
    return f"{format_duration(found.expected_s)} {ends}"
