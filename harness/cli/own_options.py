"""The options of commands that take a workload of the user's own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])
_NAMES = ("rate", "speed", "partitions")


def own_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options about the load of a workload; the command gets them as ``own``.

    Options that the user did not give are left out."""

    @wraps(command)
    def together(**given: Any) -> None:
        own = {name: given.pop(name) for name in _NAMES}
        command(own={name: value for name, value in own.items() if value is not None}, **given)

    return _with_own_options(together)


def _with_own_options(command: Command) -> Command:
    above_0 = click.FloatRange(min=0, min_open=True)
    for option in (
        click.option(
            "--partitions",
            type=click.IntRange(1),
            help="Partitions of each source of your workload, instead of the file's number.",
        ),
        click.option(
            "--speed",
            type=above_0,
            metavar="FACTOR",
            help="Event time of your workload runs this many times as fast as the clock, for "
            "windows of minutes and hours.",
        ),
        click.option(
            "--rate",
            type=above_0,
            metavar="PER_SECOND",
            help="Records per second of your workload, of all sources together.",
        ),
    ):
        command = option(command)
    return command


def engine_options(names: Sequence[str]) -> Mapping[str, Any]:
    """Return the options for engines: names, files, and the programs that the files name."""
    from harness.engines.kinds import find_engine, is_file
    from harness.engines.programs.described import DescribedKind

    asked = [Path(name) if is_file(name) else name for name in names]
    kinds = [find_engine(str(one)) for one in asked if isinstance(one, Path)]
    programs = [file for kind in kinds if isinstance(kind, DescribedKind) for file in kind.files]
    return {"engine": asked, **({"engine_files": programs} if programs else {})}


def workload_options(file: Path | None) -> Mapping[str, Any]:
    """Return the options for a workload's file: the file, and the files that it needs.

    A changed package or recording is another question, as a changed file is."""
    if file is None:
        return {}
    from workloads.own import load_workload_file
    from workloads.packages import places

    workload = load_workload_file(file)
    needed = places(file, workload.packages)
    for source in workload.sources:
        path = source.records.parameters.get("path")
        if isinstance(path, str) and Path(path).exists():
            needed.append(Path(path))
    return {"workload": file, **({"workload_files": needed} if needed else {})}
