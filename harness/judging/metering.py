"""A meter of the resources of the nodes and of the engine's own processes during a pass."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict

import pandas as pd

from harness.cluster.base import Cluster, Usage
from harness.errors import UsageError
from harness.judging.foreign import ForeignLoad, ForeignMeter
from harness.measure.sampler import Sampler

INTERVAL_S = 1.0

EngineUsage = Callable[[], Mapping[str, Usage]]
"""Returns the usage of the engine's processes that belong to no node."""


class Meter(Sampler):
    """A sampler of the usage of nodes, engine and machine."""

    def __init__(self, cluster: Cluster, engine: EngineUsage) -> None:
        super().__init__(INTERVAL_S)
        self._cluster, self._engine = cluster, engine
        self._rows: list[dict[str, object]] = []
        self._foreign = ForeignMeter(ours_are_below=cluster.backend.startswith("local"))

    def foreign(self) -> ForeignLoad:
        """Return the foreign load of the same time."""
        return self._foreign.load()

    def machine(self, start_unix_s: float) -> pd.DataFrame:
        """Return the samples of the whole machine (`ForeignMeter.machine`), from ``at_s`` on."""
        machine = self._foreign.machine()
        return machine.assign(at_s=machine.pop("at_unix_s") - start_unix_s)

    def busiest(self, nodes: Sequence[str]) -> str:
        """Return which of these nodes has used most processor time since the first sample."""
        samples = self.frame().dropna(subset=["cpu_s"])
        ends = samples[samples["who"].isin(nodes)].groupby("who")["cpu_s"].agg(["first", "last"])
        if not len(ends):
            raise UsageError(
                f"nobody can tell which of {', '.join(nodes)} is the busiest: this cluster does "
                "not count processor time",
                remedy="name a node",
            )
        return str((ends["last"] - ends["first"]).idxmax())

    def frame(self) -> pd.DataFrame:
        """Return the samples, a row each.

        Columns: ``at_unix_s``, ``who`` (a node, or processes of the engine such as "drivers"),
        ``cpu_s`` (cumulative), ``resident_bytes``, ``received_bytes``, ``sent_bytes`` (null where
        not counted), ``method``."""
        counters = ["cpu_s", "resident_bytes", "received_bytes", "sent_bytes"]
        return pd.DataFrame(self._rows).astype(dict.fromkeys(counters, float))

    def sample(self) -> None:
        """Note the usage of each node and of each of the engine's own processes."""
        now = time.time()
        self._foreign.sample()
        for who, used in {**self._cluster.usage(), **self._engine()}.items():
            self._rows.append({"at_unix_s": now, "who": who, **asdict(used)})
