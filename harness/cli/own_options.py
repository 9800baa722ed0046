"""The options of commands that take a workload of the user's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import click

from harness.cli.options import ABOVE_0, option, options_of


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnOptions:
    """The options about the load of a workload of the user's own."""

    rate: Annotated[
        float | None,
        option(
            "--rate",
            type=ABOVE_0,
            metavar="PER_SECOND",
            help="Records per second of your workload, of all sources together.",
        ),
    ]
    speed: Annotated[
        float | None,
        option(
            "--speed",
            type=ABOVE_0,
            metavar="FACTOR",
            help="Event time of your workload runs this many times as fast as the clock, for "
            "windows of minutes and hours.",
        ),
    ]
    partitions: Annotated[
        int | None,
        option(
            "--partitions",
            type=click.IntRange(1),
            help="Partitions of each source of your workload, instead of the file's number.",
        ),
    ]
    workers: Annotated[
        int | None,
        option(
            "--workers",
            type=click.IntRange(1),
            help="Spark workers in each of the two racks, for a workload of your own.",
        ),
    ]

    @property
    def given(self) -> dict[str, Any]:
        """The values that the user gave, by name."""
        return {name: value for name, value in asdict(self).items() if value is not None}


own_options = options_of(OwnOptions, "own")


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
