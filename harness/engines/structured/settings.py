"""How the stock engine's applications are configured, and why."""

from __future__ import annotations

from collections.abc import Mapping


def application_conf(cluster_conf: Mapping[str, str], *, name: str, cores: int) -> dict[str, str]:
    """Everything an application is started with; ``cores`` are the slots it will have.

    Everything not named here keeps Spark's own default, as a user's job would.
    """
    return {
        **cluster_conf,
        "spark.app.name": name,
        "spark.driver.memory": "768m",
        "spark.sql.session.timeZone": "UTC",
        # A task per slot: more would only add scheduling to batches of a second.
        "spark.sql.shuffle.partitions": str(cores),
        # Every failure here is deliberate; a task that was hit several times must not end the job.
        "spark.task.maxFailures": "8",
        "spark.sql.streaming.stateStore.providerClass": (
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
        ),
        # A checkpoint writes what changed, not the whole state.
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        # Progress is read from the query; nobody scrapes Spark's own metrics.
        "spark.sql.streaming.metricsEnabled": "false",
    }
