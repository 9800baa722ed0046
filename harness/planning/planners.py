"""The list of all planners: commands, figures and documents are made from it.

A planner is imported on its first use, so that a command can list them all without loading numpy
and scipy.

Tests: ``tests/planning/test_catalogue.py``."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from harness.errors import UsageError
from harness.text import did_you_mean

if TYPE_CHECKING:
    from harness.planning.base import Planner
    from harness.planning.incremental import RecoveryOrder
    from harness.planning.schedulers import Scheduler


class Decides(StrEnum):
    """The decision that a planner makes."""

    REPLICATION = "which tasks get a replica, for the worst case"
    """`harness.planning.base.Planner`."""
    RECOVERY_ORDER = "in which order failed tasks come back"
    """`harness.planning.incremental.RecoveryOrder`."""
    RISK = "which tasks get a replica, by their risk"
    """`harness.planning.rppg.rppg`."""
    PLACEMENT = "which node hosts what"
    """`harness.planning.schedulers.Scheduler`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One planner."""

    name: str
    """The name in commands, and the key of its colour in figures."""
    label: str
    decides: Decides
    about: str
    """One line for a reader who must choose."""
    paper: str
    """Its paper, by the name in ``--paper``; empty for Faultline's own."""
    target: str
    """``module:name`` in full, so that a record's dependence on it is visible in this file."""
    proves_optimum: bool = False

    def load(self) -> Any:
        """Return the class or function itself."""
        module, name = self.target.split(":")
        return getattr(importlib.import_module(module), name)


ENTRIES: Sequence[Entry] = (
    Entry(
        name="sa",
        label="SA",
        decides=Decides.REPLICATION,
        about="structure-aware: grows the plan by complete MC-trees; near the optimum, fast",
        paper="ppa",
        target="harness.planning.structure_aware:StructureAware",
    ),
    Entry(
        name="greedy",
        label="Greedy",
        decides=Decides.REPLICATION,
        about="the tasks whose own failure hurts most; fastest, blind to what belongs together",
        paper="ppa",
        target="harness.planning.greedy:Greedy",
    ),
    Entry(
        name="dp",
        label="DP",
        decides=Decides.REPLICATION,
        about="dynamic programming over MC-trees; optimal, for small topologies",
        paper="ppa",
        target="harness.planning.dynamic_programming:DynamicProgramming",
        proves_optimum=True,
    ),
    Entry(
        name="dp-printed",
        label="DP, as printed",
        decides=Decides.REPLICATION,
        about="the same in the printed order, for its time alone; for very small budgets",
        paper="ppa",
        target="harness.planning.printed_dp:PrintedDynamicProgramming",
        proves_optimum=True,
    ),
    Entry(
        name="optimum",
        label="proven optimum",
        decides=Decides.REPLICATION,
        about="mixed-integer programming with a proven bound; also where DP cannot finish",
        paper="",
        target="harness.planning.optimum:Optimum",
    ),
    Entry(
        name="refined",
        label="refined SA",
        decides=Decides.REPLICATION,
        about="SA begun from every task, then improved by exchanges; within 1 % of the optimum "
        "where that is known, in a tenth of a second",
        paper="",
        target="harness.planning.refined:Refined",
    ),
    Entry(
        name="exhaustive",
        label="exhaustive",
        decides=Decides.REPLICATION,
        about="every plan there is; for tests and very small topologies",
        paper="",
        target="harness.planning.exhaustive:Exhaustive",
        proves_optimum=True,
    ),
    Entry(
        name="inc",
        label="INC",
        decides=Decides.RECOVERY_ORDER,
        about="whole MC-trees first, those that many failed trees share before others",
        paper="ppa",
        target="harness.planning.incremental:Incremental",
    ),
    Entry(
        name="to",
        label="TO",
        decides=Decides.RECOVERY_ORDER,
        about="in topological order, the task whose own failure hurts most first",
        paper="ppa",
        target="harness.planning.incremental:TopologicalOrder",
    ),
    Entry(
        name="rppg",
        label="RPPG",
        decides=Decides.RISK,
        about="recovery time times probability of failure, the riskiest tasks within the budget",
        paper="edge",
        target="harness.planning.rppg:rppg",
    ),
    Entry(
        name="dra",
        label="DRA",
        decides=Decides.PLACEMENT,
        about="Storm's default: near what a task reads; knows nothing of replicas",
        paper="edge",
        target="harness.planning.schedulers:dra",
    ),
    Entry(
        name="ras",
        label="RAS",
        decides=Decides.PLACEMENT,
        about="resilience-aware: replicas, store and ackers near what they protect",
        paper="edge",
        target="harness.planning.schedulers:ras",
    ),
)
BY_NAME: Mapping[str, Entry] = {entry.name: entry for entry in ENTRIES}


def names(decides: Decides) -> tuple[str, ...]:
    """Return the planners that make this decision, in the order of the list."""
    return tuple(entry.name for entry in ENTRIES if entry.decides is decides)


def _load(name: str, decides: Decides) -> Any:
    known = names(decides)
    if name not in known:
        other = BY_NAME.get(name)
        raise UsageError(
            f"{name} decides {other.decides.value}, and what is wanted is {decides.value}"
            if other
            else f"no planner is called {name!r}",
            remedy=did_you_mean(name, known),
        )
    return BY_NAME[name].load()


def planner(name: str) -> Planner:
    """Return the replication planner called ``name``; `UsageError` if there is none."""
    found: Planner = _load(name, Decides.REPLICATION)()
    return found


def recovery_order(name: str) -> RecoveryOrder:
    """Return the order of recovery called ``name``; `UsageError` if there is none."""
    found: RecoveryOrder = _load(name, Decides.RECOVERY_ORDER)()
    return found


def scheduler(name: str) -> Scheduler:
    """Return the placement strategy called ``name``; `UsageError` if there is none."""
    found: Scheduler = _load(name, Decides.PLACEMENT)
    return found


def planners_markdown() -> str:
    """Return the table of planners for the documents."""
    lines = ["| planner | decides | how | from |", "|---|---|---|---|"]
    lines += [
        f"| {entry.label} (`{entry.name}`) | {entry.decides.value} | {entry.about} "
        f"| {entry.paper or 'Faultline'} |"
        for entry in ENTRIES
    ]
    return "\n".join(lines) + "\n"
