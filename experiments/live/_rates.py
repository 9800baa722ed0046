"""One engine at one rate without failures: cost of a record, and latency of results.

A *rate* run counts the seconds of an even load, from `SETTLE_S` to its end. A *saturation* run has
more load than any engine here can keep up with, and counts until the last record is processed:
latency does not matter, so batches may be of any size."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from experiments.live._cpu import CpuWatch
from harness.results.record import Outcome, Profile

if TYPE_CHECKING:
    import pandas as pd

    from harness.cluster.base import Cluster
    from harness.engines.base import Engine
    from harness.judging.passes import PassRecord
    from harness.measurement import Context
    from workloads.base import Workload

SATURATION = "saturation"
SETTLE_S = 3.0
"""Time from the begin of the load until windows are full and the first ones have ended."""
WATERMARK_S = 0.2
"""Delay of the stock engine for late records: little, because they come in order."""
LOAD_S = {
    Profile.SMOKE: (5.0, 2.0, 2.0),
    Profile.QUICK: (9.0, 4.0, 8.0),
    Profile.PAPER: (60.0, 10.0, 30.0),
}
"""Seconds of measurement; of the task engine's warm-up, once for its processes; and of the stock
engine's, once for every workload on an application, because its virtual machines compile frequent
code: each later run of the workload finds them warmer than the first one did."""
WORDS, TOP = "word count", "top 100"
_STATE = "spark.sql.streaming.stateStore.providerClass"
_PROVIDERS = "org.apache.spark.sql.execution.streaming.state."
_COMMON = {
    # On a local disk Hadoop's own writer starts a process for every file of a checkpoint.
    "spark.sql.streaming.checkpointFileManagerClass": "org.apache.spark.sql.execution.streaming."
    "checkpointing.FileSystemBasedCheckpointFileManager",
    "spark.sql.shuffle.partitions": "2",
}
_ROCKSDB = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
STOCK: Mapping[str, Mapping[str, str]] = {
    "memory": {**_COMMON, _STATE: f"{_PROVIDERS}HDFSBackedStateStoreProvider"},
    "memory, 6 partitions": {
        **_COMMON,
        _STATE: f"{_PROVIDERS}HDFSBackedStateStoreProvider",
        "spark.sql.shuffle.partitions": "6",
    },
    "RocksDB": {**_COMMON, _STATE: f"{_PROVIDERS}RocksDBStateStoreProvider", _ROCKSDB: "true"},
}
"""Settings of the stock engine: the store of state, and its number of parts (a core or a slot
each)."""
_RAN: WeakKeyDictionary[Engine, set[str]] = WeakKeyDictionary()
"""Workloads that each running engine has run."""


def workload_named(name: str) -> Workload:
    """Return a workload with windows of 4 s every second, 2 partitions of single records."""
    if name == TOP:
        from workloads.worldcup import world_cup

        return world_cup(partitions=2, window_s=4, slide_s=1, watermark_delay_s=WATERMARK_S)
    from workloads.wordcount import word_count

    return word_count(window_s=4, slide_s=1, depth=4, watermark_delay_s=WATERMARK_S)


def measure_rate(
    engine: Engine,
    cluster: Cluster,
    context: Context,
    *,
    workload: Workload,
    rate_per_s: float,
    interval_s: float,
    saturated: bool,
    stock: bool,
) -> Outcome:
    """Warm up, then one pass that counts."""
    from experiments.live._runs import steady_pass
    from harness.judging.passes import Pass

    load_s, first_s, stock_s = LOAD_S[context.profile]
    directory = cluster.scratch(f"live-{context.directory.name}")
    passes = [("rate", load_s)]
    ran = _RAN.setdefault(engine, set())
    if not (workload.name in ran if stock else engine.used):
        passes.insert(0, ("warm-up", stock_s if stock else first_s))
    ran.add(workload.name)
    for name, seconds in passes:
        plan = steady_pass(name, workload, rate_per_s, seconds, interval_s)
        with Pass(plan, cluster, engine, directory, context) as one:
            with CpuWatch(cluster, engine) as watch:
                record = one.run()
            if name == "rate":
                due = len(engine.truth(one.work))
    began = record.start_unix_s
    if saturated:
        records, used = record.load.records, watch.between(began)
    else:
        records = round(rate_per_s * (record.until_s - SETTLE_S))
        used = watch.between(began + SETTLE_S, began + record.until_s)
    latency_s = latency_from_end_s(record, workload)
    half = SETTLE_S + (record.until_s - SETTLE_S) / 2 - workload.window_s
    early = record.deliveries["window_start_s"].reindex(latency_s.index) < half
    total = sum(used.values())
    return Outcome(
        values={
            "records": records,
            "cpu_s": total,
            "records_per_core_s": records / total,
            **{f"cpu_us_{name}": seconds / records * 1e6 for name, seconds in used.items()},
            "latency_p50_s": _quantile(latency_s, 0.5),
            "latency_p99_s": _quantile(latency_s, 0.99),
            "latency_early_s": _quantile(latency_s[early], 0.5),
            "latency_late_s": _quantile(latency_s[~early], 0.5),
            "results": len(record.deliveries),
            "due": due,
            "drained": record.drained,
        },
        invalid=None if saturated else record.load.invalid,
    )


def latency_from_end_s(record: PassRecord, workload: Workload) -> pd.Series[float]:
    """Return arrival minus the end of the result's window, from `SETTLE_S` on: a user's wait."""
    found = record.deliveries[record.deliveries["window_start_s"] >= SETTLE_S - workload.window_s]
    ended = found["window_start_s"] + workload.window_s <= record.until_s
    return (found["arrival_s"] - found["window_start_s"] - workload.window_s)[ended]


def _quantile(values: pd.Series[float], share: float) -> float | None:
    return float(values.quantile(share)) if len(values) else None
