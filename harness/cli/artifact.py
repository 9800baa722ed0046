"""``faultline artifact``: one archive for reviewers, from any set of records."""

from __future__ import annotations

from pathlib import Path

import click

from harness.cache import to_stderr
from harness.cli.options import FILE, THERE
from harness.cli.output import check_out, elapsed_reporter, json_option, show

_EPILOG = """\b
Examples:
  ./faultline artifact
  ./faultline artifact --from results --out /data/mine.tar.gz
  ./faultline artifact --from other.zip
"""


@click.command("artifact", epilog=_EPILOG)
@click.option(
    "--from",
    "root",
    type=THERE,
    metavar="SET",
    help="The records: a directory, or an archive of `export --raw`.  [default: those that ship "
    "with the repository]",
)
@click.option("--out", type=FILE, default="faultline-artifact.tar.gz", help="The archive.")
@json_option
def command(root: Path | None, out: Path, as_json: bool) -> None:
    """Write an archive for reviewers: appendix, source, records, checksums, a ten-minute path.

    The appendix has a row for each claim: command, time, memory, disk, measured number, rule and
    its place in the source."""
    from harness.pages.artifact import write_artifact
    from harness.results.archive import found
    from harness.results.library import SHIPPED
    from harness.results.provenance import describe_commit

    check_out(out.absolute().parent)
    source = root or SHIPPED
    found(source)
    if describe_commit().endswith("+"):
        to_stderr("files differ from the last commit: the archive has the commit's")
    count = write_artifact(
        source,
        out,
        title="the shipped results" if root is None else f"results of {source.name}",
        tell=elapsed_reporter(),
        warn=to_stderr,
    )
    size = out.stat().st_size
    lines = [
        f"{count} claims, {size / 1e6:.1f} MB: {out}",
        f"a reviewer begins with: tar xzf {out.name} && sh faultline-artifact/ten-minutes.sh",
    ]
    show({"archive": str(out), "claims": count, "bytes": size}, lines, as_json=as_json)
