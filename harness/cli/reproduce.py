"""``faultline reproduce``: every figure, or those of one paper."""

from __future__ import annotations

import sys

import click

from harness.cli.options import Asked, run_options
from harness.cli.output import json_option

_EPILOG = """\b
Examples:
  ./faultline reproduce
  ./faultline reproduce --profile smoke
  ./faultline reproduce --paper ppa --dry-run
  ./faultline reproduce --profile paper --repeats 5 --out /data/faultline
"""


@click.command("reproduce", epilog=_EPILOG, short_help="Reproduce the papers' figures.")
@click.option(
    "--paper",
    type=click.Choice(["ppa", "intervals", "edge", "dpc", "stock", "live"]),
    help="Only the figures of this paper (stock, live: what is measured on real servers).",
)
@run_options
@json_option
def command(paper: str | None, asked: Asked, as_json: bool) -> None:
    """Run every experiment, and write the report after each (smoke: at the end).

    What is computed in seconds comes first, then a first measured figure, the rest of what is
    computed, and the rest of what is measured on real servers. The smoke profile, whose times
    decide nothing, begins with a measured one and computes others beside it; it leaves out the few
    experiments whose smoke run would show nothing that another one's does not: `./faultline run`
    runs them by name.

    Interrupt it whenever you like: the same command goes on where it stopped. Exit code: 0 done,
    1 an invariant failed (with --strict also a paper's claim), 2 wrong use, 3 the environment
    failed.
    """
    from harness.cli.measure import measure
    from harness.running.discovery import to_reproduce

    settings = asked.settings()
    sys.exit(measure(to_reproduce(paper, settings.profile), settings, asked, as_json=as_json))
