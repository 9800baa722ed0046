"""``faultline site``: results as static pages, with filters and a page for every kill."""

from __future__ import annotations

from pathlib import Path

import click

from harness.cli.options import DEFAULT_OUT, FOLDER, THERE
from harness.cli.output import check_out, elapsed_reporter, json_option, show
from harness.errors import UsageError
from harness.text import Notify

_EPILOG = """\b
Examples:
  ./faultline site
  ./faultline site --from results/baselines --out shipped
  ./faultline site --from results --from other.zip --out both
  ./faultline site --shipped                 the shipped set's pages again
  ./faultline site --shipped --from results  a new set in its place: one archive, verdicts, pages
"""
_MOST_BYTES = 20_000_000
"""Bytes of the shipped series before they are deflated; the largest deliveries are left out."""


@click.command("site", epilog=_EPILOG)
@click.option(
    "--from",
    "sources",
    multiple=True,
    type=THERE,
    metavar="SET",
    help="Results to show: a directory, or an archive of `export --raw`, of any machine; "
    "repeatable.  [default: results/ of this checkout, or those that ship with it]",
)
@click.option(
    "--out", type=FOLDER, help="Where the pages go.  [default: results/site/ of this checkout]"
)
@click.option(
    "--shipped",
    is_flag=True,
    help="Write the pages of the shipped set to their own place; with --from, first put that set "
    "in its place.",
)
@json_option
def command(sources: tuple[Path, ...], out: Path | None, shipped: bool, as_json: bool) -> None:
    """Write results as static pages; open index.html in a browser, no server is needed.

    They show the report's figures and verdicts with filters (the choice stands in the address),
    every measured point, every kill on a time axis, and published numbers beside these."""
    from harness.pages.answers import in_readme
    from harness.pages.site import SHIPPED_SITE, Set, write_site
    from harness.results.archive import found, records
    from harness.results.library import SHIPPED
    from harness.results.provenance import ROOT

    tell = elapsed_reporter()
    if shipped and (out or len(sources) > 1):
        raise UsageError(
            "--shipped has a place of its own and takes one set",
            remedy="leave out --out, and give --from at most once",
        )
    if shipped:
        if sources:
            _ship(sources[0], tell)
        sources, out = (SHIPPED,), SHIPPED_SITE
    if not sources:
        own = next(iter(records(DEFAULT_OUT)), None)
        sources = (DEFAULT_OUT if own is not None else SHIPPED,)
        if own is None:
            click.echo("nothing was measured here yet: these are the shipped results", err=True)
    into = out or DEFAULT_OUT / "site"
    check_out(into)
    sets = [Set(root=source, label=_label(source)) for source in sources]
    for each in sets:
        found(each.root)
    written = write_site(sets, into, tell=tell)
    if shipped:
        readme = ROOT / "README.md"
        site = SHIPPED_SITE.relative_to(ROOT).as_posix()
        readme.write_text(in_readme(readme.read_text(), written.findings, site))
    for warning in written.warnings:
        click.echo(f"faultline: {warning}", err=True)
    size_mb = sum(path.stat().st_size for path in into.rglob("*") if path.is_file()) / 1e6
    document = {
        "index": str(written.index),
        "pages": len(written.pages),
        "kills": written.kills,
        "megabytes": size_mb,
        "warnings": list(written.warnings),
    }
    counts = f"{len(written.pages)} pages, {written.kills} kills, {size_mb:.1f} MB"
    show(document, [counts, f"open {written.index}"], as_json=as_json)


def _ship(source: Path, tell: Notify) -> None:
    """Put a set in the place of the shipped one: its records in one file, and their verdicts.

    The verdicts are those of the packed records, as on the pages."""
    import shutil

    from harness.pages.sentences import claims_json
    from harness.pages.walk import assessments
    from harness.results.archive import CLAIMS, PACKED, pack_to_ship
    from harness.results.library import SHIPPED
    from harness.results.store import RecordStore

    count, left_out = pack_to_ship(source, SHIPPED / PACKED, most_bytes=_MOST_BYTES)
    shutil.rmtree(SHIPPED / "records", ignore_errors=True)
    tell(f"{count} records in {SHIPPED / PACKED}; {len(left_out)} of the largest series left out")
    judged = assessments(RecordStore(SHIPPED, warn=tell), tell=tell)
    (SHIPPED / CLAIMS).parent.mkdir(exist_ok=True)
    (SHIPPED / CLAIMS).write_text(claims_json(judged))


def _label(source: Path) -> str:
    """Return the name of a set: its path within this checkout, or its last part."""
    from harness.results.provenance import ROOT

    path = source.absolute()
    return path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else source.name
