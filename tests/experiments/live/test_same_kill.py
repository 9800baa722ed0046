"""The same kill: the parts of a stock outage, two measures, samples, and claims that can fail."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pandas as pd
import pytest

from experiments.live import _outage, peers, same_kill
from experiments.live._kills import measure_kills, outside
from experiments.live._outage import pause_and_work_s, reports_of
from experiments.live._peers_rows import STOCK, TASKS, TUNED
from harness.judging import trust
from harness.judging.passes import PassPlan
from harness.judging.runner import Made, Runner
from harness.results.record import Profile
from harness.results.setting import Setting
from tests.judging.constructed import (
    KILL_AT_S,
    LOAD_S,
    WORKLOAD,
    deliveries,
    injected,
    record,
    truth,
)


def test_a_recovery_that_was_watched_in_vain_never_helps_us() -> None:
    systems = {"engine": [STOCK, TASKS], "tuning": TUNED}
    kills = pd.DataFrame({**systems, "outage_s": 6.0, "caught_up": False})
    assert same_kill.samples({"kills": kills}, (STOCK, TUNED), "outage_s") == [6.0]
    assert same_kill.samples({"kills": kills}, (TASKS, TUNED), "outage_s") == [float("inf")]


@pytest.mark.parametrize(("ours_s", "held"), [(0.3, True), (0.9, False)])
def test_a_tenth_of_spark_s_outage_is_held_or_not(ours_s: float, held: bool) -> None:
    runs = pd.DataFrame([{"engine": one, "tuning": TUNED} for one in (STOCK, TASKS)])
    kills = pd.concat([runs] * 6, ignore_index=True).assign(caught_up=True, engine_s=1.0)
    kills["outage_s"] = kills["engine"].map({STOCK: 8.0, TASKS: ours_s})
    (claim,) = (one for one in same_kill.CLAIMS if one.id.endswith("replicas-as-tuned"))
    assert claim.decide({"runs": runs, "kills": kills}).held is held
    assert claim.decide({"runs": runs[:1], "kills": kills}).held is None


def task(number: int, began_s: float, ended_s: float | None) -> list[dict[str, Any]]:
    info = {"Task ID": number, "Launch Time": began_s * 1000}
    begun: dict[str, Any] = {"Event": "SparkListenerTaskStart", "Task Info": info}
    if ended_s is None:
        return [begun]
    done = {**info, "Finish Time": ended_s * 1000}
    reason = {"Reason": "Success"}
    return [
        begun,
        {"Event": "SparkListenerTaskEnd", "Task Info": done, "Task End Reason": reason},
    ]


def test_an_outage_is_split_by_what_spark_reports() -> None:
    events = [
        *task(1, 9.5, 9.8),
        *task(2, 9.9, None),  # lost with its executor
        {"Event": "SparkListenerExecutorRemoved", "Timestamp": 10_200},
        *task(3, 10.5, 10.7),  # 0.3 s without a task
        *task(4, 13.9, 14.4),  # 3.2 s
        {"Event": "SparkListenerSomethingElse"},
    ]
    found = pause_and_work_s(reports_of(events), killed_s=10.0, committed_s=15.0)
    assert found == pytest.approx((3.5, 1.3))
    assert pause_and_work_s(reports_of(events[:3]), killed_s=10.0, committed_s=15.0) is None


def test_a_log_that_is_being_written_can_be_read(tmp_path: Any) -> None:
    line = '{"Event": "SparkListenerExecutorRemoved", "Timestamp": 10200}'
    (tmp_path / "app.inprogress").write_text(line + "\n" + line[:20])
    assert _outage.read_reports(tmp_path).removed_s == [10.2]


def stable(latency_s: dict[int, float]) -> pd.DataFrame:
    return deliveries(latency_s).assign(stability="stable")


def test_the_output_is_back_when_it_is_as_late_as_before_the_kill() -> None:
    found = outside(record(stable({9: 4.0}), failures=injected()), truth(), WORKLOAD, calm_s=2.0)
    (row,) = found.to_dict("records")
    assert row["at_s"] == pytest.approx(KILL_AT_S + 0.1)
    assert row["outside_ms"] == pytest.approx((16.0 - 13.0) * 1000)
    assert row["usual_ms"] == pytest.approx(2000.0), "from the end of the window"
    never = dict.fromkeys(range(9, int(LOAD_S)), 9.0)
    found = outside(record(stable(never), failures=injected()), truth(), WORKLOAD, calm_s=2.0)
    assert pd.isna(found["outside_ms"][0])
    assert found["outside_at_least_ms"][0] > 0


def test_a_pass_with_a_late_kill_is_invalid_by_the_rule_of_all_others() -> None:
    on_time = record(failures=injected())
    late = replace(on_time, injected=[replace(one, lateness_s=0.3) for one in on_time.injected])
    assert trust.late_pass(on_time, 2.0, timed=True) is None
    assert "the kill came 0.300 s late" in str(trust.late_pass(late, 2.0, timed=True))
    assert trust.late_pass(late, 10.0, timed=True) is None, "a share of the checkpoint interval"
    assert trust.late_pass(late, 2.0, timed=False) is None, "the smoke profile measures no times"
    jumped = replace(on_time, clock_jump_s=0.5)
    assert "clock jumped by 0.500 s" in str(trust.late_pass(jumped, 2.0, timed=True))
    failed = replace(on_time, injected=[replace(one, error="gone") for one in on_time.injected])
    assert "could not be done: gone" in str(trust.late_pass(failed, 2.0, timed=False))


def test_all_systems_are_measured_by_the_peers() -> None:
    measured = [(one["engine"], one["tuning"]) for one in peers.MEASUREMENT.grid[Profile.PAPER]]
    assert set(same_kill.SYSTEMS) <= set(measured)


@pytest.mark.parametrize("lateness_s", [0.002, 0.3])
def test_kills_one_after_the_other_are_invalid_if_one_was_late(
    lateness_s: float,
) -> None:
    incidents = pd.DataFrame(
        columns=["at_s", "event", "target", "tasks", "cause", "detected_unix_s"]
    ).astype({"at_s": float})
    made = record(
        stable({9: 4.0}),
        failures=[replace(one, lateness_s=lateness_s) for one in injected()[:1]],
        incidents=incidents,
    )
    plans: list[PassPlan] = []

    class Answers(Runner):
        def __init__(self) -> None:
            self.engine = cast(Any, SimpleNamespace(targets=lambda: [SimpleNamespace(name="r1n1")]))
            context = SimpleNamespace(seed=lambda *names: 500, profile=Profile.QUICK)
            self.context = cast(Any, context)

        def run(self, plan: PassPlan, **_: Any) -> Made:
            plans.append(plan)
            work = cast(Any, SimpleNamespace(workload=WORKLOAD))
            return Made(record=made, work=work, setting=Setting(), truth=truth())

    found = measure_kills(
        Answers(), workload=WORKLOAD, rate_per_s=100, interval_s=0.1, checkpoint_s=2.0,
        kills=1, gap_s=29.0,
    )  # fmt: skip
    assert (found.invalid is None) == (lateness_s < 0.1)
    first_s = plans[0].schedule.events[0].at_s
    assert first_s >= WORKLOAD.window_s + 5 * WORKLOAD.slide_s, "windows say what is on time"
    (kill,) = found.series["kills"].to_dict("records")
    assert kill["outside_ms"] == pytest.approx(3000)
    assert kill["restored_ms"] is None
