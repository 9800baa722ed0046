"""``faultline doctor``: the tools that a run needs, and how to get those that are missing."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.cli.options import FILE
from harness.cli.output import elapsed_reporter, json_option, show
from harness.errors import EnvironmentFailure

if TYPE_CHECKING:
    from harness.environment.doctor import Finding

_EPILOG = """\b
Examples:
  ./faultline doctor
  ./faultline doctor --fetch      fetch now what the first run would fetch
  ./faultline doctor --query      let Spark copy ten records through a broker (half a minute)
  ./faultline doctor --cluster machines.yaml   look at each machine of the file
  ./faultline doctor --cluster my.yaml   use its servers for a moment, as before a run
  ./faultline doctor --json
"""
_COLOURS = {"ok": "green", "fetched on first use": "cyan", "warning": "yellow", "missing": "red"}


@click.command("doctor", epilog=_EPILOG)
@click.option("--fetch", is_flag=True, help="Fetch now what the first run would fetch.")
@click.option("--query", is_flag=True, help="Run one query through Spark and a Kafka broker.")
@click.option(
    "--cluster",
    "described",
    type=FILE,
    metavar="FILE.yaml",
    help="Look at the machines or the existing servers of this file, too.",
)
@json_option
def command(fetch: bool, query: bool, described: Path | None, as_json: bool) -> None:
    """Look for everything that a run needs, and show what to do about the rest.

    The exit code is 3 if something is missing that Faultline cannot fetch by itself."""
    from harness.cluster import surroundings
    from harness.cluster.ownership import state_directory
    from harness.environment.doctor import CheckOptions, examine, ready

    options = CheckOptions(runs=state_directory(), fetch=fetch)
    findings = [*examine(options), *surroundings.examine()]
    if described is not None:
        findings += _of_cluster(described)
    if query:
        findings.append(_tried(well=ready(findings)))
    well = ready(findings)
    lines = [_line(finding) for finding in findings]
    if well:
        lines.append("\nNothing to do: what is not there yet is fetched by the first run.")
    else:
        missing = ", ".join(each.name for each in findings if each.status == "missing")
        lines.append(f"\nMissing: {missing}. The remedy is below each.")
    show({"ready": well, "findings": findings}, lines, as_json=as_json)
    if not well:
        sys.exit(EnvironmentFailure.exit_code)


def _of_cluster(path: Path) -> list[Finding]:
    """Return a finding for each machine of a file, or one for the servers that it describes.

    These are used for a moment, as before a run. Raises `UsageError` for a mistake in the file."""
    from harness.cluster.backends import find_backend
    from harness.cluster.base import ClusterSpec
    from harness.cluster.machines.doctor import examine
    from harness.cluster.machines.settings import describes_machines
    from harness.environment.doctor import Finding, Status

    if describes_machines(path):
        return examine(path)
    status, detail, remedy = Status.OK, "its Kafka, Redis, Spark and nodes can be used", ""
    try:
        with find_backend(str(path)).make(ClusterSpec(racks=1)) as cluster:
            cluster.start(elapsed_reporter())
    except EnvironmentFailure as failure:
        status, detail, remedy = Status.MISSING, failure.what, failure.remedy
    return [Finding(name=path.name, status=status, detail=detail, remedy=remedy)]


def _tried(*, well: bool) -> Finding:
    """Return the finding of a query; it is not run where something that it needs is missing."""
    from harness.engines.structured import pair
    from harness.environment.doctor import Finding, Status

    if not well:
        return Finding(
            name=pair.NAME,
            status=Status.WARNING,
            detail="not tried: something that the query needs is missing",
            remedy="first follow the advice above",
        )
    return pair.examine(lambda stage: click.echo(f"{stage} ...", err=True))


def _line(finding: Finding) -> str:
    status = click.style(f"{finding.status.value:<22}", fg=_COLOURS[finding.status.value])
    remedy = f"\n{'':<43}-> {finding.remedy}" if finding.remedy else ""
    detail = finding.detail.replace("\n", f"\n{'':<43}")
    return f"{finding.name:<19}  {status}{detail}{remedy}"
