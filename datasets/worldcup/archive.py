"""Files of the archive on disk: found, put in order, and read in chunks of checked records.

The archive names its files ``wc_dayX_Y.gz``: day X of the tournament, part Y of that day, seven
million requests a part. A file that was decompressed already is mapped into memory; a
compressed one is streamed. Every record that leaves `read` was looked at (`first_impossible`)."""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import IO

import numpy as np

from datasets.worldcup.format import (
    CLOSING_S,
    FIRST_DAY,
    LAST_DAY,
    RECORD,
    RECORD_BYTES,
    Records,
    day_range_s,
    decode,
    first_impossible,
)
from harness.errors import UsageError

CHUNK_RECORDS = 1 << 18
_NAME = re.compile(r"wc_day(\d+)_(\d+)(\..*)?")
_GZIP_MAGIC = b"\x1f\x8b"
_FETCH_AGAIN = "fetch the file again from the Internet Traffic Archive and compare its size"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFile:
    """One file of the archive."""

    path: Path
    day: int | None
    """From its name; None where the file is not named as the archive names them."""
    part: int | None


@dataclass(frozen=True, slots=True)
class Chunk:
    """Consecutive records of one file, possible and in order."""

    file: LogFile
    records: Records


def find(paths: Sequence[Path], *, allow_gaps: bool = False) -> list[LogFile]:
    """Return the log files among ``paths`` (files, and directories), in the archive's order.

    Raises `UsageError` for a path that does not exist, a directory without logs, the same part
    twice, and, unless ``allow_gaps``, a day or a part that is missing in the middle."""
    files = [file for path in paths for file in _at(path)]
    if not files:
        raise UsageError("no log file was named", remedy="name wc_dayX_Y.gz files or a directory")
    if any(file.day is None for file in files):
        return files
    files.sort(key=_place)
    for before, after in pairwise(files):
        if _place(before) == _place(after):
            raise UsageError(
                f"{before.path} and {after.path} are the same part of the same day",
                remedy="leave one of them out",
            )
    if not allow_gaps:
        _require_no_gap(files)
    return files


def _place(file: LogFile) -> tuple[int, int]:
    assert file.day is not None
    assert file.part is not None
    return file.day, file.part


def _at(path: Path) -> list[LogFile]:
    if path.is_dir():
        files = [_named(item) for item in sorted(path.iterdir()) if item.suffix in ("", ".gz")]
        logs = [file for file in files if file.day is not None and file.path.is_file()]
        if not logs:
            raise UsageError(
                f"{path} holds no wc_dayX_Y.gz", remedy="name the directory the logs are in"
            )
        return logs
    if not path.exists():
        raise UsageError(f"{path} does not exist", remedy="check the path")
    if not path.is_file():
        raise UsageError(
            f"{path} is neither a file nor a directory (a device, a pipe or a socket)",
            remedy="name a wc_dayX_Y.gz file or a directory of them; what comes through a pipe "
            "must be written to a file first",
        )
    return [_named(path)]


def _named(path: Path) -> LogFile:
    match = _NAME.fullmatch(path.name)
    if match is None:
        return LogFile(path=path, day=None, part=None)
    day = int(match[1])
    if not FIRST_DAY <= day <= LAST_DAY:
        raise UsageError(
            f"{path}: the archive has no day {day}",
            remedy=f"its days are {FIRST_DAY} (April 26, 1998) to {LAST_DAY} (July 26)",
        )
    return LogFile(path=path, day=day, part=int(match[2]))


def _require_no_gap(files: Sequence[LogFile]) -> None:
    for before, after in pairwise(files):
        (day, part), (next_day, next_part) = _place(before), _place(after)
        if next_day == day and next_part == part + 1:
            continue
        if next_day == day + 1 and next_part == 1:
            continue
        missing = (
            f"day {day + 1}"
            if next_day > day + 1
            else f"part {part + 1 if next_day == day else 1} of day {next_day}"
        )
        raise UsageError(
            f"{missing} is missing between {before.path.name} and {after.path.name}",
            remedy="fetch what is missing, or allow gaps (--allow-gaps) if it is meant so",
        )


