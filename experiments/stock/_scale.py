"""The size of runs of the stock engine, their cluster, and the user's options.

`experiments.stock.calibration` and everything that kills start from here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from datasets.text import read_lines, text_files
from harness.cluster.base import Action, ClusterSpec
from harness.errors import UsageError
from harness.failures.files import read_schedule
from harness.measurement import Context
from harness.results.record import Point, Profile
from workloads.base import Workload, load_workload_file
from workloads.wordcount import word_count

RATE_PER_S = 500.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunScale:
    """The size of a profile's runs."""

    workers_per_rack: int
    load_s: float
    kill_at_s: float
    """Time of the kill, without the phase within the trigger interval."""
    restart_after_s: float
    warmup_s: float
    """Load before every run's twin."""
    first_warmup_s: float
    """The same for applications that have run nothing before."""
    rack_after_s: float | None
    """Time from the kill of the worker to that of the rack, in which the output catches up and is
    calm; None for one kill alone."""
    settle_s: float = 5
    """First seconds of a pass, in which no latency counts."""
    settled_per_trigger: float = 2.0
    """Additional load, kill and repair time per second of trigger interval beyond the first."""

    def stretched_s(self, trigger_s: float) -> float:
        """Return the additional time for a trigger interval."""
        return self.settled_per_trigger * max(0.0, trigger_s - 1)


SCALES: Mapping[Profile, RunScale] = {
    Profile.SMOKE: RunScale(
        workers_per_rack=1,
        load_s=6,
        kill_at_s=2,
        restart_after_s=2,
        warmup_s=0,
        first_warmup_s=0,
        rack_after_s=None,
        settle_s=1,
    ),
    Profile.QUICK: RunScale(
        workers_per_rack=2,
        load_s=26,
        kill_at_s=7,
        restart_after_s=7,
        warmup_s=12,
        first_warmup_s=36,
        rack_after_s=22,
    ),
    Profile.PAPER: RunScale(
        workers_per_rack=2,
        load_s=60,
        kill_at_s=20,
        restart_after_s=20,
        warmup_s=20,
        first_warmup_s=60,
        rack_after_s=50,
    ),
}


LEAST_TRIGGER_S: Mapping[Profile, float] = {
    Profile.SMOKE: 1.0,
    Profile.QUICK: 2.0,
    Profile.PAPER: 1.0,
}
"""The shortest trigger of the grids of kills: the first that `experiments.stock.calibration`
tries."""

LONGEST_TRIGGER_S: Mapping[Profile, float] = {
    Profile.SMOKE: 1.0,
    Profile.QUICK: 2.0,
    Profile.PAPER: 10.0,
}
"""The longest trigger of the grids that take a schedule of the user's."""
MOST_STRETCH = 4.0
"""The most that a calibration stretches a trigger (`harness.judging.calibration.ladder`)."""


def longest_load_s(profile: Profile) -> float:
    """Return a length that no load under a schedule of the user's exceeds."""
    scale = SCALES[profile]
    longer_s = scale.stretched_s(MOST_STRETCH * LONGEST_TRIGGER_S[profile])
    second_s = 0.0 if scale.rack_after_s is None else scale.rack_after_s + longer_s
    return scale.load_s + longer_s + second_s


def cluster_spec(profile: Profile) -> ClusterSpec:
    """Return the cluster of every stock experiment: one shape, so that it stays warm."""
    return ClusterSpec(racks=2, workers_per_rack=SCALES[profile].workers_per_rack)


def spark_conf(options: Mapping[str, Any]) -> dict[str, str]:
    """Return the user's own settings of Spark; raise `UsageError` for anything else."""
    pairs = [text.partition("=") for text in options.get("conf", ())]
    for key, sign, value in pairs:
        if not sign or not key.startswith("spark."):
            raise UsageError(
                f"--conf {key}{sign}{value} is no setting of Spark's",
                remedy="write it as --conf spark.locality.wait=0s",
            )
    return {key: value for key, _, value in pairs}


def keeps(point: Point) -> str:
    """Return the name under which the applications of a scheme stay between its runs."""
    return str(point.get("scheme", "checkpoint"))


def check_options(profile: Profile, options: Mapping[str, Any]) -> None:
    """Refuse files of the user's that cannot be used, before any server is started."""
    if "failures" in options:
        spec = cluster_spec(profile)
        read_schedule(Path(options["failures"])).check(
            nodes=spec.node_names,
            racks=spec.rack_names,
            actions=set(Action),
            duration_s=longest_load_s(profile),
        )
    if "text" in options:
        read_lines(text_files([Path(path) for path in options["text"]]))
    spark_conf(options)
    if "workload" in options:
        load_workload_file(Path(options["workload"]))


def own_workload(context: Context) -> Workload:
    """Return the user's own workload, or word count over the user's own text or ours."""
    own = context.options.get("workload")
    if own is not None:
        return load_workload_file(Path(own))
    return word_count(text=context.options.get("text", ()), seed=context.seed("text"))
