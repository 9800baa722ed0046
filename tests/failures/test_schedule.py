"""Schedules are sorted, checked, drawn from a seed, and read from files."""

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
from harness.failures.generators import exponential
from harness.failures.schedule import FailureEvent, Schedule
from harness.results.record import Profile
from harness.stock_kills.scale import check_options

NODES = [f"r{rack}n{node}" for rack in (1, 2) for node in range(1, 51)]
RACKS = ["r1", "r2"]
RACK_OF = {node: node[:2] for node in NODES}

events = st.builds(
    FailureEvent,
    at_s=st.floats(0, 1e6),
    action=st.sampled_from(Action),
    target=st.sampled_from(NODES + RACKS),
)


@given(st.lists(events))
def test_events_are_in_the_order_of_their_times(given_events: list[FailureEvent]) -> None:
    schedule = Schedule(events=given_events, origin="test", seed=3, parameters={"a": 1})
    times = [event.at_s for event in schedule.events]
    assert times == sorted(times)


@pytest.mark.parametrize("at_s", [-1.0, float("nan"), float("inf")])
def test_a_time_before_the_start_is_refused(at_s: float) -> None:
    with pytest.raises(UsageError, match="r1n1"):
        FailureEvent(at_s=at_s, action=Action.KILL, target="r1n1")


def test_exponential_gaps_fit_their_law() -> None:
    """Kolmogorov–Smirnov on the gaps of 100 nodes; a fixed seed, so it fails only on a change."""
    rate = 60.0
    schedule = exponential(NODES, rate_per_hour=rate, duration_s=36_000, seed=1, repair_s=5)
    gaps = []
    for node in NODES:
        kills = [e.at_s for e in schedule.kills if e.target == node]
        gaps += list(np.diff(kills) - 5)
    assert len(gaps) > 40_000
    assert stats.kstest(gaps, stats.expon(scale=3600 / rate).cdf).pvalue > 0.01
    assert stats.kstest(gaps, stats.expon(scale=3500 / rate).cdf).pvalue < 1e-6, "it can fail"


def test_one_seed_one_schedule_and_nodes_do_not_shift_each_other() -> None:
    def draw(nodes: list[str], seed: int) -> Schedule:
        return exponential(nodes, rate_per_hour=10, duration_s=3600, seed=seed, repair_s=5)

    assert draw(NODES, 1) == draw(NODES, 1)
    assert draw(NODES, 1) != draw(NODES, 2)
    few = {event.target: event.at_s for event in draw(NODES[:3], 1).events}
    many = {event.target: event.at_s for event in draw(NODES, 1).events}
    assert few.items() <= many.items()


def planned(*events: tuple[float, str, str]) -> Schedule:
    return Schedule(
        events=[FailureEvent(at_s=at, action=Action(a), target=t) for at, a, t in events],
        origin="mine.yaml",
    )


@pytest.mark.parametrize(
    ("action", "before"), [("restart", "kill"), ("resume", "pause"), ("heal", "cut")]
)
@pytest.mark.parametrize("lasting", [True, False])
def test_an_end_needs_a_beginning(action: str, before: str, lasting: bool) -> None:
    def check(failed: str, ended: str) -> None:
        schedule = planned((1, before, failed), (2, action, ended))
        schedule.check(rack_of=RACK_OF, actions=list(Action), lasting=lasting)

    for failed, ended in (("r1", "r1n1"), ("r1n1", "r1"), ("r1n1+r2n1", "r2n1"), ("r1", "r1+r2")):
        check(failed, ended)
    for failed, ended in (("r1n2", "r1n1"), ("r1", "r2n1"), ("r2n1", "r1"), ("r1n1+r2n1", "r1n2")):
        with pytest.raises(UsageError, match=rf"no {before} of '{ended}' stands before it"):
            check(failed, ended)
    with pytest.raises(UsageError, match=rf"event 3 .*no {before} of 'r1n1' stands before it"):
        planned((1, before, "r1"), (2, action, "r1"), (3, action, "r1n1")).check(
            rack_of=RACK_OF, actions=list(Action), lasting=lasting
        )


SECOND = [(10.0, "kill", "r1n1"), (13.0, "kill", "r2n1"), (15.0, "restart", "r1n1")]
FROZEN = [(8.0, "pause", "r1n1"), (9.0, "kill", "r1n1"), (13.0, "restart", "r1n1")]
ALL = [(17.0, "kill", "r1+r2"), (19.0, "restart", "r1+r2")]
ROLLING = [(5.0, "kill", "broker"), (9.0, "restart", "broker"), (20.0, "restart", "broker")]


