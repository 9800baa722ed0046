"""``faultline mutants``: do the tests notice a small mistake."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.cli.output import emit_json, json_option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.mutants.hunt import Result

_EPILOG = """\b
Examples:
  ./faultline mutants harness/planning
  ./faultline mutants harness/protocol --count 40 --seed 7 --json
  ./faultline mutants harness/judging/outcome.py --count 1000
"""


@click.command(
    "mutants", epilog=_EPILOG, short_help="Do the tests notice small mistakes in the code?"
)
@click.argument(
    "paths", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="PATH..."
)
@click.option(
    "--count", type=click.IntRange(min=1), default=22, show_default=True, help="How many mistakes."
)
@click.option("--seed", type=int, default=None, help="Decides which.  [default: 20160516]")
@click.option(
    "--at-least",
    type=click.FloatRange(0.0, 1.0),
    default=None,
    help="Exit with 1 if a smaller share of them is noticed, such as 0.9.",
)
@json_option
def command(
    paths: tuple[Path, ...], count: int, seed: int | None, at_least: float | None, as_json: bool
) -> None:
    """Put small mistakes into the modules or packages PATH, one at a time, and run their tests.

    A mistake reverses one comparison, arithmetic sign, or `and` and `or`. The tests are those of
    the module's package that need no server and are not slow. All of it happens in a copy of the
    tree.

    Exit code: 0 done, 1 fewer were noticed than asked for, 2 wrong use, 3 the tests of a module
    failed without any mistake, so none was tried there.

    Some mistakes have no effect (a `<` in the place of `<=` where equality never occurs): a
    mistake that no test noticed is a place to look, not a proof that a test is missing.
    """
    from harness.environment.cache import to_stderr
    from harness.mutants.hunt import Fate, draw, hunt, modules
    from harness.results.provenance import ROOT
    from harness.seeds import DEFAULT_SEED

    mistakes = draw(ROOT, modules(ROOT, paths), count, DEFAULT_SEED if seed is None else seed)
    found = hunt(
        ROOT,
        mistakes,
        report=to_stderr,
        result=lambda each: to_stderr(f"{each.fate}: {each.change}"),
    )
    tried = [each for each in found if each.fate is not Fate.UNTRIED]
    noticed = sum(each.noticed for each in tried)
    if as_json:
        emit_json(_document(found))
    else:
        for each in found:
            if not each.noticed:
                click.echo(f"{each.fate}  {each.change}")
        click.echo(f"{noticed} of {len(tried)} mistakes were noticed")
    if at_least is not None and noticed < at_least * len(tried):
        sys.exit(1)
    sys.exit(3 if len(tried) < len(found) else 0)


def _document(found: Sequence[Result]) -> dict[str, object]:
    return {
        "noticed": sum(each.noticed for each in found),
        "mistakes": [
            {
                "path": str(each.change.path),
                "line": each.change.line,
                "right": each.change.right,
                "wrong": each.change.wrong,
                "text": each.change.text,
                "fate": each.fate.value,
                "seconds": each.seconds,
            }
            for each in found
        ],
    }
