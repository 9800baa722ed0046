"""``faultline try``: a workload file of one's own, from a sample to what a kill costs."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harness.cli.options import RunOptions, run_options, words_of
from harness.cli.own_options import own_options, workload_options
from harness.errors import UsageError
from harness.results.record import Point, Profile
from harness.text import format_duration, parse_bytes, parse_duration_s

if TYPE_CHECKING:
    from harness.pages.assessment import Assessment
    from harness.running.plan import RunSettings
    from workloads.base import Workload

_EPILOG = """\b
Examples:
  ./faultline try workloads/examples/hottest.py --sample-only
  ./faultline try workloads/examples/hottest.py --profile smoke
  ./faultline try orders.py --rate 2000 --workers 1 --mttf 90d
  ./faultline try orders.py --point mode=real-time
  ./faultline try docs/examples/temperatures.py --speed 1800
"""
SHOWN = 5
"""Results that are shown."""
EXPERIMENTS = ("stock/worker-kill", "stock/rack-kill")
REPEATS = {Profile.SMOKE: 1, Profile.QUICK: 3, Profile.PAPER: 5}
"""Repetitions of each kill in a profile that the user names; without one there is one of quick's,
so that the answer is there in some ten minutes."""
PASSING = ("sample_only", "again", "dry_run", "verbose")
"""Parameters that the commands of the next steps do not keep."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """The options of this command alone."""

    own: Mapping[str, Any]
    point: str | None
    advice: Mapping[str, float | None]
    """Values of the real job (`harness.advice.job.Job`), None for what is assumed."""
    words: Mapping[str, str]
    """Words of the options that the next steps have, too."""
    long: bool
    """True if the user named a profile: the kills are repeated, also in real-time mode."""


@click.command("try", epilog=_EPILOG)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--sample-only", is_flag=True, help="Run the query over a sample, and kill nothing.")
@click.option(
    "--point",
    metavar="NAME=VALUE,...",
    help="Only some schemes or modes: scheme=checkpoint, or mode=real-time.",
)
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
    and a rack are killed under it (smoke: a worker alone), and one page says what that cost, at
    which trigger and rate the machine keeps up, and what is advised. --profile quick adds samples,
    and Spark's real-time mode. Runs that were made before are kept."""
    from workloads.base import QUERY
    from workloads.own import load_workload_file

    context = click.get_current_context()
    profile_from = context.get_parameter_source("profile")
    workload = load_workload_file(file)
    workload.form(QUERY)
    asked = _Asked(
        own={**own, **({"workers": workers} if workers else {})},
        point=point,
        advice={
            "node_mttf_s": parse_duration_s(mttf, name="--mttf") if mttf else None,
            "state_bytes": parse_bytes(state, name="--state") if state else None,
        },
        words=words_of(context, but=PASSING),
        long=profile_from is not click.core.ParameterSource.DEFAULT,
    )
    settings = _settings(file, asked, chosen)
    no_real_time = None
    if not chosen.dry_run:
        no_real_time = sample_shown(workload)
    if sample_only:
        click.echo(f"next: ./faultline try {file}")
        return
    sys.exit(_kills(file, workload, asked, chosen, settings, no_real_time))


def sample_shown(workload: Workload) -> str | None:
    """Run the query over a sample in a session of this process; show results and times.

    Returns why Spark's real-time mode cannot run it; None if it can."""
    import pandas as pd

    from harness.engines.structured import sample
    from harness.engines.structured.local import try_sample

    click.echo(f"{workload.name}: its query runs on a sample, as a batch and as a stream", err=True)
    found = try_sample(workload)
    click.echo(
        f"{workload.name}: {len(found.results)} results of {sample.RECORDS} records a source over "
        f"{sample.span_s(workload):g} s, such as"
    )
    first = found.results.sort_values(list(workload.identity)).head(SHOWN)
    begins = pd.to_datetime(first[workload.window_column], unit="ms")
    shown = first[workload.columns].assign(**{workload.window_column: begins})
    click.echo(shown.to_string(index=False))
    click.echo(
        f"as a batch {format_duration(found.batch_s)}, as a stream "
        f"{format_duration(found.stream_s)}: equal, within a relative tolerance of "
        f"{workload.tolerance:g} for floating point"
    )
    return found.no_real_time


def _settings(file: Path, asked: _Asked, chosen: RunOptions) -> RunSettings:
    """Return the settings of the runs, with all of their points; raise `UsageError` for none."""
    from harness.running.discovery import at_point, find
    from harness.running.execution import check_options
    from harness.stock_kills.measure import REAL_TIME

    settings = chosen.settings(**asked.own, **workload_options(file))
    if chosen.repeats is None:
        settings = replace(settings, repeats=REPEATS[settings.profile] if asked.long else 1)
    smoke = settings.profile is Profile.SMOKE
    found = find(EXPERIMENTS[:1] if smoke else EXPERIMENTS)
    check_options(found, settings)
    if asked.point:
        real_time = [REAL_TIME] if asked.long or "mode" in asked.point else []
        return replace(
            settings, only=at_point(found, settings.profile, asked.point, more=real_time)
        )
    grid = found[0].grid[settings.profile]
    points = [*grid, REAL_TIME] if asked.long and not smoke else grid
    return replace(settings, only={experiment.id: points for experiment in found})


def _without_real_time(settings: RunSettings, why: str) -> RunSettings:
    """Return the settings without the points in real-time mode; raise `UsageError` if none stay."""
    only: dict[str, Sequence[Point]] = {
        name: [point for point in points if "mode" not in point]
        for name, points in settings.only.items()
    }
    if not any(only.values()):
        raise UsageError(
            f"Spark's real-time mode cannot run this query: {why}",
            remedy="leave --point mode=real-time out, and it runs in micro-batches",
        )
    return replace(settings, only=only)


def _kills(
    file: Path,
    workload: Workload,
    asked: _Asked,
    chosen: RunOptions,
    settings: RunSettings,
    no_real_time: str | None,
) -> int:
    """Make the runs of both kills, and show what they cost."""
    from harness.advice import costs, own_job
    from harness.cli.measure import measure
    from harness.running.discovery import find

    if no_real_time is not None:
        click.echo(f"Spark's real-time mode cannot run it: {no_real_time}")
        settings = _without_real_time(settings, no_real_time)
    given = own_job.Given(file=file, options=asked.words, out=chosen.out, no_real_time=no_real_time)

    def conclude(judged: Sequence[Assessment]) -> None:
        page, figures = own_job.page_of(
            workload, judged, settings, advice=asked.advice, given=given
        )
        click.echo(f"\n{page.text()}")
        written = costs.write(page, chosen.out / "try" / workload.name, figures)
        click.echo(f"\npage: {written[0]}")
        if job := own_job.write_job(written[0].parent, workload, judged, settings, asked.words):
            click.echo(f"job:  {job} (./faultline advise --job {job} --within 1min)")

    return measure(find([*settings.only]), settings, chosen, as_json=False, conclude=conclude)
