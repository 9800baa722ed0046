"""A site and an archive for reviewers of a few real records; bad ones are in the site."""

from __future__ import annotations

import json
import shutil
import tarfile
from pathlib import Path

import pytest

from harness.pages.artifact import NAME, write_artifact
from harness.pages.site import Set, WrittenSite, write_site
from harness.results.archive import readable
from harness.results.library import SHIPPED

SHOWN = ("stock/worker-kill", "live/state", "live/peers", "dpc/properties")


@pytest.fixture(scope="session")
def records(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a set with whole records, one that is no record, and one without its series."""
    root = tmp_path_factory.mktemp("set")
    for name in SHOWN:
        shutil.copytree(readable(SHIPPED) / "records" / name, root / "records" / name)
    (machine,) = (root / "records" / "stock" / "worker-kill").iterdir()
    shutil.rmtree(min((root / "records" / "live" / "state" / machine.name).iterdir()))
    one = next(path for path in sorted(machine.iterdir()) if path.is_dir())
    for name, spoil in (("0-no-record", "record.json"), ("0-no-series", "recoveries.parquet")):
        shutil.copytree(one, machine / name)
        (machine / name / spoil).write_text("spoilt")
    record = machine / "0-no-series" / "record.json"
    record.write_text(json.dumps({**json.loads(record.read_text()), "run": "0-no-series"}))
    shutil.copytree(machine, root / "records" / "stock" / "of-another-version" / machine.name)
    return root


@pytest.fixture(scope="session")
def site(records: Path, tmp_path_factory: pytest.TempPathFactory) -> WrittenSite:
    """Write the site of `records` over an earlier one."""
    into = tmp_path_factory.mktemp("site")
    (into / "edge.html").write_text("of an earlier set")
    return write_site([Set(root=records, label="a set")], into)


REVIEWED = ("dpc/properties", "live/state", "intervals/flink", "ppa/checkpoint-cost")


def nothing(text: str) -> None:
    """Show no progress."""


@pytest.fixture(scope="session")
def reviewed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with the records of four experiments."""
    root = tmp_path_factory.mktemp("set")
    for name in REVIEWED:
        shutil.copytree(readable(SHIPPED) / "records" / name, root / "records" / name)
    return root


@pytest.fixture(scope="session")
def packed(reviewed: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the archive of these records."""
    file = tmp_path_factory.mktemp("packed") / "artifact.tar.gz"
    write_artifact(reviewed, file, title="a test", tell=nothing, warn=nothing)
    return file


@pytest.fixture(scope="session")
def artifact(packed: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder that a reviewer gets."""
    folder = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(packed) as tar:
        tar.extractall(folder, filter="data")
    return folder / NAME
