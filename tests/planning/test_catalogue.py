"""The single list of planners, and its derived tables."""

from __future__ import annotations

from dataclasses import replace

import pytest
from click.testing import CliRunner

from harness.cli.plan import command
from harness.errors import UsageError
from harness.figures.style import PLANNERS
from harness.planning.adaptation import adapt
from harness.planning.base import Planner
from harness.planning.incremental import RecoveryOrder, area, fidelity_curve
from harness.planning.planners import (
    BY_NAME,
    ENTRIES,
    Decides,
    names,
    planner,
    planners_markdown,
    recovery_order,
    scheduler,
)
from harness.planning.readings import PRINTED, QUICK
from harness.planning.structure_aware import StructureAware
from harness.seeds import generator
from harness.topology.fidelity import Objective
from harness.topology.generate import FULL, GENERAL, STRUCTURED, Specification, random_topology
from harness.topology.model import Topology

READINGS = {
    "quick": QUICK,
    "by increase": replace(PRINTED, by_increase=True),
    "without the virtual sink": replace(PRINTED, virtual_sink=False),
    "nearly all": replace(PRINTED, nearly=0.5, cheaper=False),
}


def test_no_name_is_taken_twice() -> None:
    assert len(BY_NAME) == len(ENTRIES)


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


def test_the_command_offers_them() -> None:
    # Unwrapped: Click breaks lines also within a name.
    said = CliRunner().invoke(command, ["--help"], terminal_width=100_000).output
    for name in names(Decides.REPLICATION):
        assert f"{name}: " in said


def test_the_table_has_a_row_for_each() -> None:
    assert planners_markdown().count("\n") == len(ENTRIES) + 2


def test_a_planner_of_another_kind_is_refused_with_its_kind() -> None:
    with pytest.raises(UsageError, match="inc decides in which order"):
        planner("inc")
    with pytest.raises(UsageError, match="no planner is called 'saa'"):
        planner("saa")


def seeded() -> list[Topology]:
    """Return ten small topologies of all kinds, with joins, skew and several queries."""
    return [
        random_topology(
            Specification(
                operators=(2, 6), parallelism=(1, 6), zipf=0.3,
                partitionings=(STRUCTURED, FULL, GENERAL)[n % 3],
                join_fraction=(n % 2) / 2, queries=(1, 1 + n % 3),
            ),
            generator(n, "seeded"),
        )
        for n in range(10)
    ]  # fmt: skip


RECORDED: dict[str, tuple[float, int]] = {
    "sa": (10.633476924, 3743),
    "greedy": (8.818956116, 4083),
    "refined": (10.755763153, 3992),
    "inc": (4.911520285, 6497),
    "to": (4.006992377, 5597),
    "adapt": (5.648788162, 1358),
    "quick": (10.561832283, 3763),
    "by increase": (10.37112527, 3570),
    "without the virtual sink": (10.119873624, 3716),
    "nearly all": (10.533688382, 3757),
}


@pytest.mark.parametrize("name", RECORDED)
def test_no_plan_changes_by_accident(name: str) -> None:
    """A row is the sum of values, and of task numbers weighted by their position.

    A change of a planner that is meant changes its row too."""
    values, tasks = 0.0, 0
    for topology in seeded():
        budget = topology.total_cost // 2
        found: list[tuple[float, tuple[int, ...]]] = []
        if name in names(Decides.RECOVERY_ORDER):
            order = recovery_order(name).order(topology, alive=[0])
            found.append((area(*fidelity_curve(topology, order, alive=[0])), order))
        elif name == "adapt":
            change = adapt(topology, range(0, topology.task_count, 2), budget)
            found.append((change.value_after, (*change.retire, *change.start)))
        else:
            readings = READINGS.get(name)
            way = StructureAware(readings) if readings else planner(name)
            plans = [way.plan(topology, budget, objective) for objective in Objective]
            found += [(plan.value, plan.tasks) for plan in plans]
        values += sum(value for value, _ in found)
        tasks += sum(n * task for _, chosen in found for n, task in enumerate(chosen, start=1))
    assert (round(values, 9), tasks) == RECORDED[name]