@pytest.mark.parametrize(
    ("events", "words"),
    [
        ([*SECOND, (18.0, "restart", "r2n1")], None),
        ([(9.0, "cut", "r1"), (21.0, "heal", "r1")], None),
        ([*FROZEN, *ALL], None),
        ([(8.0, "kill", "r1n1"), (9.0, "kill", "r1")], None),
        ([(8.0, "kill", "r1"), (9.0, "restart", "r1n1"), (10.0, "kill", "r1n1")], None),
        ([(8.0, "kill", "driver"), (9.0, "kill", "driver")], None),
        ([(8.0, "kill", "executor-r1n1"), (9.0, "kill", "busiest")], None),
        ([(8.0, "kill", "broker"), (9.0, "restart", "broker"), (10.0, "pause", "broker")], None),
        ([*ROLLING, (11.0, "kill", "broker")], None),
        ([*ROLLING, (7.0, "kill", "broker")], "event 2 .*failed already"),
        ([(8.0, "kill", "jobmanager")], "no node, rack, server or part"),
        ([(8.0, "kill", "store")], "no node, rack, server or part"),
        ([(8.0, "pause", "driver")], "event 1 .*driver can only be killed"),
        ([(8.0, "kill", "broker")], "the broker is killed and not started again"),
        ([(8.0, "cut", "broker")], "event 1 .*the broker cannot be cut off"),
        ([(8.0, "kill", "broker+r1n1")], "event 1 .*broker is no node"),
        ([(8.0, "restart", "broker")], "event 1 .*no kill of 'broker'"),
        ([(8.0, "kill", "r1n1"), (10.0, "kill", "r1n1"), (12.0, "restart", "r1n1")], "event 2"),
        ([(8.0, "kill", "r1"), (10.0, "kill", "r1n1")], "event 2 .*'r1n1' has failed already"),
        ([(8.0, "kill", "r1"), (10.0, "pause", "r1n1+r1n2")], "event 2 .*failed already"),
        ([(8.0, "pause", "r1n1"), (10.0, "pause", "r1n1")], "event 2 .*failed already"),
        ([*FROZEN[:2], (10.0, "resume", "r1n1")], "event 3 .*no pause of 'r1n1'"),
        ([(8.0, "resume", "r1n1")], "event 1 .*no pause of 'r1n1'"),
        ([(10_800.0, "kill", "r1n1")], "after the end of the load"),
    ],
)
def test_a_users_schedule_is_accepted_or_explained(
    tmp_path: Path, events: list[tuple[float, str, str]], words: str | None
) -> None:
    file = tmp_path / "mine.yaml"
    lines = [f"  - {{at: {at}s, action: {a}, target: {t}}}\n" for at, a, t in events]
    file.write_text("failures:\n" + "".join(lines))
    if words is None:
        check_options(Profile.QUICK, {"failures": file})
        return
    with pytest.raises(UsageError, match=rf"mine.yaml: .*{words}") as refused:
        check_options(Profile.QUICK, {"failures": file})
    assert refused.value.remedy


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
        ("", "it is None"),
        ("failures: []", "has no failures"),
        ("failures:\n  - {at: 5s, action: kill}", r"failures\[1\] lacks target"),
        ("failures:\n  - {at: 5s, action: kil, target: r1}", r"failures\[1\].action is 'kil'"),
        ("failures:\n  - {at: -5s, action: kill, target: r1}", "not above zero"),
        ("failures:\n  - {at: 5, action: kill, target: r1}", r"\[1\].at is 5: .*no unit"),
        ("failures:\n  - {at: '1:30', action: kill, target: r1}", r"\[1\].at is '1:30'"),
        ("failures:\n  - {at: false, action: kill, target: r1}", "not a duration"),
        ("failures:\n  - {at: 1e400s, action: kill, target: r1}", "too long"),
        ("failures:\n  - {at: [5s], action: kill, target: r1}", "not a duration"),
        ("failures:\n  - {[at]: 5s, action: kill, target: r1}", "not YAML"),
        ("failures:\n  - kill r1", r"failures\[1\] is 'kill r1'"),
    ],
)
def test_a_bad_file_is_explained(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(text)
    with pytest.raises(UsageError, match=words):
        read_schedule(file)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as error:
        read_schedule(tmp_path / "absent.yaml")
    assert str(error.value).endswith(
        "absent.yaml cannot be read: No such file or directory\n"
        "  What to do: name a YAML file with "
        "lines such as - {at: 20s, action: kill, target: r1n1}"
    )
    (tmp_path / "bytes.yaml").write_bytes(b"\xff")
    with pytest.raises(UsageError, match="no text in UTF-8"):
        read_schedule(tmp_path / "bytes.yaml")
