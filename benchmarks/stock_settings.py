"""The cost of a micro-batch of the stock engine, and the settings of Spark that reduce it.

Each variant gets its own applications on one cluster. They count words (the load of
`stock/worker-kill`: 500 lines/s, windows of 4 s every 1 s) piece by piece with batches back to
back, so that a piece has as many batches as the machine can make; a second measure is the same
load at a trigger of 2 s, as in the experiments. Only rows of one table, from one machine at one
time, can be compared; the reference variant is measured at the beginning and at the end::

    .venv/bin/python -P -m benchmarks.stock_settings --variants now,rocksdb+spark-files,now"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from harness.cluster.backends import remove_made
from harness.cluster.base import Cluster, ClusterSpec
from harness.cluster.local.cluster import LocalCluster
from harness.engines.base import Engine, Setup
from harness.engines.structured.driver import PARTS
from harness.engines.structured.engine import running_applications
from harness.engines.structured.parameters import StockParameters
from harness.failures.schedule import NO_FAILURES
from harness.judging.passes import Pass, PassPlan, PassRecord
from harness.load.profile import RateProfile
from harness.measurement import Context
from workloads.wordcount import word_count

RATE_PER_S = 500.0
SPEC = ClusterSpec(racks=2, workers_per_rack=2)
PIECE_S, STEADY_S, STEADY_INTERVAL_S = 12.0, 24.0, 2.0
STATE = "spark.sql.streaming.stateStore."
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
CONTEXT = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileContextBasedCheckpointFileManager"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """Settings that differ from the engine's own."""

    conf: Mapping[str, str] = field(default_factory=dict)
    java: str = ""
    """Further options of the virtual machines of drivers and executors."""


VARIANTS: Mapping[str, Variant] = {
    "now": Variant(),
    "spark-files": Variant(conf={"spark.sql.streaming.checkpointFileManagerClass": CONTEXT}),
    "rocksdb": Variant(
        conf={
            f"{STATE}providerClass": ROCKSDB,
            f"{STATE}rocksdb.changelogCheckpointing.enabled": "true",
        }
    ),
    "partitions-2": Variant(conf={"spark.sql.shuffle.partitions": "2"}),
    "aqe-off": Variant(conf={"spark.sql.adaptive.enabled": "false"}),
    "serial": Variant(java="-XX:+UseSerialGC"),
    "interpreted": Variant(conf={"spark.sql.codegen.factoryMode": "NO_CODEGEN"}),
    "plain-broadcast": Variant(
        conf={"spark.broadcast.compress": "false", "spark.broadcast.checksum": "false"}
    ),
    "first-compiler": Variant(java="-XX:TieredStopAtLevel=1"),
    "no-codegen": Variant(conf={"spark.sql.codegen.wholeStage": "false"}),
}


class _Silent:
    """The part of a run's context that a pass needs."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def measures(self, engine: str) -> None:
        """Do nothing: no record is kept."""

    def surroundings(self, name: str, conditions: object) -> None:
        """Keep no record."""

    def progress(self, stage: str, **_: Any) -> None:
        pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One pass."""

    variant: str
    interval_s: float
    batches: int
    batch_p50_s: float
    offsets_s: float
    planning_s: float
    jobs_s: float
    log_s: float
    cpu_per_batch_s: float
    cores: float
    """Return CPU seconds of executors and drivers per second of load."""
    drivers_share: float
    latency_p50_s: float
    latency_max_s: float


def _cpu_s(record: PassRecord) -> dict[str, float]:
    by = record.usage.groupby("who")["cpu_s"]
    return {str(who): float(value) for who, value in (by.max() - by.min()).items()}


def measured(variant: str, record: PassRecord, interval_s: float) -> Measured:
    batches = record.batches[(record.batches["rows"] > 0) & (record.batches["at_s"] > 0)]
    cpu = _cpu_s(record)
    whole = sum(cpu.values())
    means = {name: float(batches[f"{name}_s"].median()) for name, _ in PARTS}
    workload = word_count()
    seen = record.deliveries
    closed = seen["window_start_s"] + workload.window_s + workload.watermark_delay_s
    late = seen["arrival_s"] - closed
    late = late[(seen["window_start_s"] > 0) & (seen["window_start_s"] < record.until_s - 6)]
    seconds = record.usage["at_s"].max() - record.usage["at_s"].min()
    return Measured(
        variant=variant,
        interval_s=interval_s,
        batches=len(batches),
        batch_p50_s=float(batches["duration_s"].median()),
        offsets_s=means["offsets"],
        planning_s=means["planning"],
        jobs_s=means["jobs"],
        log_s=means["log"],
        cpu_per_batch_s=whole / len(batches),
        cores=whole / float(seconds),
        drivers_share=cpu.get("drivers", 0.0) / whole,
        latency_p50_s=float(late.median()),
        latency_max_s=float(late.max()),
    )


def once(cluster: Cluster, engine: Engine, load_s: float, interval_s: float) -> PassRecord:
    directory = cluster.scratch(f"bench-{time.monotonic_ns()}")
    plan = PassPlan(
        name="bench",
        workload=word_count(),
        rate=RateProfile.constant(RATE_PER_S, load_s),
        interval_s=interval_s,
        schedule=NO_FAILURES,
    )
    context = cast(Context, _Silent(directory))
    with Pass(plan, cluster, engine, directory, context) as one:
        return one.run()


def run(name: str, variant: Variant, cluster: LocalCluster, pieces: int) -> Iterator[Measured]:
    """Load with batches back to back, in pieces, then once at the experiments' trigger."""
    base = cluster.spark_conf()
    java = {
        option: f"{base[option]} {variant.java}"
        for option in ("spark.executor.extraJavaOptions", "spark.driver.extraJavaOptions")
    }
    parameters = {**(java if variant.java else {}), **variant.conf}
    with running_applications(
        cluster, Setup(scheme="checkpoint", parameters=StockParameters(conf=parameters))
    ) as engine:
        for load_s, interval_s in [(PIECE_S, 0.1)] * pieces + [(STEADY_S, STEADY_INTERVAL_S)]:
            yield measured(name, once(cluster, engine, load_s, interval_s), interval_s)


def variant_of(name: str) -> Variant:
    """Return the variant; several names, joined by a plus sign, make one."""
    parts = [VARIANTS[part] for part in name.split("+")]
    return Variant(
        conf={key: value for part in parts for key, value in part.conf.items()},
        java=" ".join(part.java for part in parts if part.java),
    )


def line(m: Measured) -> str:
    """Return a row of the table."""
    return (
        f"{m.variant:<24} trigger {m.interval_s:g} s: {m.batches:3d} batches, {m.batch_p50_s:.2f} s"
        f" (offsets {m.offsets_s:.2f}, planning {m.planning_s:.2f}, jobs {m.jobs_s:.2f}, log"
        f" {m.log_s:.2f}); {m.cpu_per_batch_s:.2f} CPU-s a batch, {m.cores:.2f} cores"
        f" ({m.drivers_share:.0%} drivers); windows {m.latency_p50_s:.2f} s, slowest"
        f" {m.latency_max_s:.2f} s"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--variants", default="now", help=", ".join(VARIANTS))
    parser.add_argument("--pieces", type=int, default=3)
    chosen = parser.parse_args()
    with LocalCluster(SPEC, remove=remove_made) as cluster:
        cluster.start(lambda text: None)
        for name in chosen.variants.split(","):
            for row in run(name, variant_of(name), cluster, chosen.pieces):
                print(line(row), flush=True)
            cluster.restore(lambda text: None)
            cluster.tidy()


if __name__ == "__main__":
    main()
