"""``faultline impact``: the records that a change voids, and the time to measure them again."""

from __future__ import annotations

from pathlib import Path

import click

from harness.cache import to_stderr
from harness.cli.options import results_option
from harness.cli.output import json_option, show

_EPILOG = """\b
Examples:
  ./faultline impact
  ./faultline impact main
  ./faultline impact HEAD~5 --from results --json
"""

MOST_FILES = 3
"""Changed files that are named with a measurement; ``--json`` has them all."""


@click.command("impact", epilog=_EPILOG)
@click.argument("revision", required=False)
@results_option
@json_option
def command(revision: str | None, roots: tuple[Path, ...], as_json: bool) -> None:
    """Show which records the changes since REVISION void.

    A record is void if the code that its measurement reaches has changed. Without REVISION these
    are the changes that are not committed, or else those of the last commit. Each measurement is
    shown with the changed files that it reaches."""
    from harness.nightly.impact import impact
    from harness.nightly.revisions import build, changed_code, resolve
    from harness.results import load
    from harness.results.provenance import describe_commit
    from harness.text import format_duration

    since = resolve(revision or ("HEAD" if describe_commit().endswith("+") else "HEAD~1"))
    library = load(*roots, warn=to_stderr)
    side = build(since, report=to_stderr, own_packages=False)
    to_stderr(f"comparing the code with {since}")
    found = impact(side, library, changed_code(since))
    seconds = sum(each.seconds for each in found)
    lines = []
    for each in found:
        took = f", {format_duration(each.seconds)}" if each.records else ""
        files = f": {', '.join(each.changed[:MOST_FILES])}" if each.changed else ""
        more = len(each.changed) - MOST_FILES
        files += f" and {more} more" if more > 0 else ""
        lines.append(f"{each.experiment:<34} {each.records} of {each.of} records{took}{files}")
    lines.append(
        f"{sum(each.records for each in found)} of {len(library.found)} records are void since "
        f"{since.short}; measuring them again takes about {format_duration(seconds)}"
    )
    document = {"revision": since.commit, "seconds": seconds, "measurements": found}
    show(document, lines, as_json=as_json)
