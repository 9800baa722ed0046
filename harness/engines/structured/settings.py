"""The configuration of the stock engine's applications, with reasons."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from harness.cluster.spark import FIXED
from harness.engines.settings import (
    DRIVER_MB,
    FIRST_COMPILER,
    JAVA,
    Setting,
    read_back,
    speed_of,
)

FILE_MANAGER = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)

BRIEF_SETTINGS = {"spark.locality.wait": "0s"}
"""Settings of the smoke profile, which measures no times: after a kill no task waits seconds for a
place near its state."""
SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
_READ_BACK = (
    "spark.executor.cores", "spark.executor.memory", "spark.network.timeout",
    "spark.executor.heartbeatInterval", "spark.task.maxFailures", "spark.locality.wait",
    "spark.shuffle.io.retryWait", "spark.sql.streaming.stateStore.providerClass",
    SHUFFLE_PARTITIONS,
)  # fmt: skip
"""Settings that a row rests on, besides those that are its own; their values are in
`application_conf`."""
_LEFT_OUT = re.compile(FIXED["spark.redaction.regex"] + r"|^spark\.eventLog\.")
"""Secrets, and the place of a log, which is another one in each run."""


def read_back_names(own: Iterable[str]) -> list[str]:
    """Return the names of settings that an application is to report; ``own`` are the row's."""
    names = dict.fromkeys([*_READ_BACK, *own])
    return [name for name in names if not _LEFT_OUT.search(name)]


def read_back_of(
    conf: Mapping[str, str], own: Iterable[str], said: Mapping[str, Any], driver: str
) -> Iterator[Setting]:
    """Yield what an application reports, for which ``conf`` was asked; no secret is among it.

    ``own``: names of the row's own settings. ``said``: a report of its ``driver``."""
    asked = {name: conf.get(name) for name in read_back_names(own)}
    yield from read_back(driver, asked, said["values"])
    options = [f"-Xmx{DRIVER_MB}m", *conf.get("spark.driver.extraJavaOptions", "").split()]
    java = {JAVA: speed_of(options)} if "spark.driver.memory" not in own else {}
    yield from read_back(driver, java, {JAVA: speed_of(said["java"])})
    tasks = {"numShufflePartitions": None}
    counts = " ".join(map(str, said["state_tasks"])) or None
    yield from read_back("state operators", tasks, {"numShufflePartitions": counts})


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
        option: f"{value} {FIRST_COMPILER}" if brief else value
        for option, value in cluster_conf.items()
        if option.endswith(".extraJavaOptions")
    }
    return {
        **cluster_conf,
        **java_options,
        "spark.app.name": name,
        "spark.driver.memory": f"{DRIVER_MB}m",
        "spark.sql.session.timeZone": "UTC",
        # A task per slot: more would only add scheduling to batches of a second.
        SHUFFLE_PARTITIONS: str(cores),
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
