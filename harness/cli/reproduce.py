"""``faultline reproduce``: every figure, or those of one paper."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from harness.cli.options import run_options, settings_from
from harness.cli.output import json_option

_EPILOG = """\b
Examples:
  ./faultline reproduce
  ./faultline reproduce --profile smoke
  ./faultline reproduce --paper ppa --dry-run
  ./faultline reproduce --profile paper --repeats 5 --out /data/faultline
"""


@click.command("reproduce", epilog=_EPILOG, short_help="Reproduce the papers' figures.")
@click.option(
    "--paper",
    type=click.Choice(["ppa", "intervals", "edge", "dpc", "stock"]),
    help="Only the figures of this paper (stock: Faultline's own, on stock Spark).",
)
@run_options
@json_option
def command(
    paper: str | None,
    profile: str,
    backend: str,
    seed: int,
    repeats: int | None,
    out: Path,
    failures: Path | None,
    text: tuple[Path, ...],
    again: bool,
    strict: bool,
    conf: tuple[str, ...],
    keep: bool,
    dry_run: bool,
    verbose: bool,
    as_json: bool,
) -> None:
    """Run every experiment, cheapest first, and write the report after each.

    The smoke profile leaves out the few experiments of which another one's smoke run shows
    everything; ./faultline run makes them by name.

    Interrupt it whenever you like: the same command goes on where it stopped. Exit code: 0 done,
    1 an invariant failed (with --strict also a paper's claim), 2 wrong use, 3 the environment
    failed.
    """
    from harness.catalogue import to_reproduce
    from harness.cli.measure import measure

    settings = settings_from(
        profile=profile,
        seed=seed,
        repeats=repeats,
        again=again,
        experiment_options={"failures": failures, "text": list(text), "conf": list(conf)},
    )
    sys.exit(
        measure(
            to_reproduce(paper, settings.profile),
            settings,
            out=out,
            backend=backend,
            strict=strict,
            keep=keep,
            dry_run=dry_run,
            verbose=verbose,
            as_json=as_json,
        )
    )
