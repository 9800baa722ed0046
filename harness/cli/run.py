"""``faultline run``: experiments by name."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.cli.options import PATH, RunOptions, run_options
from harness.cli.output import json_option
from harness.cli.own_options import OwnOptions, engine_options, own_options, workload_options

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

_EPILOG = """\b
Examples:
  ./faultline run stock/worker-kill
  ./faultline run stock/worker-kill --failures docs/examples/failures.yaml --repeats 3
  ./faultline run stock/worker-kill --point scheme=checkpoint,interval_s=2
  ./faultline run stock/worker-kill --conf spark.locality.wait=0s
  ./faultline run live/peers --engine kafka-streams --engine tasks
  ./faultline run stock/worker-kill --workload orders.py --rate 2000 --speed 60
  ./faultline run intervals --profile smoke --json
"""


def _completions(
    context: click.Context, parameter: click.Parameter, begun: str
) -> list[CompletionItem]:
    """Return the experiments and groups whose names begin with ``begun``."""
    from click.shell_completion import CompletionItem

    from harness.running.catalogue import listed

    ids = [each.id for each in listed()]
    names = dict.fromkeys([*(name.partition("/")[0] for name in ids), *ids])
    return [CompletionItem(name) for name in names if name.startswith(begun)]


@click.command("run", epilog=_EPILOG)
@click.argument(
    "experiments", nargs=-1, required=True, metavar="EXPERIMENT...", shell_complete=_completions
)
@click.option(
    "--workload",
    type=PATH,
    help="A Python file with a workload of your own, where the experiment takes one.",
)
@click.option(
    "--engine",
    "engines",
    multiple=True,
    metavar="NAME or FILE",
    help="Only this engine, by its name or a file of your own (docs/own-engine.md); repeatable.",
)
@click.option(
    "--point",
    metavar="NAME=VALUE,...",
    help="Only the points with these values: scheme=checkpoint,interval_s=2. A number may be one "
    "that the grid lacks.",
)
@own_options
@run_options
@json_option
def command(
    experiments: tuple[str, ...],
    workload: Path | None,
    engines: tuple[str, ...],
    point: str | None,
    own: OwnOptions,
    chosen: RunOptions,
    as_json: bool,
) -> None:
    """Run EXPERIMENTs by name; a group's name means all of its experiments that fetch nothing.

    `./faultline list` shows the names. Runs that were made before with the same code, seed and
    options are kept. Exit code: 0 done, 1 an invariant failed (with --strict also a paper's
    claim), 2 wrong use, 3 the environment failed."""
    from harness.cli.measure import measure
    from harness.cli.sample import sample_shown
    from harness.running.discovery import at_point, find
    from harness.running.execution import check_options
    from harness.stock_kills.scale import spark_conf
    from workloads.own import load_workload_file

    files = {**workload_options(workload), **engine_options(engines)}
    settings, found = chosen.settings(**own.given, **files), find(experiments)
    if workload is not None and not chosen.dry_run:
        check_options(found, settings)
        sample_shown(load_workload_file(workload), spark_conf(settings.options))
    if point:
        only = at_point(found, settings.profile, point)
        settings = replace(settings, only=only)
        found = [experiment for experiment in found if experiment.id in only]
    sys.exit(measure(found, settings, chosen, as_json=as_json))
