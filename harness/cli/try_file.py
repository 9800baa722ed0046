"""``faultline try``: a workload file of one's own, from a sample to what a kill costs."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harness.cli.options import DEFAULT_OUT, RunOptions, run_options
from harness.cli.own_options import own_options, workload_options
from harness.errors import UsageError
from harness.results.record import Profile
from harness.text import format_duration, parse_bytes, parse_duration_s

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import SparkSession

    from harness.advice import own_job
    from harness.report.verdicts import Assessment
    from workloads.base import Workload

_EPILOG = """\b
Examples:
  ./faultline try workloads/examples/hottest.py --sample-only
  ./faultline try workloads/examples/hottest.py --profile smoke
  ./faultline try orders.py --rate 2000 --workers 1 --mttf 90d
  ./faultline try workloads/examples/hourly.py --speed 720
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
    _sample(workload)
    if sample_only:
        click.echo(f"next: ./faultline try {file}")
        return
    sys.exit(_kills(file, workload, asked, chosen))


def _sample(workload: Workload) -> None:
    """Run the query over a sample in a session of this process; show results and times."""
    from harness.engines.structured import sample

    with _session() as spark, tempfile.TemporaryDirectory() as directory:
        began = time.monotonic()
        batch = sample.check_query(spark, workload)
        batch_s = time.monotonic() - began
        click.echo(
            f"{workload.name}: {len(batch)} results of {sample.RECORDS} records a source over "
            f"{sample.span_s(workload):g} s, such as"
        )
        first = batch.sort_values(list(workload.identity)).head(SHOWN)
        click.echo(first[workload.columns].to_string(index=False))
        began = time.monotonic()
        stream = sample.run_stream(spark, workload, Path(directory))
        stream_s = time.monotonic() - began
    _demand_equal(stream, batch, workload)
    click.echo(
        f"as a batch {format_duration(batch_s)}, as a stream {format_duration(stream_s)}: equal, "
        f"within a relative tolerance of {workload.tolerance:g} for floating point"
    )


def _demand_equal(stream: pd.DataFrame, batch: pd.DataFrame, workload: Workload) -> None:
    """Raise `UsageError` if a stream of the sample gives other results than its batch."""
    from harness.judging.undelivered import UNSEEN_REMEDY
    from harness.measure.versions import compare

    found = compare(
        stream, batch, list(workload.identity), workload.values, tolerance=workload.tolerance
    )
    if found.equal:
        return
    unclosed = len(found.missing) and not len(found.wrong) and not len(found.extra)
    raise UsageError(
        f"workload {workload.name!r}: as a stream the query gives other results than as a batch: "
        f"{found.describe()}",
        remedy=UNSEEN_REMEDY
        if unclosed
        else "make it a function of its input: no clock, no random numbers, no order of arrival",
    )


@contextmanager
def _session() -> Iterator[SparkSession]:
    """Open a Spark session inside this process, without a cluster."""
    import os

    from harness.environment.java import find_java

    os.environ["JAVA_HOME"] = str(find_java().home)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    from pyspark.sql import SparkSession

    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.session.timeZone": "UTC",
        "spark.log.level": "ERROR",
    }
    session = SparkSession.builder.master("local[1]").config(map=settings).getOrCreate()
    try:
        yield session
    finally:
        session.stop()


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
