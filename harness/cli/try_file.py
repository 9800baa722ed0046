"""``faultline try``: a workload file of one's own, from a sample to what a kill costs."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.cli.options import RunOptions, run_options
from harness.errors import UsageError
from harness.text import format_duration

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import SparkSession

    from workloads.base import Workload

_EPILOG = """\b
Examples:
  ./faultline try workloads/examples/hottest.py --sample-only
  ./faultline try workloads/examples/hottest.py --profile smoke
"""
SHOWN = 5
"""Results that are shown."""
EXPERIMENTS = ("stock/worker-kill", "stock/rack-kill")


@click.command("try", epilog=_EPILOG)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--sample-only", is_flag=True, help="Run the query over a sample, and kill nothing.")
@run_options
def command(file: Path, sample_only: bool, chosen: RunOptions) -> None:
    """Try the workload that FILE defines: a sample first, then kills.

    The query runs over a small sample in this process, as a batch and as a stream. Then a worker
    and a rack are killed under it (smoke: a worker alone), and the costs are shown."""
    from workloads.base import QUERY, load_workload_file

    workload = load_workload_file(file)
    workload.form(QUERY)
    _sample(workload)
    if sample_only:
        click.echo(f"next: ./faultline try {file}")
        return
    sys.exit(_kills(file, chosen))


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


def _kills(file: Path, chosen: RunOptions) -> int:
    """Make the runs of both kills, and show what they cost."""
    from harness.cli.measure import measure
    from harness.results.record import Profile
    from harness.running.discovery import find

    settings = chosen.settings(workload=file)
    names = EXPERIMENTS[:1] if settings.profile is Profile.SMOKE else EXPERIMENTS
    code = measure(find(names), settings, chosen, as_json=False)
    click.echo(
        f"\nnext:\n"
        f"  ./faultline try {file} --repeats 5 --out {chosen.out}    for intervals\n"
        f"  ./faultline report --out {chosen.out}\n"
        f"  ./faultline advise --help    which scheme and interval for its rate, state and failures"
    )
    return code
