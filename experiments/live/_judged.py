"""Tables and claims that several live figures share: the judge's findings, and the simulator's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from experiments.live._topology import PACED, SIMULATED
from harness.claims import Claim, Finding, Rule, every, hypothesis, invariant
from harness.results.tables import Results
from harness.seeds import DEFAULT_SEED

Tables = Mapping[str, pd.DataFrame]
CHECKED = ["output_equals_truth", "output_equals_twin", "contradictions", "kills_done"]
"""Columns of `harness.judging.run.together`'s table of passes that `equal_output` reads."""
FAR = 2.0
"""Simulated and measured latency are near if neither is more than this many times the other, or if
they are less than `NEAR_S` apart."""
NEAR_S = 0.1
"""Time of the measured run that finding and opening a checkpoint takes on Kafka and Redis, which
the simulator does not have."""
CHANGED = Rule(version=2, since="2026-11-22", seen_seeds=(DEFAULT_SEED,))
"""Rules that were changed after a set of results had been seen.

Recoveries of several nodes count from when all of them are found (version 1: the first), and the
task engine is compared with a stock engine that keeps up at any latency (version 1: at most 1 s).
A verdict on that seed is post hoc."""
MACHINE = "6 nodes of 2 racks on one machine"


def all_if(known: Any, cells: Any) -> bool | None:
    """Return True if every one of ``cells`` is; None unless ``known``."""
    return bool(np.all(cells)) if known else None


def numbers(values: Mapping[Any, Any], name: str = "{}") -> dict[str, Any]:
    """Return ``values`` with ``name``, formatted with their keys, as keys."""
    return {name.format(key): value for key, value in values.items()}


def in_time(faster: float) -> str:
    """Return an axis' addition where a run is ``faster`` than the papers'."""
    return "" if faster == 1 else f"\nall times are 1/{faster:g} of the papers'"


def fastest(table: pd.DataFrame) -> float:
    """Return how many times faster than in the papers the runs of a table are; 1 without runs."""
    return float(table["faster"].max()) if len(table) else 1.0


def passes_of(results: Results, by: Sequence[str], *more: str) -> pd.DataFrame:
    """Return the judge's findings by pass: the parameters ``by``, `CHECKED`, and ``more``."""
    wanted = [*by, "variant", *CHECKED, "difference_from_truth", *more]
    return results.series("variants", by).reindex(columns=wanted)


@invariant(
    "equal-output",
    "In every pass nodes were really killed, and the stable output equals the twin's and the truth",
)
def equal_output(tables: Tables) -> Finding:
    """Judge the passes, without those for which no failure was planned."""
    passes = tables["passes"]
    if "failures_planned" in passes:
        passes = passes[pd.to_numeric(passes["failures_planned"]) > 0]
    good = passes["output_equals_truth"].eq(True) & passes["output_equals_twin"].eq(True)
    good &= passes["contradictions"].eq(0) & (pd.to_numeric(passes["kills_done"]) >= 1)
    bad = passes[~good].to_dict("records")
    others = [f"{one['variant']}: {one['difference_from_truth']}" for one in bad]
    return every(good, passes=len(passes), equal=int(good.sum()), others=others)


def right_output(kills_of: Callable[[Any], pd.DataFrame]) -> Claim:
    """Claim that output under the kills in ``kills_of(table)`` is right."""
    text = "Stable output under kills equals every batch computed once and in order."

    @invariant("right-output", text)
    def claim(table: pd.DataFrame) -> Finding:
        kills = kills_of(table)
        wrong = int(kills["failures"].max()) if len(kills) else None
        return every(kills["failures"].eq(0), wrong=wrong, kills=len(kills))

    return claim


def simulated_near(*cell: str) -> Claim:
    """Claim that simulated and measured latency are near; ``cell``: columns that name a case."""

    @hypothesis(
        "simulated-near-measured",
        f"Simulated and measured latency differ by at most a factor of {FAR:g} or {NEAR_S:g} s",
        because="Each simulated node has cores of its own. Here the cores of one machine presumably"
        " take back the memory of 15 killed processes while 15 tasks take over, or find, read and "
        "open their checkpoints. The simulator does not have that time, and it weighs ten times as "
        "much where all times are a tenth of the papers'.",
    )
    def claim(tables: Tables) -> Finding:
        latencies = tables["latencies"].set_index([*cell, "engine"])["mean"].astype(float)
        wide = latencies.unstack("engine").reindex(columns=[PACED, SIMULATED]).dropna()
        apart, ratio = (wide[PACED] - wide[SIMULATED]).abs(), wide[PACED] / wide[SIMULATED]
        factor = ratio.where(ratio >= 1, 1 / ratio)
        near = (apart <= NEAR_S) | (factor <= FAR)
        return every(
            near,
            median_measured_by_simulated=float(ratio.median()) if len(near) else None,
            largest_difference_s=float(apart.max()) if len(near) else None,
            farthest=", ".join(map(str, wide.index[int(factor.argmax())])) if len(near) else None,
            pairs_near=int(near.sum()),
            pairs=len(near),
            tolerance=f"a factor of {FAR:g} or {NEAR_S} s",
        )

    return claim
