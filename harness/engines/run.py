"""One measured run of the stock engine: a twin, then the same input with failures.

Both passes are part of one run, on the same warm applications within the same minutes, so that
what they are compared by is the failure and not the hour. The ground truth is computed over the
failed pass's own topics, so it is exact for its input.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from harness.cluster.base import Cluster
from harness.engines.deliveries import relative_windows
from harness.engines.outcome import judge
from harness.engines.passes import Pass, PassPlan, PassRecord
from harness.engines.structured.accuracy import score_passes
from harness.engines.structured.fleet import Fleet, warm_fleet
from harness.experiment import Context
from harness.failures.schedule import NO_FAILURES, Schedule
from harness.load.profile import RateProfile
from harness.results.record import Outcome
from workloads.base import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class StockRun:
    """What one run does."""

    workload: Workload
    scheme: str
    """"checkpoint" or "active"."""
    trigger_s: float
    """Trigger interval, which is the checkpoint interval: each batch commits one."""
    rate_per_s: float
    load_s: float
    warmup_s: float
    """Load before the twin, on topics of its own, for the virtual machines to compile; measured
    by nobody."""
    first_warmup_s: float
    """Instead of ``warmup_s``, where the applications have run nothing before."""
    settle_s: float
    """The first seconds of each pass, which count for no latency."""
    schedule: Schedule


def measure(run: StockRun, cluster: Cluster, context: Context) -> Outcome:
    """Warm up, run the twin, run with failures, compute the truth, and judge."""
    run.schedule.check(
        nodes=[node.name for node in cluster.nodes()],
        racks={node.rack for node in cluster.nodes()},
        actions=cluster.capabilities(),
        duration_s=run.load_s,
    )
    # Checkpoints lie in the cluster's run directory, which only its owner may read.
    directory = cluster.run_directory / f"stock-{context.directory.name}"
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    fleet = warm_fleet(cluster, run.scheme, context)
    passes = _Passes(run, cluster, fleet, directory, context)
    warmup_s = run.warmup_s if fleet.used else run.first_warmup_s
    if warmup_s > 0:
        passes.once("warm-up", warmup_s, NO_FAILURES)
    twin = passes.once("twin", run.load_s, NO_FAILURES)
    failed, truth = passes.with_truth("failures", run.load_s, run.schedule)
    context.progress("scoring the accuracy")
    accuracy = score_passes(fleet, twin, failed, run.workload, directory)
    context.progress("comparing")
    return judge(
        twin,
        failed,
        truth,
        workload=run.workload,
        schedule=run.schedule,
        trigger_s=run.trigger_s,
        settle_s=run.settle_s,
        accuracy=accuracy,
    )


class _Passes:
    """The passes of one run on one fleet."""

    def __init__(
        self, run: StockRun, cluster: Cluster, fleet: Fleet, directory: Path, context: Context
    ) -> None:
        self._run, self._cluster, self._fleet = run, cluster, fleet
        self._directory, self._context = directory, context

    def once(self, name: str, load_s: float, schedule: Schedule) -> PassRecord:
        with self._pass(name, load_s, schedule) as one:
            return one.run()

    def with_truth(
        self, name: str, load_s: float, schedule: Schedule
    ) -> tuple[PassRecord, pd.DataFrame]:
        """The pass, and what the batch query says of the same topics."""
        with self._pass(name, load_s, schedule) as one:
            record = one.run()
            self._cluster.restore(self._context.progress)
            self._context.progress("computing the ground truth")
            path = self._directory / "truth.parquet"
            self._fleet.truth(one.topic_of, path)
            truth = pd.read_parquet(path)
            return record, relative_windows(truth, self._run.workload, record.start_unix_s)

    def _pass(self, name: str, load_s: float, schedule: Schedule) -> Pass:
        self._context.progress(f"{name}: starting the queries")
        plan = PassPlan(
            name=name,
            workload=self._run.workload,
            rate=RateProfile.constant(self._run.rate_per_s, load_s),
            trigger_s=self._run.trigger_s,
            schedule=schedule,
            table=self._table(name),
        )
        return Pass(plan, self._cluster, self._fleet, self._directory, self._context)

    def _table(self, name: str) -> Path | None:
        """The database of a measured pass, kept beside the run's record."""
        if not self._run.workload.into_table or name == "warm-up":
            return None
        return self._context.directory / f"{self._run.workload.name}-{name}.sqlite"
