"""The archive for reviewers: whole, checked, and the same bytes for the same input."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from harness.errors import UsageError
from harness.pages import artifact
from harness.pages.artifact import head, write_artifact
from harness.results.provenance import ROOT
from tests.pages.conftest import nothing


def test_equal_input_gives_equal_bytes(reviewed: Path, packed: Path, tmp_path: Path) -> None:
    again = tmp_path / "again.tar.gz"
    write_artifact(reviewed, again, title="a test", tell=nothing, warn=nothing)
    assert again.read_bytes() == packed.read_bytes()


def verified(folder: Path) -> bool:
    words = ["sha256sum", "--quiet", "--strict", "-c", "SHA256SUMS"]
    return subprocess.run(words, cwd=folder, capture_output=True, check=False).returncode == 0


def test_the_checksums_are_of_every_file_and_notice_a_change(artifact: Path) -> None:
    listed = {line[66:] for line in (artifact / "SHA256SUMS").read_text().splitlines()}
    there = {p.relative_to(artifact).as_posix() for p in artifact.rglob("*") if p.is_file()}
    assert listed == there - {"SHA256SUMS"}
    assert verified(artifact)
    record = next(iter(sorted((artifact / "results").rglob("record.json"))))
    whole = record.read_bytes()
    record.write_bytes(whole.replace(b"1", b"2", 1))
    assert not verified(artifact)
    record.write_bytes(whole)
    assert verified(artifact)


def test_the_source_is_that_of_the_commit(artifact: Path) -> None:
    tree = subprocess.run(
        ["git", "ls-tree", "-r", "--name-only", "-z", head().commit],
        cwd=ROOT, check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    source = artifact / "source"
    there = {path.relative_to(source).as_posix() for path in source.rglob("*") if path.is_file()}
    assert there == set(tree.strip("\0").split("\0"))
    assert (source / "faultline").stat().st_mode & 0o100
    assert (artifact / "ten-minutes.sh").stat().st_mode & 0o100


def test_it_takes_a_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(artifact, "ROOT", tmp_path)
    with pytest.raises(UsageError, match="not a git checkout"):
        head()
