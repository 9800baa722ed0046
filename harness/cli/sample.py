"""The sample of a workload file, as ``try`` and ``run`` show it; once, or after each save."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.errors import FaultlineError
from harness.text import format_duration

if TYPE_CHECKING:
    from workloads.base import Workload

SHOWN = 5
"""Results that are shown."""
LONGEST_VALUE = 60
LOOK_S = 0.2
"""Time between two looks at a watched file."""


def sample_shown(workload: Workload, conf: Mapping[str, str]) -> str | None:
    """Run the query over a sample in a session of this process; show results and times.

    ``conf``: settings of Spark from the command. Returns why Spark's real-time mode cannot run it;
    None if it can."""
    import pandas as pd

    from harness.advice.answer import ROWS
    from harness.engines.structured.local import try_sample
    from harness.engines.structured.sample import span_s

    click.echo(f"{workload.name}: its query runs on a sample, as a batch and as a stream", err=True)
    found = try_sample(workload, {**workload.conf, **conf})
    click.echo(
        f"{workload.name}: {len(found.results)} results of a sample over {span_s(workload):g} s, "
        "such as"
    )
    first = found.results.sort_values(workload.window_column, kind="stable").head(SHOWN)
    begins = pd.to_datetime(first[workload.window_column], unit="ms")
    shown = first[workload.columns].assign(**{workload.window_column: begins})
    click.echo(shown.map(_printable).to_string(index=False))
    said = (
        f"as a batch {format_duration(found.batch_s)}, as a stream "
        f"{format_duration(found.stream_s)}: "
    )
    if found.difference:
        said += (
            f"late records were dropped by the watermark, {found.late} rows, up to "
            f"{found.late_by_s:.3g} s behind it ({ROWS}): {found.difference}"
        )
    else:
        said += f"equal, within a relative tolerance of {workload.tolerance:g} for floating point"
    click.echo(said)
    if found.late_by_s and not found.late:
        click.echo(
            f"records came up to {found.late_by_s:.3g} s behind the watermark, and none was "
            "dropped, because their windows were open; with more records some may be: then the job "
            "needs a longer watermark, or late_data=True"
        )
    if found.again:
        click.echo(
            "a batch that is written a second time, as after a failure between its write and its "
            f"commit, {found.again}"
        )
    return found.no_real_time


def _printable(value: object) -> object:
    """Return a value for one line of a terminal: no line breaks or control characters."""
    if not isinstance(value, str):
        return value
    text = "".join(c if c.isprintable() else repr(c)[1:-1] for c in value[: LONGEST_VALUE + 1])
    return text if len(value) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}..."


def watch(file: Path, conf: Mapping[str, str]) -> None:
    """Run the sample of a file again after every save, in one session, until Ctrl-C."""
    from harness.engines.structured.session import keep
    from workloads.files import forget
    from workloads.own import load_workload_file

    with keep():
        while True:
            seen = _stamps(file)
            began = time.monotonic()
            try:
                forget(file)
                sample_shown(load_workload_file(file), conf)
            except FaultlineError as error:
                click.echo(f"{error.what}\n  What to do: {error.remedy}")
            took = format_duration(time.monotonic() - began)
            click.echo(f"{took}; waiting for the next save of {file} (Ctrl-C ends)\n")
            while _stamps(file) == seen:
                time.sleep(LOOK_S)


def _stamps(file: Path) -> list[tuple[str, int]]:
    """Return the Python files of a file's folder, with the times of their last change."""
    found = []
    for path in sorted(file.resolve().parent.glob("*.py")):
        try:
            found.append((path.name, path.stat().st_mtime_ns))
        except FileNotFoundError:  # an editor replaces it
            continue
    return found
