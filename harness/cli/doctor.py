"""``faultline doctor``: the tools that a run needs, and how to get those that are missing."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.cli.options import FILE
from harness.cli.output import emit_json, json_option
from harness.errors import EnvironmentFailure

if TYPE_CHECKING:
    from harness.environment.doctor import Finding

_EPILOG = """\b
Examples:
  ./faultline doctor
  ./faultline doctor --fetch      fetch now what the first run would fetch
  ./faultline doctor --query      let Spark copy ten records through a broker (half a minute)
  ./faultline doctor --cluster machines.yaml   look at each machine of the file
  ./faultline doctor --json
"""
_COLOURS = {"ok": "green", "fetched on first use": "cyan", "warning": "yellow", "missing": "red"}


@click.command("doctor", epilog=_EPILOG)
@click.option("--fetch", is_flag=True, help="Fetch now what the first run would fetch.")
@click.option("--query", is_flag=True, help="Run one query through Spark and a Kafka broker.")
@click.option(
    "--cluster",
    "machines",
    type=FILE,
    metavar="FILE.yaml",
    help="Look at the machines of this file, too.",
)
@json_option
def command(fetch: bool, query: bool, machines: Path | None, as_json: bool) -> None:
    """Look for everything that a run needs, and show what to do about the rest.

    The exit code is 3 if something is missing that Faultline cannot fetch by itself."""
    from harness.cluster import surroundings
    from harness.cluster.ownership import state_directory
    from harness.environment.doctor import CheckOptions, examine, ready

    findings = [
        *examine(CheckOptions(runs=state_directory(), fetch=fetch)),
        *surroundings.examine(),
    ]
    if machines is not None:
        from harness.cluster.machines.doctor import examine as examine_machines

        findings += examine_machines(machines)
    if query:
        findings.append(_tried(well=ready(findings)))
    well = ready(findings)
    if as_json:
        emit_json({"ready": well, "findings": [asdict(finding) for finding in findings]})
    else:
        for finding in findings:
            click.echo(_line(finding))
        click.echo(
            "\nNothing to do: what is not there yet is fetched by the first run." if well else ""
        )
    if not well:
        missing = ", ".join(each.name for each in findings if each.status == "missing")
        if not as_json:
            click.echo(f"Missing: {missing}. The remedy is below each.")
        sys.exit(EnvironmentFailure.exit_code)


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
