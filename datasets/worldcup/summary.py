"""The content of a set of log files, and its comparison with the published numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from datasets.worldcup.archive import Chunk, LogFile
from datasets.worldcup.facts import (
    ARCHIVE_REQUESTS,
    DAY_66,
    DAY_66_PARTS,
    DAY_66_PER_SERVER,
    DAY_66_PER_TEN_MINUTES,
    DAY_66_REQUESTS,
)
from datasets.worldcup.format import DAY_ONE_S, DAY_S, Records

_FIRST_LOGGED_DAY, _LAST_LOGGED_DAY = 5, 92
_DENSE_OBJECTS = 1 << 20
"""Object ids below this are counted in an array (the archive's end at 89,996)."""


class Summary:
    """Counts over chunks of records; feed it with `add`."""

    def __init__(self) -> None:
        self.records = 0
        self.first_timestamp: int | None = None
        self.last_timestamp: int | None = None
        self.per_file: Counter[LogFile] = Counter()
        self.per_ten_minutes: Counter[tuple[int, int]] = Counter()
        """(day, ten minutes of that day from 00:00 in Paris) to requests."""
        self._servers = np.zeros(256, dtype=np.int64)
        self._day_servers: dict[int, NDArray[np.int64]] = {}
        self._objects = np.zeros(0, dtype=np.int64)
        self._sparse_objects: Counter[int] = Counter()

    def add(self, chunk: Chunk) -> None:
        """Count a chunk; chunks come in the archive's order."""
        records = chunk.records
        timestamps = records["timestamp"].astype(np.int64)
        earliest, latest = int(timestamps[0]), int(timestamps[-1])
        self.records += len(records)
        self.first_timestamp = min(earliest, self.first_timestamp or earliest)
        self.last_timestamp = max(latest, self.last_timestamp or latest)
        self.per_file[chunk.file] += len(records)
        servers = np.bincount(records["server"], minlength=256)
        self._servers += servers
        self._add_objects(records)
        if chunk.file.day is not None:
            self._add_day(chunk.file.day, timestamps, servers)

    def _add_day(self, day: int, timestamps: NDArray[np.int64], servers: NDArray[np.int64]) -> None:
        within = timestamps - DAY_ONE_S - (day - 1) * DAY_S
        slots = np.bincount(np.minimum(within // 600, 143))
        for slot in np.flatnonzero(slots):
            self.per_ten_minutes[day, int(slot)] += int(slots[slot])
        self._day_servers.setdefault(day, np.zeros(256, dtype=np.int64))
        self._day_servers[day] += servers

    def _add_objects(self, records: Records) -> None:
        objects = records["object"].astype(np.int64)
        dense = objects[objects < _DENSE_OBJECTS]
        if len(dense) < len(objects):
            rare, counts = np.unique(objects[objects >= _DENSE_OBJECTS], return_counts=True)
            self._sparse_objects.update(dict(zip(rare.tolist(), counts.tolist(), strict=True)))
        counts = np.bincount(dense, minlength=len(self._objects))
        counts[: len(self._objects)] += self._objects
        self._objects = counts

    @property
    def servers(self) -> dict[int, int]:
        """Requests by server byte; servers without any are left out."""
        return {int(byte): int(self._servers[byte]) for byte in np.flatnonzero(self._servers)}

    def day_servers(self, day: int) -> dict[int, int]:
        """Return the requests by server byte in the files of one day."""
        counts = self._day_servers[day]
        return {int(byte): int(counts[byte]) for byte in np.flatnonzero(counts)}

    def top_objects(self, number: int) -> list[tuple[int, int]]:
        """Return the ``number`` most requested objects as (id, requests); ties go by id."""
        present = np.flatnonzero(self._objects)
        pairs = [(int(item), int(self._objects[item])) for item in present]
        pairs += self._sparse_objects.items()
        return sorted(pairs, key=lambda pair: (-pair[1], pair[0]))[:number]


def summarize(chunks: Iterable[Chunk]) -> Summary:
    """Summarize all of ``chunks``."""
    summary = Summary()
    for chunk in chunks:
        summary.add(chunk)
    return summary


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One published number, with that of the files."""

    what: str
    published: int
    found: int

    @property
    def equal(self) -> bool:
        """Return True if a file holds its published content."""
        return self.published == self.found


def compare(summary: Summary, files: Sequence[LogFile]) -> list[Comparison]:
    """Every published total that these files allow to check; empty if there is none.

    Day 66 can be checked by part, and once all its parts are there in total, by server and by
    ten minutes; the archive in total once every day is there."""
    parts = {file.part: file for file in files if file.day == DAY_66}
    found = [
        Comparison(
            what=f"day 66, part {part}", published=requests, found=summary.per_file[parts[part]]
        )
        for part, requests in enumerate(DAY_66_PARTS, start=1)
        if part in parts
    ]
    if len(found) == len(DAY_66_PARTS) == len(parts):
        found += _compare_day_66(summary)
    days = {file.day for file in files}
    if days >= set(range(_FIRST_LOGGED_DAY, _LAST_LOGGED_DAY + 1)):
        found.append(Comparison(what="archive", published=ARCHIVE_REQUESTS, found=summary.records))
    return found


def _compare_day_66(summary: Summary) -> list[Comparison]:
    servers = summary.day_servers(DAY_66)
    total = Comparison(what="day 66", published=DAY_66_REQUESTS, found=sum(servers.values()))
    per_server = [
        Comparison(
            what=f"day 66, server {byte}",
            published=DAY_66_PER_SERVER.get(byte, 0),
            found=servers.get(byte, 0),
        )
        for byte in sorted(DAY_66_PER_SERVER.keys() | servers.keys())
    ]
    per_slot = [
        Comparison(
            what=f"day 66, from {slot // 6:02}:{slot % 6}0 in Paris",
            published=int(requests),
            found=summary.per_ten_minutes[DAY_66, slot],
        )
        for slot, requests in enumerate(DAY_66_PER_TEN_MINUTES)
    ]
    return [total, *per_server, *per_slot]
