"""The memory and the disk of a run, of real processes and files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

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
        memory._sample()
        child.communicate()
    assert memory.largest_bytes >= before + BIG * 0.9
    assert memory.largest_bytes >= resident_bytes()


def test_all_files_count_once(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "one").write_bytes(b"x" * 100)
    (tmp_path / "two").write_bytes(b"x" * 11)
    (tmp_path / "link").symlink_to(tmp_path / "two")
    assert size_of(tmp_path, None) == 111
    assert size_of(tmp_path / "nowhere") == 0
