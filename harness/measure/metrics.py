"""The metrics: name, unit, direction and definition. The report prints this table."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from harness.measure.recovery import CALM_S
from harness.measure.success import DRAIN_S, TUPLE_TIMEOUT_S
from harness.measure.windows import LATER_S, MUCH_LATER_S


class Direction(StrEnum):
    """The direction in which a metric is better."""

    LOWER = "lower is better"
    HIGHER = "higher is better"
    NEITHER = "no better way"


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One measured quantity."""

    name: str
    """Its column in records and tables; the unit is the last part of the name."""
    title: str
    definition: str
    unit: str = "s"
    direction: Direction = Direction.LOWER
    text: Callable[[float], str] = "{:z.3g}".format
    """Writes a value for people."""


METRICS: tuple[Metric, ...] = (
    Metric(
        name="latency_s",
        title="Latency",
        definition="Time from when the record that closes a result was to be sent until the "
        "result can be read in the out topic (the broker's append time; in a transaction that of "
        "the marker with which it becomes readable). For a window that record is the first one at "
        "or after its end plus the engine's wait for late records (under Spark the watermark's "
        "delay, under the task engine none). A revised result arrives when the value that stays "
        "first comes, and counts from the newest record that goes into it, where the workload says "
        "which records do. Never capped.",
    ),
    Metric(
        name="end_latency_s",
        title="Latency from the window's end",
        definition="Arrival of a result minus the end of its window: the waiting time of a user, "
        "including the time for which the engine waits for late records. Engines are compared by "
        "this, not by the latency above.",
    ),
    Metric(
        name="first_latency_s",
        title="Latency of the first value",
        definition="The latency of the first value of a result, tentative or to be revised; the "
        "same as the latency for results that come once. Below 0 for a value that comes before the "
        "result's newest record.",
    ),
    Metric(
        name="throughput_per_s",
        title="Throughput",
        unit="1/s",
        direction=Direction.HIGHER,
        definition="Results (first copies) that arrived in the out topic per second.",
    ),
    Metric(
        name="output_gap_s",
        title="Output gap",
        definition="The longest time without a new result that reaches into the span from the "
        "first failure to the end of the load, minus the longest such time of the no-failure twin "
        "in the same span; not below 0.",
    ),
    Metric(
        name="recovery_s",
        title="Recovery, as a user sees it",
        definition="From the failure until the output has caught up: the arrival of the last late "
        f"result before every window was on time for {CALM_S:g} s, or for less where all times of "
        f"a run are shorter. A window is late when it comes more than {LATER_S:g} s later than the "
        "median of the no-failure twin's windows. 0 when no window was late. Every failure has its "
        "own; where the next one came before the output was on time again, the run is marked "
        "(overlaps), because the two recoveries cannot be separated.",
    ),
    Metric(
        name="outage_s",
        title="Outage, as a user sees it",
        definition="The time for which results were late because of the failure, with every "
        "relapse before the next one: from the instant at which the first late window would have "
        "been complete in the twin, or from the failure if that was later, until the last one was "
        "complete before output was calm. The limit of lateness is the same for every system: "
        f"{LATER_S:g} s above the twin's median. A lower bound where output was late when the next "
        "failure came or the load ended. Lost, repeated and wrong results are counted beside it.",
    ),
    Metric(
        name="outage_5_s",
        title="Outage, much too late",
        definition="The outage with another limit of lateness: "
        f"{MUCH_LATER_S:g} s above the twin's median.",
    ),
    Metric(
        name="recovery_at_least_s",
        title="Not recovered within",
        direction=Direction.HIGHER,
        definition="Time for which the output was watched in vain: it had not caught up by the end "
        "of the load, a result was never delivered, or the engine died or stalled. A lower bound "
        "of the recovery, and a mean counts it as such.",
    ),
    Metric(
        name="detection_s",
        title="Detection",
        definition="From the failure until the engine noticed it, as the engine reports; null "
        "where it does not report that.",
    ),
    Metric(
        name="relapse_s",
        title="Relapses",
        definition="The time for which output that had caught up was late again, before the next "
        "failure or the end of the load: from when the first late window would have been complete "
        "in the twin until the last one was, added up. It is part of the outage.",
    ),
    Metric(
        name="paper_recovery_s",
        title="Recovery, as the papers define it",
        definition="From the detection until the tasks of the failed node have processed their "
        "input as far as before the failure, as the engine reports.",
    ),
    Metric(
        name="accuracy_first",
        title="Accuracy of first versions",
        unit="share",
        direction=Direction.HIGHER,
        definition="Share of the ground truth's results whose first delivered version was right; a "
        "later correction does not repair what a user already acted on.",
    ),
    Metric(
        name="accuracy_last",
        title="Accuracy of last versions",
        unit="share",
        direction=Direction.HIGHER,
        definition="Share of the ground truth's results whose last delivered version was right.",
    ),
    Metric(
        name="paper_accuracy_first",
        title="Accuracy as the papers count it, first versions",
        unit="share",
        direction=Direction.HIGHER,
        definition="Share of the members of the no-failure twin's results that the first delivered "
        "version of each result held, over all windows: |S_T ∩ S_A| / |S_A|. Members are the "
        "objects of a World Cup top 100, the incidents of a traffic jam result, the cars seen "
        "standing at a location, the counted words of a word count. A workload that does not "
        "define its members has none.",
    ),
    Metric(
        name="paper_accuracy_last",
        title="Accuracy as the papers count it, last versions",
        unit="share",
        direction=Direction.HIGHER,
        definition="Share of the members of the no-failure twin's results that the last delivered "
        "version of each result held, over all windows.",
    ),
    Metric(
        name="success_rate",
        title="Success rate of tuples",
        unit="share",
        direction=Direction.HIGHER,
        definition="Share of successful tuples among those that contribute to a result: the first "
        "of a tuple's results arrived, in its first version, within the tuple timeout of "
        f"{TUPLE_TIMEOUT_S:g} s after the tuple's intended send time, and at most {DRAIN_S:g} s "
        "after the load. Both times are the edge paper's (Xu et al. 2021, section V-B). A tuple "
        "that the query filters out is not counted.",
    ),
    Metric(
        name="duplicates",
        title="Duplicates",
        unit="results",
        definition="Repeated deliveries of one identity (query, window, key) with the same value "
        "and the same stability, which the reader drops and counts. Two different stable values "
        "for one identity are a violation instead.",
    ),
    Metric(
        name="corrections",
        title="Corrections",
        unit="results",
        direction=Direction.NEITHER,
        definition="Results whose stable value differs from a tentative one that was delivered "
        "before it.",
    ),
    Metric(
        name="early_versions",
        title="Early versions",
        unit="deliveries",
        direction=Direction.NEITHER,
        definition="Deliveries of a value that did not stay: tentative ones, and revisions that "
        "were replaced by another value.",
    ),
    Metric(
        name="setbacks",
        title="Setbacks",
        unit="deliveries",
        definition="Early versions that came after the value that stays: for a while the output "
        "was worse than it had been.",
    ),
    Metric(
        name="early_error",
        title="Error of early versions",
        unit="share",
        definition="Mean difference between the numbers of early versions and those that stay, as "
        "a share of the latter. Only for an engine that revises its results.",
    ),
    Metric(
        name="cpu_s",
        title="CPU time",
        definition="CPU seconds of all processes of the nodes and of the applications' drivers "
        "during the run, user and system, from the kernel's accounting.",
    ),
    Metric(
        name="resident_bytes",
        title="Resident memory",
        unit="bytes",
        definition="The largest sum of resident set sizes over all processes of the nodes and of "
        "the applications' drivers during the run.",
    ),
    Metric(
        name="network_bytes",
        title="Network traffic",
        unit="bytes",
        definition="Bytes into and out of the nodes during the run, where the backend counts them.",
    ),
    Metric(
        name="load_lag_s",
        title="Lag of the load generator",
        definition="Actual minus intended send time of a record. A run in which it exceeds 100 ms "
        "for more than 1 % of the records is invalid.",
    ),
)


