"""``faultline try``: a workload file of one's own, from a sample to what a kill costs."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harness.cli.options import DEFAULT_OUT, RunOptions, run_options
from harness.cli.own_options import own_options, workload_options
from harness.results.record import Profile
from harness.text import format_duration, parse_bytes, parse_duration_s

if TYPE_CHECKING:
    import pandas as pd

    from harness.advice import own_job
    from harness.report.verdicts import Assessment
    from workloads.base import Workload

_EPILOG = """\b
Examples:
  ./faultline try workloads/examples/hottest.py --sample-only
  ./faultline try workloads/examples/hottest.py --profile smoke
  ./faultline try orders.py --rate 2000 --workers 1 --mttf 90d
  ./faultline try docs/examples/temperatures.py --speed 1800
"""
SHOWN = 5
"""Results that are shown."""
EXPERIMENTS = ("stock/worker-kill", "stock/rack-kill")


REPEATS = {Profile.SMOKE: 1, Profile.QUICK: 3, Profile.PAPER: 5}
"""Repetitions of each kill, for an impression of how far they differ."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """The options of this command alone."""

    own: Mapping[str, Any]
    point: str | None
    advice: Mapping[str, float | None]
    """Values of the real job (`harness.advice.job.Job`), None for what is assumed."""


@click.command("try", epilog=_EPILOG)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--sample-only", is_flag=True, help="Run the query over a sample, and kill nothing.")
@click.option("--point", metavar="NAME=VALUE,...", help="Only some schemes: scheme=checkpoint.")
@click.option("--workers", type=click.IntRange(1), help="Spark workers in each of the two racks.")
@click.option("--mttf", metavar="DURATION", help="Mean time to failure of a node, for the advice.")
@click.option("--state", metavar="SIZE", help="State of the real job, instead of the measured one.")
@own_options
@run_options
def command(
    file: Path,
    sample_only: bool,
    point: str | None,
    workers: int | None,
    mttf: str | None,
    state: str | None,
    own: Mapping[str, Any],
    chosen: RunOptions,
) -> None:
    """Try the workload that FILE defines: a sample first, then kills.

    The query runs over a small sample in this process, as a batch and as a stream. Then a worker
    and a rack are killed under it (smoke: a worker alone), several times, and one page says what
    that cost, at which trigger and rate the machine keeps up, and what is advised."""
    from workloads.base import QUERY, load_workload_file

    workload = load_workload_file(file)
    workload.form(QUERY)
    asked = _Asked(
        own={**own, **({"workers": workers} if workers else {})},
        point=point,
        advice={
            "node_mttf_s": parse_duration_s(mttf, name="--mttf") if mttf else None,
            "state_bytes": parse_bytes(state, name="--state") if state else None,
        },
    )
    sample_shown(workload)
    if sample_only:
        click.echo(f"next: ./faultline try {file}")
        return
    sys.exit(_kills(file, workload, asked, chosen))


def sample_shown(workload: Workload) -> None:
    """Run the query over a sample in a session of this process; show results and times."""
    from harness.engines.structured import sample
    from harness.engines.structured.local import try_sample

    click.echo(f"{workload.name}: its query runs on a sample, as a batch and as a stream", err=True)
    found = try_sample(workload)
    click.echo(
        f"{workload.name}: {len(found.results)} results of {sample.RECORDS} records a source over "
        f"{sample.span_s(workload):g} s, such as"
    )
    first = found.results.sort_values(list(workload.identity)).head(SHOWN)
    click.echo(_with_times(first[workload.columns], found.times).to_string(index=False))
    click.echo(
        f"as a batch {format_duration(found.batch_s)}, as a stream "
        f"{format_duration(found.stream_s)}: equal, within a relative tolerance of "
        f"{workload.tolerance:g} for floating point"
    )


def _with_times(results: pd.DataFrame, times: Sequence[str]) -> pd.DataFrame:
    """Return the results with these columns as times, which are in ms."""
    import pandas as pd

    return results.assign(**{name: pd.to_datetime(results[name], unit="ms") for name in times})


def _kills(file: Path, workload: Workload, asked: _Asked, chosen: RunOptions) -> int:
    """Make the runs of both kills, and show what they cost."""
    from harness.cli.measure import measure
    from harness.running.discovery import at_point, find

    settings = chosen.settings(**asked.own, **workload_options(file))
    if chosen.repeats is None:
        settings = replace(settings, repeats=REPEATS[settings.profile])
    names = EXPERIMENTS[:1] if settings.profile is Profile.SMOKE else EXPERIMENTS
    found = find(names)
    if asked.point:
        only = at_point(found, settings.profile, asked.point)
        settings = replace(settings, only=only)
        found = [experiment for experiment in found if experiment.id in only]

    def conclude(judged: Sequence[Assessment]) -> None:
        from harness.advice import costs, own_job

        page, figures = own_job.page_of(
            workload, judged, settings, advice=asked.advice, given=_given(file, asked, chosen)
        )
        click.echo(f"\n{page.text()}")
        written = costs.write(page, chosen.out / "try" / workload.name, figures)
        click.echo(f"\npage: {written[0]}")

    return measure(found, settings, chosen, as_json=False, conclude=conclude)


def _given(file: Path, asked: _Asked, chosen: RunOptions) -> own_job.Given:
    """Return the words of this command, for the commands of the next steps."""
    from harness.advice import own_job

    options = {name: f"{value:g}" for name, value in asked.own.items()}
    words = [f"--{name} {value}" for name, value in options.items()]
    words += [f"--conf {each}" for each in chosen.conf]
    if chosen.out != DEFAULT_OUT:
        words.append(f"--out {chosen.out}")
    return own_job.Given(file=file, options=" ".join(words), out=chosen.out)
