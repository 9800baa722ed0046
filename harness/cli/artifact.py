"""``faultline artifact``: one archive for reviewers, from any set of records."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from harness.cli.output import elapsed_reporter, emit_json, json_option

_EPILOG = """\b
Examples:
  ./faultline artifact
  ./faultline artifact --from results --out /data/mine.tar.gz
  ./faultline artifact --from other.zip
  ./faultline artifact --try
"""


@click.command("artifact", epilog=_EPILOG)
@click.option(
    "--from",
    "root",
    type=click.Path(exists=True, path_type=Path),
    metavar="SET",
    help="The records: a directory, or an archive of `export --raw`.  [default: those that ship "
    "with the repository]",
)
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    default="faultline-artifact.tar.gz",
    show_default=True,
    help="The archive.",
)
@click.option(
    "--try", "trying", is_flag=True, help="Instead: try each changed parameter of the appendix."
)
@json_option
def command(root: Path | None, out: Path, trying: bool, as_json: bool) -> None:
    """Write an archive for reviewers: appendix, source, records, checksums, a ten-minute path.

    The appendix has a row for each claim: command, time, memory, disk, measured number, rule and
    its place in the source. With --try, exit code 1 if an expectation does not come true."""
    from harness.cache import to_stderr
    from harness.cli.measure import check_out
    from harness.errors import UsageError
    from harness.pages.artifact import write_artifact
    from harness.results.archive import readable, records
    from harness.results.library import SHIPPED
    from harness.results.provenance import describe_commit

    if trying:
        sys.exit(_try(as_json=as_json))
    check_out(out.absolute().parent)
    source = root or SHIPPED
    if next(iter(records(readable(source))), None) is None:
        raise UsageError(
            f"there are no records in {source}",
            remedy="name the directory that holds records/, or an archive of it",
        )
    if describe_commit().endswith("+"):
        to_stderr("files differ from the last commit: the archive has the commit's")
    count = write_artifact(
        source,
        out,
        title="the shipped results" if root is None else f"results of {source.name}",
        tell=elapsed_reporter(),
        warn=to_stderr,
    )
    if as_json:
        emit_json({"archive": str(out), "claims": count, "bytes": out.stat().st_size})
        return
    click.echo(f"{count} claims, {out.stat().st_size / 1e6:.1f} MB: {out}")
    click.echo(
        f"a reviewer begins with: tar xzf {out.name} && sh faultline-artifact/ten-minutes.sh"
    )


def _try(*, as_json: bool) -> int:
    """Try every trial, print each outcome, and return the exit code."""
    import tempfile

    from harness.cli.measure import DONE, FAILED_CLAIM
    from harness.pages.trials import TRIALS, tried

    found = []
    with tempfile.TemporaryDirectory() as scratch:
        click.echo(f"{len(TRIALS)} trials of two runs each", err=True)
        for each in tried(Path(scratch)):
            found.append(each)
            if as_json:
                continue
            trial = each.trial
            verdict = "as expected" if each.held else "NOT AS EXPECTED"
            click.echo(f"\n{trial.paper}: {trial.experiment} {trial.first}")
            click.echo(f"  changed: {trial.changed}")
            click.echo(
                f"  {trial.value}: {each.first:.4g}, then {each.changed:.4g}: "
                f"{each.changed / each.first:.3g} times; expected {trial.least:g} to "
                f"{trial.most:g}: {verdict}"
            )
    if as_json:
        emit_json(
            [
                {
                    "paper": each.trial.paper,
                    "commands": each.trial.commands,
                    "value": each.trial.value,
                    "first": each.first,
                    "changed": each.changed,
                    "expected": [each.trial.least, each.trial.most],
                    "held": each.held,
                }
                for each in found
            ]
        )
    return DONE if all(each.held for each in found) else FAILED_CLAIM
