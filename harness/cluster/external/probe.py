"""The checkout's code on executors of a foreign cluster: archive, fingerprint and a first look.

``python -m harness.cluster.external.probe`` runs a small application there. It reads its
configuration and a URI for checkpoints as one JSON line. Its tasks report their Python, their
PySpark, their clock and the fingerprint of the code that they import; then each executor writes
files below the URI, and all of them are read back. The answer is one JSON line."""

from __future__ import annotations

import json
import sys
import time
import zipfile
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import harness

PACKAGES = ("harness", "workloads", "datasets")
ARCHIVE = "faultline.zip"
RECORDS = 1000
"""Number of records that go through the checkpoint storage."""
_NAME = "harness/fingerprint.txt"


def write_archive(directory: Path, repository: Path) -> Path:
    """Write a zip of every module, which Spark sends to executors."""
    path = directory / ARCHIVE
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sources(repository):
            archive.write(file, str(file.relative_to(repository)))
        archive.writestr(_NAME, of_sources(repository))
    return path


def sources(repository: Path) -> list[Path]:
    """Return the modules and their locks."""
    return [
        path
        for package in PACKAGES
        for path in sorted((repository / package).rglob("*"))
        if path.suffix in (".py", ".json", ".lock") and path.is_file()
    ]


def of_sources(repository: Path) -> str:
    """Return a fingerprint that changes with any module, for a comparison with executors."""
    digest = sha256()
    for path in sources(repository):
        digest.update(f"{path.relative_to(repository)}\0".encode())
        digest.update(sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:12]


def fingerprint() -> str:
    """Return the fingerprint of this process's code, from an archive or from files."""
    place = Path(harness.__file__).parent.parent
    if place.is_file():  # inside the archive
        with zipfile.ZipFile(place) as archive:
            return archive.read(_NAME).decode()
    return of_sources(place)


def look(numbers: Iterator[int]) -> Iterator[dict[str, Any]]:
    """Describe one executor; runs there."""
    import platform
    import socket

    import pyspark

    found: dict[str, Any] = {
        "host": socket.gethostname(),
        "python": platform.python_version(),
        "pyspark": pyspark.__version__,
        "code": None,
        "unix_s": time.time(),
    }
    try:
        from harness.cluster.external.probe import fingerprint

        found["code"] = fingerprint()
    except ImportError as error:
        found["error"] = str(error)
    yield found


def main() -> None:
    from pyspark.sql import SparkSession

    given = json.loads(sys.stdin.readline())
    builder = SparkSession.builder.appName("faultline-probe").config(map=given["conf"])
    session = builder.getOrCreate()
    tasks = 2 * max(2, session.sparkContext.defaultParallelism)
    numbers = session.sparkContext.parallelize(range(tasks), tasks)
    numbers.mapPartitions(look).collect()  # starts Python everywhere
    before = time.time()
    found = numbers.mapPartitions(look).collect()
    after = time.time()
    answer = {"executors": found, "before": before, "after": after, "stored": None}
    try:
        session.range(0, RECORDS, 1, tasks).write.json(given["uri"])
        # One task a file, on whatever executor is free.
        answer["stored"] = session.read.json(given["uri"]).repartition(tasks).distinct().count()
    except Exception as error:  # the answer says so, and the caller what to do
        answer["error"] = str(error).splitlines()[0][:300]
    print(json.dumps(answer), flush=True)
    session.stop()


if __name__ == "__main__":
    main()
