"""The logs as Parquet: a file for each log."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from datasets.worldcup.archive import LogFile, read
from datasets.worldcup.format import NO_SIZE, STATUS_CODES, Records

SCHEMA = pa.schema(
    {
        "day": pa.int32(),
        "part": pa.int32(),
        "timestamp": pa.int64(),
        "client": pa.int64(),
        "object": pa.int64(),
        "size": pa.int64(),
        "method": pa.int8(),
        "http_version": pa.int8(),
        "status": pa.int16(),
        "type": pa.int8(),
        "server": pa.int16(),
    }
)
"""`size` is null where the server logged none, `status` where the code has no index of its own."""
_STATUS = np.array([code or 0 for code in STATUS_CODES], dtype=np.int16)


def to_arrow(records: Records, *, day: int | None, part: int | None) -> pa.RecordBatch:
    """Return ``records`` as a batch of the columns of `SCHEMA`."""
    size = records["size"].astype(np.int64)
    status = _STATUS[records["status"] & 0x3F]
    count = len(records)
    columns = [
        pa.array([day] * count, pa.int32()),
        pa.array([part] * count, pa.int32()),
        records["timestamp"].astype(np.int64),
        records["client"].astype(np.int64),
        records["object"].astype(np.int64),
        pa.array(size, mask=size == NO_SIZE),
        records["method"].astype(np.int8),
        (records["status"] >> 6).astype(np.int8),
        pa.array(status, mask=status == 0),
        records["type"].astype(np.int8),
        records["server"].astype(np.int16),
    ]
    return pa.RecordBatch.from_arrays([pa.array(column) for column in columns], schema=SCHEMA)


def convert(
    files: Sequence[LogFile], target: Path, *, progress: Callable[[int, int], None]
) -> None:
    """Write ``files`` to the Parquet dataset ``target``, a directory that must not exist yet.

    ``progress(done, all)`` is called with numbers of files."""
    target.mkdir(parents=True)
    for number, file in enumerate(files):
        progress(number, len(files))
        with pyarrow.parquet.ParquetWriter(target / f"{file.path.stem}.parquet", SCHEMA) as writer:
            for chunk in read(file):
                writer.write_batch(to_arrow(chunk.records, day=file.day, part=file.part))
    progress(len(files), len(files))
