"""The memory of every process of a cluster while it is endured, as a table and a picture.

What grows with the hours, in whatever process, is seen as a line that rises."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
import psutil

from harness.cluster.processes import marked
from harness.figures.style import CYCLE, label_line_ends, new_figure, plain_ticks, styled
from harness.measure.sampler import Sampler

if TYPE_CHECKING:
    from matplotlib.axes import Axes

EVERY_S = 5.0
"""Seconds between two looks."""
ROLES = (
    ("kafka.Kafka", "Kafka"),
    ("redis-server", "Redis"),
    ("harness.engines.tasks.coordinator", "coordinator"),
    ("harness.engines.tasks.driver", "driver"),
    ("harness.engines.tasks.daemon", "nodes"),
    ("org.apache.spark.deploy.SparkSubmit", "driver's Java"),
    ("CoarseGrainedExecutorBackend", "executors"),
    ("deploy.worker.Worker", "Spark's workers"),
    ("deploy.master.Master", "Spark's master"),
    ("harness.load.child", "load"),
)
"""A word of a command line, and what such a process is called."""
HARNESS, OTHER = "harness", "other"
COLUMNS = ("at_s", "role", "pid", "resident_mb")


class Memory(Sampler):
    """A sampler of the memory of a run's processes."""

    def __init__(
        self, run: str, *, processes: Callable[[str], dict[int, int]] | None = None
    ) -> None:
        """Prepare; ``processes`` returns pid to resident bytes of a run, as `resident` does."""
        super().__init__(EVERY_S)
        self._name = run
        self._processes = processes or resident
        self._rows: list[tuple[float, str, int, float]] = []
        self._roles: dict[int, str] = {os.getpid(): HARNESS}
        self._began_s = time.monotonic()

    def table(self) -> pd.DataFrame:
        """Return a row per look and process: seconds, role, pid, resident megabytes."""
        return pd.DataFrame(self._rows, columns=list(COLUMNS))

    def sample(self) -> None:
        """Note the memory of each process now."""
        at_s = round(time.monotonic() - self._began_s, 1)
        for pid, resident in self._processes(self._name).items():
            if pid not in self._roles:
                self._roles[pid] = role_of(pid)
            self._rows.append((at_s, self._roles[pid], pid, resident / 1e6))


def resident(run: str) -> dict[int, int]:
    """Return pid to resident bytes of every process of a run, and of this one."""
    found = {stat.pid: stat.resident_bytes for stat in marked(run)}
    return {**found, os.getpid(): psutil.Process().memory_info().rss}


def role_of(pid: int) -> str:
    """Return what a process is called, by its command line."""
    try:
        line = " ".join(psutil.Process(pid).cmdline())
    except psutil.Error:
        return OTHER
    return next((role for word, role in ROLES if word in line), OTHER)


def growth(table: pd.DataFrame) -> dict[str, float]:
    """Return by role how many megabytes its largest process grew.

    It is the difference of two medians over looks: of the last quarter, and of the second. In the
    first quarter processes warm up."""
    largest = table.groupby(["role", "at_s"])["resident_mb"].max().reset_index()
    end_s = float(table["at_s"].max()) if len(table) else 0.0
    found = {}
    for role, looks in largest.groupby("role"):
        before = looks[looks["at_s"].between(end_s / 4, end_s / 2)]["resident_mb"].median()
        after = looks[looks["at_s"] >= end_s * 3 / 4]["resident_mb"].median()
        grown = float(after - before)
        if math.isfinite(grown):
            found[str(role)] = round(grown, 1)
    return found


def draw(table: pd.DataFrame, axes: Axes) -> None:
    """Draw a line per role: its largest process over time."""
    largest = table.groupby(["role", "at_s"])["resident_mb"].max().reset_index()
    order = largest.groupby("role")["resident_mb"].max().sort_values(ascending=False).index
    for number, role in enumerate(order):
        looks = largest[largest["role"] == role]
        style = "-" if number < len(CYCLE) else "--"
        axes.plot(
            looks["at_s"] / 60, looks["resident_mb"], style, label=role,
            color=CYCLE[number % len(CYCLE)], linewidth=1.2,
        )  # fmt: skip
    axes.set_xlabel("minutes")
    axes.set_ylabel("resident memory of the largest process (MB)")
    axes.set_yscale("log")
    plain_ticks(axes.yaxis)
    label_line_ends(axes)


def write(table: pd.DataFrame, directory: Path, name: str) -> Path:
    """Write the table and its picture; return the picture's path."""
    directory.mkdir(parents=True, exist_ok=True)
    table.to_csv(directory / f"{name}.csv", index=False)
    picture = directory / f"{name}.png"
    with styled():
        figure = new_figure()
        draw(table, figure.add_subplot())
        figure.savefig(picture)
    return picture
