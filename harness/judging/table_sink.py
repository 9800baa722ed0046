"""The database table of a pass: a writer that inserts results while they arrive.

The edge paper's application ends in a sink that writes every result into a table. Here the query
ends in the out topic, so that the engine does the same work with and without a table, and the
sink is this follower of the topic: every result is inserted as soon as it has been read there,
duplicates and second copies too; the table's primary key, a result's identity, keeps the first one
(`workloads.toolkit.result_table`), or the newest revision. Tentative results stay out of the
table."""

from __future__ import annotations

import threading
from contextlib import closing
from decimal import Decimal
from itertools import groupby
from pathlib import Path
from typing import Any

import pandas as pd

from harness.measure.collector import Collector, Message
from harness.measure.values import read_json
from harness.measure.versions import STABILITY, Stability
from workloads.base import Workload
from workloads.toolkit.result_table import ResultTable

POLL_S = 0.1
"""Interval between two looks for new results, which are written in one transaction."""


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

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()

    def finish(self) -> pd.DataFrame:
        """Write all that the collector has read; return the table as the workload's columns.

        Call it after `Collector.finish`. Raises the error of a write that failed."""
        self._ending.set()
        self._thread.join()
        if self._problem is not None:
            raise self._problem
        return table_rows(self._workload, self._path)

    def _run(self) -> None:
        try:
            # A connection belongs to its thread.
            with closing(ResultTable(self._workload, self._path)) as table:
                while not self._ending.wait(POLL_S):
                    self._write(table)
                self._write(table)
        except Exception as problem:  # belongs to whoever waits for the table
            self._problem = problem

    def _write(self, table: ResultTable) -> None:
        messages = self._collector.since(self._written)
        self._written += len(messages)
        stable = [message for message in messages if not _says(message, Stability.TENTATIVE)]
        for revised, some in groupby(stable, lambda one: _says(one, Stability.REVISION)):
            frame = read_json([message.value for message in some], self._workload.columns)
            table.write(
                [{str(k): _stored(v) for k, v in row.items()} for row in frame.to_dict("records")],
                replace=revised,
            )


def _stored(value: Any) -> Any:
    """Return a value that SQLite has a type for; text keeps all digits of a decimal."""
    return str(value) if isinstance(value, Decimal) else value


def _says(message: Message, stability: Stability) -> bool:
    return message.headers.get(STABILITY) == stability.value.encode()


def table_rows(workload: Workload, path: Path) -> pd.DataFrame:
    """Return the rows of the table in a database file, as the workload's columns."""
    with closing(ResultTable(workload, path)) as table:
        return pd.DataFrame(table.rows(), columns=list(workload.columns))
