"""Schedules are sorted, stored, checked, drawn from a seed, and read from files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from harness.cluster.base import Action
from harness.errors import UsageError
from harness.failures.files import read_schedule
from harness.failures.generators import Repair, exponential, mixed, one_target, random_target
from harness.failures.schedule import FailureEvent, Schedule

NODES = [f"r{rack}n{node}" for rack in (1, 2) for node in range(1, 51)]
RACKS = ["r1", "r2"]

events = st.builds(
    FailureEvent,
    at_s=st.floats(0, 1e6),
    action=st.sampled_from(Action),
    target=st.sampled_from(NODES + RACKS),
)


@given(st.lists(events))
def test_sorted_and_the_same_after_storing(given_events: list[FailureEvent]) -> None:
    schedule = Schedule(events=given_events, origin="test", seed=3, parameters={"a": 1})
    times = [event.at_s for event in schedule.events]
    assert times == sorted(times)
    assert Schedule.from_json(schedule.to_json()) == schedule


@pytest.mark.parametrize("at_s", [-1.0, float("nan"), float("inf")])
def test_a_time_before_the_start_is_refused(at_s: float) -> None:
    with pytest.raises(UsageError, match="r1n1"):
        FailureEvent(at_s=at_s, action=Action.KILL, target="r1n1")


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (FailureEvent(at_s=1, action=Action.KILL, target="r1n99"), "no node or rack"),
        (FailureEvent(at_s=1, action=Action.CUT, target="r1n1"), "cannot cut"),
        (FailureEvent(at_s=60, action=Action.KILL, target="r1n1"), "after the end"),
    ],
)
def test_what_a_cluster_cannot_serve_is_named(event: FailureEvent, words: str) -> None:
    schedule = Schedule(events=[event], origin="mine.yaml")
    with pytest.raises(UsageError, match=rf"mine.yaml: event 1 .*{words}"):
        schedule.check(nodes=NODES, racks=RACKS, actions={Action.KILL}, duration_s=60)


def test_one_target_is_killed_and_restarted() -> None:
    schedule = one_target("r1", at_s=10, restart_after_s=5)
    assert [(e.at_s, e.action, e.target) for e in schedule.events] == [
        (10, Action.KILL, "r1"),
        (15, Action.RESTART, "r1"),
    ]


def test_every_target_can_be_chosen() -> None:
    chosen = {random_target(RACKS, at_s=1, seed=seed).events[0].target for seed in range(20)}
    assert chosen == set(RACKS)


def test_exponential_gaps_fit_their_law() -> None:
    """Kolmogorov–Smirnov on the gaps of 100 nodes; a fixed seed, so it fails only on a change."""
    rate = 60.0
    repair = Repair(mean_s=5)
    schedule = exponential(NODES, rate_per_hour=rate, duration_s=36_000, seed=1, repair=repair)
    gaps = []
    for node in NODES:
        kills = [e.at_s for e in schedule.kills if e.target == node]
        gaps += list(np.diff(kills) - repair.mean_s)
    assert len(gaps) > 40_000
    assert stats.kstest(gaps, stats.expon(scale=3600 / rate).cdf).pvalue > 0.01
    assert stats.kstest(gaps, stats.expon(scale=3500 / rate).cdf).pvalue < 1e-6, "it can fail"


def test_without_repair_a_node_fails_once() -> None:
    schedule = exponential(NODES, rate_per_hour=1e4, duration_s=3600, seed=1)
    assert len(schedule.events) == len({event.target for event in schedule.events}) == len(NODES)


def test_racks_fail_beside_nodes() -> None:
    schedule = mixed(
        NODES,
        RACKS,
        node_rate_per_hour=1,
        rack_rate_per_hour=20,
        duration_s=36_000,
        seed=2,
        repair=Repair(kind="lognormal", mean_s=60),
    )
    kills = [event.target for event in schedule.kills]
    assert 300 < sum(target in RACKS for target in kills) < 420, "about 2 racks x 20/h x 10 h"
    assert 800 < sum(target in NODES for target in kills) < 1100, "about 100 nodes x 1/h x 10 h"


def test_one_seed_one_schedule_and_nodes_do_not_shift_each_other() -> None:
    def draw(nodes: list[str], seed: int) -> Schedule:
        return exponential(nodes, rate_per_hour=10, duration_s=3600, seed=seed)

    assert draw(NODES, 1) == draw(NODES, 1)
    assert draw(NODES, 1) != draw(NODES, 2)
    few = {event.target: event.at_s for event in draw(NODES[:3], 1).events}
    many = {event.target: event.at_s for event in draw(NODES, 1).events}
    assert few.items() <= many.items()


@pytest.mark.parametrize("kind", ["fixed", "exponential", "lognormal"])
def test_repairs_have_the_mean_they_say(kind: str) -> None:
    rng = np.random.default_rng(5)
    repair = Repair(kind=kind, mean_s=100, sigma=0.5)
    drawn = [repair.draw_s(rng) for _ in range(20_000)]
    assert np.mean(drawn) == pytest.approx(100, rel=0.03)


def test_a_users_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(
        "failures:\n"
        "  - {at: 1.5min, action: kill, target: r2}\n"
        "  - {at: 20s, action: kill, target: r1n1}\n"
        "  - {at: 0s, action: pause, target: r1n2}\n"
    )
    schedule = read_schedule(file)
    assert [(e.at_s, e.action.value, e.target) for e in schedule.events] == [
        (0, "pause", "r1n2"),
        (20, "kill", "r1n1"),
        (90, "kill", "r2"),
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("failures: [", "not YAML"),
        ("", "no list called failures"),
        ("failures: []", "no list called failures"),
        ("failures:\n  - {at: 5s, action: kill}", "line 2.*exactly at, action and target"),
        ("failures:\n  - {at: 5s, action: kil, target: r1}", "line 2.*no action 'kil'"),
        ("failures:\n  - {at: -5s, action: kill, target: r1}", "line 2.*not above zero"),
        ("failures:\n  - {at: 5, action: kill, target: r1}", "line 2.*no unit"),
    ],
)
def test_a_bad_file_is_explained(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(text)
    with pytest.raises(UsageError, match=words):
        read_schedule(file)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"absent\.yaml"):
        read_schedule(tmp_path / "absent.yaml")
