"""``faultline compare``: sets of results side by side, of several machines or kinds of cluster."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harness.cli.options import THERE, demand_runs
from harness.cli.output import json_option, show
from harness.cluster.backends import DEFAULT, name_of
from harness.errors import UsageError
from harness.results.record import OK

if TYPE_CHECKING:
    from harness.results.library import Library
    from harness.results.store import StoredRecord

_EPILOG = """\b
Examples:
  ./faultline compare results /data/other/results
  ./faultline compare results old --experiment stock/worker-kill
  ./faultline compare results old --experiment stock --json
  ./faultline compare results --cluster local --with docker --with lab.yaml
  ./faultline compare results --cluster local --with docker --claims
  ./faultline compare monday.zip tuesday.zip --differing
"""


@click.command("compare", epilog=_EPILOG)
@click.argument("one", type=THERE)
@click.argument("other", type=THERE, required=False)
@click.option("--experiment", help="Only this experiment, or this group.")
@click.option("--profile", help="Only this profile.")
@click.option(
    "--cluster",
    "backend",
    metavar="NAME",
    help="Only the runs of ONE on this kind of cluster, and those that need no cluster. A "
    "FILE.yaml that describes a cluster is a kind of its own.",
)
@click.option(
    "--with",
    "others",
    metavar="NAME",
    multiple=True,
    help="Only the runs of OTHER (of ONE, if it is alone) on this kind of cluster; repeatable.",
)
@click.option("--claims", "claims_alone", is_flag=True, help="Only the claims, no numbers.")
@click.option("--differing", is_flag=True, help="Only the claims that are decided differently.")
@json_option
def command(
    one: Path,
    other: Path | None,
    experiment: str | None,
    profile: str | None,
    backend: str | None,
    others: tuple[str, ...],
    claims_alone: bool,
    differing: bool,
    as_json: bool,
) -> None:
    """Compare the medians of every quantity in the results ONE and OTHER.

    Each is a directory, or an archive of `export --raw`.

    Only valid runs of the same point are compared. Runs on different kinds of cluster are never
    pooled: of several kinds in a directory the local one is taken, or choose with --cluster or
    --with. A run with several passes is compared pass by pass. The verdicts on every claim follow
    the numbers, with the median, the 95 % interval and the number of the samples behind it; one
    that holds on one side and not on another is marked. What is undecided differs from nothing.

    The command shows differences, not whether they matter. `./faultline nightly` decides that,
    because it measures how much runs of the same code differ."""
    from harness.pages.sides import differ, verdicts
    from harness.results import load

    if other is None and not others:
        raise UsageError(
            "there is only one set of results",
            remedy="give another directory, or kinds of cluster with --cluster and --with",
        )
    wanted = [
        (one, _kind(backend), "--cluster"),
        *((other or one, _kind(name), "--with") for name in others or (None,)),
    ]
    found = {
        root: load(root, experiment=experiment, profile=profile)
        for root in dict.fromkeys(root for root, _, _ in wanted)
    }
    demand_runs(experiment, found.values())
    sides = [_on(found[root], name, option) for root, name, option in wanted]
    judged = verdicts([side.found for side in sides])
    claims = [row for row in judged if differ(row)] if differing else judged
    numbers = not (claims_alone or differing)
    rows = comparison(sides) if numbers else []
    roots = [root for root, _, _ in wanted]
    lines = [
        *(f"({n + 1}) {root}; {_where(sides[n])}" for n, root in enumerate(roots)),
        *(_number_lines(rows, len(sides)) if numbers else ()),
        *_claim_lines(claims, len(sides)),
        _count_line(judged),
    ]
    described = [
        {"results": str(root), "clusters": _kinds(side)}
        for root, side in zip(roots, sides, strict=True)
    ]
    show({"sides": described, "quantities": rows, "claims": claims}, lines, as_json=as_json)


def _kind(name: str | None) -> str | None:
    """Return the name that records have; for a file, that of the cluster which it describes."""
    return name_of(name) if name else None


def _number_lines(rows: Sequence[Mapping[str, Any]], sides: int) -> Iterator[str]:
    """Yield a block per point: a line per quantity, a column per side."""
    for (experiment, profile, point), mine in groupby(
        rows, itemgetter("experiment", "profile", "point")
    ):
        yield f"\n{experiment} ({profile}) {point}"
        yield " " * 30 + "".join(f"{f'({side})':>12}{'':12}" for side in range(1, sides + 1))
        for row in mine:
            columns = "".join(map(_cell, row["medians"], row["ratios"]))
            yield f"  {row['quantity']:<28}{columns}  runs: {', '.join(map(str, row['runs']))}"
    if not rows:
        yield "no point has valid runs with numbers in several of them"


def _claim_lines(claims: Sequence[Mapping[str, Any]], sides: int) -> Iterator[str]:
    """Yield a block per experiment: a line or two per claim, a column per side."""
    from harness.pages.sides import differ

    for (experiment, profile), mine in groupby(claims, itemgetter("experiment", "profile")):
        rows = list(mine)
        yield f"\n{experiment} ({profile}): claims"
        yield "  " + "".join(f"{f'({side})':<15}" for side in range(1, sides + 1))
        counts = (f"{valid} of {rows[0]['expected']} runs" for valid in rows[0]["valid"])
        yield "  " + "".join(f"{count:<15}" for count in counts).rstrip()
        for row in rows:
            columns = "".join(f"{word:<15}" for word in row["verdicts"])
            yield f"{'≠' if differ(row) else ' '} {columns}{row['kind']}: {row['claim']}"
            if any(row["samples"]):
                yield "    " + "; ".join(map(_sample, row["samples"]))


def _count_line(claims: Sequence[Mapping[str, Any]]) -> str:
    """Return how many claims are decided by every side, and how many differently."""
    from harness.pages.sides import differ

    if not claims:
        return "no claim is judged by several of them"
    decided = [row for row in claims if {*row["verdicts"]} <= {"holds", "does not hold"}]
    return (
        f"\n{len(claims)} claims; {len(decided)} decided by every side, "
        f"{sum(map(differ, claims))} differently (≠)"
    )


def _sample(numbers: Sequence[float | None] | None) -> str:
    if numbers is None:
        return "–"
    value, low, high, count = numbers
    interval = "" if low is None else f" [{low:z.3g}, {high:z.3g}]"
    return f"{value:z.3g}{interval} of {count}"


def _cell(median: float | None, ratio: float | None) -> str:
    if median is None:
        return f"{'–':>12}{'':12}"
    shown = "" if ratio is None else f"({ratio:.3g} times)"
    return f"{median:>12.5g} {shown:<11}"


def _on(side: Library, backend: str | None, option: str) -> Library:
    """Return the runs on one kind of cluster, and those that need none.

    Of several kinds without a choice it is the default one, which is said. Raises `UsageError` if
    that is not among them, or if there is none of the chosen kind."""
    kinds = _kinds(side)
    if backend is None and len(kinds) > 1 and DEFAULT in kinds:
        others = ", ".join(kind for kind in kinds if kind != DEFAULT)
        click.echo(f"only runs on {DEFAULT} are compared; {option} chooses {others}", err=True)
        backend = DEFAULT
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


def comparison(sides: Sequence[Library]) -> list[dict[str, Any]]:
    """Return a row per experiment, profile, point and quantity of the first side and another one.

    A row has the medians and numbers of runs by side, and the ratios of medians to the first side.
    A median that a side lacks is None, as is a ratio to nothing."""
    found = [_medians(side) for side in sides]
    rows = []
    for key in sorted(found[0].keys() & set().union(*found[1:])):
        medians, runs = zip(*(side.get(key, (None, 0)) for side in found), strict=True)
        base, *others = medians
        ratios = [None if median is None or not base else median / base for median in others]
        experiment, profile, point, quantity = key
        rows.append(
            {
                "experiment": experiment,
                "profile": profile,
                "point": point,
                "quantity": quantity,
                "medians": medians,
                "ratios": [None, *ratios],
                "runs": runs,
            }
        )
    return rows


def _medians(side: Library) -> dict[tuple[str, str, str, str], tuple[float, int]]:
    """Return the median over the valid runs, and their number, of every quantity but facts.

    The key is experiment, profile, point and quantity."""
    from statistics import median

    from harness.measure.facts import FACTS

    values: dict[tuple[str, str, str, str], list[float]] = {}
    for each in side.found:
        if each.record.status != OK:
            continue
        for point, quantities in _passes(each):
            for quantity, value in quantities.items():
                number = isinstance(value, int | float) and not isinstance(value, bool)
                fact = quantity in FACTS or quantity.removeprefix("twin_") in FACTS
                if number and math.isfinite(value) and not fact:
                    key = (each.record.experiment, str(each.record.profile), point, quantity)
                    values.setdefault(key, []).append(float(value))
    return {key: (median(found), len(found)) for key, found in values.items()}


def _passes(each: StoredRecord) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the point and values of a run, and those of each variant if it had several passes."""
    from harness.results.tables import variants

    point = " ".join(f"{name}={value}" for name, value in sorted(each.record.point.items()))
    yield point, each.record.values
    for variant, values in variants(each.directory):
        yield f"{point} {variant}", values


def _kinds(side: Library) -> list[str]:
    return sorted({each.record.backend for each in side.found} - {""})


def _where(side: Library) -> str:
    machines = sorted({each.machine_name for each in side.found})
    commits = sorted({each.record.commit[:12] for each in side.found})
    kinds = _kinds(side)
    where = f" ({', '.join(kinds)})" if kinds else ""
    return f"{len(side.found)} runs on {', '.join(machines)}{where}, commits {', '.join(commits)}"
