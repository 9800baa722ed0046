"""``faultline list``: the experiments."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from harness.cli.output import json_option, show
from harness.text import format_bytes, format_duration

if TYPE_CHECKING:
    from harness.running.catalogue import Needs

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
    from harness.running.catalogue import listed

    if markdown:
        from harness.running.discovery import catalogue_markdown

        click.echo(catalogue_markdown(), nl=False)
        return
    lines = []
    for each in listed():
        times = " / ".join(format_duration(seconds) for seconds in each.seconds.values())
        lines.append(f"{each.id:<34} {each.origin:<10} {times:<26} {each.paper}, {each.figure}")
        options = [name for name in each.accepts if not name.endswith("_files")]  # of commands
        takes = f"  (takes --{', --'.join(options)})" if options else ""
        lines.append(f"    {each.title}{takes}")
        lines += [] if each.needs is None else [f"    {_needed(each.needs)}"]
    lines.append(
        "\nTimes are for the profiles smoke / quick / paper on two cores, roughly. Below: what the "
        "runs\nneeded that ship with the repository."
    )
    show(listed(), lines, as_json=as_json)


def _needed(needs: Needs) -> str:
    """Return time, memory and disk of shipped runs in words."""
    memory, disk = (
        "not measured" if size is None else format_bytes(size)
        for size in (needs.peak_memory_bytes, needs.disk_bytes)
    )
    return (
        f"needed ({needs.profile}) {format_duration(needs.seconds)}, memory {memory}, disk {disk}"
    )
