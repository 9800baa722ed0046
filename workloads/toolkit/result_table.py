"""Results in a database table, written so that writing them again changes nothing.

The edge paper's application ends in a table of accidents, in a database that it does not name.
This one is SQLite, which needs no server. The first version of a result stays, as it does for
every reader here: a row is inserted unless its identity is there already. A revision (update mode)
takes the place of the row before it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from workloads.base import Workload


class ResultTable:
    """The results of a workload in a table of its name (dashes become underscores).

    It is in the SQLite database at ``path``, for the thread that made it alone, as `sqlite3`
    requires."""

    def __init__(self, workload: Workload, path: Path) -> None:
        self.name = workload.name.replace("-", "_")
        self.columns = workload.columns
        self._connection = sqlite3.connect(path)
        identity = ", ".join(_quoted(name) for name in workload.identity)
        columns = ", ".join(_quoted(name) for name in self.columns)
        with self._connection:
            self._connection.execute(
                f"CREATE TABLE IF NOT EXISTS {_quoted(self.name)} "
                f"({columns}, PRIMARY KEY ({identity})) WITHOUT ROWID"
            )

    def write(self, results: Iterable[Mapping[str, Any]], *, replace: bool = False) -> int:
        """Insert these results in one transaction; return the number of rows that were written.

        Those that are there already stay, or are overwritten with ``replace``."""
        rows: list[Sequence[Any]] = [[row[name] for name in self.columns] for row in results]
        places = ", ".join("?" for _ in self.columns)
        with self._connection:
            before = self._connection.total_changes
            self._connection.executemany(
                f"INSERT OR {'REPLACE' if replace else 'IGNORE'} INTO {_quoted(self.name)} "
                f"VALUES ({places})",
                rows,
            )
        return self._connection.total_changes - before

    def rows(self) -> list[tuple[Any, ...]]:
        """Every row, by identity."""
        return self._connection.execute(f"SELECT * FROM {_quoted(self.name)}").fetchall()

    def close(self) -> None:
        self._connection.close()


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
