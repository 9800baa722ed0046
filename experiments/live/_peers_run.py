"""Passes of one system with kills, each outage split into its parts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from experiments.live._peers_rows import LATEST_S, RACK, RATE_PER_S, WORKER, System
from harness.cluster.base import Action
from harness.experiment import Context, Outcome, Profile
from harness.failures.schedule import BUSIEST

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd
    from numpy.typing import NDArray

    from experiments.live._outages import Steps
    from harness.cluster.base import Cluster, ClusterSpec
    from harness.engines.base import Engine, EngineKind, Setup
    from harness.failures.schedule import Schedule
    from harness.judging.headroom import Headroom
    from harness.judging.passes import PassRecord
    from harness.judging.runner import Made, Runner
    from harness.measure.windows import Normal
    from workloads.base import Workload

COUNTS = (
    "lost", "duplicated", "contradictions", "due", "planned", "kills", "hits", "dropped",
)  # fmt: skip
"""Values of a run that are sums over its passes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Twin:
    """A pass without kills, by which those with kills are judged."""

    record: PassRecord
    windows: pd.DataFrame
    normal: Normal | None
    """Its lateness; None where it did not deliver every window."""
    room: Headroom


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A system that runs on a cluster."""

    system: System
    workload: Workload
    runner: Runner
    rate_per_s: float = RATE_PER_S

    @property
    def engine(self) -> Engine:
        """The engine that runs it."""
        return self.runner.engine

    def _pass(self, name: str, seconds: float, **how: Any) -> Made:
        interval_s = self.system.interval_s
        return self.runner.steady(name, self.workload, self.rate_per_s, seconds, interval_s, **how)

    def warm_up(self, seconds: float) -> None:
        """Make a pass without kills that counts for nothing."""
        from harness.judging.passes import WARM_UP

        self._pass(WARM_UP, seconds)

    def twin(self, seconds: float) -> Twin:
        """Make a pass without kills.

        The windows of its cold start, the first half of `System.first_s`, are left out, as in a
        pass with kills."""
        from experiments.live._outages import usual
        from harness.judging.headroom import headroom

        record = self._pass("twin", seconds).settled
        windows = self._windows(record)
        room = headroom(record, settle_s=self.system.first_s / 2)
        return Twin(record=record, windows=windows, normal=usual(windows), room=room)

    def kill(self, name: str, schedule: Schedule, seconds: float, twin: Twin) -> Outcome:
        """Make a pass with kills, which all processes survive or are started again after."""
        made = self._pass(name, seconds, schedule=schedule, truth=True)
        found = self._judged(made, made.due(seconds), twin)
        return replace(found, values={**found.values, "planned": len(schedule.failures)})

    def _windows(self, record: PassRecord) -> pd.DataFrame:
        from experiments.live._outages import windows_of

        return windows_of(record, self.workload, settled_s=self.system.first_s / 2)

    def _judged(self, made: Made, truth: pd.DataFrame, twin: Twin) -> Outcome:
        from experiments.live._outages import outages
        from harness.judging import trust
        from harness.judging.headroom import room_facts
        from harness.judging.outcome import wrong_results

        system, workload, record = self.system, self.workload, made.settled
        windows = self._windows(record)
        kills = outages(record, windows, twin.normal, self._steps(record))
        usual_s = math.nan if twin.normal is None else twin.normal.median_s
        kills["usual_s"] = usual_s
        if len(kills):
            spoilt_s = spoilt(record, truth, workload)
            kills["hit_work"] |= hit(spoilt_s, kills["at_s"], record.until_s + workload.window_s)
            kills["kill"] = [
                _kind(str(action), str(target), self.runner.cluster.spec)
                for action, target in zip(kills.pop("action"), kills["target"], strict=True)
            ]
        timed = self.runner.context.profile is not Profile.SMOKE
        return Outcome(
            values={
                **wrong_results(record.deliveries, truth, workload),
                "due": len(truth),
                "kills": len(kills),
                "hits": int(kills["hit_work"].sum()) if len(kills) else 0,
                "before_s": usual_s,
                "rate_per_s": self.rate_per_s,
                **room_facts(twin.record, record, settle_s=system.first_s / 2, timed=timed),
                "dropped": trust.dropped(record),
                "drained": record.drained,
                "died": record.died,
                **cost(record, system.first_s, self.rate_per_s),
            },
            series={
                "outages": kills,
                "windows": windows,
                "twin": twin.windows,
                "settings": record.settings,
            },
            invalid=invalid(record, kills, usual_s, stock=system.stock, timed=timed),
        )

    def _steps(self, record: PassRecord) -> Steps | None:
        from experiments.live._outage import read_reports
        from experiments.live._outages import of_spark

        if not self.system.stock:
            return None
        reports = read_reports(log_of(self.runner.cluster))
        return of_spark(reports, record.start_unix_s, real_time=self.system.real_time)


def _kind(action: str, target: str, spec: ClusterSpec) -> str:
    """Return what a failure was: the kill of a worker or a rack, or another one in words."""
    if action != Action.KILL:
        return f"{action} {target}"
    if target in spec.rack_names:
        return RACK
    one = target == BUSIEST or target in spec.rack_of
    return WORKER if one else target


def chosen(name: str, system: System) -> tuple[EngineKind, Setup]:
    """Return an engine with the setup of a system."""
    from harness.engines.base import Setup
    from harness.engines.kinds import find_engine
    from harness.engines.structured.parameters import StockParameters

    kind = find_engine(name)
    scheme = system.scheme or next(iter(kind.schemes))
    parameters = StockParameters(**system.more) if system.stock else system.parameters
    return kind, Setup(scheme=scheme, parameters=parameters)


def start(
    system: System, kind: EngineKind, setup: Setup, workload: Workload, context: Context,
    tuning: str = "", *, spec: ClusterSpec | None = None, rate_per_s: float = RATE_PER_S,
) -> Measured:  # fmt: skip
    """Return a system that runs, by default on its own layout.

    The stock engine writes Spark's own event log."""
    from experiments.live._outage import settings
    from harness.engines.structured.parameters import StockParameters
    from harness.judging.runner import open_runner

    cluster = context.cluster(spec or system.spec)
    if system.stock:
        conf = {**system.more.get("conf", {}), **settings(log_of(cluster))}
        setup = replace(setup, parameters=StockParameters(**{**system.more, "conf": conf}))
    runner = open_runner(kind, setup, cluster, context, settings=tuning)
    return Measured(system=system, workload=workload, runner=runner, rate_per_s=rate_per_s)


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
            "the twin did not deliver every window, so nothing says how late results usually are: "
            "the machine is too busy or its load too short"
        )
    return trust.late_by(record, LATEST_S, timed=timed)


def cost(record: PassRecord, first_s: float, rate_per_s: float) -> dict[str, float | None]:
    """Return records per core-second and resident bytes of nodes and engine before the first kill.

    The processes of Spark's idle workers count for every engine alike."""
    from harness.judging.resources import records_per_core_s

    calm = record.usage[record.usage["at_s"].between(first_s / 2, first_s)]
    held = calm.groupby("at_s")["resident_bytes"].sum(min_count=1).max()
    return {
        "records_per_core_s": records_per_core_s(
            record.usage, rate_per_s, from_s=first_s / 2, until_s=first_s
        ),
        "resident_bytes": None if held != held else float(held),
    }
