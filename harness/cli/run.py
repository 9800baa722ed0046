"""``faultline run``: some experiments, by name."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from harness.cli.options import Asked, run_options
from harness.cli.output import json_option

_EPILOG = """\b
Examples:
  ./faultline run stock/worker-kill
  ./faultline run stock/worker-kill --failures docs/examples/failures.yaml --repeats 3
  ./faultline run stock/worker-kill --point scheme=checkpoint,interval_s=2
  ./faultline run stock/worker-kill --conf spark.locality.wait=0s
  ./faultline run intervals --profile smoke --json
"""


@click.command("run", epilog=_EPILOG, short_help="Run experiments by name.")
@click.argument("experiments", nargs=-1, required=True, metavar="EXPERIMENT...")
@click.option(
    "--workload",
    type=click.Path(path_type=Path),
    help="A Python file with a workload of your own, where the experiment takes one.",
)
@click.option(
    "--point",
    metavar="NAME=VALUE,...",
    help="Only the points of the grid with these values: scheme=checkpoint,interval_s=2.",
)
@run_options
@json_option
def command(
    experiments: tuple[str, ...],
    workload: Path | None,
    point: str | None,
    asked: Asked,
    as_json: bool,
) -> None:
    """Run EXPERIMENTs (see `./faultline list`; a group's name means all of its experiments).

    Runs that were measured before with the same code, seed and options are kept. Exit code: 0
    done, 1 an invariant failed (with --strict also a paper's claim), 2 wrong use, 3 the
    environment failed.
    """
    from harness.catalogue import at_point, find
    from harness.cli.measure import measure

    settings, found = asked.settings(workload=workload), find(experiments)
    if point:
        found = at_point(found, settings.profile, point)
    sys.exit(measure(found, settings, asked, as_json=as_json))
