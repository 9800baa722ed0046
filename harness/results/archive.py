"""Results as one file: a zip of every record with its series, and of claims.json.

Parquet files are compressed already and are stored as they are. Equal results give equal bytes.

Tests: ``tests/results/test_archive.py``."""

from __future__ import annotations

import json
import re
import zipfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from harness.errors import UsageError
from harness.results.provenance import machine_name

Place = Path | zipfile.Path
"""A file or a directory, on the disk or in an archive."""
CLAIMS = "report/claims.json"
_RECORD = re.compile(r"records(?:/[^/]+){4}/record\.json")
_ON_DISK = "*/*/*/*/record.json"
"""Group, experiment, machine, run."""
_EPOCH = (1980, 1, 1, 0, 0, 0)


def opened(root: Path) -> Place:
    """Return the place of the results in ``root``: itself, or its content if it is an archive.

    Raises `UsageError` for a file that is not an archive."""
    if not root.is_file():
        return root
    try:
        return zipfile.Path(root)
    except zipfile.BadZipFile as error:
        raise UsageError(
            f"{root} is not an archive of results: {error}",
            remedy="make one: ./faultline export --raw FILE.zip --from DIR; or name a directory",
        ) from error


def records(place: Place) -> Iterator[Place]:
    """Yield the file of every record, sorted."""
    if isinstance(place, Path):
        yield from sorted((place / "records").glob(_ON_DISK))
    else:
        names = (name for name in place.root.namelist() if _RECORD.fullmatch(name))
        yield from (place / name for name in sorted(names))


def unpacked(source: Path, scratch: Path) -> Path:
    """Return a directory with the results in ``source``; an archive is unpacked into ``scratch``.

    Raises `UsageError` for a file that is not an archive."""
    place = opened(source)
    if isinstance(place, Path):
        return place
    place.root.extractall(scratch)
    return scratch


def shown_machine(root: Path, *, any_of_them: bool) -> str | None:
    """Return the machine whose records a report shows: this one, if it has any.

    Else, with ``any_of_them``, the one with the most records; None if there is none."""
    machines = Counter(path.parent.parent.name for path in (root / "records").glob(_ON_DISK))
    if machine_name() in machines:
        return machine_name()
    return machines.most_common(1)[0][0] if machines and any_of_them else None


def folder_of(record: Place) -> Place:
    """Return the directory of a record, which also has its series."""
    return record.parent if isinstance(record, Path) else zipfile.Path(record.root, _within(record))


def _within(record: zipfile.Path) -> str:
    return record.at.rpartition("/")[0] + "/"


def pack(root: Path, file: Path) -> int:
    """Write the results in ``root`` into one file; return the number of records.

    Raises `UsageError` if there is none, or if a record lists a series that is gone: what was
    compared could not be compared again."""
    found = [path for path in records(root) if isinstance(path, Path)]
    if not found:
        raise UsageError(
            f"there are no records in {root}", remedy="name the directory that holds records/"
        )
    if gone := [words for path in found for words in _gone(path)]:
        raise UsageError(
            f"{len(gone)} series are gone, the first one is {gone[0]}",
            remedy="name the directory that the runs were measured into, or measure them again",
        )
    claims = root / CLAIMS
    files = sorted(each for path in found for each in path.parent.rglob("*") if each.is_file())
    partial = file.with_name(file.name + ".partial")
    file.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(partial, "w") as archive:
        for path in [*files, *([claims] if claims.exists() else [])]:
            entry = zipfile.ZipInfo(path.relative_to(root).as_posix(), _EPOCH)
            stored = path.suffix == ".parquet"
            entry.compress_type = zipfile.ZIP_STORED if stored else zipfile.ZIP_DEFLATED
            archive.writestr(entry, path.read_bytes())
    partial.rename(file)
    return len(found)


def _gone(path: Path) -> list[str]:
    """Return the series that a record lists and its directory lacks."""
    try:
        listed = json.loads(path.read_text()).get("series", ())
    except ValueError:
        return []  # the reader warns of it
    return [
        f"{name} of {path.parent}"
        for name in listed
        if not (path.parent / f"{name}.parquet").exists()
    ]
