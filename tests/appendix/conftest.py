"""An artifact of a few shipped records, written once."""

from __future__ import annotations

import shutil
import tarfile
from pathlib import Path

import pytest

from harness.appendix.archive import NAME, write_artifact
from harness.results.archive import readable
from harness.results.library import SHIPPED

SHOWN = ("dpc/properties", "live/state", "intervals/flink", "ppa/checkpoint-cost")


def nothing(text: str) -> None:
    """Show no progress."""


@pytest.fixture(scope="session")
def records(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with the records of four experiments."""
    root = tmp_path_factory.mktemp("set")
    for name in SHOWN:
        shutil.copytree(readable(SHIPPED) / "records" / name, root / "records" / name)
    return root


@pytest.fixture(scope="session")
def packed(records: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the archive of these records."""
    file = tmp_path_factory.mktemp("packed") / "artifact.tar.gz"
    write_artifact(records, file, title="a test", tell=nothing, warn=nothing)
    return file


@pytest.fixture(scope="session")
def artifact(packed: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder that a reviewer gets."""
    folder = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(packed) as tar:
        tar.extractall(folder, filter="data")
    return folder / NAME
