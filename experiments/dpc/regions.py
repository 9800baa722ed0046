"""The combinations of lost parameters where the sentences of Fig. 9 and 10 hold together.

The size of a bucket and the cost of a tuple are not in any copy at hand. When corrections are
released is printed for a chain: boundaries come when a node is stable again, and its neighbours
wait for REC_DONE. Corrections that count one by one are a variant. The two figures are run at every
combination, and judged by the claims of their own modules. A sentence that fails at our choice and
holds elsewhere depends on what was lost. One that fails everywhere does not."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from experiments._unprinted import Parameter, Place, Regions
from experiments.dpc import _shared, availability_bound, failure_duration
from harness.claims import ClaimKind, applied, hypothesis, judge, quantity
from harness.experiment import Context, Experiment, Outcome, Point, Results
from harness.protocol.scheme import Corrections, Policy

BUCKETS_MS = (50, 100, 200, 500)
COSTS_US = (11, 22, 44)
RELEASES = {"one by one": Corrections.STREAM, "when all are done": Corrections.DONE}
CHOSEN = (100, 22, "when all are done")
"""The combination of the figures themselves."""

DURATIONS_S = _shared.profiles((2.0, 6.0), (2.0, 3.5, 6.0, 15.0))
BOUNDS_S = _shared.profiles((1.0, 3.0), (1.0, 2.0, 4.0, 5.5))
SETTLE_US = 8_000_000


def run(point: Point, context: Context) -> Outcome:
    """Measure both figures at one combination."""
    bucket_us, process_us = 1000 * int(str(point["bucket_ms"])), int(str(point["cost_us"]))
    corrections = RELEASES[str(point["release"])]

    def measure(**values: object) -> _shared.Measured:
        return _shared.measure(
            _shared.Setting(
                settle_us=SETTLE_US, bucket_us=bucket_us, process_us=process_us,
                corrections=corrections, seed=context.seed(), **values,  # type: ignore[arg-type]
            )
        )  # fmt: skip

    durations = []
    for failure_s in DURATIONS_S[context.profile]:
        for name in failure_duration.LOOKS:
            context.progress(f"{name}, {failure_s:g} s")
            found = measure(
                failure_s=failure_s,
                rate_per_s=failure_duration.RATE_PER_S,
                bound_s=failure_duration.BOUND_S,
                **_shared.policies(name),
            )
            durations.append(
                (name, failure_s, found.delay_new_s, found.tentative, found.tentative_batches)
            )
    bounds = []
    for bound_s in BOUNDS_S[context.profile]:
        for policy in availability_bound.POLICIES:
            context.progress(f"{policy.value}, {bound_s:g} s")
            found = measure(
                failure_s=availability_bound.FAILURE_S,
                rate_per_s=availability_bound.RATE_PER_S,
                bound_s=bound_s,
                during_failure=policy,
                during_stabilization=Policy.SUSPEND,
            )
            bounds.append((policy.value, bound_s, found.delay_new_s, found.tentative))
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


MEASUREMENT = _shared.simulated(
    "dpc/regions",
    run=run,
    grid=_shared.profiles(
        _grid((CHOSEN[0],), (CHOSEN[1],))[1:],
        _grid(BUCKETS_MS, COSTS_US),
        quick=_grid(BUCKETS_MS[1::2], COSTS_US),
    ),
    repeats=1,
    seconds=(2.0, 4.0, 4.0),
)

# Shown: no record depends on what follows.


REGIONS = Regions(
    columns=Parameter(column="bucket_ms", values=BUCKETS_MS, label="bucket (ms)"),
    rows=Parameter(column="cost_us", values=COSTS_US, label="cost of processing a tuple (µs)"),
    panels=Parameter(column="release", values=RELEASES, label="corrections released {}"),
    held=lambda table: table["held"],
    named=lambda place: "{} ms / {} µs / {}".format(*place),
    ours=CHOSEN,
    stamp="simulated, virtual time: sentences of the paper that hold, by lost parameters",
)


def table(results: Results) -> pd.DataFrame:
    """Return a row per combination and sentence: if it holds, null if the runs do not decide it."""
    by = REGIONS.by
    durations, bounds = results.series("durations", by), results.series("bounds", by)
    bounds = availability_bound.with_expected(bounds)
    rows = [
        (*place, f"{figure}: {claim.text}", verdict.held)
        for place in results.frame[by].drop_duplicates().itertuples(index=False, name=None)
        for figure, claims, frame in (
            ("Fig. 10", failure_duration.EXPERIMENT.claims, durations),
            ("Fig. 9", availability_bound.EXPERIMENT.claims, bounds),
        )
        for claim in claims
        if claim.kind is ClaimKind.PAPER and (verdict := judge(claim, _at(frame, by, place)))
    ]
    return pd.DataFrame(rows, columns=[*by, "sentence", "held"])


def _at(frame: pd.DataFrame, by: Sequence[str], place: Place) -> pd.DataFrame:
    return frame[(frame[list(by)] == place).all(axis=1)].reset_index(drop=True)


shares = applied(pd.Series, quantity(REGIONS.shares)())

CLAIMS = [
    REGIONS.claim(
        because="The shares show which sentences hold nowhere. Of those of Fig. 10 this is "
        "presumably for the reason that dpc/failure-duration gives with its size: with Delay & "
        "Process the batches that waited when the stream healed are processed tentatively with "
        "that stream's tuples in them, αX of its rate. None of the lost parameters changes that."
    ),
    hypothesis(
        "independent",
        "No sentence holds or fails by the choice of the lost parameters alone",
        because="Presumably the sentences that depend on the choice depend on the length of a "
        "redo. Delay & Suspend breaks X = 3 s for every failure longer than 3 s only if the redo "
        "takes more than X - αX = 300 ms at the shortest of them. The figures here are made with "
        "22 µs per tuple and corrections that are released when all are done.",
    ).every(
        (shares == 0) | (shares == 1),
        depend_on_them=shares[(shares > 0) & (shares < 1)].index.tolist(),
        hold_nowhere=shares[shares == 0].index.tolist(),
    ),
]


EXPERIMENT = Experiment(
    measurement=MEASUREMENT,
    paper="Faultline, beside " + _shared.PAPER,
    figure="Figures 9 and 10, over the parameters that are lost",
    title="Where the sentences about tentative tuples hold together",
    statement="The size of a bucket and the cost of a tuple are lost.",
    table=table,
    draw=REGIONS.draw,
    claims=CLAIMS,
    notes=(
        "Simulated in virtual time, every run with its checkers on. Failures of 2 to 15 s "
        "and bounds of 1 to 5.5 s stand for the figures' own, longer lists.",
    ),
    figure_size_in=(11.0, 4.2),
)
