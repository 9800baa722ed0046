"""What the nodes and the engine's own processes use, sampled while a pass runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping

import pandas as pd

from harness.cluster.base import Cluster, Usage

INTERVAL_S = 1.0

EngineUsage = Callable[[], Mapping[str, Usage]]
"""What the engine's own processes have used, those of no node."""


class Meter:
    """Samples on a thread of its own; a context manager."""

    def __init__(self, cluster: Cluster, engine: EngineUsage) -> None:
        self._cluster, self._engine = cluster, engine
        self._rows: list[dict[str, object]] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="meter", daemon=True)

    def __enter__(self) -> Meter:
        self._sample()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()
        self._sample()

    def frame(self) -> pd.DataFrame:
        """``at_unix_s``, ``who`` (a node, or processes of the engine such as "drivers"), ``cpu_s``
        (cumulative), ``resident_bytes``, ``received_bytes``, ``sent_bytes`` (null where not
        counted), ``method``.
        """
        counters = ["cpu_s", "resident_bytes", "received_bytes", "sent_bytes"]
        return pd.DataFrame(self._rows).astype(dict.fromkeys(counters, float))

    def _run(self) -> None:
        while not self._stopping.wait(INTERVAL_S):
            self._sample()

    def _sample(self) -> None:
        now = time.time()
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
