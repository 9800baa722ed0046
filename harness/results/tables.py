"""Records as tables, the form in which an experiment reads them back."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from harness.results.record import VARIANTS


def read_series(directory: Path, name: str) -> pd.DataFrame | None:
    """Return a series of the run in ``directory``; None if it has none of that name."""
    path = directory / f"{name}.parquet"
    # From memory it takes less than half of the time.
    return pd.read_parquet(io.BytesIO(path.read_bytes())) if path.exists() else None


def variants(directory: Path) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the values of each pass of a run by its name; none if it has one pass alone."""
    table = read_series(directory, VARIANTS)
    rows = [] if table is None else table.to_dict("records")
    return [(str(row.get("variant", "")), {str(k): v for k, v in row.items()}) for row in rows]


def stacked(parts: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Return the rows of all parts, of which there is at least one, with the columns of each.

    A column that is empty in one part has the type of the other parts' columns. One that is empty
    in all of them keeps its own."""
    filled = [part for part in parts if len(part)] or parts[:1]
    names = list(dict.fromkeys(name for part in filled for name in part.columns))
    known = [part.dropna(axis="columns", how="all") for part in filled]
    together = pd.concat(known, ignore_index=True).reindex(columns=names)
    empty = set(names).difference(*(part.columns for part in known))
    own = {name: part.dtypes[name] for part in filled for name in empty & set(part.columns)}
    return together.astype(own)


@dataclass(frozen=True, slots=True)
class Results:
    """The valid runs of one campaign of one experiment."""

    frame: pd.DataFrame
    """A row per run: the point's parameters, ``repeat``, ``run`` (its id) and every value."""
    directories: Mapping[str, Path]
    """Run id to the directory with its series."""
    cores: int | None = None
    """Cores of the machine that made them, which is one: it is part of a campaign's question."""

    def series(self, name: str, columns: Sequence[str] = ()) -> pd.DataFrame:
        """Stack the series ``name`` of all runs that have it.

        The columns ``columns`` of `frame` (and ``run``) are repeated on each row."""
        return self.each(partial(read_series, name=name), columns)

    def each(
        self, read: Callable[[Path], pd.DataFrame | None], columns: Sequence[str] = ()
    ) -> pd.DataFrame:
        """Stack what ``read`` returns for the directory of every run, as `series` does."""
        parts = []
        for _, row in self.frame.iterrows():
            part = read(self.directories[row["run"]])
            if part is not None:
                parts.append(part.assign(**{key: row[key] for key in ("run", *columns)}))
        return stacked(parts) if parts else pd.DataFrame(columns=["run", *columns])
