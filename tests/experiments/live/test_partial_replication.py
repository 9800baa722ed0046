"""PPA live: instants of kills, the first tentative output, and claims that can fail."""

from __future__ import annotations

from typing import Any, cast

import pandas as pd
import pytest

from experiments.live import partial_replication
from experiments.live._topology import PACED, SIMULATED, Ways
from experiments.live.partial_replication import EXPERIMENT, FIRST
from harness.measurement import Context
from harness.results.record import Outcome, Point, Profile
from tests.experiments.live.judging import all_hold, failing, held, passes
from tests.experiments.smoke import SmokeContext

LATENCY_S = {"PPA-1.0": 0.012, "PPA-0.5-active": 0.011, "PPA-0.5": 0.4, "PPA-0": 0.6, FIRST: 0.03}


def made_up(runs: int = 6) -> dict[str, pd.DataFrame]:
    rows: list[dict[str, Any]] = [
        {"run": str(run), "engine": engine, "rate": rate, "interval_s": interval_s, "series": name,
         "latency_s": seconds * (1 + 0.01 * run), "outside_s": seconds + 0.2,
         "simulated_s": None if name == FIRST else seconds, "faster": 10.0}
        for engine in (PACED, SIMULATED)
        for rate in (1_000, 2_000)
        for interval_s in (5, 30)
        for name, seconds in LATENCY_S.items()
        for run in range(runs)
        if engine == PACED or name != FIRST
    ]  # fmt: skip
    mine = [{"variant": f"{plan}-every-5s"} for plan in ("PPA-0.5", "PPA-0")]
    return {
        "samples": pd.DataFrame(rows),
        "passes": passes(*mine, engine=PACED, rate=1_000, tentative=40, uncorrected=0),
    }


def test_too_few_samples_decide_nothing() -> None:
    found = held(EXPERIMENT, made_up(runs=1))
    assert {name for name, value in found.items() if value is None} == {
        "in-order-of-plans", "active-half-much-earlier", "tentative-much-earlier",
        "simulated-near-measured",
    }  # fmt: skip


def test_all_claims_hold_where_all_is_well() -> None:
    assert all_hold(EXPERIMENT, made_up())


@pytest.mark.parametrize(
    ("series", "factor", "claim"),
    [
        ("PPA-0.5", 2, "in-order-of-plans"),
        ("PPA-0.5-active", 30, "active-half-much-earlier"),
        (FIRST, 10, "tentative-much-earlier"),
        ("PPA-0", 9, "simulated-near-measured"),
    ],
)
def test_every_claim_can_fail(series: str, factor: float, claim: str) -> None:
    table = made_up()
    rows = table["samples"]
    rows.loc[(rows["series"] == series) & (rows["engine"] == PACED), "latency_s"] *= factor
    assert claim in failing(EXPERIMENT, table)


def test_what_was_not_measured_is_not_judged() -> None:
    table = made_up()
    rows = table["samples"]
    rows.loc[rows["series"] == FIRST, "latency_s"] = None
    assert held(EXPERIMENT, table)["tentative-much-earlier"] is None


def test_a_tentative_result_that_stays_breaks_an_invariant() -> None:
    table = made_up()
    table["passes"].loc[0, "uncorrected"] = 1
    assert failing(EXPERIMENT, table) == {"tentative-corrected"}


@pytest.mark.parametrize("interval_s", [5, 15, 30])
def test_the_kill_falls_late_in_an_interval_with_full_windows(interval_s: int) -> None:
    at_s = partial_replication.kill_at_s(interval_s)
    assert at_s >= partial_replication.FULL_S
    assert at_s / interval_s % 1 == pytest.approx(partial_replication.PHASE)
    other_s = partial_replication.kill_at_s(interval_s, shift=0.5)
    assert other_s / interval_s % 1 == pytest.approx((partial_replication.PHASE + 0.5) % 1)
    assert other_s >= partial_replication.FULL_S


def test_quick_leaves_intervals_out_of_live_runs_alone() -> None:
    def chosen(engine: str, rate: int, profile: Profile) -> tuple[int, ...]:
        point: Point = {"engine": engine, "rate": rate}
        return tuple(partial_replication.intervals_s(point, profile))

    assert chosen(PACED, 1_000, Profile.QUICK) == chosen(PACED, 2_000, Profile.QUICK) == (15,)
    assert chosen(SIMULATED, 2_000, Profile.QUICK) == (5, 15)
    assert len(chosen(PACED, 2_000, Profile.PAPER)) == 5


def test_the_first_tentative_result_counts_from_the_detection() -> None:
    results = pd.DataFrame(
        {
            "pass": ["failed", "failed", "failed", "twin"],
            "stability": ["stable", "tentative", "tentative", "tentative"],
            "arrival_s": [1.0, 9.3, 9.1, 2.0],
        }
    )
    back = Ways(detected_s={16: 8.5, 17: 9.0}, restored_s={16: 10.0, 17: None})
    outcome = Outcome(series={"results": results})
    assert partial_replication.first_tentative_s(outcome, back) == pytest.approx(0.1)
    late = Ways(detected_s={16: 8.5, 17: 9.5}, restored_s={})
    assert partial_replication.first_tentative_s(outcome, late) == 0.0
    stable = Outcome(series={"results": results[results["stability"] == "stable"]})
    assert partial_replication.first_tentative_s(stable, back) is None


def test_the_simulated_half_runs() -> None:
    context = cast(Context, SmokeContext(EXPERIMENT))
    (point, *_) = EXPERIMENT.grid[Profile.SMOKE]
    assert point["engine"] == SIMULATED
    by = partial_replication.run(point, context).series["latencies"].set_index("series")
    assert by["latency_s"]["PPA-1.0"] < by["latency_s"]["PPA-0.5"]
    assert by["latency_s"]["PPA-0.5-active"] < by["latency_s"]["PPA-0.5"]
