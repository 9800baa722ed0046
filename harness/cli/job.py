"""``faultline job``: a job file for ``advise`` from the metrics of a running job."""

from __future__ import annotations

from pathlib import Path

import click

from harness.cli.options import DURATION, PATH

_EPILOG = """\b
An export is a CSV of Grafana (Time, then a column for each series) or the JSON of Prometheus's
query_range. What a series is follows from its name: rate, lag, checkpoint size and duration,
number of completed checkpoints.

\b
Examples:
  ./faultline job rate.csv lag.csv checkpoints.json --interval 1min --mttf 30d > job.yaml
  ./faultline advise --job job.yaml --within 5min
"""


@click.command("job", epilog=_EPILOG)
@click.argument("exports", nargs=-1, required=True, type=PATH)
@click.option("--rate", "rate_per_s", type=float, help="Tuples/s, if no series shows it.")
@click.option("--interval", "interval_s", type=DURATION, help="Time between checkpoints, likewise.")
@click.option("--system", metavar="NAME", help="The system, as for advise.")
@click.option("--mttf", metavar="DURATION", help="Mean time to failure of a node.")
def command(
    exports: tuple[Path, ...],
    rate_per_s: float | None,
    interval_s: float | None,
    system: str | None,
    mttf: str | None,
) -> None:
    """Write a running job as a file for advise, from what its dashboards export.

    A lag that rises and falls once shows an outage and the capacity. Where it does not, the
    reason is a comment of the file."""
    from harness.advice.job_file import Line, text_of
    from harness.advice.job_metrics import lines_of
    from harness.intervals.exports import read_series
    from harness.text import read_given

    remedy = "name a CSV of Grafana or the JSON of Prometheus's query_range"
    series = [
        one for path in exports for one in read_series(read_given(path, "", remedy), name=str(path))
    ]
    names = ", ".join(map(str, exports))
    lines = [
        Line(option, [value], "given")
        for option, value in (("system", system), ("mttf", mttf))
        if value is not None
    ]
    lines += lines_of(series, name=names, rate_per_s=rate_per_s, interval_s=interval_s)
    click.echo(text_of(lines, f"A job by {names}."), nl=False)
