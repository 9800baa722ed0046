"""Schedules are sorted, stored, checked, drawn from a seed, and read from files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from harness.cluster.base import Action
from harness.errors import UsageError
from harness.failures.files import read_schedule
from harness.failures.generators import (
    BurstSizes,
    Repair,
    bursts,
    exponential,
    mixed,
    one_target,
    random_target,
)
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
        (FailureEvent(at_s=1, action=Action.KILL, target="r1n99"), "no node, rack, server or part"),
        (
            FailureEvent(at_s=1, action=Action.KILL, target="r1n1+r1n99"),
            "no node, rack, server or part",
        ),
        (FailureEvent(at_s=1, action=Action.CUT, target="r1n1"), "cannot cut"),
        (FailureEvent(at_s=60, action=Action.KILL, target="r1n1"), "after the end"),
    ],
)
def test_what_a_cluster_cannot_serve_is_named(event: FailureEvent, words: str) -> None:
    schedule = Schedule(events=[event], origin="mine.yaml")
    with pytest.raises(UsageError, match=rf"mine.yaml: event 1 .*{words}"):
        schedule.check(rack_of=RACK_OF, actions={Action.KILL}, duration_s=60)


def test_several_nodes_can_be_killed_as_one() -> None:
    both = "r1n1+r2n1"
    events = [
        FailureEvent(at_s=1, action=Action.KILL, target=both),
        FailureEvent(at_s=3, action=Action.RESTART, target=both),
    ]
    schedule = Schedule(events=events, origin="a test")
    schedule.check(rack_of=RACK_OF, actions=set(Action), duration_s=10)
    assert Schedule.from_json(schedule.to_json()) == schedule


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


MEMBERS = {rack: [node for node in NODES if node.startswith(f"{rack}n")] for rack in RACKS}


def downtimes(schedule: Schedule, until_s: float) -> dict[str, float]:
    """Replay a schedule; every kill must find something alive, every restart something down.

    Returns for how many seconds each node was down."""
    members = {**MEMBERS, **{node: [node] for node in NODES}}
    since: dict[str, float] = {}
    down = dict.fromkeys(NODES, 0.0)
    for event in schedule.events:
        nodes = members[event.target]
        if event.action is Action.KILL:
            assert any(node not in since for node in nodes), f"{event} kills nothing"
            since.update({node: event.at_s for node in nodes if node not in since})
        else:
            assert all(node in since for node in nodes), f"{event} restarts what runs"
            for node in nodes:
                down[node] += event.at_s - since.pop(node)
    for node, began_s in since.items():
        down[node] += until_s - began_s
    return down


def test_racks_fail_beside_nodes() -> None:
    schedule = mixed(
        MEMBERS,
        node_rate_per_hour=1,
        rack_rate_per_hour=20,
        duration_s=36_000,
        seed=2,
        repair=Repair(kind="lognormal", mean_s=60),
    )
    kills = [event.target for event in schedule.kills]
    up_h = 10 - np.array(list(downtimes(schedule, 36_000).values())) / 3600
    assert 0.65 < up_h.mean() / 10 < 0.85, "21 failures/h x 60 s, seldom twice at once"
    expected = 1 * up_h.sum()  # what is down does not fail
    assert sum(t in NODES for t in kills) == pytest.approx(expected, abs=3.3 * expected**0.5)
    racks_up_h = up_h.mean() * 2 + 0.5  # a node is down alone for about 10 x 60 s of its 10 h
    assert sum(t in RACKS for t in kills) == pytest.approx(20 * racks_up_h, abs=60)


@pytest.mark.slow
@given(
    seed=st.integers(0, 10_000),
    kind=st.sampled_from(["fixed", "exponential", "lognormal", None]),
    rack_rate=st.sampled_from([0.0, 5.0, 200.0]),
)
def test_no_schedule_kills_what_is_down(seed: int, kind: str | None, rack_rate: float) -> None:
    repair = Repair(kind=kind, mean_s=300) if kind else None
    both = mixed(
        MEMBERS,
        node_rate_per_hour=2,
        rack_rate_per_hour=rack_rate,
        duration_s=3600,
        seed=seed,
        repair=repair,
    )
    together = bursts(NODES, bursts_per_hour=30, duration_s=3600, seed=seed, repair=repair)
    for schedule in (both, together):
        assert max(downtimes(schedule, 3600).values()) <= 3600
        schedule.check(rack_of=RACK_OF, actions=list(Action), duration_s=3600)
        assert Schedule.from_json(json.loads(json.dumps(schedule.to_json()))) == schedule


@pytest.mark.slow
def test_bursts_have_the_sizes_of_the_model() -> None:
    sizes = BurstSizes(large_share=0.3, small_ratio=0.5, large_ratio=0.9)
    schedule = bursts(
        NODES,
        bursts_per_hour=3600,
        duration_s=4000,
        seed=3,
        sizes=sizes,
        repair=Repair(mean_s=1e-6),  # all of them are back before the next burst
    )
    _, seen = np.unique([event.at_s for event in schedule.kills], return_counts=True)
    counts = np.bincount(seen, minlength=len(NODES) + 1)[1:]

    def fit(model: BurstSizes) -> float:
        expected = model.probabilities(len(NODES)) * counts.sum()
        observed = np.append(counts[:12], counts[12:].sum())
        return float(
            stats.chisquare(observed, np.append(expected[:12], expected[12:].sum())).pvalue
        )

    assert counts.sum() == pytest.approx(4000, abs=200)
    assert fit(sizes) > 0.01
    assert fit(BurstSizes(large_share=0.2, small_ratio=0.5, large_ratio=0.9)) < 1e-6, "it can fail"


def test_burst_sizes_add_up_and_match_the_fit() -> None:
    sizes = BurstSizes()
    assert sizes.probabilities(7).sum() == pytest.approx(1)
    mean = float(sizes.probabilities(125) @ np.arange(1, 126))
    assert mean == pytest.approx(2.05, abs=0.02), "the mean of the trace it was fitted to"
    with pytest.raises(UsageError, match="between 0 and 1"):
        BurstSizes(small_ratio=1)


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


def test_what_starts_again_by_itself_may_fail_again() -> None:
    twice = planned((1, "kill", "r1n1"), (2, "kill", "r1n1"), (3, "kill", "p"), (4, "kill", "p"))
    twice.check(rack_of=RACK_OF, parts=["p"], actions=list(Action))


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
        ("failures:\n  - {at: 5s, action: kill}", "line 2.*exactly one at, one action"),
        ("failures:\n  - {at: 5s, action: kil, target: r1}", "line 2.*no action 'kil'"),
        ("failures:\n  - {at: -5s, action: kill, target: r1}", "line 2.*not above zero"),
        ("failures:\n  - {at: 5, action: kill, target: r1}", "line 2.*no unit"),
        ("failures:\n  - {at: 1:30, action: kill, target: r1}", "line 2.*not a duration"),
        ("failures:\n  - {at: false, action: kill, target: r1}", "line 2.*not a duration"),
        ("failures:\n  - {at: 1e400s, action: kill, target: r1}", "line 2.*too long"),
        ("failures:\n  - {at: [5s], action: kill, target: r1}", "line 2.*exactly one at"),
        (
            "failures:\n  - {at: 1s, at: 2s, action: kill, target: r1}",
            "line 2.*'at' is there twice",
        ),
        ("failures:\n  - {at: 1s, action: kill, target: r1}\nfailures: []", "line 3.*twice"),
        ("failures:\n  - {[at]: 5s, action: kill, target: r1}", "line 2.*exactly one at"),
        ("failures:\n  - kill r1", "line 2.*exactly one at"),
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
