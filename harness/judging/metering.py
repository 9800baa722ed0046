"""A meter of the resources of the nodes and of the engine's own processes during a pass."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence

import pandas as pd

from harness.cluster.base import Cluster, Usage
from harness.errors import UsageError
from harness.judging.foreign import ForeignLoad, ForeignMeter

INTERVAL_S = 1.0

EngineUsage = Callable[[], Mapping[str, Usage]]
"""Returns the usage of the engine's processes that belong to no node."""


class Meter:
    """A sampler with a thread of its own; a context manager."""

    def __init__(self, cluster: Cluster, engine: EngineUsage) -> None:
        self._cluster, self._engine = cluster, engine
        self._rows: list[dict[str, object]] = []
        self._foreign = ForeignMeter(ours_are_below=cluster.backend.startswith("local"))
        self._problem: Exception | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="meter", daemon=True)

    def __enter__(self) -> Meter:
        self._sample()
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Raise the error that stopped the sampling, unless another one is on its way already."""
        self._stopping.set()
        self._thread.join()
        if kind is None and self._problem is not None:
            raise self._problem
        if self._problem is None:
            self._sample()

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

    def _run(self) -> None:
        try:
            while not self._stopping.wait(INTERVAL_S):
                self._sample()
        except Exception as problem:  # whatever it is, `__exit__` raises it in the harness
            self._problem = problem

    def _sample(self) -> None:
        now = time.time()
        self._foreign.sample()
        for who, used in {**self._cluster.usage(), **self._engine()}.items():
            self._rows.append(
                {
                    "at_unix_s": now,
                    "who": who,
                    "cpu_s": used.cpu_s,
                    "resident_bytes": used.resident_bytes,
                    "received_bytes": used.received_bytes,
                    "sent_bytes": used.sent_bytes,
                    "method": used.method,
                }
            )
