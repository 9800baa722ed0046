"""The injector follows the schedule in order, and records the reached processes."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import replace

import pytest

from harness.cluster.base import Action, Prepared, Victim
from harness.errors import UsageError
from harness.failures.injector import ROW, InjectedFailure, Injector
from harness.failures.schedule import FailureEvent, Schedule


class FakeCluster:
    """The parts of a cluster that the injector uses."""

    def __init__(self) -> None:
        self.applied: list[tuple[Action, str]] = []
        self.entered = threading.Event()

    def prepare(self, action: Action, target: str) -> Prepared:
        return Prepared(lambda: self.apply(action, target))

    def apply(self, action: Action, target: str) -> Sequence[Victim]:
        self.entered.set()
        self.applied.append((action, target))
        if target == "nowhere":
            raise UsageError("there is no nowhere", remedy="use r1")
        if target == "bug":
            raise ZeroDivisionError("oh")
        return [Victim(node=target, reached=True, processes=(11, 12), at_unix_s=time.time())]


class SlowCluster(FakeCluster):
    """Every look for the processes of a target takes a while, as on a busy machine."""

    WALK_S = 0.3

    def __init__(self, *, prepares: bool) -> None:
        super().__init__()
        self._prepares = prepares

    def prepare(self, action: Action, target: str) -> Prepared:
        if self._prepares:
            time.sleep(self.WALK_S)
            return Prepared(lambda: self._signal(action, target))
        return Prepared(lambda: self.apply(action, target))

    def apply(self, action: Action, target: str) -> Sequence[Victim]:
        time.sleep(self.WALK_S)
        return self._signal(action, target)

    def _signal(self, action: Action, target: str) -> Sequence[Victim]:
        began = time.time()
        (victim,) = super().apply(action, target)
        return [replace(victim, began_unix_s=began)]


def inject(*events: FailureEvent) -> tuple[FakeCluster, Sequence[InjectedFailure]]:
    cluster = FakeCluster()
    schedule = Schedule(events=events, origin="test")
    with Injector(cluster, schedule, start_unix_s=time.time()) as injector:
        assert injector.wait(30)
    return cluster, injector.done


def kill(target: str, at_s: float = 0) -> FailureEvent:
    return FailureEvent(at_s=at_s, action=Action.KILL, target=target)


def test_events_happen_in_order_and_are_recorded() -> None:
    cluster, done = inject(kill("r2", 0.02), kill("r1", 0.01))
    assert cluster.applied == [(Action.KILL, "r1"), (Action.KILL, "r2")]
    assert [item.processes for item in done] == [2, 2]
    assert all(item.lateness_s >= 0 for item in done), "never before its instant"
    row = done[0].row(start_unix_s=done[0].at_unix_s - 7.5)
    assert tuple(row) == ROW
    assert (row["planned_at_s"], row["at_s"], row["action"], row["target"], row["error"]) == (
        0.01, 7.5, "kill", "r1", None,
    )  # fmt: skip
    assert row["lateness_s"] == done[0].lateness_s
    pids = [pid for victim in done[0].victims for pid in victim.processes]
    assert len(pids) == row["processes"] == 2
    assert all(str(pid) in row["pids"] for pid in pids), "who was killed can be looked up"


@pytest.mark.slow
@pytest.mark.parametrize("prepares", [False, True])
def test_a_slow_look_for_processes_counts_as_lateness_unless_it_comes_before(
    prepares: bool,
) -> None:
    cluster = SlowCluster(prepares=prepares)
    schedule = Schedule(events=[kill("r1", 1.0), kill("r2", 1.05)], origin="test")
    with Injector(cluster, schedule, start_unix_s=time.time()) as injector:
        assert injector.wait(30)
    first, second = (done.lateness_s for done in injector.done)
    if prepares:
        assert max(first, second) < SlowCluster.WALK_S
    else:
        assert first >= SlowCluster.WALK_S
        assert second >= 2 * SlowCluster.WALK_S - 0.05


class FarCluster(FakeCluster):
    """Carries actions out by itself, at instants that were sent ahead."""

    def __init__(self) -> None:
        super().__init__()
        self.armed: dict[str, tuple[float, float]] = {}

    def prepare(self, action: Action, target: str) -> Prepared:
        def at(due_unix_s: float) -> None:
            self.armed[target] = (time.time(), due_unix_s)

        def apply() -> Sequence[Victim]:
            (victim,) = self.apply(action, target)
            due = self.armed[target][1]
            return [replace(victim, began_unix_s=due, at_unix_s=due + 0.001)]

        return Prepared(apply, at=at, lead_s=0.2)


def test_what_is_far_away_is_sent_ahead_of_its_instant_also_several_at_once() -> None:
    cluster = FarCluster()
    events = [kill("r1", 0.4), kill("r2", 0.4)]
    start = time.time()
    schedule = Schedule(events=events, origin="test")
    with Injector(cluster, schedule, start_unix_s=start) as injector:
        assert injector.wait(30)
    assert [done.lateness_s for done in injector.done] == [0.0, 0.0]
    for sent, due in cluster.armed.values():
        assert due == start + 0.4
        assert start + 0.2 <= sent, "not before its time has come"


def test_nothing_is_prepared_before_what_changes_its_target() -> None:
    order: list[str] = []

    class Noting(FakeCluster):
        def prepare(self, action: Action, target: str) -> Prepared:
            order.append(f"prepare {action} {target}")
            return super().prepare(action, target)

        def apply(self, action: Action, target: str) -> Sequence[Victim]:
            order.append(f"{action} {target}")
            return super().apply(action, target)

    restart = FailureEvent(at_s=0.02, action=Action.RESTART, target="r1")
    events = [kill("r1"), kill("r2", 0.01), restart, kill("r1", 0.03)]
    with Injector(
        Noting(),
        Schedule(events=events, origin="test"),
        start_unix_s=time.time(),
    ) as injector:
        assert injector.wait(30)
    assert order == [
        "prepare kill r1", "prepare kill r2", "kill r1", "kill r2",
        "prepare restart r1", "restart r1", "prepare kill r1", "kill r1",
    ]  # fmt: skip


def test_an_error_is_kept_and_the_rest_goes_on() -> None:
    cluster, done = inject(kill("nowhere"), kill("bug"), kill("r1"))
    assert "no nowhere" in (done[0].error or "")
    assert done[1].error == "ZeroDivisionError: oh"
    assert done[2].error is None
    assert len(cluster.applied) == 3


def test_leaving_cancels_what_is_still_to_come() -> None:
    cluster = FakeCluster()
    schedule = Schedule(events=[kill("r1"), kill("r2", 3600)], origin="test")
    with Injector(cluster, schedule, start_unix_s=time.time()) as injector:
        assert cluster.entered.wait(30)
    assert [item.event.target for item in injector.done] == ["r1"]


def test_a_listener_that_fails_stops_no_event_and_is_heard() -> None:
    def complain(done: InjectedFailure) -> None:
        raise LookupError(done.event.target)

    cluster = FakeCluster()
    schedule = Schedule(events=[kill("r1"), kill("r2")], origin="test")
    injector = Injector(
        cluster,
        schedule,
        start_unix_s=time.time(),
        on_event=complain,
    )
    with pytest.raises(LookupError, match="r2"), injector:
        assert injector.wait(30)
    assert [target for _, target in cluster.applied] == ["r1", "r2"]
