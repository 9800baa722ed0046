"""Errors of the nightly gate: false alarms on equal code, and slowdowns that it finds.

::

    .venv/bin/python -P -m benchmarks.gate_study --nights 30   # measure: half a minute each
    .venv/bin/python -P -m benchmarks.gate_study --write       # renew the table in docs/nightly.md

Each night runs the whole gate, second looks included, on this checkout against itself. In a null
night both sides are equal. In a planted night every metric of tonight's side costs a share more
(`harness.nightly.sampling.PLANTED`), a different share for each metric. Outcomes are appended to
``docs/gate-study.jsonl``, one line a comparison; an interrupted study continues."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from harness.environment.cache import to_stderr
from harness.nightly.gate import PAIRS, compare_sides
from harness.nightly.metrics import chosen
from harness.nightly.revisions import working_tree
from harness.nightly.statistics import Change
from harness.results.provenance import ROOT, describe_commit, describe_machine
from harness.seeds import DEFAULT_SEED, derive_seed

OUTCOMES = ROOT / "docs" / "gate-study.jsonl"
PAGE = ROOT / "docs" / "nightly.md"
SHARES = (0.05, 0.1, 0.2, 0.5)
NULL_NIGHTS, PLANTED_NIGHTS = 25, 5
BEGIN, END = "<!-- study -->", "<!-- end of study -->"
LOOPS = chosen(
    (
        "output_fidelity",
        "plan_structure_aware",
        "plan_greedy",
        "plan_dynamic_programming",
        "simulator_kernel",
        "load_generator",
        "codec",
        "decode_log",
    )
)
"""The cheaper ones, so that a night takes half a minute; eight comparisons a night."""


def planted(night: int) -> Mapping[str, float]:
    """Return the extra cost of each metric in a night: nothing in a null night."""
    if night < NULL_NIGHTS:
        return {}
    shift = night - NULL_NIGHTS
    return {loop.name: SHARES[(place + shift) % len(SHARES)] for place, loop in enumerate(LOOPS)}


def run(night: int) -> list[dict[str, Any]]:
    """Make every comparison of one night."""
    shares, here = planted(night), working_tree()
    began, load = time.time(), os.getloadavg()[0]
    _, judged = compare_sides(
        LOOPS,
        here,
        replace(here, planted=shares),
        last=None,
        pairs=PAIRS,
        seed=derive_seed(DEFAULT_SEED, "study", night),
        report=lambda text: None,
    )
    machine = describe_machine()
    return [
        {
            "night": night,
            "metric": loop.name,
            "planted": shares.get(loop.name, 0.0),
            "verdict": judged[loop.name].verdict.value,
            **_numbers(judged[loop.name].comparison),
            "looked_twice": judged[loop.name].screened is not None,
            "load": [load, os.getloadavg()[0]],
            "seconds": time.time() - began,
            "machine": f"{machine['cpu']}, {machine['cores']} cores",
            "commit": describe_commit(),
        }
        for loop in LOOPS
    ]


def _numbers(found: Any) -> dict[str, float | None]:
    return {name: getattr(found, name, None) for name in ("ratio", "low", "high")}


def table(outcomes: Sequence[Mapping[str, Any]]) -> str:
    """Return the outcomes as a table in Markdown."""
    lines = [
        "| slowdown of tonight's code | comparisons | called worse (95 % interval) "
        "| called better | median ratio measured |",
        "|---|---|---|---|---|",
    ]
    for share in (0.0, *SHARES):
        mine = [each for each in outcomes if each["planted"] == share]
        if not mine:
            continue
        worse = sum(each["verdict"] == Change.WORSE for each in mine)
        better = sum(each["verdict"] == Change.BETTER for each in mine)
        ratios = sorted(each["ratio"] for each in mine)
        name = f"{share:.0%}" if share else "none (equal code)"
        lines.append(
            f"| {name} | {len(mine)} | {_share(worse, len(mine))} | {better} "
            f"| {ratios[len(ratios) // 2]:.3f} |"
        )
    first = outcomes[0]
    loads = sorted(load for each in outcomes for load in each["load"])
    nights = len({each["night"] for each in outcomes})
    commits = ", ".join(sorted({each["commit"] for each in outcomes}))
    minutes = sum({each["night"]: each["seconds"] for each in outcomes}.values()) / 60
    lines += [
        "",
        f"Machine: {first['machine']}. While it ran, the number of processes that wanted a core "
        f"(one-minute load) was {loads[0]:.1f} to {loads[-1]:.1f}, half of the time above "
        f"{loads[len(loads) // 2]:.1f}: it was shared with other work. {nights} of the "
        f"{NULL_NIGHTS + PLANTED_NIGHTS} nights of the study are done and took {minutes:.0f} "
        f"minutes. Commits: {commits}.",
    ]
    return "\n".join(lines)


def _share(count: int, of: int) -> str:
    """Return text like ``9 of 10 (56 % to 100 %)``, with Clopper and Pearson's exact interval."""
    from scipy.stats import binomtest

    interval = binomtest(count, of).proportion_ci(0.95, method="exact")
    return f"{count} of {of} ({100 * interval.low:.1f} % to {100 * interval.high:.1f} %)"


def read(path: Path = OUTCOMES) -> list[dict[str, Any]]:
    """Return the outcomes so far."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def page(text: str, outcomes: Sequence[Mapping[str, Any]]) -> str:
    """Return the page with the table between its marks."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table(outcomes)}\n{END}{after}"


@click.command()
@click.option("--nights", default=0, help="How many more nights to run.")
@click.option("--write", is_flag=True, help="Renew the table of docs/nightly.md.")
def command(nights: int, write: bool) -> None:
    """Study the nightly gate."""
    for _ in range(nights):
        done = {each["night"] for each in read()}
        left = [n for n in range(NULL_NIGHTS + PLANTED_NIGHTS) if n not in done]
        if not left:
            break
        # Planted nights are spread among the others, in case the machine's load changes.
        night = left[-1] if len(left) % 6 == 0 else left[0]
        found = run(night)
        with OUTCOMES.open("a") as file:
            file.writelines(json.dumps(each) + "\n" for each in found)
        called = [each["metric"] for each in found if each["verdict"] != Change.NO_CHANGE]
        to_stderr(f"night {night}: {found[0]['seconds']:.0f} s; called: {', '.join(called)}")
    if write:
        PAGE.write_text(page(PAGE.read_text(), read()))
    sys.exit(0)


if __name__ == "__main__":
    command()
