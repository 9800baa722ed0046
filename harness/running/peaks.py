"""The memory and the disk that a run needs, measured while it runs.

Memory is the resident set of this process and all below it, which the servers are; a page that two
processes share counts twice. A sample a second costs some milliseconds."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import psutil

from harness.measure.sampler import Sampler

SAMPLE_S = 1.0


class PeakMemory(Sampler):
    """The largest resident memory of this process and its descendants."""

    def __init__(self) -> None:
        super().__init__(SAMPLE_S)
        self.largest_bytes = 0

    def sample(self) -> None:
        """Compare the present memory with the largest so far."""
        self.largest_bytes = max(self.largest_bytes, resident_bytes())


def resident_bytes() -> int:
    """Return the resident memory of this process and all living ones below it."""
    here = psutil.Process()
    total = 0
    for process in [here, *here.children(recursive=True)]:
        with contextlib.suppress(psutil.Error):  # it ended meanwhile
            total += process.memory_info().rss
    return total


def size_of(*folders: Path | None) -> int:
    """Return the bytes of all files in these folders; what vanishes meanwhile does not count."""
    total = 0
    for path in files_below(*filter(None, folders)):
        with contextlib.suppress(OSError):
            if not path.is_symlink():
                total += path.stat().st_size
    return total


def files_below(*folders: Path) -> Iterator[Path]:
    """Yield all files in these folders, also while servers remove some of the folders below."""
    for folder in folders:
        for place, _, names in os.walk(folder):  # passes over a folder that is gone
            yield from (Path(place, name) for name in names)
