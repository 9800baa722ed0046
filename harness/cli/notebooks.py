"""``faultline notebooks``: the notebooks in a browser, or as HTML."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click

from harness.cli.options import DEFAULT_OUT, FOLDER

_EPILOG = """\b
Examples:
  ./faultline notebooks
  ./faultline notebooks tour
  ./faultline notebooks --render --out /tmp/html
"""


@click.command("notebooks", epilog=_EPILOG)
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--render", "rendering", is_flag=True, help="Run them and write HTML; no browser.")
@click.option(
    "--out",
    type=FOLDER,
    default=DEFAULT_OUT / "notebooks",
    show_default="results/notebooks",
    help="Directory for the HTML.",
)
def command(names: tuple[str, ...], rendering: bool, out: Path) -> None:
    """Open JupyterLab on notebooks/, or with --render run them all and write HTML.

    They read the results that ship with the repository, so they need neither a cluster nor runs
    of your own."""
    from harness.notebook.rendering import lab_command, notebooks, render

    chosen = notebooks(names)
    if rendering:
        for path in chosen:
            click.echo(str(render(path, out)))
    else:
        sys.exit(subprocess.run(lab_command(chosen), check=False).returncode)
