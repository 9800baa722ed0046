"""Passes of one system with kills, each outage split into its parts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from experiments.live._peers_rows import LATEST_S, RACK, RATE_PER_S, WORKER, System
from harness.results.record import Outcome, Profile

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd
    from numpy.typing import NDArray

    from experiments.live._outages import Steps
    from harness.cluster.base import Cluster, ClusterSpec
    from harness.engines.base import Engine, EngineKind, Setup
    from harness.failures.schedule import Schedule
    from harness.judging.passes import PassRecord
    from harness.judging.runner import Runner
    from harness.measurement import Context
    from workloads.base import Workload

COUNTS = (
    "lost", "duplicated", "contradictions", "due", "planned", "kills", "hits", "dropped",
)  # fmt: skip
"""Values of a run that are sums over its passes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A system that runs on a cluster."""

    system: System
    workload: Workload
    runner: Runner

    @property
    def engine(self) -> Engine:
        """The engine that runs it."""
        return self.runner.engine

    def warm_up(self, seconds: float) -> None:
        """Make a pass without kills."""
        from harness.judging.runner import steady_plan

        interval_s = self.system.interval_s
        self.runner.run(steady_plan("warm-up", self.workload, RATE_PER_S, seconds, interval_s))

    def kill(self, name: str, schedule: Schedule, seconds: float) -> Outcome:
        """Make a pass with kills, which all processes survive or are started again after."""
        from harness.judging.runner import steady_plan

        interval_s = self.system.interval_s
        plan = steady_plan(name, self.workload, RATE_PER_S, seconds, interval_s, schedule=schedule)
        made = self.runner.run(plan, truth=True)
        found = self._judged(made.record, made.due(seconds))
        return replace(found, values={**found.values, "planned": len(schedule.kills)})

    def _judged(self, record: PassRecord, truth: pd.DataFrame) -> Outcome:
        from experiments.live._kills import compare
        from experiments.live._outages import LATE_S, outages, windows_of
        from harness.judging import trust
        from harness.measure.versions import settled

        system, workload = self.system, self.workload
        delivered = settled(record.deliveries, workload.identity_in_run, workload.values)
        record = replace(record, deliveries=delivered)
        windows = windows_of(record, workload, settled_s=system.first_s / 2)
        late_s = max(LATE_S, system.interval_s)
        usual_s, kills = outages(record, windows, self._steps(record), least_late_s=late_s)
        racks = self.runner.cluster.spec.rack_names
        kills["usual_s"] = usual_s
        if len(kills):
            spoilt_s = spoilt(record, truth, workload)
            kills["hit_work"] |= hit(spoilt_s, kills["at_s"], record.until_s + workload.window_s)
            kills["kill"] = [RACK if str(one) in racks else WORKER for one in kills["target"]]
        timed = self.runner.context.profile is not Profile.SMOKE
        return Outcome(
            values={
                **compare(record.deliveries, truth, workload),
                "due": len(truth),
                "kills": len(kills),
                "hits": int(kills["hit_work"].sum()) if len(kills) else 0,
                "before_s": usual_s,
                "dropped": trust.dropped(record),
                "drained": record.drained,
                "died": record.died,
                **cost(record, system.first_s),
            },
            series={"outages": kills, "windows": windows, "settings": record.settings},
            invalid=invalid(record, kills, usual_s, stock=system.stock, timed=timed),
        )

    def _steps(self, record: PassRecord) -> Steps | None:
        from experiments.live._outage import read_reports
        from experiments.live._outages import of_spark

        if not self.system.stock:
            return None
        return of_spark(
            read_reports(log_of(self.runner.cluster)), record.start_unix_s, self.system.wait_s,
            real_time=self.system.real_time,
        )  # fmt: skip


def start(
    system: System, kind: EngineKind, setup: Setup, workload: Workload, spec: ClusterSpec,
    context: Context, tuning: str = "",
) -> Measured:  # fmt: skip
    """Return a system that runs; the stock engine writes Spark's own event log."""
    from experiments.live._outage import settings
    from harness.engines.structured.parameters import StockParameters
    from harness.judging.runner import open_runner

    cluster = context.cluster(spec)
    if system.stock:
        conf = {**system.more.get("conf", {}), **settings(log_of(cluster))}
        setup = replace(setup, parameters=StockParameters(**{**system.more, "conf": conf}))
    runner = open_runner(kind, setup, cluster, context, settings=tuning)
    return Measured(system=system, workload=workload, runner=runner)


def log_of(cluster: Cluster) -> Path:
    """Return the directory of Spark's event log."""
    return cluster.run_directory / "spark-events"


def spoilt(record: PassRecord, truth: pd.DataFrame, workload: Workload) -> pd.Series[float]:
    """Return the ends of windows, one for each result that was lost, added or changed."""
    import pandas as pd

    from harness.judging.outcome import against_truth

    stable = record.deliveries[record.deliveries["stability"] == "stable"]
    found = against_truth(stable, truth, workload, workload.identity_in_run)
    begins_s = [each["window_start_s"] for each in (found.missing, found.extra, found.wrong)]
    ends_s: pd.Series[float] = pd.concat(begins_s).astype(float) + workload.window_s
    return ends_s


def hit(spoilt_s: pd.Series[float], kills_s: pd.Series[float], until_s: float) -> NDArray[Any]:
    """Return for each kill: True if a spoilt window ended after it and before the next one."""
    import numpy as np

    number, _ = np.histogram(spoilt_s, [*kills_s, until_s])
    return number > 0


def together(passes: Sequence[Outcome]) -> Outcome:
    """Return one outcome of all passes: counts are added, the rest is that of the first one."""
    from harness.results.tables import stacked

    values = [one.values for one in passes]
    series = {
        name: stacked([one.series[name].assign(**{"pass": n}) for n, one in enumerate(passes, 1)])
        for name in passes[0].series
    }
    return Outcome(
        values={
            **values[0],
            **{name: sum(each[name] for each in values) for name in COUNTS},
            "drained": all(each["drained"] for each in values),
            "died": next((each["died"] for each in values if each["died"]), None),
        },
        series=series,
        invalid=next((one.invalid for one in passes if one.invalid), None),
    )


def invalid(
    record: PassRecord, kills: pd.DataFrame, usual_s: float, *, stock: bool, timed: bool
) -> str | None:
    """Return why the pass cannot be trusted.

    Spark drops rows by a watermark that our own last marker moves; where records come too late by
    the engine's own order of reading, that is its finding."""
    from harness.judging import trust

    dropped = trust.dropped(record)
    if stock and dropped:
        return f"the watermark dropped {dropped} rows, so the query answered another question"
    if not len(kills):
        return "no kill reached a process"
    if timed and math.isnan(usual_s):
        return (
            "no window was complete before the first kill, so nothing says how late results "
            "usually are: the machine is too busy or the load before the kill too short"
        )
    return trust.late_by(record, LATEST_S, timed=timed)


def cost(record: PassRecord, first_s: float) -> dict[str, float | None]:
    """Return records per core-second and resident bytes of nodes and engine before the first kill.

    The processes of Spark's idle workers count for every engine alike."""
    from harness.judging.resources import records_per_core_s

    calm = record.usage[record.usage["at_s"].between(first_s / 2, first_s)]
    held = calm.groupby("at_s")["resident_bytes"].sum(min_count=1).max()
    return {
        "records_per_core_s": records_per_core_s(
            record.usage, RATE_PER_S, from_s=first_s / 2, until_s=first_s
        ),
        "resident_bytes": None if held != held else float(held),
    }
