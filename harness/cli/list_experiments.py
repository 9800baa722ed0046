"""``faultline list``: the experiments."""

from __future__ import annotations

import click

from harness.cli.output import emit_json, json_option

_EPILOG = """\b
Examples:
  ./faultline list
  ./faultline list --json
  ./faultline list --markdown > experiments/README.md
"""


@click.command("list", epilog=_EPILOG)
@click.option("--markdown", is_flag=True, help="Print the table of experiments/README.md.")
@json_option
def command(markdown: bool, as_json: bool) -> None:
    """Show every experiment: its figure, the origin of its numbers, and its time."""
    from harness.results.record import Profile
    from harness.running.discovery import all_experiments, catalogue_markdown, estimate_s
    from harness.text import format_duration

    if markdown:
        click.echo(catalogue_markdown(), nl=False)
        return
    if as_json:
        emit_json(
            [
                {
                    "id": e.id,
                    "paper": e.paper,
                    "figure": e.figure,
                    "title": e.title,
                    "origin": e.origin.value,
                    "statement": e.statement,
                    "accepts": sorted(e.measurement.accepts),
                    "seconds": {p.value: estimate_s(e, p) for p in Profile},
                }
                for e in all_experiments()
            ]
        )
        return
    for e in all_experiments():
        times = " / ".join(format_duration(estimate_s(e, p)) for p in Profile)
        click.echo(f"{e.id:<34} {e.origin.value:<10} {times:<26} {e.paper}, {e.figure}")
        takes = (
            f"  (takes --{', --'.join(sorted(e.measurement.accepts))})"
            if e.measurement.accepts
            else ""
        )
        click.echo(f"    {e.title}{takes}")
    click.echo("\nTimes are for the profiles smoke / quick / paper on two cores, roughly.")
