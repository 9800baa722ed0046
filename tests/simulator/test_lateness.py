"""The checker of lateness looks where there is something to see, and sees it."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pytest

from harness.protocol.scheme import Closing, Policy, Tentative
from harness.protocol.task.reconciliation import TentativeRun
from harness.simulator.closings import Closings
from harness.simulator.draw import draw
from harness.simulator.faults import Fault, FaultKind
from harness.simulator.lateness import NAME, Lateness
from harness.simulator.node import SimulatedNode
from harness.simulator.options import Options
from harness.simulator.run import SimulatedRun, simulate
from harness.simulator.topologies import borealis
from tests.simulator.kit import calm, local, watched
from tests.simulator.test_simulated import run_seed

SEED_OF_A_DRIFT = 1225


def cut_stream(policy: Policy, closing: Closing = Closing.TASK) -> Options:
    """Make three streams into a join, with the first stream's node away from 5 s to 25 s."""
    kind = FaultKind.LINK if closing is Closing.TASK else FaultKind.KILL
    rules = Tentative(closing=closing, bound_us=2_000_000, during_failure=policy)
    return calm(
        borealis(),
        scheme=local(checkpoint_every=5, tentative=rules),
        closes_connections=False,
        faults=(Fault(kind=kind, at_us=5_000_000, until_us=25_000_000, target=0, other=3),),
    )


def checked(options: Options) -> tuple[SimulatedRun, Lateness, int]:
    """Return a run, the checker of its tasks, and how often a sweep had to close a task."""
    report, world = watched(options)
    [after] = world.watch.after
    watcher = getattr(after, "__self__", None)
    assert isinstance(watcher, Lateness)
    others = [getattr(decided, "__self__", None) for decided in world.watch.decided]
    return report, watcher, sum(o.closings for o in others if isinstance(o, Closings))


@pytest.mark.parametrize("policy", [Policy.DELAY, Policy.PROCESS])
@pytest.mark.parametrize("closing", list(Closing))
def test_a_task_that_keeps_the_bound_is_not_blamed(policy: Policy, closing: Closing) -> None:
    report, watcher, closings = checked(cut_stream(policy, closing))
    assert report.violation is None
    assert report.tentative_outputs >= 10
    at_once = policy is Policy.PROCESS and closing is Closing.COORDINATOR
    assert at_once or watcher.begun >= 10
    assert (closings > 0) == (closing is Closing.COORDINATOR)


def test_a_microsecond_too_late_is_too_late() -> None:
    right = TentativeRun.due_at

    def late(self: TentativeRun, slot: Any, policy: Policy, now: int, *, redoes: bool) -> int:
        due = right(self, slot, policy, now, redoes=redoes)
        return due + 1 if slot is not None and due == slot.first_at + self.rules.bound_us else due

    with patch.object(TentativeRun, "due_at", late):
        report, *_ = checked(cut_stream(Policy.DELAY))
    assert report.violation is not None
    assert report.violation.invariant == NAME
    assert "should have begun batch" in report.violation.what


def test_a_clock_that_changes_its_rate_excuses_what_was_due_by_the_old_one() -> None:
    """The timer was set by the old rate.

    Without the note of the change the checker rejects a seed; where the schedules have changed it
    is another one."""
    right = SimulatedNode.set_drift

    def unnoticed(self: SimulatedNode, drift: int, now: int) -> None:
        before = self.disturbed
        right(self, drift, now)
        self.disturbed = before

    for seed in (SEED_OF_A_DRIFT, *range(2000)):
        with patch.object(SimulatedNode, "set_drift", unnoticed):
            report = simulate(draw(seed, scheme="dpc"))
        if report.violation is not None:
            break
    assert report.violation is not None, "no seed shows it"
    assert report.violation.invariant == NAME
    run_seed(seed, "dpc")
