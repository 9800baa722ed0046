"""The memory and the disk of a run, of real processes and files."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.running.peaks import PeakMemory, resident_bytes, size_of

BIG = 64_000_000
HOLDS = f"import sys; held = b'x' * {BIG}; print('there', flush=True); sys.stdin.read()"


def test_a_child_process_counts_and_the_peak_stays() -> None:
    before = resident_bytes()
    with PeakMemory() as memory:
        child = subprocess.Popen(
            [sys.executable, "-c", HOLDS], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert child.stdout is not None
        assert child.stdout.readline() == b"there\n"
        memory.sample()
        child.communicate()
    assert memory.largest_bytes >= before + BIG * 0.9
    assert memory.largest_bytes >= resident_bytes()


def test_a_folder_that_a_server_removes_meanwhile_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker deletes the folder of a topic between its listing and the look into it."""
    (tmp_path / "topic-0").mkdir()
    (tmp_path / "topic-0" / "log").write_bytes(b"x" * 100)
    (tmp_path / "kept").write_bytes(b"x" * 11)
    scandir = os.scandir

    def gone(path: Any) -> Any:
        if Path(path).name == "topic-0":
            raise FileNotFoundError(path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", gone)
    assert size_of(tmp_path) == 11
