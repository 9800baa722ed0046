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
        self.steps: list[str] = []
        self.entered = threading.Event()

    def prepare(self, action: Action, target: str) -> Prepared:
        self.steps.append(f"prepare {action} {target}")
        return Prepared(lambda: self.apply(action, target))

    def apply(self, action: Action, target: str) -> Sequence[Victim]:
        self.entered.set()
        self.steps.append(f"{action} {target}")
        if target == "nowhere":
            raise UsageError("there is no nowhere", remedy="use r1")
        if target == "bug":
            raise ZeroDivisionError("oh")
        return [Victim(node=target, reached=True, processes=(11, 12), at_unix_s=time.time())]


def injector(cluster: FakeCluster, *events: FailureEvent, start_unix_s: float) -> Injector:
    return Injector(cluster, Schedule(events=events, origin="test"), start_unix_s=start_unix_s)


def inject(
    cluster: FakeCluster, *events: FailureEvent, start_unix_s: float | None = None
) -> Sequence[InjectedFailure]:
    """Return the done events after all of them."""
    with injector(cluster, *events, start_unix_s=start_unix_s or time.time()) as injecting:
        assert injecting.wait(30)
    return injecting.done


def kill(target: str, at_s: float = 0) -> FailureEvent:
    return FailureEvent(at_s=at_s, action=Action.KILL, target=target)


def test_events_happen_in_order_and_are_recorded() -> None:
    done = inject(FakeCluster(), kill("r2", 0.02), kill("r1", 0.01))
    assert [item.event.target for item in done] == ["r1", "r2"]
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


@pytest.mark.parametrize("prepares", [False, True])
def test_a_slow_look_for_processes_counts_as_lateness_unless_it_comes_before(
    prepares: bool,
) -> None:
    walk_s = 0.3

    class Slow(FakeCluster):
        def prepare(self, action: Action, target: str) -> Prepared:
            time.sleep(walk_s if prepares else 0)
            return super().prepare(action, target)

        def apply(self, action: Action, target: str) -> Sequence[Victim]:
            time.sleep(0 if prepares else walk_s)
            (victim,) = super().apply(action, target)
            return [replace(victim, began_unix_s=victim.at_unix_s)]

    first, second = (done.lateness_s for done in inject(Slow(), kill("r1", 1.0), kill("r2", 1.05)))
    if prepares:
        assert max(first, second) < walk_s
    else:
        assert first >= walk_s
        assert second >= 2 * walk_s - 0.05


def test_what_is_far_away_is_sent_ahead_of_its_instant_also_several_at_once() -> None:
    """The cluster carries actions out by itself, at instants that were sent ahead."""
    armed: dict[str, tuple[float, float]] = {}

    class Far(FakeCluster):
        def prepare(self, action: Action, target: str) -> Prepared:
            def at(due_unix_s: float) -> None:
                armed[target] = (time.time(), due_unix_s)

            def apply() -> Sequence[Victim]:
                (victim,) = self.apply(action, target)
                due = armed[target][1]
                return [replace(victim, began_unix_s=due, at_unix_s=due + 0.001)]

            return Prepared(apply, at=at, lead_s=0.2)

    start = time.time()
    done = inject(Far(), kill("r1", 0.4), kill("r2", 0.4), start_unix_s=start)
    assert [one.lateness_s for one in done] == [0.0, 0.0]
    for sent, due in armed.values():
        assert due == start + 0.4
        assert start + 0.2 <= sent, "not before its time has come"


def test_nothing_is_prepared_before_what_changes_its_target() -> None:
    cluster = FakeCluster()
    restart = FailureEvent(at_s=0.02, action=Action.RESTART, target="r1")
    inject(cluster, kill("r1"), kill("r2", 0.01), restart, kill("r1", 0.03))
    assert cluster.steps == [
        "prepare kill r1", "prepare kill r2", "kill r1", "kill r2",
        "prepare restart r1", "restart r1", "prepare kill r1", "kill r1",
    ]  # fmt: skip


def test_an_error_is_kept_and_the_rest_goes_on() -> None:
    nowhere, bug, last = inject(FakeCluster(), kill("nowhere"), kill("bug"), kill("r1"))
    assert "no nowhere" in (nowhere.error or "")
    assert bug.error == "ZeroDivisionError: oh"
    assert last.error is None


def test_leaving_cancels_what_is_still_to_come() -> None:
    cluster = FakeCluster()
    with injector(cluster, kill("r1"), kill("r2", 3600), start_unix_s=time.time()) as injecting:
        assert cluster.entered.wait(30)
    assert [item.event.target for item in injecting.done] == ["r1"]
