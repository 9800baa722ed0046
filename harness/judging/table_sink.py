"""The results of a pass in a database table, written while they arrive.

The edge paper's application ends in a sink that writes every result into a table. Here the query
ends in the out topic, so that the engine measures the same with and without a table, and the
sink is this follower of the topic: every result is inserted as soon as it has been read there,
duplicates and second copies too; the table's primary key, a result's identity, lets the first one
stay (`workloads.toolkit.result_table`). Tentative results stay out of the table.
"""

from __future__ import annotations

import threading
from pathlib import Path
from types import TracebackType

import pandas as pd

from harness.engines.deliveries import decode
from harness.measure.collector import Collector, Message
from harness.measure.versions import STABILITY, Stability
from workloads.base import Workload
from workloads.toolkit.result_table import ResultTable

POLL_S = 0.1
"""How often new results are looked for; they are written in one transaction."""


class TableWriter:
    """Follows a collector on a thread of its own; a context manager."""

    def __init__(self, workload: Workload, collector: Collector, path: Path) -> None:
        self._workload, self._collector, self._path = workload, collector, path
        self._ending = threading.Event()
        self._problem: Exception | None = None
        self._written = 0
        self._thread = threading.Thread(target=self._run, name="table", daemon=True)

    def __enter__(self) -> TableWriter:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self._ending.set()
        self._thread.join()

    def finish(self) -> pd.DataFrame:
        """Write what the collector has read up to now; every row of the table then, as the
        workload's columns. Call it after `Collector.finish`; raises what went wrong in writing."""
        self._ending.set()
        self._thread.join()
        if self._problem is not None:
            raise self._problem
        return table_rows(self._workload, self._path)

    def _run(self) -> None:
        try:
            table = ResultTable(self._workload, self._path)  # a connection belongs to its thread
            try:
                while not self._ending.wait(POLL_S):
                    self._write(table)
                self._write(table)
            finally:
                table.close()
        except Exception as problem:  # belongs to whoever waits for the table
            self._problem = problem

    def _write(self, table: ResultTable) -> None:
        messages = self._collector.since(self._written)
        self._written += len(messages)
        values = [message.value for message in messages if not _tentative(message)]
        if values:
            frame = decode(values, self._workload.columns)
            table.write([{str(k): v for k, v in row.items()} for row in frame.to_dict("records")])


def _tentative(message: Message) -> bool:
    return message.headers.get(STABILITY) == Stability.TENTATIVE.value.encode()


def table_rows(workload: Workload, path: Path) -> pd.DataFrame:
    """What the table in a database file holds, as the workload's columns."""
    table = ResultTable(workload, path)
    try:
        return pd.DataFrame(table.rows(), columns=list(workload.columns))
    finally:
        table.close()
