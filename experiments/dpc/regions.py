"""Where the sentences of Fig. 9 and 10 hold together: the parameters that the paper lost.

How large a bucket is, what a tuple costs to process, and whether corrections are released singly
or when the stabilization is done are not in any copy at hand. The two figures are run at every
combination of them, and their claims judged as the figures' own modules judge them: a sentence
that fails at our choice and holds elsewhere depends on what was lost; one that fails everywhere
does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from experiments.dpc import _shared, availability_bound, failure_duration
from harness.claims import ClaimKind, Verdict, shares
from harness.claims.legacy import region
from harness.experiment import Experiment
from harness.figures.cells import draw_held
from harness.figures.style import stamp
from harness.measurement import Context, Measurement, Origin
from harness.protocol.scheme import Corrections, Policy
from harness.results.record import Outcome, Point, Profile
from harness.results.tables import Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BUCKETS_MS = (50, 100, 200, 500)

COSTS_US = (11, 22, 44)

RELEASES = {"one by one": Corrections.STREAM, "when all are done": Corrections.DONE}

CHOSEN = (100, 22, "when all are done")
"""What the figures themselves are run with."""

DURATIONS_S = {Profile.SMOKE: (2.0, 6.0), Profile.QUICK: (2.0, 3.5, 6.0, 15.0)}

BOUNDS_S = {Profile.SMOKE: (1.0, 3.0), Profile.QUICK: (1.0, 2.0, 4.0, 5.5)}

SETTLE_US = 8_000_000


def run(point: Point, context: Context) -> Outcome:
    """Both figures at one combination."""
    bucket_us, process_us = 1000 * int(str(point["bucket_ms"])), int(str(point["cost_us"]))
    small = Profile.SMOKE if context.profile is Profile.SMOKE else Profile.QUICK
    corrections = RELEASES[str(point["release"])]

    def measure(**values: object) -> _shared.Measured:
        return _shared.measure(
            _shared.Setting(
                settle_us=SETTLE_US, bucket_us=bucket_us, process_us=process_us,
                corrections=corrections, seed=context.seed(), **values,  # type: ignore[arg-type]
            )
        )  # fmt: skip

    durations = []
    for failure_s in DURATIONS_S[small]:
        for name in failure_duration.LOOKS:
            context.progress(f"{name}, {failure_s:g} s")
            during, after = name.split(" & ")
            found = measure(
                failure_s=failure_s,
                rate_per_s=failure_duration.RATE_PER_S,
                bound_s=failure_duration.BOUND_S,
                during_failure=Policy(during),
                during_stabilization=Policy(after),
            )
            durations.append(
                (name, failure_s, found.delay_new_s, found.tentative, found.tentative_batches)
            )
    bounds = []
    for bound_s in BOUNDS_S[small]:
        for policy in availability_bound.LOOKS:
            context.progress(f"{policy}, {bound_s:g} s")
            found = measure(
                failure_s=availability_bound.FAILURE_S,
                rate_per_s=availability_bound.RATE_PER_S,
                bound_s=bound_s,
                during_failure=Policy(policy),
                during_stabilization=Policy.SUSPEND,
            )
            bounds.append((policy, bound_s, found.delay_new_s, found.tentative))
    columns = ["delay_new_s", "tentative"]
    return Outcome(
        values={},
        series={
            "durations": pd.DataFrame(
                durations, columns=["combination", "failure_s", *columns, "tentative_batches"]
            ),
            "bounds": pd.DataFrame(bounds, columns=["during_failure", "bound_s", *columns]),
        },
    )


def _grid(buckets: Sequence[int], costs: Sequence[int]) -> Sequence[Point]:
    return [
        {"bucket_ms": bucket, "cost_us": cost, "release": release}
        for release in RELEASES
        for cost in costs
        for bucket in buckets
    ]


MEASUREMENT = Measurement(
    id="dpc/regions",
    origin=Origin.SIMULATED,
    grid={
        Profile.SMOKE: _grid((CHOSEN[0],), (CHOSEN[1],))[1:],
        Profile.QUICK: _grid(BUCKETS_MS, COSTS_US),
        Profile.PAPER: _grid(BUCKETS_MS, COSTS_US),
    },
    repeats=_shared.ONCE,
    seconds_per_run={Profile.SMOKE: 2.0, Profile.QUICK: 2.7, Profile.PAPER: 2.7},
    run=run,
)

# Shown: no record depends on what follows.


def table(results: Results) -> pd.DataFrame:
    """A row per combination and sentence of a paper: whether it holds; null where nothing says."""
    by = ["bucket_ms", "cost_us", "release"]
    durations, bounds = results.series("durations", by), results.series("bounds", by)
    bounds["expected"] = [
        availability_bound.expected(policy, bound)
        for policy, bound in zip(bounds["during_failure"], bounds["bound_s"], strict=True)
    ]
    rows = []
    for place in results.frame[by].drop_duplicates().itertuples(index=False, name=None):
        own = [
            (figure, module.claims(_at(frame, by, place)))
            for figure, module, frame in (
                ("Fig. 10", failure_duration, durations), ("Fig. 9", availability_bound, bounds),
            )
        ]  # fmt: skip
        rows += [
            (*place, f"{figure}: {claim.text}", claim.held)
            for figure, claims_ in own
            for claim in claims_
            if claim.kind is ClaimKind.PAPER
        ]
    return pd.DataFrame(rows, columns=[*by, "sentence", "held"])


def _at(frame: pd.DataFrame, by: Sequence[str], place: Sequence[object]) -> pd.DataFrame:
    chosen = np.ones(len(frame), dtype=np.bool_)
    for name, value in zip(by, place, strict=True):
        chosen &= (frame[name] == value).to_numpy()
    return frame[chosen].reset_index(drop=True)


def _shares(table: pd.DataFrame) -> dict[tuple[int, int, str], list[tuple[str, bool]]]:
    """By combination, its sentences and whether they hold."""
    found: dict[tuple[int, int, str], list[tuple[str, bool]]] = {}
    for bucket, cost, release, sentence, held in zip(
        *(table[name].tolist() for name in ("bucket_ms", "cost_us", "release", "sentence", "held")),
        strict=True,
    ):
        if held is not None and held == held:
            found.setdefault((bucket, cost, release), []).append((sentence, bool(held)))
    return found


def draw(table: pd.DataFrame, figure: Figure) -> None:
    """A panel per rule of release: how many sentences hold, and which do not."""
    cells = _shares(table)
    sentences = list(dict.fromkeys(table["sentence"]))
    letters = dict(zip(sentences, "ABCDEFGHIJKLMN", strict=False))
    buckets = [bucket for bucket in BUCKETS_MS if bucket in set(table["bucket_ms"])]
    costs = [cost for cost in COSTS_US if cost in set(table["cost_us"])]
    panels = np.atleast_1d(figure.subplots(1, len(RELEASES), sharey=True))
    for axes, release in zip(panels, RELEASES, strict=True):
        draw_held(
            axes,
            {
                (str(cost), str(bucket)): dict(cell)
                for (bucket, cost, of), cell in cells.items()
                if of == release
            },
            rows=[str(cost) for cost in costs],
            columns=[str(bucket) for bucket in buckets],
            letters=letters,
            marked=(str(CHOSEN[1]), str(CHOSEN[0])) if CHOSEN[2] == release else None,
        )
        axes.set_title(f"corrections released {release}", loc="left")
        axes.set_xlabel("bucket (ms)")
    panels[0].set_ylabel("cost of processing a tuple (µs)")
    names = "\n".join(f"{letters[sentence]}  {sentence}" for sentence in sentences)
    figure.text(0.02, -0.02, names, fontsize=7.5, va="top")
    stamp(figure, "simulated, virtual time: sentences of the paper that hold, by lost parameters")


def claims(table: pd.DataFrame) -> list[Verdict]:
    """Whether there is such a region, and which sentence depends on what was lost."""
    held = {place: dict(cell) for place, cell in _shares(table).items()}
    share_of = shares(held)
    return [
        region(held, lambda place: "{} ms / {} µs / {}".format(*place)),
        Verdict(
            text="No sentence holds or fails by the choice of the lost parameters alone",
            kind=ClaimKind.HYPOTHESIS,
            held=all(share in (0.0, 1.0) for share in share_of.values()),
            measured={
                "depend_on_them": [name for name, share in share_of.items() if 0 < share < 1],
                "hold_nowhere": [name for name, share in share_of.items() if share == 0],
            },
        ),
    ]


EXPERIMENT = Experiment(
    measurement=MEASUREMENT,
    paper="Faultline, beside " + _shared.PAPER,
    figure="Figures 9 and 10, over the parameters that are lost",
    title="Where the sentences about tentative tuples hold together",
    statement="The size of a bucket, the cost of a tuple and the rule of release are lost.",
    table=table,
    draw=draw,
    claims=claims,
    notes=(
        "Simulated in virtual time, every run with its checkers on. Failures of 2 to 15 s "
        "and bounds of 1 to 5.5 s stand for the figures' own, longer lists.",
    ),
    figure_size_in=(11.0, 4.2),
)
