"""The injector does what the schedule says, in order, and records what was reached."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

import pytest

from harness.cluster.base import Action, Victim
from harness.errors import UsageError
from harness.failures.generators import one_target
from harness.failures.injector import ROW, InjectedFailure, Injector
from harness.failures.schedule import NO_FAILURES, FailureEvent, Schedule


class FakeCluster:
    """Only what the injector touches."""

    def __init__(self) -> None:
        self.applied: list[tuple[Action, str]] = []
        self.entered = threading.Event()

    def apply(self, action: Action, target: str) -> Sequence[Victim]:
        self.entered.set()
        self.applied.append((action, target))
        if target == "nowhere":
            raise UsageError("there is no nowhere", remedy="use r1")
        if target == "bug":
            raise ZeroDivisionError("oh")
        return [Victim(node=target, reached=True, processes=(11, 12), at_unix_s=time.time())]


def inject(*events: FailureEvent) -> tuple[FakeCluster, Sequence[InjectedFailure]]:
    cluster = FakeCluster()
    schedule = Schedule(events=events, origin="test")
    with Injector(cluster, schedule, start_unix_s=time.time()) as injector:  # type: ignore[arg-type]
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


def test_an_error_is_kept_and_the_rest_goes_on() -> None:
    cluster, done = inject(kill("nowhere"), kill("bug"), kill("r1"))
    assert "no nowhere" in (done[0].error or "")
    assert done[1].error == "ZeroDivisionError: oh"
    assert done[2].error is None
    assert len(cluster.applied) == 3


def test_leaving_cancels_what_is_still_to_come() -> None:
    cluster = FakeCluster()
    schedule = Schedule(events=[kill("r1"), kill("r2", 3600)], origin="test")
    with Injector(cluster, schedule, start_unix_s=time.time()) as injector:  # type: ignore[arg-type]
        assert cluster.entered.wait(30)
    assert [item.event.target for item in injector.done] == ["r1"]


def test_a_twin_injects_nothing() -> None:
    cluster = FakeCluster()
    with Injector(cluster, NO_FAILURES, start_unix_s=time.time()) as injector:  # type: ignore[arg-type]
        assert injector.wait(30)
    assert injector.done == ()
    assert one_target("r1", at_s=1).kills


def test_a_listener_that_fails_stops_no_event_and_is_heard() -> None:
    def complain(done: InjectedFailure) -> None:
        raise LookupError(done.event.target)

    cluster = FakeCluster()
    schedule = Schedule(events=[kill("r1"), kill("r2")], origin="test")
    injector = Injector(
        cluster,  # type: ignore[arg-type]
        schedule,
        start_unix_s=time.time(),
        on_event=complain,
    )
    with pytest.raises(LookupError, match="r2"), injector:
        assert injector.wait(30)
    assert [target for _, target in cluster.applied] == ["r1", "r2"]
