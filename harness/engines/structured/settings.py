"""The configuration of the stock engine's applications, with reasons."""

from __future__ import annotations

from collections.abc import Mapping

FILE_MANAGER = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)

BRIEF = "-XX:TieredStopAtLevel=1"
"""Compile quickly rather than well: for runs that end before the better code would pay."""
BRIEF_SETTINGS = {"spark.locality.wait": "0s"}
"""Settings of the same runs, which measure no times: after a kill no task waits seconds for a place
near its state."""


def application_conf(
    cluster_conf: Mapping[str, str],
    *,
    name: str,
    cores: int,
    brief: bool = False,
    own: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return the whole configuration of an application; ``cores`` are the slots it will have.

    ``own`` are the user's settings, which override all of ours; ``brief`` is for the smoke profile,
    whose figures show only that everything runs.

    All other settings keep Spark's own default, as a user's job would; the state store is Spark's
    default too, in memory with a file of changes per batch. docs/stock-settings.md has the measured
    cost of each choice."""
    java_options = {
        option: f"{value} {BRIEF}" if brief else value
        for option, value in cluster_conf.items()
        if option.endswith(".extraJavaOptions")
    }
    return {
        **cluster_conf,
        **java_options,
        "spark.app.name": name,
        "spark.driver.memory": "768m",
        "spark.sql.session.timeZone": "UTC",
        # A task per slot: more would only add scheduling to batches of a second.
        "spark.sql.shuffle.partitions": str(cores),
        # Every failure here is deliberate; a task that was hit several times must not end the job.
        "spark.task.maxFailures": "8",
        # On a local disk the default one starts a `chmod` for every file that it writes, which
        # HDFS and object stores do not: 55 ms a file, and 11 ms with this one.
        "spark.sql.streaming.checkpointFileManagerClass": FILE_MANAGER,
        # Progress is read from the query; nobody scrapes Spark's own metrics.
        "spark.sql.streaming.metricsEnabled": "false",
        **(BRIEF_SETTINGS if brief else {}),
        **(own or {}),
    }
