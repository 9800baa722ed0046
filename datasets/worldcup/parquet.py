"""The logs as Parquet, written by Spark: one task a file, in parallel."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from datasets.worldcup.archive import LogFile, read
from datasets.worldcup.format import NO_SIZE, STATUS_CODES, Records

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = (
    "day int, part int, timestamp long, client long, object long, size long, "
    "method byte, http_version byte, status short, type byte, server short"
)
"""`size` is null where the server logged none, `status` where the code has no index of its own."""

_POLL_S = 0.5
_STATUS = np.array([code or 0 for code in STATUS_CODES], dtype=np.int16)


def to_arrow(records: Records, *, day: int | None, part: int | None) -> pa.RecordBatch:
    """Return ``records`` as a batch of the columns of `SCHEMA`."""
    size = records["size"].astype(np.int64)
    status_index = records["status"] & 0x3F
    status = _STATUS[status_index]
    columns = {
        "day": pa.array([day], pa.int32()).take(pa.array(np.zeros(len(records), dtype=np.int32))),
        "part": pa.array([part], pa.int32()).take(pa.array(np.zeros(len(records), dtype=np.int32))),
        "timestamp": pa.array(records["timestamp"].astype(np.int64)),
        "client": pa.array(records["client"].astype(np.int64)),
        "object": pa.array(records["object"].astype(np.int64)),
        "size": pa.array(size, mask=size == NO_SIZE),
        "method": pa.array(records["method"].astype(np.int8)),
        "http_version": pa.array((records["status"] >> 6).astype(np.int8)),
        "status": pa.array(status, mask=status == 0),
        "type": pa.array(records["type"].astype(np.int8)),
        "server": pa.array(records["server"].astype(np.int16)),
    }
    return pa.RecordBatch.from_pydict(columns)


def _decode_files(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for row in batch.to_pylist():
            file = LogFile(path=Path(row["path"]), day=row["day"], part=row["part"])
            for chunk in read(file):
                yield to_arrow(chunk.records, day=file.day, part=file.part)


def convert(
    spark: SparkSession,
    files: Sequence[LogFile],
    target: Path,
    *,
    progress: Callable[[int, int], None],
) -> None:
    """Write ``files`` to the Parquet dataset ``target``, one Spark task for each of them.

    ``progress(done, all)`` is called with numbers of files while Spark works. The directory
    must not exist yet. Verify the files first: an error inside Spark is hard to read."""
    context = spark.sparkContext
    rows = [(str(file.path.resolve()), file.day, file.part) for file in files]
    paths = spark.createDataFrame(
        context.parallelize(rows, len(rows)), "path string, day int, part int"
    )
    group = f"convert to {target}"

    def write() -> None:
        context.setJobGroup(group, group, interruptOnCancel=True)
        paths.mapInArrow(_decode_files, SCHEMA).write.parquet(str(target))

    with ThreadPoolExecutor(max_workers=1) as pool:
        writing = pool.submit(write)
        try:
            while not writing.done():
                progress(min(_finished_tasks(context, group), len(files)), len(files))
                wait([writing], timeout=_POLL_S)
        except BaseException:
            context.cancelJobGroup(group)
            raise
        writing.result()
    progress(len(files), len(files))


def _finished_tasks(context: Any, group: str) -> int:
    tracker = context.statusTracker()
    stages = [
        stage
        for job in tracker.getJobIdsForGroup(group)
        if (info := tracker.getJobInfo(job)) is not None
        for stage in info.stageIds
    ]
    infos = [tracker.getStageInfo(stage) for stage in stages]
    return sum(info.numCompletedTasks for info in infos if info is not None)
