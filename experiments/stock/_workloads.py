"""The papers' workloads at the scale of a machine with two cores, for the experiments over them.

Windows are shortened where a paper's would outlast a run. Two slow cores carry the rates together
with Kafka, the driver and the load generator. Both are in the notes of the figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from datasets.traffic import Population
from harness.experiment import Context
from workloads.accident import accidents
from workloads.base import Workload
from workloads.traffic import traffic_jams
from workloads.wordcount import word_count
from workloads.worldcup import world_cup

USERS, SEGMENTS = 5_000, 200
TRAFFIC = Population(users=USERS, segments=SEGMENTS)
"""A twentieth of the papers' users on a fifth of their segments."""

TRAFFIC_BEFORE_S = 100
"""Time simulated on the roads before a run begins: a mean of three accidents on each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaled:
    """A workload with the rate of its runs."""

    label: str
    make: Callable[[int], Workload]
    """Makes the workload from a seed."""
    rate_per_s: float
    """Records per second of all sources when something is killed."""
    note: str


WORKLOADS: Mapping[str, Scaled] = {
    "world-cup": Scaled(
        label="World Cup top 100",
        make=lambda seed: world_cup(seed=seed, window_s=4, slide_s=1),
        rate_per_s=1_000,
        note="World Cup: generated records of day 66, windows of 4 s every 1 s, 1,000 requests/s "
        "(the papers: 40,718/s on 36 machines).",
    ),
    "traffic-jams": Scaled(
        label="traffic jams",
        make=lambda seed: traffic_jams(
            seed=seed, users=USERS, segments=SEGMENTS, window_s=6, slide_s=2
        ),
        rate_per_s=TRAFFIC.location_rate + TRAFFIC.report_rate,
        note=f"Traffic: {USERS:,} users on {SEGMENTS} segments (the papers: 100,000 on 1,000), "
        "windows of 6 s every 2 s (the papers: 5 min every 10 s).",
    ),
    "accidents": Scaled(
        label="accident detection",
        make=lambda seed: accidents(seed=seed, partitions=4, start_s=TRAFFIC_BEFORE_S),
        rate_per_s=400,
        note="Accidents: 4 roads with 100 reports/s each (the paper: 14), from the simulation's "
        f"{TRAFFIC_BEFORE_S}th second on: at second 0 nothing has happened yet.",
    ),
    "word-count": Scaled(
        label="word count",
        make=lambda seed: word_count(seed=seed),
        rate_per_s=500,
        note="Word count: real text, windows of 4 s every 1 s, 500 lines/s.",
    ),
}


def workload_of(name: str, context: Context) -> Workload:
    """Return the workload of that name, with the input of this repetition."""
    return WORKLOADS[name].make(context.seed("input", name))
