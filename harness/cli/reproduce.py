"""``faultline reproduce``: every figure, or those of one paper."""

from __future__ import annotations

import sys

import click

from harness.cache import to_stderr
from harness.cli.options import RunOptions, run_options
from harness.cli.output import json_option

_EPILOG = """\b
Examples:
  ./faultline reproduce
  ./faultline reproduce --profile smoke
  ./faultline reproduce --paper ppa --dry-run
  ./faultline reproduce --profile paper --repeats 5 --out /data/faultline
  ./faultline reproduce --paper live --peers
  ./faultline reproduce --all
"""


@click.command("reproduce", epilog=_EPILOG)
@click.option(
    "--paper",
    type=click.Choice(["ppa", "intervals", "edge", "dpc", "stock", "live"]),
    help="Only the figures on this paper's page, live ones too (stock, live: our own live ones).",
)
@click.option(
    "--peers", is_flag=True, help="Also run other systems, which are fetched when first needed."
)
@click.option(
    "--all",
    "every",
    is_flag=True,
    help="Every figure but those of other systems; quick takes those of an hour otherwise.",
)
@run_options
@json_option
def command(paper: str | None, peers: bool, every: bool, chosen: RunOptions, as_json: bool) -> None:
    """Run the experiments, and write the report after each (smoke: at the end).

    Figures that are computed in seconds come first, then a first measured figure, then the other
    computed ones, and last the others that are measured on real servers. The smoke profile, in
    which times decide nothing, begins with a measured figure and computes others at the same time.
    It leaves out the few experiments whose smoke run shows nothing new: `./faultline run` runs
    them by name.

    The quick profile of all papers ends within an hour: what takes longer runs with its page
    (--paper), with --all, or by name. The paper profile has all figures.

    You can interrupt it: the same command goes on where it stopped. Exit code: 0 done, 1 an
    invariant failed (with --strict also a paper's claim), 2 wrong use, 3 the environment failed."""
    from harness.cli.measure import measure
    from harness.running.discovery import on_page, to_reproduce

    settings = chosen.settings()
    for left_out in on_page(paper) if not peers else ():
        if (fetched := left_out.measurement.fetches) is not None:
            to_stderr(f"leaving out {left_out.id}, which fetches {fetched}: add --peers to run it")
    experiments = to_reproduce(paper, settings.profile, peers=peers, every=every)
    by_page = len(to_reproduce(paper, settings.profile, peers=peers, every=True)) - len(experiments)
    if by_page:
        to_stderr(f"leaving out {by_page} live figures: --paper NAME or --all runs them, too")
    sys.exit(measure(experiments, settings, chosen, as_json=as_json))
