"""``faultline site``: results as static pages, with filters and a page for every kill."""

from __future__ import annotations

from pathlib import Path

import click

from harness.cli.output import emit_json, json_option

_EPILOG = """\b
Examples:
  ./faultline site
  ./faultline site --from results/baselines --out shipped
  ./faultline site --from results --from other.zip --out both
  ./faultline site --shipped
"""


@click.command("site", epilog=_EPILOG)
@click.option(
    "--from",
    "sources",
    multiple=True,
    type=click.Path(exists=True, path_type=Path),
    metavar="SET",
    help="Results to show: a directory, or an archive of `export --raw`, of any machine; "
    "repeatable.  [default: results/ of this checkout, or those that ship with it]",
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where the pages go.  [default: results/site/ of this checkout]",
)
@click.option(
    "--shipped", is_flag=True, help="Write the pages of the shipped set to their own place."
)
@json_option
def command(sources: tuple[Path, ...], out: Path | None, shipped: bool, as_json: bool) -> None:
    """Write results as static pages; open index.html in a browser, no server is needed.

    They show the report's figures and verdicts with filters (the choice stands in the address),
    every measured point, every kill on a time axis, and published numbers beside these."""
    import tempfile
    import time

    from harness.cli.measure import check_out
    from harness.cli.options import DEFAULT_OUT
    from harness.errors import UsageError
    from harness.results.archive import records, unpacked
    from harness.results.library import SHIPPED
    from harness.site.build import Set, write_site
    from harness.site.digest import SHIPPED_SITE

    if shipped and (sources or out):
        raise UsageError(
            "--shipped has a set and a place of its own", remedy="leave out --from and --out"
        )
    if shipped:
        sources, out = (SHIPPED,), SHIPPED_SITE
    if not sources:
        own = next(iter(records(DEFAULT_OUT)), None)
        sources = (DEFAULT_OUT if own is not None else SHIPPED,)
        if own is None:
            click.echo("nothing was measured here yet: these are the shipped results", err=True)
    into = out or DEFAULT_OUT / "site"
    check_out(into)
    began_s = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        sets = [
            Set(root=unpacked(source, Path(scratch) / str(number)), label=_label(source))
            for number, source in enumerate(sources)
        ]
        for each in sets:
            if next(iter(records(each.root)), None) is None:
                raise UsageError(
                    f"there are no records in {each.label}",
                    remedy="name the directory that holds records/, or an archive of it",
                )
        written = write_site(
            sets,
            into,
            tell=lambda text: click.echo(f"{time.monotonic() - began_s:6.0f} s  {text}", err=True),
        )
    for warning in written.warnings:
        click.echo(f"faultline: {warning}", err=True)
    size_mb = sum(path.stat().st_size for path in into.rglob("*") if path.is_file()) / 1e6
    if as_json:
        emit_json(
            {
                "index": str(written.index),
                "pages": len(written.pages),
                "kills": written.kills,
                "megabytes": size_mb,
                "warnings": list(written.warnings),
            }
        )
        return
    click.echo(f"{len(written.pages)} pages, {written.kills} kills, {size_mb:.1f} MB")
    click.echo(f"open {written.index}")


def _label(source: Path) -> str:
    """Return the name of a set: its path within this checkout, or its last part."""
    from harness.results.provenance import ROOT

    path = source.absolute()
    return path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else source.name
