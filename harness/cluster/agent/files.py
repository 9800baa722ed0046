"""The files of one run on a machine, as its agent reads and writes them."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

from harness.cluster.run_directory import write_private
from harness.errors import UsageError


class Files:
    """Files below the run's directory, and no others."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def read(self, path: str, offset: int = 0, limit: int = 1 << 20) -> bytes:
        """Return bytes of a file; none where there is no such file."""
        with suppress(FileNotFoundError), self._below(path).open("rb") as file:
            file.seek(offset)
            return file.read(limit)
        return b""

    def files(self, path: str) -> dict[str, int]:
        """Return the regular files below a directory, by relative path, with their sizes."""
        root = self._below(path)
        found = {}
        for file in root.rglob("*"):
            with suppress(OSError):  # removed meanwhile
                if file.is_file():
                    found[str(file.relative_to(root))] = file.stat().st_size
        return found

    def write(self, path: str, text: str) -> None:
        """Write a file that only its owner can read."""
        write_private(self._below(path), text)

    def make(self, path: str) -> None:
        """Make a directory, for its owner only."""
        self._below(path).mkdir(mode=0o700, parents=True, exist_ok=True)

    def remove(self, path: str) -> None:
        """Remove a directory of the run."""
        shutil.rmtree(self._below(path), ignore_errors=True)

    def _below(self, path: str) -> Path:
        """Return a path in the run's directory. Raises `UsageError` for one outside."""
        whole = (self._directory / path).resolve()
        if not whole.is_relative_to(self._directory.resolve()):
            raise UsageError(
                f"{path} is outside of the run's directory {self._directory}",
                remedy="give a path below it",
            )
        return whole
