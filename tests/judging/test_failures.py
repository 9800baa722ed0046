"""Each failure of a pass with its detection and both recoveries."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pandas as pd
import pytest

from harness.cluster.base import Action, Victim
from harness.failures.injector import InjectedFailure
from harness.judging.failures import detection
from harness.results.kills import Kill, Unrecovered
from tests.judging.constructed import (
    KILL_AT_S,
    LOAD_S,
    SCHEDULE,
    START,
    deliveries,
    injected,
    judged,
    record,
)
from tests.judging.test_outcome import STOPPED, done, shows, values


def recoveries(latency_s: dict[int, float], *events: InjectedFailure, **changes: Any) -> Any:
    outcome = judged(record(deliveries(latency_s), failures=events, **changes))
    return outcome.series["recoveries"]


def test_every_kind_of_failure_has_a_recovery_of_its_own() -> None:
    table = recoveries(
        {4: 4.0, 19: 5.0},
        done(7.0, "kill", "r1n1", "r1n1"),
        done(9.0, "restart", "r1n1", "r1n1"),
        done(17.0, "pause", "r1n2", "r1n2"),
        done(18.0, "resume", "r1n2", "r1n2"),
        done(22.0, "cut", "r2", "r2n1", "r2n2"),
    )
    assert table["action"].tolist() == ["kill", "pause", "cut"]
    assert table["scope"].tolist() == ["node", "node", "rack"]
    assert table["recovery_s"].tolist() == pytest.approx([4.0, 0.0, 5.0])
    assert table["ended_at_s"].tolist()[:2] == [9.0, 18.0]
    assert not table["overlaps"].any()


def test_detection_and_recovery_as_the_papers_define_it() -> None:
    incidents = pd.DataFrame(
        {
            "at_s": [9.0, 11.5, 12.0, 15.0, 16.5],
            "event": ["detected", "detected", "detected", "recovered", "recovered"],
            "target": ["r1n1", "r2n2", "r1n1", "r1n1", "r2n2"],
            "cause": ["earlier", "another node", "heartbeat", "checkpoint", "checkpoint"],
        }
    )
    found = values(deliveries(STOPPED), incidents=incidents)
    shows(found, detection_s=pytest.approx(12.0 - KILL_AT_S - 0.1), detected_by="heartbeat")
    shows(found, paper_recovery_s=pytest.approx(3.0), paper_recovery_why_not=None)


def reported(*rows: tuple[float, str, str, float, str]) -> pd.DataFrame:
    """Return incidents: when, what, of which node, the loss that they are about, its tasks."""
    names = ["at_s", "event", "target", "detected_unix_s", "tasks"]
    return pd.DataFrame(rows, columns=names).assign(cause="connection")


def test_a_death_that_is_seen_before_the_last_signal_is_out_is_detected() -> None:
    kill = done(KILL_AT_S + 0.1, "kill", "r1", "r1n1", "r1n2")
    began = [replace(victim, began_unix_s=START + KILL_AT_S) for victim in kill.victims]
    incidents = reported(
        (KILL_AT_S + 0.01, "detected", "r1n1", 70.0, "a"),
        (KILL_AT_S + 0.05, "recovered", "r1n1", 70.0, "a"),
    )
    table = recoveries(STOPPED, replace(kill, victims=began), incidents=incidents)
    assert table["at_s"].tolist() == pytest.approx([KILL_AT_S])
    assert table["detection_s"].tolist() == pytest.approx([0.01])
    assert table["paper_recovery_s"].tolist() == pytest.approx([0.04])


def failure(at_s: float, *nodes: str) -> Kill:
    return Kill(action="kill", target="+".join(nodes), scope="nodes", nodes=nodes, at_s=at_s)


def test_a_detection_belongs_to_the_newest_failure_of_its_node() -> None:
    """A message on its way is no sign of the next node's death."""
    seen = reported(
        (10.07, "detected", "r2n2", 70.07, "a"), (10.09, "detected", "r1n1", 70.09, "b"),
        (10.5, "recovered", "r1n1", 70.09, "b"), (13.07, "recovered", "r2n2", 70.07, "a"),
        (20.0, "detected", "r2n2", 80.0, "a"), (20.5, "recovered", "r2n2", 80.0, "a"),
    )  # fmt: skip
    failed = [failure(10.0, "r2n2"), failure(10.05, "r1n1"), failure(19.9, "r2n2")]
    found = [detection(seen, one, failed[place + 1 :]) for place, one in enumerate(failed)]
    assert [one.get("paper_recovery_s") for one in found] == pytest.approx([3.0, 0.41, 0.5])
    gone = failure(15.0, "r2n2")
    assert detection(seen, gone, failed[2:]) == {
        "paper_recovery_why_not": "the engine did not notice the failure"
    }


