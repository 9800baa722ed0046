"""``faultline export``: results for other programs, as one table or as figures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.cache import to_stderr
from harness.cli.options import FILE, FOLDER, demand_runs, results_option
from harness.cli.output import check_out
from harness.errors import UsageError

if TYPE_CHECKING:
    import pandas as pd

_EPILOG = """\b
Examples:
  ./faultline export results.parquet
  ./faultline export --table recoveries --from results --from /data/other recoveries.csv
  ./faultline export --table latencies --experiment stock latencies.csv
  ./faultline export --figures figures --format pdf,png --from results
  ./faultline export --raw results.zip --from results
  ./faultline export --dictionary > docs/results.md
"""


@click.command("export", epilog=_EPILOG)
@click.argument("file", type=FILE, required=False)
@click.option(
    "--table",
    default="points",
    help="runs, points, claims, timelines, latencies, failures, recoveries or usage.",
)
@results_option
@click.option(
    "--figures",
    type=FOLDER,
    help="Write every figure into this directory, and its table as CSV beside it.",
)
@click.option(
    "--format",
    "formats",
    default="pdf",
    help="Formats of the figures, with commas between them: pdf, png, svg.",
)
@click.option(
    "--raw",
    type=FILE,
    metavar="FILE.zip",
    help="Write every record with all series that it lists into one archive, which --from, "
    "`compare`, `advise` and harness.results.load read like a directory.",
)
@click.option("--experiment", help="Only this experiment, or this group.")
@click.option("--dictionary", is_flag=True, help="Print the meaning of every table and column.")
def command(
    file: Path | None,
    table: str,
    roots: tuple[Path, ...],
    figures: Path | None,
    formats: str,
    raw: Path | None,
    experiment: str | None,
    dictionary: bool,
) -> None:
    """Write a table of results to FILE, as Parquet or CSV by its ending, or figures to files.

    Every table has a row per observation; docs/results.md explains the columns."""
    from harness.pages.dictionary import dictionary as page
    from harness.results import load

    if dictionary:
        click.echo(page(), nl=False)
        return
    if raw is not None:
        if file is not None or figures is not None or experiment is not None or len(roots) > 1:
            raise UsageError(
                "--raw writes all of one results directory, and nothing else",
                remedy="leave out the other file, --figures and --experiment, and give --from once",
            )
        _raw(raw, roots)
        return
    if figures is not None:
        if file is not None:
            raise UsageError(
                f"{file} and --figures exclude each other", remedy="give one of them at a time"
            )
        check_out(figures)
        _figures(figures, formats, roots, experiment)
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


def _raw(file: Path, roots: tuple[Path, ...]) -> None:
    """Write one results directory into an archive."""
    from harness.results.archive import pack
    from harness.results.library import SHIPPED

    if file.suffix != ".zip":
        raise UsageError(f"--raw {file}: an archive is a .zip", remedy="name it FILE.zip")
    check_out(file.absolute().parent)
    count = pack(roots[0] if roots else SHIPPED, file)
    click.echo(f"{count} records, {file.stat().st_size / 1e3:,.0f} kB: {file}")


def _figures(folder: Path, formats: str, roots: tuple[Path, ...], experiment: str | None) -> None:
    """Write the figures of one results directory."""
    from harness.pages.drawing import FORMATS
    from harness.pages.report import write_figures
    from harness.results.archive import found
    from harness.results.library import SHIPPED
    from harness.results.store import RecordStore
    from harness.text import did_you_mean

    kinds = list(dict.fromkeys(kind.strip().lower() for kind in formats.split(",")))
    if unknown := [kind for kind in kinds if kind not in FORMATS]:
        raise UsageError(
            f"--format: {unknown[0]!r} is not a format", remedy=f"use some of {', '.join(FORMATS)}"
        )
    if len(roots) > 1:
        raise UsageError(
            "--figures draws one results directory at a time",
            remedy="give --from once, and a directory of figures for each",
        )
    root = roots[0] if roots else SHIPPED
    found(root)
    count = 0
    for written in write_figures(RecordStore(root, warn=to_stderr), folder, kinds, experiment):
        count += 1
        names = ", ".join(path.name for path in written.files)
        click.echo(f"{written.experiment}: {names or 'nothing'}")
        if written.error is not None:
            to_stderr(f"{written.experiment} could not be drawn: {written.error}")
    if not count:
        from harness.running.discovery import all_experiments

        known = sorted({name for each in all_experiments() for name in (each.id, each.group)})
        raise UsageError(
            f"--experiment: there is no valid run of {experiment!r} in {root}",
            remedy=did_you_mean(experiment or "", known),
        )
    click.echo(f"{count} {'figure' if count == 1 else 'figures'}: {folder}")


def _write(frame: pd.DataFrame, file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_name(file.name + ".partial")
    if file.suffix == ".csv":
        frame.to_csv(partial, index=False)
    else:
        frame.to_parquet(partial, index=False)
    partial.rename(file)