def describe(quantity: str) -> Metric | None:
    """Return the metric of a quantity's name; None if it is not a metric.

    ``twin_`` in front marks the no-failure twin's; ``_p50_s``, ``_p99_s`` and ``_max_s``
    in the place of ``_s`` are the median, the 99th percentile and the largest."""
    known = {metric.name: metric for metric in METRICS}
    plain = quantity.removeprefix("twin_")
    for suffix in ("_p50_s", "_p99_s", "_max_s"):
        if plain.endswith(suffix):
            plain = plain.removesuffix(suffix) + "_s"
    return known.get(plain)


_QUANTILES: Mapping[str, str] = {
    "_p50": "median", "_p90": "90th percentile", "_p99": "99th percentile", "_max": "largest",
}  # fmt: skip
_UNITS: Mapping[str, str] = {
    "per_s": " per s", "us": ", µs", "ms": ", ms", "s": ", s", "min": ", min", "h": ", h",
    "bytes": ", bytes", "mb": ", MB", "mib": ", MiB", "percent": ", %",
}  # fmt: skip
_WORDS: Mapping[str, str] = {
    "ic": "IC", "cpu": "CPU", "sa": "SA", "dp": "DP", "ppa": "PPA", "rppg": "RPPG", "mttf": "MTTF",
    "daly": "Daly", "young": "Young", "zhuang": "Zhuang", "kb": "kB", "mb": "MB", "t star": "T*",
    "p50": "median", "p99": "99th percentile",
}  # fmt: skip


def label(name: str) -> str:
    """Return the words for the name of a measured number: ``resolution_s`` is "resolution, s".

    A metric has its title. Text that is not a name in snake case stays as it is."""
    if not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", name):
        return name
    if name == "of":
        return "OF"
    metric = describe(name)
    unit = next(
        (u for u in _UNITS if name.endswith(f"_{u}") and not name.endswith(f"_per_{u}")), ""
    )
    stem = name.removesuffix(f"_{unit}")
    if metric is None:
        words = stem.replace("_", " ")
        for plain, written in _WORDS.items():
            words = re.sub(rf"\b{plain}\b", written, words)
    else:
        quantile = next((q for q in _QUANTILES if stem.endswith(q)), None)
        title = (
            metric.title
            if metric.title[1].isupper()
            else metric.title[0].lower() + metric.title[1:]
        )
        words = f"twin’s {title}" if name.startswith("twin_") else title
        words += f" ({_QUANTILES[quantile]})" if quantile else ""
    if unit and words[-1].isdigit():  # window_10_s
        return f"{words} {_UNITS[unit].lstrip(', ')}"
    return words + _UNITS.get(unit, "")
