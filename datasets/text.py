"""Real text as a stream of lines: what every machine has, or files of the user's."""

from __future__ import annotations

import os
import sysconfig
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path

from harness.errors import UsageError
from harness.seeds import derive_seed

_NOT_THE_LIBRARY = {"site-packages", "dist-packages", "test", "tests", "__pycache__"}


def standard_library_files() -> list[Path]:
    """Return the sources of the installed Python's standard library, in a fixed order.

    Its documentation topics are among them, its tests and other installed packages are not."""
    root = Path(sysconfig.get_paths()["stdlib"])
    return [path for path in _walk(root, skip=_NOT_THE_LIBRARY) if path.suffix == ".py"]


def text_files(paths: Sequence[Path]) -> list[Path]:
    """Return the files among ``paths``, and every file below the directories among them."""
    found: list[Path] = []
    for path in paths:
        if not path.exists():
            raise UsageError(
                f"--text: there is no {path}", remedy="give files or directories that exist"
            )
        found += _walk(path, skip={"__pycache__"}) if path.is_dir() else [path]
    return found


def _walk(root: Path, *, skip: set[str]) -> Iterator[Path]:
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(
            name for name in folders if name not in skip and not name.startswith(".")
        )
        yield from (Path(folder, name) for name in sorted(files) if not name.startswith("."))


def read_lines(paths: Sequence[Path]) -> list[bytes]:
    """Return the lines of these files that are not blank, as UTF-8 without their ends.

    Raises `UsageError` that names the file and the offset of its first byte that is not text."""
    lines: list[bytes] = []
    for path in paths:
        try:
            content = path.read_bytes()
        except OSError as error:
            raise UsageError(
                f"--text: {path} cannot be read ({error.strerror})",
                remedy="give files that this user may read",
            ) from error
        _check_text(path, content)
        lines += [line for line in content.splitlines() if line.strip()]
    if not lines:
        raise UsageError(
            f"--text: {len(paths)} files hold no line of text", remedy="give a file with some text"
        )
    return lines


def _check_text(path: Path, content: bytes) -> None:
    offset = content.find(b"\0")
    if offset < 0:
        try:
            content.decode()
        except UnicodeDecodeError as error:
            offset = error.start
    if offset >= 0:
        raise UsageError(
            f"--text: {path} is not text: byte {offset} is 0x{content[offset]:02x}, "
            "which UTF-8 does not allow there",
            remedy="give text files in UTF-8 (iconv converts others), or a directory of them",
        )


@lru_cache(maxsize=2)
def _lines_of(paths: tuple[str, ...]) -> list[bytes]:
    files = [Path(path) for path in paths] if paths else standard_library_files()
    return read_lines(files)


class TextLines:
    """The lines of a text as records (`RecordSource`).

    They are read in order from a place that the seed chooses, dealt out to the partitions in turn,
    and read from the beginning again at the end."""

    def __init__(self, *, paths: Sequence[str], partitions: int, seed: int) -> None:
        self._lines = _lines_of(tuple(paths))
        self._partitions = partitions
        self._start = derive_seed(seed, "text") % len(self._lines)

    def payloads(self, partition: int, start_index: int, count: int) -> list[bytes]:
        assert 0 <= partition < self._partitions, partition
        assert start_index >= 0, start_index
        lines, step = self._lines, self._partitions
        first = self._start + start_index * step + partition
        return [lines[i % len(lines)] for i in range(first, first + count * step, step)]
