"""Peers: outages split into parts, claims that can fail, and what is asked for."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pandas as pd
import pytest

from experiments.live import _peers_claims, _peers_run, _peers_schedule, layout, peers
from experiments.live._outage import Reports, TaskRun
from experiments.live._outages import (
    PARTS,
    of_spark,
    outage,
    outages,
    reported,
    usual,
    windows_of,
)
from experiments.live._peers_rows import (
    AS_IT_COMES,
    FLINK,
    OWN,
    RACK,
    RATES_PER_S,
    STOCK,
    STREAMS,
    SYSTEMS,
    TASKS,
    TUNED,
    WORKER,
    schedule_of,
)
from experiments.live.peers import EXPERIMENT
from harness.cluster.base import Action, ClusterSpec
from harness.engines.kinds import find_engine
from harness.errors import UsageError
from harness.failures.schedule import BUSIEST
from harness.measurement import Context
from harness.results.record import Outcome, Profile
from harness.results.tables import Results
from tests.engines.tasks.kit import machines
from tests.judging.constructed import record
from tests.judging.test_outcome import done
from tests.there import there
from workloads.wordcount import word_count

USUAL_S = 0.4


def windows(*late: float, appended: float = 0.0) -> pd.DataFrame:
    """Return windows that end every second from 10 s on, as late as given.

    Each was appended so long before it could be read."""
    frame = pd.DataFrame({"ended_s": [10.0 + number for number in range(len(late))]})
    frame = frame.assign(late_s=list(late), arrived_s=frame["ended_s"] + list(late))
    return frame.assign(appended_s=frame["arrived_s"] - appended)


def incidents(*rows: tuple[float, str, dict[str, float]]) -> pd.DataFrame:
    return pd.DataFrame(
        [{"at_s": at, "event": event, "target": "r1n1", **more} for at, event, more in rows],
        columns=["at_s", "event", "target", "there_after_s", "ready_after_s"],
    )


CALM = usual(windows(USUAL_S, USUAL_S))
"""Late from 1.4 s on."""


def split(seen: pd.DataFrame | None, *late: float, appended: float = 0.0) -> dict[str, Any]:
    return outage(windows(*late, appended=appended), seen, 10.5, 20.0, CALM, reported)


STEPS = incidents((12.0, "detected", {}), (12.5, "restarted", {}), (13.5, "recovered", {}))


def test_each_part_of_an_outage_has_its_own_observer() -> None:
    found = split(STEPS, 0.4, 5.0, 4.5, 3.5, 0.4, 0.4, appended=2.0)
    assert found["recovery_s"] == pytest.approx(6.0)
    assert found["outage_s"] == pytest.approx(16.5 - 11.4), "from when the first would have come"
    assert found["outage_5_s"] == 0.0, "no result was 5 s later than usual"
    # The first late result could be read at 16.0, the last one at 16.5.
    assert [found[part] for part in PARTS] == pytest.approx([1.5, 0.5, 1.0, 2.0, 0.5])
    assert found["caught_up"]


@pytest.mark.parametrize(
    ("seen", "appended", "parts", "apart_s"),
    [
        (
            incidents((14.0, "detected", {}), (15.5, "recovered", {})),
            5.0,
            [3.5, 0.0, 1.5, 0.5, 0.5],
            0.0,
        ),
        (STEPS.drop(1).assign(held_s=2.0), 0.2, [1.5, 0.0, 1.5, 2.2, 0.5], 0.3),
        # From 13.5 to the first result at 16.0.
        (STEPS, 0.0, [1.5, 0.5, 1.0, 0.0, 0.5], 2.5),
    ],
    ids=["a transaction open while its loss is detected", "one between two tasks", "nobody saw it"],
)
def test_what_two_observers_saw_is_counted_once_and_what_none_saw_in_no_part(
    seen: pd.DataFrame, appended: float, parts: list[float], apart_s: float
) -> None:
    found = split(seen, 0.4, 5.0, 4.5, 0.4, 0.4, appended=appended)
    assert [found[part] for part in PARTS] == pytest.approx(parts)
    assert found["apart_s"] == pytest.approx(apart_s)


def test_the_task_engines_steps_count_from_the_detection() -> None:
    back = {"there_after_s": 0.1, "ready_after_s": 0.3}
    seen = incidents((10.6, "detected", {}), (11.5, "recovered", back))
    found = split(seen, 0.4, 2.0, 0.4)
    assert [found[part] for part in PARTS] == pytest.approx([0.1, 0.1, 0.2, 0.0, 0.0])


def test_without_a_late_result_there_is_no_outage_and_without_a_report_no_part() -> None:
    seen = incidents((10.6, "detected", {}))
    assert split(seen, 0.4, 0.4, 0.4)["outage_s"] == 0.0
    blind = split(incidents(), 0.4, 3.0, 0.4)
    assert blind["outage_s"] == pytest.approx(2.6)
    assert blind["detection_s"] is None
    assert split(None, 0.4, 3.0, 0.4) == pytest.approx(blind, nan_ok=True)


def test_without_a_result_before_the_first_kill_nothing_is_known() -> None:
    late = windows(0.4, 5.0, 0.4)
    assert usual(late[:0]) is None
    assert outage(late, incidents(), 10.5, 20.0, None, reported)["outage_s"] is None


def test_a_relapse_before_the_next_kill_is_a_part_of_the_outage() -> None:
    seen = incidents((12.0, "detected", {}), (12.5, "restarted", {}), (12.7, "recovered", {}))
    found = split(seen, 0.4, 3.0, 0.4, 0.4, 0.4, 0.4, 0.4, 2.0, 0.4, 0.4)
    assert found["relapse_s"] == pytest.approx(1.6), "from 17.4 to 19.0"
    assert found["outage_s"] == pytest.approx(2.6 + 1.6)
    assert (found["caught_up"], found["replay_s"]) == (True, 0.0)
    assert sum(found[part] for part in PARTS) + found["apart_s"] == pytest.approx(3.5)
    assert split(seen, 0.4, 3.0, 2.0, 0.4, 0.4, 0.4)["relapse_s"] == 0.0


def test_a_relapse_that_is_not_over_with_the_next_kill_is_a_lower_bound() -> None:
    found = split(incidents(), 0.4, 3.0, 2.0, 0.4, 0.4, 0.4, 0.4, 0.4, 9.0)
    assert not found["caught_up"]
    assert found["outage_s"] == pytest.approx(2.6 + 20.0 - 18.4)


def test_a_kill_that_comes_into_an_outage_has_none_of_its_own() -> None:
    kills = [done(at_s, "kill", "r1n1", "r1n1") for at_s in (12.5, 15.5, 26.5)]
    late = [0.4, 0.4, 0.4, 9.0, 8.0, 7.0, 6.0, 5.0, 4.0, *[0.4] * 8, 3.0, *[0.4] * 4]
    found = outages(record(failures=kills), windows(*late), CALM, lambda *_: None)
    assert found["overlaps"].tolist() == [True, True, False]
    assert found["caught_up"].tolist() == [False, True, True]
    assert found["outage_s"].fillna(-1).tolist() == pytest.approx([2.1, -1, 2.6])


def test_failures_of_a_schedule_are_rows_of_their_own() -> None:
    kills = pd.DataFrame(
        {
            "engine": FLINK, "tuning": TUNED, "run": "one",
            "kill": [WORKER, "broker", "jobmanager"],
            "outage_s": [2.0, 9.0, None], "caught_up": [True, False, False],
        }
    )  # fmt: skip
    shown = EXPERIMENT.outages({"outages": kills}) if EXPERIMENT.outages else pd.DataFrame()
    assert shown["scheme"].tolist() == [TUNED, f"{TUNED}, broker"]
    assert shown["not_over"].tolist() == [False, True]


REPORTS = Reports(
    removed_s=[112.0],
    tasks=[
        TaskRun(began_s=115.0, ended_s=117.0),
        TaskRun(began_s=115.5, ended_s=117.5),
        TaskRun(began_s=121.0, ended_s=122.0),
    ],
)


def test_sparks_steps_come_from_its_event_log() -> None:
    seen = incidents((12.0, "detected", {}), (17.6, "recovered", {}))
    batches = of_spark(REPORTS, 100.0, real_time=False)
    assert batches(seen, 10.0, 12.0) == pytest.approx((3.0, 2.6))
    live = of_spark(REPORTS, 100.0, real_time=True)
    assert live(seen, 10.0, 12.0) == pytest.approx((3.5, 0.0)), "not the next batch's tasks"
    assert batches(seen.head(1), 10.0, 12.0) is None, "no batch was committed"
    assert live(seen, 30.0, 31.0) is None, "no task was launched"


WORDS = word_count(text=[__file__], depth=4)


def came(*rows: tuple[float, str, int, float, str], until_s: float) -> Any:
    """Return the record of a pass with these results."""
    names = ["window_start_s", "word", "count", "arrival_s", "stability"]
    return SimpleNamespace(deliveries=pd.DataFrame(rows, columns=names), until_s=until_s)


def test_a_revised_result_arrives_with_the_value_that_stays() -> None:
    record = came(
        (0.0, "a", 1, 3.0, "tentative"),
        (0.0, "a", 2, 3.9, "stable"),
        (0.0, "b", 1, 3.5, "stable"),
        (0.0, "b", 1, 9.0, "stable"),
        until_s=4.5,
    )
    (found,) = windows_of(record, WORDS, settled_s=3.2).to_dict("records")
    assert (found["arrived_s"], found["appended_s"], found["ended_s"]) == (3.9, 3.9, 4.0)


def test_a_window_that_never_came_is_late_until_the_next_one_comes() -> None:
    rows = [(start_s, "a", 1, start_s + 5, "stable") for start_s in (6, 7, 11, 12, 13, 14)]
    found = windows_of(came(*rows, until_s=19.0), WORDS, settled_s=10.0)
    assert found["ended_s"].tolist() == [10, 11, 12, 13, 14, 15, 16, 17, 18, 19]
    assert found["late_s"].tolist() == [1, 1, 4, 3, 2, 1, 1, 1, 1, math.inf]
    calm = usual(found.head(2))
    lost = outage(found, None, 11.5, 18.5, calm, reported)
    assert (lost["outage_s"], lost["caught_up"]) == (3.0, True)
    assert not outage(found, None, 11.5, 23.0, calm, reported)["caught_up"]


def test_a_result_that_was_lost_or_changed_names_its_window() -> None:
    truth = pd.DataFrame({"window_start_s": [1.0, 2.0, 3.0], "word": "a", "count": [1, 2, 3]})
    delivered = truth.assign(count=[1, 5, 3], stability="stable", arrival_s=9.0).head(2)
    record: Any = SimpleNamespace(deliveries=delivered)
    spoilt_s = _peers_run.spoilt(record, truth, WORDS)
    assert sorted(spoilt_s) == [6.0, 7.0]
    kills = pd.DataFrame({"at_s": [5.0, 6.5, 8.0], "hit_work": [False, False, True]})
    kills["hit_work"] |= _peers_run.hit(spoilt_s, kills["at_s"], 12.0)
    assert kills["hit_work"].tolist() == [True, True, True]
    assert _peers_run.hit(spoilt_s, kills["at_s"] + 3, 12.0).tolist() == [False, False, False]


def test_a_pass_has_one_kill_and_nodes_die_in_turn_each_in_its_own_phase() -> None:
    system, nodes = SYSTEMS[FLINK, TUNED], machines(2, 2)
    plans = [schedule_of(system, nodes, kind=WORKER, repeat=n, seed=1) for n in range(6)]
    kills = [schedule.kills for schedule, _ in plans]
    assert [len(each) for each in kills] == [1] * 6
    assert {each[0].target for each in kills[:4]} == {node.name for node in nodes}
    assert len({each[0].at_s % 1 for each in kills}) == 6
    for (one,), (_, seconds) in zip(kills, plans, strict=True):
        assert system.first_s <= one.at_s <= seconds - system.gap_s
    again, _ = schedule_of(system, nodes, kind=BUSIEST, repeat=0, seed=1)
    assert again.kills[0].target == BUSIEST


def test_the_weakest_system_decides_the_rate_of_all() -> None:
    held = [{"system": "a", "held_rate_per_s": rate, "short": None} for rate in (200.0, 50.0)]
    assert layout.join(held) == {"held_rate_per_s": 50.0, "short": None}
    assert layout.held_rate_per_s(layout.join(held)) == 50.0
    assert layout.nothing_held(layout.join(held)) is None
    disturbed = {"system": "b", "held_rate_per_s": None, "short": "x", "disturbed": "others"}
    assert layout.join([disturbed]) == {"held_rate_per_s": RATES_PER_S[-1], "short": None}


def test_a_system_that_holds_no_rung_ends_the_figure_with_what_was_short() -> None:
    none = {"system": "Flink", "held_rate_per_s": None, "short": "at 50 records/s 9% were idle"}
    why = there(layout.nothing_held(layout.join([none])))
    assert "too few cores" in why
    assert "Flink: at 50 records/s 9% were idle" in why


@pytest.mark.parametrize(("hits", "lost", "held"), [(0, 0, None), (1, 0, True), (0, 1, False)])
def test_a_guarantee_is_not_tried_by_kills_that_hit_no_work(
    hits: int, lost: int, held: bool | None
) -> None:
    run = {"own": True, "guarantee": "at-least-once", "kills": 1, "duplicated": 0}
    runs = pd.DataFrame([{**run, "contradictions": 0, "hits": hits, "lost": lost}])
    assert _peers_claims.guarantee_kept.decide({"runs": runs}).held is held


def test_a_kill_hits_work_if_results_are_late_or_the_engine_has_to_recover() -> None:
    kill = SimpleNamespace(
        victims=[SimpleNamespace(earliest_unix_s=110.5, felt=True, node="r1n1")],
        event=SimpleNamespace(target=BUSIEST, action=Action.KILL), felt=True,
    )  # fmt: skip
    for late_s, event, hit in ((0.4, "detected", False), (0.4, "recovered", True), (5.0, "", True)):
        record: Any = SimpleNamespace(
            start_unix_s=100.0, until_s=20.0, injected=[kill],
            incidents=incidents((12.0, event, {})),
        )  # fmt: skip
        seen = pd.concat([windows(0.4), windows(0.4, late_s, 0.4, 0.4, 0.4)])
        (row,) = outages(record, seen, CALM).to_dict("records")
        assert (row["hit_work"], row["nodes"]) == (hit, "r1n1")


def test_counts_of_passes_are_added_and_each_kill_keeps_its_pass() -> None:
    values = {**dict.fromkeys(_peers_run.COUNTS, 1), "drained": True, "died": None, "before_s": 0.4}
    one = Outcome(values=values, series={"outages": pd.DataFrame({"number": [0]})})
    both = _peers_run.together([one, replace(one, values={**values, "drained": False})])
    assert both.values["lost"] == 2
    assert both.values["before_s"] == 0.4
    assert not both.values["drained"]
    assert both.series["outages"]["pass"].tolist() == [1, 2]


def test_an_engine_of_ones_own_is_shown_by_its_name() -> None:
    frame = pd.DataFrame(
        [{"engine": OWN, "engine_name": "mine"}, {"engine": FLINK, "engine_name": None}]
    ).assign(tuning=AS_IT_COMES, workload="word count", repeat=0, run=["a", "b"])
    for runs, names in (
        (frame, ["mine", FLINK]),
        (frame.drop(columns="engine_name"), [OWN, FLINK]),
    ):
        found = peers.tabulate(Results(runs, {"a": Path("/gone"), "b": Path("/gone")}))
        assert found["runs"]["engine"].tolist() == names
        assert found["runs"]["own"].tolist() == [True, False]


@pytest.mark.parametrize(
    ("changes", "held"),
    [
        ({}, True),
        ({"replay_s": 9.0}, False),
        ({"replay_s": 9.0, "caught_up": False}, None),
        ({"replay_s": 9.0, "recovery_s": 1.5}, None),
    ],
)
def test_only_outages_that_are_over_and_long_enough_are_added_up(
    changes: dict[str, Any], held: bool | None
) -> None:
    system = {"engine": FLINK, "tuning": TUNED, "workload": "word count", "kill": WORKER}
    kill = {**system, "recovery_s": 10.0, "caught_up": True, **dict.fromkeys(PARTS, 2.0)}
    found = _peers_claims.adds_up.decide({"outages": pd.DataFrame([{**kill, **changes}])})
    assert found.held is held


def skipped(engine: str, *asked: str, tuning: str = TUNED) -> str | None:
    def no_cluster(spec: ClusterSpec) -> None:
        raise AssertionError("nothing may be started")

    context = SimpleNamespace(
        options={"engine": asked} if asked else {}, profile=Profile.SMOKE, cluster=no_cluster,
        seed=lambda *names: 1, calibration=None, repeat=0,
    )  # fmt: skip
    return peers.run(peers.point(engine, tuning), cast(Context, context)).skipped


def test_what_was_not_asked_for_is_skipped_before_anything_starts() -> None:
    assert skipped(STREAMS, TASKS) == "only tasks was asked for"
    own = skipped(OWN, tuning=AS_IT_COMES)
    assert own == "no engine of your own was given: --engine FILE.yaml"
    for engine in (TASKS, STREAMS, FLINK):
        with pytest.raises(AssertionError, match="nothing may be started"):
            skipped(engine, engine)


def test_the_smoke_profile_runs_the_task_engine_alone_if_nothing_is_asked_for() -> None:
    reason = skipped(FLINK)
    assert reason == "the smoke profile measures it only when it is asked for: --engine flink"
    with pytest.raises(AssertionError, match="nothing may be started"):
        skipped(TASKS)


def invalid(engine: str, *, dropped: int = 0, kills: int = 1, usual_s: float = 0.4) -> str | None:
    given = record(batches=pd.DataFrame({"dropped_rows": [dropped]}))
    found = pd.DataFrame({"outage_s": [1.0] * kills})
    return _peers_run.invalid(given, found, usual_s, stock=engine == STOCK, timed=True)


def test_a_pass_is_not_trusted_without_calm_without_a_kill_and_where_a_marker_dropped_rows() -> (
    None
):
    assert invalid(STOCK, dropped=3) == (
        "the watermark dropped 3 rows, so the query answered another question"
    )
    assert invalid(STREAMS, dropped=3) is None, "what comes too late for it is its own finding"
    assert invalid(STREAMS, kills=0) == "no kill reached a process"
    assert "too busy" in str(invalid(FLINK, usual_s=float("nan")))


def test_the_estimate_counts_what_was_asked_for() -> None:
    grid = EXPERIMENT.grid[Profile.PAPER]
    found = peers.lasts(Profile.PAPER, grid, {"engine": (FLINK,)}, 60.0)
    assert found == (60.0 * 4 / len(grid), "the mean; runs of others than flink take no time")
    assert peers.lasts(Profile.PAPER, grid, {}, 60.0) is None
    of_flink = [one for one in grid if one["engine"] == FLINK]
    found = peers.lasts(Profile.PAPER, of_flink[:1], {"engine": (FLINK,)}, 60.0)
    assert found == (60.0, "the mean; runs of others than flink take no time"), (
        "the one point that is left is measured"
    )


def test_wrong_engines_are_refused_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no engine 'kafkastreams'"):
        peers.check(Profile.QUICK, {"engine": ["kafkastreams"]})
    with pytest.raises(UsageError, match="there is no file"):
        peers.check(Profile.QUICK, {"engine": [tmp_path / "one.yaml"]})


SPEC = SYSTEMS[TASKS, TUNED].spec


def schedule(path: Path, *events: str) -> dict[str, object]:
    file = path / "mine.yaml"
    file.write_text("failures:\n" + "".join(f"  - {{{one}}}\n" for one in events))
    return {"failures": file}


@pytest.mark.parametrize(
    ("event", "able"),
    [
        ("at: 1s, action: kill, target: r2n1", {STOCK, TASKS, STREAMS, FLINK}),
        ("at: 1s, action: kill, target: driver", {STOCK}),
        ("at: 1s, action: kill, target: coordinator", {TASKS}),
        ("at: 1s, action: kill, target: jobmanager", {FLINK}),
        ("at: 1s, action: pause, target: store", {TASKS}),
        ("at: 1s, action: pause, target: broker", {STOCK, TASKS, STREAMS, FLINK}),
        ("at: 3h, action: kill, target: r1n1", set()),
        ("at: 1s, action: kill, target: r3n1", set()),
    ],
)
def test_a_schedule_is_for_the_engines_that_have_its_targets(
    tmp_path: Path, event: str, able: set[str]
) -> None:
    options = schedule(tmp_path, event)
    planned = there(_peers_schedule.given(options))
    for name in (STOCK, TASKS, STREAMS, FLINK):
        why_not = _peers_schedule.refusal(planned, find_engine(name), SPEC)
        assert (why_not is None) == (name in able), name
        if name in able:
            peers.check(Profile.QUICK, {**options, "engine": [name]})
        else:
            with pytest.raises(UsageError, match="event 1") as caught:
                peers.check(Profile.QUICK, {**options, "engine": [name]})
            assert caught.value.remedy
    if able:
        peers.check(Profile.QUICK, options)


def test_a_schedule_begins_when_output_is_regular_and_decides_the_load(tmp_path: Path) -> None:
    options = schedule(
        tmp_path, "at: 2s, action: kill, target: r1", "at: 5s, action: restart, target: r1"
    )
    planned = there(_peers_schedule.given(options))
    system = SYSTEMS[FLINK, TUNED]
    moved, load_s = _peers_schedule.after(planned, system)
    assert [one.at_s for one in moved.events] == [system.first_s + 2, system.first_s + 5]
    assert load_s == system.first_s + 5 + system.gap_s
    grid = EXPERIMENT.grid[Profile.SMOKE]
    found = there(peers.lasts(Profile.SMOKE, grid, {**options, "engine": [FLINK]}, 60.0))
    assert found[1] == "the mean; runs of others than flink take no time"


def test_only_a_schedule_that_breaks_the_store_has_one_that_survives(tmp_path: Path) -> None:
    stored = _peers_schedule.given(schedule(tmp_path, "at: 1s, action: pause, target: store"))
    assert _peers_schedule.spec_for(stored, SPEC).append_only
    assert _peers_schedule.spec_for(None, SPEC) == SPEC


@pytest.mark.parametrize(
    ("action", "target", "kind"),
    [
        ("kill", "r1n1", WORKER), ("kill", "r2", RACK), ("kill", BUSIEST, WORKER),
        ("kill", "broker", "broker"), ("pause", "r1", "pause r1"),
        ("kill", "r1n1+r2n1", "r1n1+r2n1"),
    ],
)  # fmt: skip
def test_other_failures_are_no_kills_of_workers(action: str, target: str, kind: str) -> None:
    assert _peers_run._kind(action, target, SPEC) == kind
