"""``faultline failures``: a failure log of a real system as a schedule for ``--failures``."""

from __future__ import annotations

from pathlib import Path

import click

from harness.cli.options import DURATION, PATH

_EPILOG = """\b
The log is a CSV of your own (node, failed, repaired), a table of the Failure Trace Archive
(event_trace.tab), Google's machine events, Backblaze's days of disks, or LANL's records; .gz too.

\b
Examples:
  ./faultline failures failure-log.csv --begin 2 --scale 1000 --first 1s --load 6s > schedule.yaml
  ./faultline run stock/worker-kill --failures schedule.yaml --profile smoke
  ./faultline failures lanl.csv.gz --system 20 --scale 5000 --begin 100 --nodes 2 > schedule.yaml
"""


@click.command("failures", epilog=_EPILOG)
@click.argument("log", type=PATH)
@click.option(
    "--scale", type=float, required=True, help="How many times as fast as in the log time runs."
)
@click.option("--racks", default=2, help="Racks of the cluster.")
@click.option("--nodes", default=1, help="Nodes in each rack.")
@click.option("--load", "load_s", type=DURATION, default="60s", help="Length of the load.")
@click.option(
    "--first", "first_s", type=DURATION, default="3s",
    help="Time of the first failure since the load began.",
)  # fmt: skip
@click.option("--begin", default=1, metavar="N", help="Begin with the N-th failure of the log.")
@click.option("--system", metavar="ID", help="The system, of a log with several.")
@click.option(
    "--repair", "open_s", type=DURATION,
    help="Length, in the log's time, of a repair that the log does not have. Without it such a "
    "node stays away.",
)  # fmt: skip
def command(
    log: Path,
    scale: float,
    racks: int,
    nodes: int,
    load_s: float,
    first_s: float,
    begin: int,
    system: str | None,
    open_s: float | None,
) -> None:
    """Make a schedule in scaled time from a failure log.

    The nodes of the log are spread over those of the cluster in their order, so that neighbours
    stay neighbours. Failures at one instant are one event. An absence is at least 1 s long."""
    from datasets.failure_logs import of_system, read_failures
    from harness.cluster.base import ClusterSpec
    from harness.failures.replay import replay

    found = of_system(read_failures(log), system, str(log))
    spec = ClusterSpec(racks=racks, workers_per_rack=nodes)
    made = replay(
        found, spec.rack_of, scale=scale, load_s=load_s, first_s=first_s, begin=begin, open_s=open_s
    )
    click.echo(made.to_yaml(source=str(log), scale=scale), nl=False)
    click.echo(
        f"{made.failures} of {len(found)} failures; {made.away} while their node was away and "
        f"{made.later} after {load_s:g} s are left out",
        err=True,
    )
