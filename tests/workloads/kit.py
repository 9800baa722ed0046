"""Files of workloads and of recordings, written for one test each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from workloads.base import Workload
from workloads.files import forget
from workloads.own import load_workload_file


def loaded(path: Path, text: str, *changes: tuple[str, str]) -> Workload:
    """Write a workload's file, with these parts of its text replaced, and load it."""
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    path.write_text(text)
    forget(path)
    return load_workload_file(path)


def write_rows(path: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    """Write a recording in the format that its name ends with."""
    frame = pd.DataFrame(rows)
    match path.suffix:
        case ".jsonl":
            frame.to_json(path, orient="records", lines=True)
        case ".csv":
            frame.to_csv(path, index=False)
        case _:
            frame.to_parquet(path)
    return path
