"""Figure 11, live: a 15 s failure at the input of a chain of one to four pairs of nodes.

As `dpc/chain-length`: a pair's replica sends its corrections when its queue is empty, so the pairs
stabilize one after the other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pandas as pd

from experiments.dpc import _live, _shared, chain_length
from experiments.dpc.chain_length import BOUND_S, FAILURE_S, LOOKS, RATE_PER_S, STATE
from harness.claims import Finding, found, hypothesis
from harness.experiment import Experiment
from harness.figures.style import stamp
from harness.measurement import Context, Measurement, Origin
from harness.results.record import Outcome, Point, Profile
from harness.results.tables import Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FAILURES_S: Mapping[Profile, float] = {
    Profile.SMOKE: 6.0,
    Profile.QUICK: FAILURE_S,
    Profile.PAPER: FAILURE_S,
}
AFTER_S = 8.0
"""The pairs stabilize one after the other, and delay once each."""


def run(point: Point, context: Context) -> Outcome:
    """Measure one failure at the input of one chain under each combination."""
    chain = _live.Chain(
        nodes=int(str(point["chain"])),
        rate_per_s=RATE_PER_S,
        state=STATE,
        process_us=_shared.CHAIN_PROCESS_US,
        failure_s=FAILURES_S[context.profile],
        after_s=AFTER_S,
    )
    cells = {name: _live.Cell.of(name, bound_s=BOUND_S) for name in LOOKS}
    return _live.measure(chain, cells, context)


MEASUREMENT = Measurement(
    id="dpc/chain-length-live",
    origin=Origin.MEASURED,
    grid={
        Profile.SMOKE: [{"chain": 2}],
        Profile.QUICK: [{"chain": length} for length in (1, 4)],
        Profile.PAPER: [{"chain": length} for length in (1, 2, 3, 4)],
    },
    repeats={Profile.SMOKE: 1, Profile.QUICK: 1, Profile.PAPER: 3},
    seconds_per_run={Profile.SMOKE: 95.0, Profile.QUICK: 140.0, Profile.PAPER: 140.0},
    run=run,
    scheduling=_live.SCHEDULING,
    chooses=["harness.engines.tasks.engine"],
)

# Shown: no record depends on what follows.

VALUES = ("delay_new_s", "delay_after_heal_s", "tentative", "tentative_batches", "stabilized_s")
PROCESS, DELAY, _ = LOOKS
PATCHED_SAVING = 0.075
"""What Delay & Delay saved at four nodes on a patched simulation with the rule of empty queues."""


def table(results: Results) -> Mapping[str, pd.DataFrame]:
    """Return ``points``, as `dpc/chain-length` has them, and ``passes``."""
    passes = _live.cells_of(results, ["chain"]).rename(columns={"cell": "combination"})
    passes = passes.assign(cell=passes["combination"])
    by = ["combination", "chain"]
    points = _live.averaged(passes, by, VALUES)
    return {"points": points.sort_values(by, ignore_index=True), "passes": passes}


def draw(tables: Mapping[str, pd.DataFrame], figure: Figure) -> None:
    """Draw as `dpc/chain-length` does."""
    chain_length.draw_points(tables["points"], figure)
    stamp(figure, f"{_live.STAMP}; {_shared.runs_of(tables['points'])}")


@hypothesis(
    "pairs-save-less",
    "With pairs that stabilize until their queues are empty, Delay & Delay saves less at the "
    "longest chain than the 18 % of the simulated nodes with two versions each",
)
def pairs_save_less(tables: Mapping[str, pd.DataFrame]) -> Finding:
    wide = _shared.per_combination(tables["points"], "chain", "tentative")
    saved = (1.0 - wide[DELAY] / wide[PROCESS]).dropna()
    saved = saved[saved.index == 4]
    value = float(saved.iloc[0]) if len(saved) else None
    held = None if value is None else value < 0.18
    return found(held, saved_share=value, limit=0.18, of_a_patched_simulation=PATCHED_SAVING)


EXPERIMENT = Experiment(
    measurement=MEASUREMENT,
    paper=_shared.PAPER,
    figure="Figure 11, live",
    title="Failure and stabilization along a chain of real pairs",
    statement=chain_length.EXPERIMENT.statement,
    table=table,
    draw=draw,
    claims=[
        _live.converges,
        *(
            _live.on_points(claim)
            for claim in (
                chain_length.process_delay,
                chain_length.delay_adds_up,
                chain_length.within_kx,
                chain_length.suspend_unviable,
                chain_length.PROCESS_GROWS,
                chain_length.delay_no_fewer,
            )
        ),
        pairs_save_less,
    ],
    notes=(
        _live.NOTE,
        f"On chains a tuple costs {_shared.CHAIN_PROCESS_US} µs, as in the simulated figure, and "
        f"joins hold {STATE} tuples. The smoke profile has a failure of "
        f"{FAILURES_S[Profile.SMOKE]:g} s.",
    ),
    figure_size_in=(9.0, 4.0),
    fewest=_shared.FEWEST,
    smoke_covered_by="stock/worker-kill",
    quick_by_page=True,
)
