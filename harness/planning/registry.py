"""The replication planners by the name that a user types."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from harness.errors import UsageError
from harness.planning.base import Planner
from harness.planning.dynamic_programming import DynamicProgramming
from harness.planning.exhaustive import Exhaustive
from harness.planning.greedy import Greedy
from harness.planning.optimum import Optimum
from harness.planning.structure_aware import StructureAware
from harness.text import did_you_mean

PLANNERS: Mapping[str, Callable[[], Planner]] = {
    "dp": DynamicProgramming,
    "greedy": Greedy,
    "sa": StructureAware,
    "optimum": Optimum,
    "exhaustive": Exhaustive,
}


def planner(name: str) -> Planner:
    """The planner called ``name``; `UsageError` if there is none."""
    if name not in PLANNERS:
        raise UsageError(f"no planner is called {name!r}", remedy=did_you_mean(name, PLANNERS))
    return PLANNERS[name]()
