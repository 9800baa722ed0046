"""The single list of planners, and its derived tables."""

from __future__ import annotations

import pytest

from harness.errors import UsageError
from harness.figures.style import PLANNERS
from harness.planning.base import Planner
from harness.planning.incremental import RecoveryOrder
from harness.planning.planners import (
    BY_NAME,
    Decides,
    names,
    planner,
    recovery_order,
    scheduler,
)


def test_every_planner_is_what_the_list_says() -> None:
    for name in names(Decides.REPLICATION):
        found = planner(name)
        assert isinstance(found, Planner)
        assert (found.name, found.proves_optimum) == (name, BY_NAME[name].proves_optimum)
    for name in names(Decides.RECOVERY_ORDER):
        order = recovery_order(name)
        assert isinstance(order, RecoveryOrder)
        assert order.name == name
    for name in names(Decides.PLACEMENT):
        assert callable(scheduler(name))


def test_every_planner_has_a_look_under_the_same_label() -> None:
    assert {name: look.label for name, look in PLANNERS.items()} == {
        name: entry.label for name, entry in BY_NAME.items()
    }


def test_a_planner_of_another_kind_is_refused_with_its_kind() -> None:
    with pytest.raises(UsageError, match="inc decides in which order"):
        planner("inc")
    with pytest.raises(UsageError, match="no planner is called 'saa'"):
        planner("saa")
