"""Claims, table and figure of the two experiments that kill, on runs made by hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from experiments.stock import worker_kill
from experiments.stock._kills import catches_up, tabulate
from harness.claims import ClaimKind
from harness.cluster.base import ClusterSpec
from harness.errors import UsageError
from harness.failures.generators import in_turn, one_target
from harness.figures.style import new_figure
from harness.judging.outcome import judge
from harness.judging.passes import PassRecord
from harness.results.kills import Unrecovered
from harness.results.record import Outcome, Point, Profile
from harness.stock_kills.measure import roomy
from harness.stock_kills.scale import check_options, spark_conf
from tests.experiments.stock import judging
from tests.judging.constructed import (
    LOAD_S,
    SCHEDULE,
    START,
    WORKLOAD,
    deliveries,
    injected,
    record,
    truth,
)

STOPPED = {start: 8.0 - (start - 7) for start in range(7, 14)}
STOPPED_LONGER = {start: 11.0 - (start - 7) for start in range(7, 17)}

GOOD: Mapping[tuple[str, float], PassRecord] = {
    ("checkpoint", 1.0): record(deliveries(STOPPED), failures=injected()),
    ("active", 1.0): record(failures=injected()),
    ("checkpoint", 5.0): record(deliveries(STOPPED_LONGER), failures=injected()),
}


def table_of(
    passes: Mapping[tuple[str, float], PassRecord],
    tmp_path: Path,
    *,
    twin: PassRecord | None = None,
    scope: str | None = None,
) -> Mapping[str, pd.DataFrame]:
    outcomes: list[tuple[Point, Outcome]] = []
    for (scheme, interval_s), failed in passes.items():
        outcome = judge(
            twin or record(name="twin"),
            failed,
            truth(),
            workload=WORKLOAD,
            schedule=SCHEDULE,
            trigger_s=interval_s,
            settle_s=3,
        )
        outcomes.append(({"scheme": scheme, "interval_s": interval_s}, outcome))
    return tabulate(judging.results_of(outcomes, tmp_path), scope=scope)


KILL = worker_kill.EXPERIMENT


def failing(passes: Mapping[tuple[str, float], PassRecord], tmp_path: Path) -> set[str]:
    """Return the claims that do not hold; every claim of the good passes holds."""
    return judging.failing(KILL, table_of(passes, tmp_path))


@pytest.fixture
def good(tmp_path: Path) -> Mapping[str, pd.DataFrame]:
    return table_of(GOOD, tmp_path)


def test_every_claim_holds_where_it_should(good: Mapping[str, pd.DataFrame]) -> None:
    claims = judging.judged(KILL, good).values()
    assert {claim.held for claim in claims} == {True}
    assert sum(claim.kind is ClaimKind.INVARIANT for claim in claims) == 4
    assert len({claim.text for claim in claims}) == len(KILL.claims)


def test_one_interval_says_nothing_of_shorter_and_longer_ones(
    good: Mapping[str, pd.DataFrame], tmp_path: Path
) -> None:
    short = {key: one for key, one in GOOD.items() if key[1] == 1.0}
    alone = judging.held(KILL, table_of(short, tmp_path / "short"))
    assert {*judging.held(KILL, good)} - {*alone} == {"grows-with-interval"}


def test_the_table_carries_every_run(good: Mapping[str, pd.DataFrame]) -> None:
    runs = good["runs"]
    assert list(runs["interval_s"]) == [1.0, 5.0, 1.0]
    assert list(runs["recovery_s"]) == pytest.approx([7.9, 10.9, 0.0])
    assert runs["restarted_at_s"].notna().all()
    timeline = good["timeline"]
    assert set(timeline["run"]) == set(runs["run"])
    assert set(timeline["pass"]) == {"twin", "failed"}
    assert not {"scheme", "recovery_s"} & set(timeline.columns), "a number stands in one place"


def test_each_figure_shows_its_own_failure_of_a_pass_with_two(tmp_path: Path) -> None:
    worker, rack = (
        one_target(target, at_s=at_s, restart_after_s=3)
        for target, at_s in (("r1n1", 8), ("r1", 20))
    )
    late = dict.fromkeys(range(5, 9), 4.0) | dict.fromkeys(range(17, 24), 6.0)
    failures = injected(in_turn(worker, rack))
    both = {("checkpoint", 1.0): record(deliveries(late), failures=failures)}
    shown = {scope: table_of(both, tmp_path / scope, scope=scope) for scope in ("node", "rack")}
    runs = {scope: tables["runs"].iloc[0] for scope, tables in shown.items()}
    assert runs["node"]["killed_at_s"] == pytest.approx(8.1)
    assert runs["rack"]["killed_at_s"] == pytest.approx(20.1)
    assert runs["rack"]["restarted_at_s"] == pytest.approx(23.1)
    assert runs["node"]["alone_until_s"] == pytest.approx(20.1), "the other kill is not drawn"
    assert runs["rack"]["alone_from_s"] == pytest.approx(11.1)
    assert runs["node"]["recovery_s"] == pytest.approx(8 + 3 + 4 - 8.1)
    assert runs["rack"]["recovery_s"] == pytest.approx(23 + 3 + 6 - 20.1)
    assert runs["node"]["output_gap_s"] != runs["rack"]["output_gap_s"]


def test_two_failures_that_cannot_be_told_apart_give_no_recovery(tmp_path: Path) -> None:
    worker, rack = (one_target(target, at_s=at_s) for target, at_s in (("r1n1", 8), ("r1", 12)))
    late = dict.fromkeys(range(5, 14), 6.0)
    both = {("checkpoint", 1.0): record(deliveries(late), failures=injected(in_turn(worker, rack)))}
    (run,) = table_of(both, tmp_path, scope="rack")["runs"].to_dict("records")
    assert pd.isna(run["recovery_s"])
    assert run["recovery_why_not"] == Unrecovered.OVERLAPPED.value


def test_claims_fail_when_the_injector_is_off(tmp_path: Path) -> None:
    off = {key: replace(one, injected=()) for key, one in GOOD.items()}
    found = judging.held(KILL, table_of(off, tmp_path))
    assert found["really-failed"] is False
    assert found["checkpoint-comes-back"] is None, "nothing failed, so nothing could come back"


def test_a_kill_that_came_late_breaks_no_invariant(tmp_path: Path) -> None:
    late = [replace(done, lateness_s=1.5) for done in injected()]
    one = {**GOOD, ("active", 1.0): record(failures=late)}
    assert failing(one, tmp_path) == {"punctual"}
    assert judging.judged(KILL, table_of(one, tmp_path / "again"))["punctual"].kind is (
        ClaimKind.HYPOTHESIS
    )


def test_results_without_time_to_come_leave_equality_open(tmp_path: Path) -> None:
    short = record(deliveries().iloc[:-3], failures=injected(), drained=False)
    found = judging.held(KILL, table_of({**GOOD, ("active", 1.0): short}, tmp_path))
    assert (found["equals-truth"], found["equals-twin"]) == (None, None)


def tampered() -> pd.DataFrame:
    frame = deliveries()
    return frame.assign(count=frame["count"] + (frame.index == 40))


NEVER = dict.fromkeys(range(7, 30), 60.0)
MISSED = [replace(done, victims=[]) for done in injected()]


@pytest.mark.parametrize(
    ("scheme", "bad", "claims"),
    [
        ("active", record(failures=MISSED), {"really-failed"}),
        ("active", record(tampered(), failures=injected()), {"equals-truth", "equals-twin"}),
        ("active", record(deliveries().drop(index=9), failures=injected()), {"equals-truth"}),
        (
            "active",
            record(deliveries(STOPPED_LONGER), failures=injected()),
            {"active-goes-on", "shorter-gap"},
        ),
        (
            "checkpoint",
            record(deliveries(NEVER), failures=injected()),
            {"checkpoint-comes-back"},
        ),
    ],
    ids=["missed", "tampered", "lost", "active-stops", "never-back"],
)
def test_claims_fail_where_one_run_is_bad(
    scheme: str, bad: PassRecord, claims: set[str], tmp_path: Path
) -> None:
    assert claims <= failing({**GOOD, (scheme, 1.0): bad}, tmp_path)


@pytest.mark.parametrize("end", [{"died": "its driver ended"}, {"stalled": True}])
def test_an_engine_that_ended_with_the_kill_fails_its_claims(
    tmp_path: Path, end: dict[str, Any]
) -> None:
    """Little of the load may be left: results that never come need not be waited for."""
    kill_s = LOAD_S - 1.0
    late = [
        replace(done, at_unix_s=START + kill_s, event=replace(done.event, at_s=kill_s))
        for done in injected()[:1]
    ]
    rest = deliveries().query("arrival_s < @kill_s")
    gone = record(rest, failures=late, drained=False, **end)
    tables = table_of({("checkpoint", 1.0): gone}, tmp_path)
    (run,) = tables["runs"].itertuples()
    assert catches_up(run) is False
    assert {"checkpoint-comes-back", "equals-truth"} <= judging.failing(KILL, tables)


def test_a_load_that_ended_soon_after_the_kill_says_nothing_of_recovery(
    good: Mapping[str, pd.DataFrame],
) -> None:
    """As in the smoke profile."""
    cut = good["runs"].assign(
        recovery_s=None,
        recovery_at_least_s=5.0,
        recovery_why_not=Unrecovered.NOT_BY_END.value,
    )
    comes_back = judging.judged(KILL, {**good, "runs": cut})["checkpoint-comes-back"]
    assert comes_back.held is None
    assert Unrecovered.NOT_BY_END.value in str(comes_back.why)


def test_nothing_is_said_of_time_when_a_twin_fell_behind(tmp_path: Path) -> None:
    behind = record(deliveries(dict.fromkeys(range(-1, 30), 6.0)), name="twin")
    claims = judging.judged(KILL, table_of(GOOD, tmp_path, twin=behind)).values()
    assert {claim.held for claim in claims if claim.kind is ClaimKind.HYPOTHESIS} == {None, True}
    assert all(claim.held for claim in claims if claim.kind is ClaimKind.INVARIANT)
    assert all(claim.why for claim in claims if claim.held is None), "each has a reason"


def test_settings_of_spark_are_taken_as_they_are_and_others_refused() -> None:
    conf = ["spark.locality.wait=0s", "spark.x=a=b"]
    assert spark_conf({"conf": conf}) == {"spark.locality.wait": "0s", "spark.x": "a=b"}
    assert spark_conf({}) == {}
    for wrong in ("locality=0s", "spark.locality.wait"):
        with pytest.raises(UsageError, match="no setting of Spark's"):
            check_options(Profile.QUICK, {"conf": [wrong]})


def test_figure_without_a_run_in_micro_batches(good: Mapping[str, pd.DataFrame]) -> None:
    figure = new_figure((4, 3))
    worker_kill.EXPERIMENT.draw({name: table[:0] for name, table in good.items()}, figure)
    (axes,) = figure.axes
    assert [text.get_text() for text in axes.texts] == ["not measured"]


@pytest.mark.parametrize("sources", [1, 2, 4, 9])
@pytest.mark.parametrize("workers", [1, 2, 3])
def test_a_query_in_real_time_mode_starts_without_a_rack(sources: int, workers: int) -> None:
    spec, spare = roomy(ClusterSpec(racks=2, workers_per_rack=workers), sources)
    query = spec.task_slots - spare
    assert query >= sources + 1, "its sources and one task with state"
    assert query < spec.task_slots - spec.task_slots // spec.racks, "a slot is left then, too"
