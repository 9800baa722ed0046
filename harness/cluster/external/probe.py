"""The checkout's code on executors of a foreign cluster: archive, fingerprint and a first look.

``python -m harness.cluster.external.probe`` runs a small application there. It reads its
configuration as one JSON line. Its tasks report their Python, their PySpark and the fingerprint of
the code that they import; the answer is one JSON line."""

from __future__ import annotations

import json
import sys
import zipfile
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import harness

PACKAGES = ("harness", "workloads", "datasets")
ARCHIVE = "faultline.zip"
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
    }
    try:
        from harness.cluster.external.probe import fingerprint

        found["code"] = fingerprint()
    except ImportError as error:
        found["error"] = str(error)
    yield found


def main() -> None:
    from pyspark.sql import SparkSession

    conf = json.loads(sys.stdin.readline())
    builder = SparkSession.builder.appName("faultline-probe").config(map=conf)
    context = builder.getOrCreate().sparkContext
    print(json.dumps(context.parallelize(range(4), 4).mapPartitions(look).collect()), flush=True)
    context.stop()


if __name__ == "__main__":
    main()
