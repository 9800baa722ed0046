"""What the live figures of several passes share: what the judge must say of each, and how far what
was measured may be from what was simulated."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from experiments.live._topology import PACED, SIMULATED
from harness.claims import ClaimKind, Verdict
from harness.results.tables import Results

CHECKED = ["output_equals_truth", "output_equals_twin", "contradictions", "kills_done"]
"""Columns of `harness.judging.run.together`'s table of passes that `equal_output` reads."""
FAR = 2.0
"""Simulated and measured latency are near if neither is more than so many times the other, or if
they are less than `NEAR_S` apart."""
NEAR_S = 0.1
"""Of the time of the measured run: what finding and opening a checkpoint takes on Kafka and Redis,
which the simulator does not have."""


def in_time(faster: float) -> str:
    """What an axis says where a run is so many times faster than the papers'."""
    return "" if faster == 1 else f"\nall times are 1/{faster:g} of the papers'"


def passes_of(results: Results, by: Sequence[str], *more: str) -> pd.DataFrame:
    """What the judge says of each pass: of the run's parameters those in ``by``, what
    `equal_output` reads, and the columns ``more``; without runs a table with no row."""
    wanted = [*by, "variant", *CHECKED, "difference_from_truth", *more]
    return results.series("variants", by).reindex(columns=wanted)


def equal_output(passes: pd.DataFrame) -> Verdict:
    good = pd.Series(dtype=bool)
    if len(passes):
        good = (
            passes["output_equals_truth"].eq(True)
            & passes["output_equals_twin"].eq(True)
            & passes["contradictions"].eq(0)
            & (passes["kills_done"] >= 1)
        )
    bad = passes[~good] if len(passes) else passes
    return Verdict(
        text="In every pass nodes were really killed, and the stable output equals the twin's and "
        "the truth",
        kind=ClaimKind.INVARIANT,
        held=bool(good.all()) if len(passes) else None,
        measured={
            "passes": len(passes),
            "equal": int(good.sum()),
            "others": [
                f"{one['variant']}: {one['difference_from_truth']}"
                for one in bad.to_dict("records")
            ],
        },
    )


def near(by_engine: pd.DataFrame) -> Verdict:
    """Of latencies in seconds, a row per case and a column per engine."""
    wide = by_engine.reindex(columns=[PACED, SIMULATED]).dropna()
    apart = (wide[PACED] - wide[SIMULATED]).abs()
    ratio = wide[PACED] / wide[SIMULATED]
    factor = ratio.where(ratio >= 1, 1 / ratio)
    near = (apart <= NEAR_S) | (factor <= FAR)
    farthest = ", ".join(map(str, wide.index[int(factor.argmax())])) if len(near) else None
    return Verdict(
        text="Simulated and measured latency are near each other",
        kind=ClaimKind.HYPOTHESIS,
        held=bool(near.all()) if len(near) else None,
        measured={
            "median_measured_by_simulated": float(ratio.median()) if len(near) else None,
            "largest_difference_s": float(apart.max()) if len(near) else None,
            "farthest": farthest,
            "pairs_near": int(near.sum()),
            "pairs": len(near),
            "tolerance": f"a factor of {FAR:g} or {NEAR_S} s",
        },
    )