def test_a_recovery_is_that_of_its_own_loss() -> None:
    seen = reported(
        (10.0, "detected", "r1n1", 70.0, "a"), (12.0, "detected", "r1n1", 72.0, "b"),
        (12.5, "recovered", "r1n1", 72.0, "b"), (14.0, "recovered", "r1n1", 70.0, "a"),
    )  # fmt: skip
    both = [failure(9.9, "r1n1"), failure(11.9, "r1n1")]
    assert detection(seen, both[0], both[1:]).get("paper_recovery_s") == pytest.approx(4.0)
    assert detection(seen, both[1]).get("paper_recovery_s") == pytest.approx(0.5)


def test_a_node_that_was_no_tasks_primary_has_nothing_to_regain() -> None:
    """Its next recovery, after another failure, is not this one's."""
    seen = reported(
        (10.0, "detected", "r1n1", 70.0, "a"), (10.0, "detected", "r1n2", 70.0, ""),
        (10.5, "recovered", "r1n1", 70.0, "a"), (30.0, "detected", "r1n2", 90.0, "a"),
        (33.0, "recovered", "r1n2", 90.0, "a"),
    )  # fmt: skip
    first, later = failure(9.9, "r1n1", "r1n2"), failure(29.9, "r1n2")
    assert detection(seen, first, [later]).get("paper_recovery_s") == pytest.approx(0.5)
    alone = detection(seen, failure(9.9, "r1n2"), [later])
    assert alone.get("detected_at_s") == pytest.approx(10.0)
    assert alone.get("paper_recovery_why_not") == "nothing that output hangs on ran there"


def test_a_node_that_did_not_come_back_is_not_left_out() -> None:
    seen = reported(
        (10.0, "detected", "r1n1", 70.0, "a"), (10.0, "detected", "r1n2", 70.0, "b"),
        (10.5, "recovered", "r1n1", 70.0, "a"),
    )  # fmt: skip
    found = detection(seen, failure(9.9, "r1n1", "r1n2"))
    assert found.get("paper_recovery_why_not") == "the progress was not regained"


def test_what_arrives_when_the_load_has_ended_is_no_throughput_of_it() -> None:
    frame = deliveries()
    last = frame.index[frame["arrival_s"] < LOAD_S][-1]
    before = values(frame)["throughput_per_s"]
    frame.loc[last, "arrival_s"] = LOAD_S
    assert values(frame)["throughput_per_s"] == pytest.approx(before - 1 / LOAD_S)


@pytest.mark.parametrize(
    ("kills_s", "latency_s", "ends_s", "found"),
    [
        # The first kill's output was back at 11 s; the second one ended the engine at once.
        ([7.0, 20.0], {4: 4.0}, 20.0, [4.0, None]),
        ([7.0, 20.0], {4: 4.0}, 23.0, [4.0, None]),
        ([7.0, 20.0, 25.0], {4: 4.0}, 20.0, [4.0, None, None]),
        ([7.0], {4: 4.0}, 20.0, [None]),
        ([7.0, 12.0, 23.0], {4: 9.0}, 23.0, [9.0, 4.0, None]),
    ],
)
@pytest.mark.parametrize("end", ["died", "stalled"])
def test_an_engine_that_dies_later_had_recovered_before(
    kills_s: list[float],
    latency_s: dict[int, float],
    ends_s: float,
    found: list[float | None],
    end: str,
) -> None:
    kills = [done(at_s, "kill", "r1n1", "r1n1") for at_s in kills_s]
    given = deliveries(latency_s).query("arrival_s < @ends_s")
    changes: dict[str, Any] = {"died": "gone"} if end == "died" else {"stalled": True}
    table = judged(record(given, failures=kills, drained=False, **changes)).series["recoveries"]
    assert table["recovery_s"].fillna(-1).tolist() == pytest.approx(
        [-1 if one is None else one for one in found]
    )
    late = table[table["recovery_s"].isna()]
    assert late["recovery_at_least_s"].tolist() == (LOAD_S - late["at_s"]).tolist()
    assert late["recovery_why_not"].str.contains(end).all()