def read_all(files: Iterable[LogFile], *, chunk_records: int = CHUNK_RECORDS) -> Iterator[Chunk]:
    """Every chunk of ``files``, one file after the other, in order of time across them."""
    last: int | None = None
    before: LogFile | None = None
    for file in files:
        # The closing minute of one day may overlap the first one of the next.
        slack = CLOSING_S if before is not None and file.day != before.day else 0
        not_before = 0 if last is None else last - slack
        for chunk in read(file, not_before_s=not_before, chunk_records=chunk_records):
            last = int(chunk.records["timestamp"][-1])
            yield chunk
        before = file


def read(
    file: LogFile, *, not_before_s: int = 0, chunk_records: int = CHUNK_RECORDS
) -> Iterator[Chunk]:
    """Yield the records of ``file``, ``chunk_records`` at a time (fewer at the end).

    Raises `UsageError` with file and offset (bytes of the decompressed log) when the file is empty,
    cut off, of another format, out of order, or holds an impossible record."""
    first = 0
    for records in _blocks(file, chunk_records):
        problem = first_impossible(
            records, range_s=day_range_s(file.day), not_before_s=not_before_s
        )
        if problem is not None:
            index, reason = first + problem[0], problem[1]
            raise UsageError(
                f"{file.path}: record {index} at offset {index * RECORD_BYTES} is impossible: "
                f"{reason}",
                remedy=_FETCH_AGAIN,
            )
        yield Chunk(file, records)
        first += len(records)
        not_before_s = int(records["timestamp"][-1])
    if first == 0:
        raise UsageError(
            f"{file.path} holds no records",
            remedy=f"{_FETCH_AGAIN}; days 1–4 were never logged, leave them out",
        )


def _blocks(file: LogFile, chunk_records: int) -> Iterator[Records]:
    with file.path.open("rb") as raw:
        compressed = raw.read(2) == _GZIP_MAGIC
    if compressed:
        yield from _compressed_blocks(file, chunk_records)
        return
    if file.path.suffix == ".gz":
        raise UsageError(f"{file.path} is not a gzip file", remedy=_FETCH_AGAIN)
    size = file.path.stat().st_size
    _require_whole_records(file, size)
    if size:
        mapped = np.memmap(file.path, dtype=RECORD, mode="r")
        for start in range(0, len(mapped), chunk_records):
            yield mapped[start : start + chunk_records]


def _compressed_blocks(file: LogFile, chunk_records: int) -> Iterator[Records]:
    with gzip.open(file.path, "rb") as stream:
        offset = 0
        rest = b""
        while block := _next_block(file, stream, chunk_records * RECORD_BYTES, offset):
            offset += len(block)
            block = rest + block if rest else block
            whole = len(block) - len(block) % RECORD_BYTES
            rest = block[whole:]
            if whole:
                yield decode(block[:whole] if rest else block)
        _require_whole_records(file, offset)


def _next_block(file: LogFile, stream: IO[bytes] | gzip.GzipFile, size: int, offset: int) -> bytes:
    try:
        return stream.read(size)
    except EOFError as error:
        raise UsageError(
            f"{file.path} is cut off: its gzip stream ends within the {size} bytes "
            f"after offset {offset} of the log",
            remedy=_FETCH_AGAIN,
        ) from error
    except (OSError, zlib.error) as error:
        raise UsageError(
            f"{file.path} is corrupt: {error} (within the {size} bytes after offset {offset} "
            "of the log)",
            remedy=_FETCH_AGAIN,
        ) from error


def _require_whole_records(file: LogFile, size: int) -> None:
    if size % RECORD_BYTES:
        start = size - size % RECORD_BYTES
        raise UsageError(
            f"{file.path} is cut off: the record at offset {start} has {size - start} of its "
            f"{RECORD_BYTES} bytes",
            remedy=_FETCH_AGAIN,
        )
