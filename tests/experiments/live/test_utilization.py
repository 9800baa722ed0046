"""Utilization live: kills, progress, the model for given kills, claims that can fail."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from experiments.intervals import flink
from experiments.live import _utilization_table, utilization
from experiments.live._plans import topology_of
from experiments.live._six_nodes import SPEC
from experiments.live.utilization import replayed
from harness.engines.tasks.choices import parameters_of
from harness.intervals.utilization import CheckpointedSystem
from harness.protocol.planned import wiring_of
from harness.protocol.schemes import make_scheme
from harness.results.record import Outcome, Profile
from harness.seeds import generator
from workloads.wordcount import word_count


def test_what_is_printed_is_that_of_the_computed_figure() -> None:
    for row in flink.POINTS:
        printed = _utilization_table.PRINTED[
            float(str(row["failures_per_min"])), int(str(row["depth"]))
        ]
        assert [*printed.values()] == [row["observed_30min"], row["observed_optimum"]]


def test_without_kills_only_checkpoints_cost() -> None:
    assert replayed([], 100, interval_s=5, cost_s=0, down_s=3) == pytest.approx(1)
    assert replayed([], 100, interval_s=5, cost_s=1, down_s=3) == pytest.approx(0.8)


def test_a_kill_costs_what_was_not_checkpointed_and_the_restart() -> None:
    found = replayed([12], 20, interval_s=5, cost_s=0, down_s=3)
    assert found == pytest.approx((10 + 5) / 20), "two periods before it, one whole after it"
    assert replayed([12, 13], 20, interval_s=5, cost_s=0, down_s=3) == pytest.approx(14 / 20)


@pytest.mark.parametrize("interval_s", [1.0, 5.0, 14.0])
def test_over_many_kills_it_is_the_model(interval_s: float) -> None:
    system = CheckpointedSystem(cost_s=0.2, failure_rate_per_s=1 / 9, restart_s=1.5)
    random = generator(1, "many")
    # The model counts an exponential time of work from the end of each restart.
    instants = np.cumsum(random.exponential(9, 20_000) + 1.5) - 1.5
    found = replayed(
        instants.tolist(), float(instants[-1]), interval_s=interval_s, cost_s=0.2, down_s=1.5
    )
    assert found == pytest.approx(float(system.utilization(interval_s)), abs=0.03)


def test_kills_come_while_the_load_lasts() -> None:
    schedule = utilization.kills(7, 45.0)
    assert schedule.events == utilization.kills(7, 45.0).events
    many = [utilization.kills(seed, 45.0) for seed in range(200)]
    instants = [event.at_s for each in many for event in each.events]
    assert min(instants) >= utilization.FULL_S > utilization.WINDOW_S
    assert max(instants) < 45 - utilization.QUIET_S
    counted_s = 45 - utilization.FULL_S - utilization.QUIET_S
    assert len(instants) / 200 == pytest.approx(counted_s / utilization.MEAN_S, rel=0.1)
    assert {event.target for each in many for event in each.events} == {"r1n1", "r2n1"}
    apart = [event.at_s for event in utilization.kills(7, 20_000.0, restart_after_s=5.0).events]
    assert apart == sorted(apart), "no kill while its node is away"


def test_progress_is_read_between_two_windows() -> None:
    results = pd.DataFrame(
        {
            "pass": ["twin"] * 3 + ["failed"],
            "window_start_s": [1.0, 2.0, 3.0, 1.0],
            "arrival_s": [5.0, 6.0, 8.0, 30.0],
        }
    )
    twin = results[results["pass"] == "twin"]
    assert utilization.progress_s(twin, utilization.WINDOW_S, 7.0) == pytest.approx(6.5)
    assert utilization.progress_s(results.tail(1), utilization.WINDOW_S, 7.0) == 0


def test_every_cell_of_the_paper_s_profile_has_twenty_kills() -> None:
    measurement, load_s = utilization.MEASUREMENT, utilization.LOAD_S[Profile.PAPER]
    counted_s = load_s - utilization.FULL_S - utilization.QUIET_S
    points = measurement.grid[Profile.PAPER]
    assert len(points) == len(utilization.DEPTHS) * len(utilization.PER_MINUTE)
    for per_minute in utilization.PER_MINUTE:
        expected = counted_s / utilization.mean_s(per_minute)
        assert expected * measurement.repeats[Profile.PAPER] > 20
        long = utilization.LONG_S / utilization.mean_s(per_minute)
        assert long == pytest.approx(30 * per_minute), "λT as in the paper"
    assert utilization.optimum_s(0.005) > utilization.optimum_s()


def test_work_that_was_done_before_windows_were_full_does_not_count() -> None:
    results = pd.DataFrame(
        {
            "pass": ["failed"] * 20,
            "window_start_s": [float(second) for second in range(20)],
            "arrival_s": [second + 5.0 for second in range(20)],
        }
    )
    outcome = Outcome(series={"results": results})
    assert utilization.counted(outcome, "failed", 18.0) == pytest.approx(11.0)


@pytest.mark.parametrize("depth", utilization.DEPTHS)
def test_each_node_has_room_for_its_own_tasks_alone(depth: int) -> None:
    topology = topology_of(word_count(seed=1, partitions=2, depth=depth), 1_000)
    given = parameters_of(utilization.setup(depth, 1.0))
    assert isinstance(given.slots, tuple)
    placement = given.placement
    assert len(placement) == topology.task_count
    assert sum(given.slots) == topology.task_count
    for task, node in enumerate(placement[:-1]):
        assert node == utilization.HOMES[topology.place(task)[1] % 2]
    hosts = [SPEC.node_names[node] for node in utilization.HOMES]
    assert {name.partition("n")[0] for name in hosts} == {"r1", "r2"}


@pytest.mark.parametrize("profile", Profile)
def test_the_pass_without_checkpoints_takes_none_and_is_accepted(profile: Profile) -> None:
    wiring = wiring_of(topology_of(word_count(seed=1, partitions=2, depth=5), 1_000), {})
    every_s = parameters_of(utilization.setup(5, utilization.NO_CHECKPOINT_S)).checkpoint_s
    make_scheme("global", wiring, checkpoint_every=round(every_s / utilization.BATCH_S))
    assert every_s > utilization.LOAD_S[profile]


def kills_of(*at_s: float, processes: int = 1) -> pd.DataFrame:
    """Return kills of one node, of which so many processes died each time."""
    count = len(at_s)
    return pd.DataFrame(
        {
            "action": ["kill"] * count,
            "target": ["r1n1"] * count,
            "at_s": [*at_s],
            "processes": [processes] * count,
        }
    )


def test_a_kill_of_a_node_that_is_down_counts_for_nothing() -> None:
    failures = pd.concat([kills_of(3.0), kills_of(3.5, processes=0)])
    incidents = pd.DataFrame({"event": ["recovered"], "target": ["r1n1"], "at_s": [4.0]})
    found = Outcome(series={"failures": failures, "incidents": incidents})
    assert utilization.felt(found) == [(3.0, "r1n1")]
    assert utilization.back_s(found) == 1.0


def test_restarts_count_from_the_kill() -> None:
    failures = kills_of(3.0, 9.0)
    incidents = pd.DataFrame(
        {"event": ["restarted"] * 3, "target": ["r1n1", "r2n1", "r1n1"], "at_s": [4.0, 9.5, 11.0]}
    )
    outcome = Outcome(series={"failures": failures, "incidents": incidents})
    assert utilization.restarts_s(outcome) == pytest.approx(1.5)
    assert utilization.back_s(outcome) is None
    recovered = incidents.assign(event="recovered", at_s=[5.0, 9.5, 13.0])
    assert utilization.back_s(
        Outcome(series={"failures": failures, "incidents": recovered})
    ) == pytest.approx(3.0)


def test_a_restart_lasts_until_tasks_process_again() -> None:
    failures = kills_of(3.0, 9.0)
    incidents = pd.DataFrame(
        {
            "event": ["detected", "recovered", "restarted", "detected", "restarted"],
            "target": ["r1n1"] * 5,
            "at_s": [3.1, 6.0, 4.0, 9.1, 11.0],
            "detected_unix_s": [103.1, 103.1, None, 109.1, None],
            "ready_after_s": [None, 1.4, None, None, None],
        }
    )
    outcome = Outcome(series={"failures": failures, "incidents": incidents})
    assert utilization.restarts_s(outcome) == pytest.approx(1.5), "detection, then its state"


def test_a_period_is_of_whole_batches_as_long_as_they_take() -> None:
    behind, batch_s = utilization.BEHIND, utilization.BATCH_S
    assert utilization.period_s(4 * batch_s * behind, 1.0) == pytest.approx(4 * batch_s)
    assert utilization.period_s(4 * batch_s * behind, 0.8) == pytest.approx(5 * batch_s)
    assert utilization.period_s(0.1 * batch_s, 1.0) == batch_s, "never none at all"


@pytest.mark.parametrize(
    ("kills", "gain", "held"), [(2, 0.1, True), (2, -0.1, False), (0, -0.1, None)]
)
def test_an_interval_is_better_only_where_enough_was_killed(
    kills: int, gain: float, held: bool | None
) -> None:
    rows = pd.DataFrame(
        [
            {"depth": 5, "repeat": repeat, "kills": kills, "interval": interval,
             "measured": 0.5 + repeat / 64 + more}
            for repeat in range(6)
            for interval, more in ((_utilization_table.LONG, 0.0),
                                   (_utilization_table.OPTIMAL, gain))
        ]
    )  # fmt: skip
    found = _utilization_table.better_at_optimum(rows, ["depth"], "n={0}")
    assert found.held is held
    assert (found.why is not None) == (held is None)
