"""This checkout's code as executors of a foreign cluster get it: an archive, its fingerprint."""

from __future__ import annotations

import zipfile
from hashlib import sha256
from pathlib import Path

import harness

PACKAGES = ("harness", "workloads", "datasets")
ARCHIVE = "faultline.zip"
_NAME = "harness/fingerprint.txt"


def write_archive(directory: Path, repository: Path) -> Path:
    """A zip of every module, for Spark to hand to executors."""
    path = directory / ARCHIVE
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sources(repository):
            archive.write(file, str(file.relative_to(repository)))
        archive.writestr(_NAME, of_sources(repository))
    return path


def sources(repository: Path) -> list[Path]:
    """Modules and the locks beside them."""
    return [
        path
        for package in PACKAGES
        for path in sorted((repository / package).rglob("*"))
        if path.suffix in (".py", ".json", ".lock") and path.is_file()
    ]


def of_sources(repository: Path) -> str:
    """Changes with any module: an executor with another one would measure another program."""
    digest = sha256()
    for path in sources(repository):
        digest.update(f"{path.relative_to(repository)}\0".encode())
        digest.update(sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:12]


def fingerprint() -> str:
    """Of the code that this process imports, from an archive or from files."""
    place = Path(harness.__file__).parent.parent
    if place.is_file():  # inside the archive
        with zipfile.ZipFile(place) as archive:
            return archive.read(_NAME).decode()
    return of_sources(place)