def test_a_window_that_the_next_kill_holds_back_is_not_the_earlier_ones() -> None:
    """It was due before the second kill, and on time it would have come after it."""
    kills = [done(at_s, "kill", "r1n1", "r1n1") for at_s in (7.0, 20.5)]
    table = recoveries({4: 4.0, 17: 6.0, 18: 5.0}, *kills)
    assert table["recovery_s"].tolist() == pytest.approx([4.0, 5.5])
    assert not table["overlaps"].any()


def test_an_engine_that_stalled_did_not_recover_whatever_its_twin_was_like() -> None:
    """One that could not even be stopped afterwards had stalled before."""
    behind = record(deliveries(dict.fromkeys(range(-1, 30), 6.0)), name="twin")
    rest = deliveries().query("arrival_s < 10")
    for died in (None, "its query did not end"):
        broken = record(rest, failures=injected(), drained=False, stalled=True, died=died)
        found = judged(broken, behind).values
        assert found["recovery_why_not"] == "the engine stalled: it delivered nothing more"
        assert found["recovery_at_least_s"] == pytest.approx(LOAD_S - KILL_AT_S - 0.1)
        assert found["output_equals_twin"] is False


def test_why_there_is_no_recovery_is_a_word_of_a_closed_list() -> None:
    twin = record(deliveries(dict.fromkeys(range(-1, 30), 6.0)), name="twin")
    for found, why in (
        (judged(record(failures=injected()), twin).values, Unrecovered.TWIN_BEHIND),
        (judged(record(failures=())).values, Unrecovered.NOTHING_FAILED),
        (values(deliveries().query("window_start_s < 8")), Unrecovered.LOST),
        (values(deliveries(dict.fromkeys(range(7, 30), 60.0))), Unrecovered.NOT_BY_END),
    ):
        shows(found, recovery_s=None, recovery_why_not=why.value)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"error": "no such process"}, "could not be done: no such process"),
        ({"victims": []}, "hit nothing: no node of its target was there to be hit"),
        ({"victims": [Victim(node="r1n1", reached=False, at_unix_s=START + 10)]}, "hit nothing"),
    ],
)
def test_a_kill_that_failed_or_hit_nothing_makes_a_run_invalid(
    change: dict[str, Any], why: str
) -> None:
    kill, restart = injected()
    invalid = judged(record(failures=[replace(kill, **change), restart])).invalid
    assert invalid is not None
    assert invalid.startswith("failures: the kill of r1n1 at 10 s")
    assert why in invalid
    assert "restart of r1n1 at 18 s could not be done" in str(
        judged(record(failures=[kill, replace(restart, error="its port is taken")])).invalid
    )
    assert judged(record(failures=[kill])).invalid == (
        "failures: the pass ended after 1 of the 2 planned events"
    )


def test_a_second_kill_within_the_absence_of_its_node_is_part_of_the_first() -> None:
    kill, restart = injected()
    again = replace(kill, event=replace(kill.event, at_s=11.0), victims=[])
    schedule = replace(SCHEDULE, events=[kill.event, again.event, restart.event])
    within = judged(record(failures=[kill, again, restart]), schedule=schedule)
    assert within.invalid is None
    back = judged(record(failures=[kill, restart, again]), schedule=schedule)
    assert "the kill of r1n1 at 11 s hit nothing" in str(back.invalid)


def test_a_kill_where_nothing_ran_says_nothing() -> None:
    idle = [
        replace(done, victims=[replace(v, executors=0) for v in done.victims])
        for done in injected()
    ]
    assert judged(record(failures=idle)).invalid == (
        "failures: the kill of r1n1 at 10 s hit r1n1, where nothing of the engine ran then"
    )
    only_restarted = [done for done in idle if done.event.action is Action.RESTART]
    schedule = replace(SCHEDULE, events=[only_restarted[0].event])
    found = judged(record(failures=only_restarted), schedule=schedule)
    assert found.invalid is None, "a restart breaks nothing"
