"""``faultline export``: a table of results as one file for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    import pandas as pd

_EPILOG = """\b
Examples:
  ./faultline export results.parquet
  ./faultline export --table recoveries --from results --from /data/other recoveries.csv
  ./faultline export --dictionary > docs/results.md
"""


@click.command("export", epilog=_EPILOG)
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path), required=False)
@click.option(
    "--table",
    default="points",
    show_default=True,
    help="runs, points, claims, timelines, failures, recoveries or usage.",
)
@click.option(
    "--from",
    "roots",
    multiple=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="A results directory; repeatable.  [default: those that ship with the repository]",
)
@click.option("--experiment", help="Only this experiment, or this group.")
@click.option("--dictionary", is_flag=True, help="Print the meaning of every table and column.")
def command(
    file: Path | None,
    table: str,
    roots: tuple[Path, ...],
    experiment: str | None,
    dictionary: bool,
) -> None:
    """Write a table of results to FILE, as Parquet or CSV by its ending.

    Every table has a row per observation; docs/results.md explains the columns."""
    from harness.cli.measure import check_out
    from harness.cli.options import demand_runs
    from harness.environment.cache import to_stderr
    from harness.errors import UsageError
    from harness.report.dictionary import dictionary as page
    from harness.results import load

    if dictionary:
        click.echo(page(), nl=False)
        return
    if file is None or file.suffix not in (".parquet", ".csv"):
        raise UsageError(
            f"{file or 'no file'}: the ending decides the format",
            remedy="name a file that ends in .parquet or .csv",
        )
    check_out(file.absolute().parent)
    found = load(*roots, experiment=experiment, warn=to_stderr)
    demand_runs(experiment, [found])
    frame = found.table(table)
    _write(frame, file)
    click.echo(f"{len(frame)} rows of {table}: {file}")


def _write(frame: pd.DataFrame, file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_name(file.name + ".partial")
    if file.suffix == ".csv":
        frame.to_csv(partial, index=False)
    else:
        frame.to_parquet(partial, index=False)
    partial.rename(file)
