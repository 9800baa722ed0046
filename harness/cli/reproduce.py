"""``faultline reproduce``: every figure, or those of one paper."""

from __future__ import annotations

import sys

import click

from harness.cli.options import RunOptions, run_options
from harness.cli.output import json_option

_EPILOG = """\b
Examples:
  ./faultline reproduce
  ./faultline reproduce --profile smoke
  ./faultline reproduce --paper ppa --dry-run
  ./faultline reproduce --profile paper --repeats 5 --out /data/faultline
"""


@click.command("reproduce", epilog=_EPILOG)
@click.option(
    "--paper",
    type=click.Choice(["ppa", "intervals", "edge", "dpc", "stock", "live"]),
    help="Only the figures of this paper (stock, live: those measured on real servers).",
)
@run_options
@json_option
def command(paper: str | None, chosen: RunOptions, as_json: bool) -> None:
    """Run every experiment, and write the report after each (smoke: at the end).

    Figures that are computed in seconds come first, then a first measured figure, then the other
    computed ones, and last the others that are measured on real servers. The smoke profile, in
    which times decide nothing, begins with a measured figure and computes others at the same time.
    It leaves out the few experiments whose smoke run shows nothing new: `./faultline run` runs
    them by name.

    You can interrupt it: the same command goes on where it stopped. Exit code: 0 done, 1 an
    invariant failed (with --strict also a paper's claim), 2 wrong use, 3 the environment failed."""
    from harness.cli.measure import measure
    from harness.running.discovery import to_reproduce

    settings = chosen.settings()
    sys.exit(measure(to_reproduce(paper, settings.profile), settings, chosen, as_json=as_json))
