"""``faultline compare``: two results directories side by side, also of different machines, or two
kinds of cluster in one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harness.cli.output import emit_json, json_option
from harness.errors import UsageError

if TYPE_CHECKING:
    from harness.results.library import Library

_EPILOG = """\b
Examples:
  ./faultline compare results /data/other/results
  ./faultline compare results old --experiment stock/worker-kill
  ./faultline compare results old --experiment stock --json
  ./faultline compare results --cluster local --with docker
"""
_SHORTEST = 12
"""Characters of a commit that are enough to tell it by."""


@click.command("compare", epilog=_EPILOG, short_help="Compare two sets of results.")
@click.argument("one", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument(
    "other", type=click.Path(exists=True, file_okay=False, path_type=Path), required=False
)
@click.option("--experiment", help="Only this experiment, or this group.")
@click.option("--profile", help="Only this profile.")
@click.option(
    "--cluster",
    "backend",
    metavar="NAME",
    help="Of ONE, only runs on this kind of cluster, and those that need none.",
)
@click.option(
    "--with",
    "other_backend",
    metavar="NAME",
    help="Of OTHER (or of ONE, if it is alone), only runs on this kind of cluster.",
)
@json_option
def command(
    one: Path,
    other: Path | None,
    experiment: str | None,
    profile: str | None,
    backend: str | None,
    other_backend: str | None,
    as_json: bool,
) -> None:
    """Compare the medians of every quantity in the results directories ONE and OTHER.

    Only valid runs of the same point are compared, and runs on different kinds of cluster are never
    pooled: where a directory holds several kinds, say which is meant. The command shows what
    differs, not whether it matters: `./faultline nightly` does that, because it knows how much runs
    of the same code differ.
    """
    from harness.results import load

    if other is None and other_backend is None:
        raise UsageError(
            "there is only one set of results",
            remedy="give another directory, or two kinds of cluster with --cluster and --with",
        )
    roots = (one, other or one)
    found = [load(root, experiment=experiment, profile=profile) for root in roots]
    sides = [
        _on(side, name, option)
        for side, name, option in zip(
            found, (backend, other_backend), ("--cluster", "--with"), strict=True
        )
    ]
    rows = comparison(*sides)
    if as_json:
        emit_json({"one": str(one), "other": str(roots[1]), "quantities": rows})
        return
    for name, root, side in zip(("one", "other"), roots, sides, strict=True):
        click.echo(f"{name}: {root}; {_where(side)}")
    last = None
    for row in rows:
        if (row["experiment"], row["profile"], row["point"]) != last:
            last = (row["experiment"], row["profile"], row["point"])
            click.echo(f"\n{row['experiment']} ({row['profile']}) {row['point']}")
        ratio = "" if row["ratio"] is None else f"  {row['ratio']:.3g} times"
        click.echo(
            f"  {row['quantity']:<28} {row['one']:>12.5g} {row['other']:>12.5g}{ratio}"
            f"  ({row['runs_one']} and {row['runs_other']} runs)"
        )
    if not rows:
        click.echo("no point has valid runs with numbers in both")


def _on(side: Library, backend: str | None, option: str) -> Library:
    """What was run on one kind of cluster, or on none. Raises `UsageError` where it is not said
    which of several, or where there is nothing of that kind."""
    kinds = sorted({each.record.backend for each in side.found} - {""})
    if backend is None and len(kinds) > 1:
        raise UsageError(
            f"these results are of several kinds of cluster ({', '.join(kinds)}), which are never "
            "taken together",
            remedy=f"say which with {option}",
        )
    if backend is not None and backend not in kinds:
        raise UsageError(
            f"{option} {backend}: no run was made on that kind of cluster",
            remedy=f"there are runs on {', '.join(kinds) or 'none'}",
        )
    wanted = ("", *kinds) if backend is None else ("", backend)
    return replace(side, found=[each for each in side.found if each.record.backend in wanted])


def comparison(one: Library, other: Library) -> list[dict[str, Any]]:
    """A row per experiment, profile, point and quantity that both have: both medians."""
    found = [_medians(side) for side in (one, other)]
    rows = []
    for key in sorted(found[0].keys() & found[1].keys()):
        (left, runs_left), (right, runs_right) = found[0][key], found[1][key]
        experiment, profile, point, quantity = key
        rows.append(
            {
                "experiment": experiment,
                "profile": profile,
                "point": point,
                "quantity": quantity,
                "one": left,
                "other": right,
                "ratio": right / left if left else None,
                "runs_one": runs_left,
                "runs_other": runs_right,
            }
        )
    return rows


def _medians(side: Library) -> dict[tuple[str, str, str, str], tuple[float, int]]:
    """By experiment, profile, point and quantity, facts left out: the median over the valid runs,
    and how many runs there were."""
    from statistics import median

    from harness.measure.facts import FACTS
    from harness.results.record import OK

    values: dict[tuple[str, str, str, str], list[float]] = {}
    for each in side.found:
        record = each.record
        if record.status != OK:
            continue
        point = " ".join(f"{name}={value}" for name, value in sorted(record.point.items()))
        for quantity, value in record.values.items():
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if number and quantity.removeprefix("twin_") not in FACTS and quantity not in FACTS:
                key = (record.experiment, str(record.profile), point, quantity)
                values.setdefault(key, []).append(float(value))
    return {key: (median(found), len(found)) for key, found in values.items()}


def _where(side: Library) -> str:
    """Machines and commits of a side, in words."""
    machines = sorted({each.machine_name for each in side.found})
    commits = sorted({each.record.commit[:_SHORTEST] for each in side.found})
    kinds = sorted({each.record.backend for each in side.found} - {""})
    where = f" ({', '.join(kinds)})" if kinds else ""
    return f"{len(side.found)} runs on {', '.join(machines)}{where}, commits {', '.join(commits)}"
