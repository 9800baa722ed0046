"""Two workers with three nodes each, on two racks, and an engine that runs on them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.cluster.base import ClusterSpec
from harness.experiment import Context

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from harness.judging.runner import Runner

SPEC = ClusterSpec(
    racks=2, workers_per_rack=1, nodes_per_worker=3, cores_per_worker=3, memory_mb_per_worker=768
)
KEPT = "tasks on six nodes"
"""Name of the processes that runs of the task engine on `SPEC` keep warm (`Scheduling.keeps`)."""


def warm(engine: str, scheme: str, parameters: DataclassInstance, context: Context) -> Runner:
    """Return a runner on the engine of that name, kept warm between the runs of a command."""
    from harness.engines.base import Setup
    from harness.judging.runner import open_runner

    setup = Setup(scheme=scheme, parameters=parameters)
    return open_runner(engine, setup, context.cluster(SPEC), context)
