"""Workloads and settings for comparing the two live engines at equal work."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from experiments.live._six_nodes import SPEC
from harness.engines.structured.parameters import Mode, StockParameters
from harness.stock_kills.scale import UPDATES_WATERMARK_S

if TYPE_CHECKING:
    from harness.cluster.base import Cluster
    from workloads.base import Workload

WATERMARK_S = 0.2
"""Delay of the stock engine for late records: little, because they come in order."""
WORDS, TOP = "word count", "top 100"
_STATE = "spark.sql.streaming.stateStore.providerClass"
_PROVIDERS = "org.apache.spark.sql.execution.streaming.state."
_ROCKSDB = {
    _STATE: f"{_PROVIDERS}RocksDBStateStoreProvider",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}

SLOTS = min(6, max(2, os.cpu_count() or 2)) // 2 * 2
"""Slots of the tuned stock engine: no more than cores, and as many on either worker."""
_SLOTS = {
    "spark.executor.cores": str(SLOTS // 2),
    "spark.cores.max": str(SLOTS),
    "spark.sql.shuffle.partitions": str(SLOTS),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StockSettings(StockParameters):
    """One way to run the stock engine, and its query."""

    per_slide: bool = False
    """True if the query aggregates per slide before it does per window, where the workload can."""

    def parameters(self, interval_s: float) -> StockParameters:
        """Return the parameters; in real-time mode ``interval_s`` is that between checkpoints."""
        return StockParameters(
            conf=self.conf,
            source=self.source,
            mode=self.mode,
            checkpoint_s=interval_s if self.real_time else None,
            spare_slots=self.spare_slots,
        )


_TUNED = StockSettings(conf=_SLOTS, source={"minPartitions": str(SLOTS)}, per_slide=True)
AS_IT_COMES, TUNED, REAL_TIME = "as it comes", "tuned", "real-time mode"
SETTINGS: Mapping[str, StockSettings] = {
    AS_IT_COMES: StockSettings(),
    TUNED: _TUNED,
    "tuned, each word into its windows": replace(_TUNED, per_slide=False),
    "tuned, RocksDB": replace(_TUNED, conf={**_SLOTS, **_ROCKSDB}),
    "tuned, no wait for a place": replace(_TUNED, conf={**_SLOTS, "spark.locality.wait": "0s"}),
    REAL_TIME: StockSettings(
        # The most that a row waits for others on its way to a task with state; the default is 50.
        conf={"spark.shuffle.streaming.networkBufferMaxWaitTimeMs": "5"},
        mode=Mode.REAL_TIME.value,
        # All tasks run at once, two of them with state.
        spare_slots=SPEC.task_slots - 4,
    ),
}
"""Settings of the stock engine in live/engines, by name. docs/stock-settings.md has the reasons."""


def workload_named(
    name: str, *, seed: int, per_slide: bool = False, revised: bool = False
) -> Workload:
    """Return a workload with windows of 4 s every second, 2 partitions of single records.

    The query of the top 100 aggregates per slide in any case. With ``revised`` word count is
    traced (`Workload.contributions`): a revision is due with its newest record."""
    if name == TOP:
        from workloads.worldcup import world_cup

        return world_cup(
            seed=seed, partitions=2, window_s=4, slide_s=1, watermark_delay_s=WATERMARK_S
        )
    from workloads.wordcount import word_count

    return word_count(
        seed=seed, window_s=4, slide_s=1, depth=4, per_slide=per_slide, traced=revised,
        watermark_delay_s=UPDATES_WATERMARK_S if revised else WATERMARK_S,
    )  # fmt: skip


@contextmanager
def append_only(cluster: Cluster, *, wanted: bool) -> Iterator[None]:
    """Let Redis keep an append-only file meanwhile, written to the disk every second.

    A checkpoint then survives the end of Redis's process, as Spark's files survive that of its
    driver. Raises `EnvironmentFailure` if the server does not."""
    import redis

    from harness.errors import EnvironmentFailure

    if not wanted:
        yield
        return
    with cluster.redis.client() as client:
        try:
            client.config_set("appendfsync", "everysec")
            client.config_set("appendonly", "yes")
        except redis.RedisError as error:
            raise EnvironmentFailure(
                f"Redis does not keep an append-only file: {error}",
                remedy="let its user call CONFIG SET, or measure on a local cluster",
            ) from error
        try:
            yield
        finally:
            client.config_set("appendonly", "no")
