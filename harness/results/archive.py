"""Results as one file: a zip of every record with its series, and of claims.json.

Parquet files are deflated too: of a short table with a hundred columns nine tenths are the
description of its columns, which Parquet leaves as it is. Equal results give equal bytes.

Tests: ``tests/results/test_archive.py``."""

from __future__ import annotations

import functools
import json
import os
import shutil
import tempfile
import time
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Set
from contextlib import suppress
from pathlib import Path

from harness.cache import cache_directory, sha256, to_stderr
from harness.errors import UsageError
from harness.results.provenance import machine_name

CLAIMS = "report/claims.json"
PACKED = "records.zip"
"""The archive in a directory whose records are not files of their own."""
_ON_DISK = "*/*/*/*/record.json"
"""Group, experiment, machine, run."""
_KEPT_S = 30 * 86400.0
_SERIES = ".parquet"
"""The ending of a series."""
DELIVERED = ("results", "further", "truth")
"""Series that no figure and no claim reads: what an engine delivered, and the correct results. They
are kept so that an output can be compared again."""
_EPOCH = (1980, 1, 1, 0, 0, 0)


def readable(root: Path) -> Path:
    """Return a directory with the results in ``root``, which need not be one.

    ``root`` is a directory with ``records/``, one with `PACKED` in its place, or an archive. An
    archive is unpacked once into the user's cache, under its digest. Raises `UsageError` for a
    file that is not an archive."""
    file = root if root.is_file() else root / PACKED
    if not file.is_file() or (root / "records").is_dir():
        return root
    status = file.stat()
    return _unpacked(file, (status.st_mtime_ns, status.st_size))


@functools.cache
def _unpacked(file: Path, _changed: tuple[int, int]) -> Path:
    """Return the directory of an archive's content; called again if the file has changed."""
    home = cache_directory() / "results"
    folder = home / sha256(file)[:16]
    if not folder.is_dir():
        to_stderr(f"unpacking {file}, once")
        home.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=home, prefix=".partial-") as scratch:
            whole = Path(scratch) / "whole"
            try:
                with zipfile.ZipFile(file) as packed:
                    packed.extractall(whole)
            except zipfile.BadZipFile as error:
                raise UsageError(
                    f"{file} is not an archive of results: {error}",
                    remedy="make one: ./faultline export --raw FILE.zip --from DIR; or name a "
                    "directory",
                ) from error
            with suppress(OSError):  # another process was faster
                whole.rename(folder)
        _discard_unused(home)
    os.utime(folder)
    return folder


def _discard_unused(home: Path) -> None:
    """Remove the content of archives that nobody has read for a month."""
    for old in home.iterdir():
        with suppress(OSError):
            if time.time() - old.stat().st_mtime > _KEPT_S:
                shutil.rmtree(old)


def records(root: Path) -> Iterator[Path]:
    """Yield the file of every record in a directory of results, sorted."""
    yield from sorted((root / "records").glob(_ON_DISK))


def found(root: Path) -> list[Path]:
    """Return the file of every record of a set of results. Raises `UsageError` without any."""
    paths = list(records(readable(root)))
    if not paths:
        raise UsageError(
            f"there are no records in {root}",
            remedy="give the directory that holds records/, or an archive of it (./faultline "
            "reproduce makes results/), or none for the results that ship with the repository",
        )
    return paths


def shown_machine(root: Path, *, any_of_them: bool) -> str | None:
    """Return the machine whose records a report shows: this one, if it has any.

    Else, with ``any_of_them``, the one with the most records; None if there is none."""
    machines = Counter(path.parent.parent.name for path in records(readable(root)))
    if machine_name() in machines:
        return machine_name()
    return machines.most_common(1)[0][0] if machines and any_of_them else None


def pack(root: Path, file: Path) -> int:
    """Write the results in ``root`` into one file; return the number of records.

    Raises `UsageError` if there is no record, or if one lists a series that is gone: what was
    compared could not be compared again."""
    place, paths = readable(root), found(root)
    if gone := [words for path in paths for words in _gone(path)]:
        raise UsageError(
            f"{len(gone)} series are gone, the first one is {gone[0]}",
            remedy="name the directory that the runs were measured into, or measure them again",
        )
    named = _named(place, paths)
    if (verdicts := claims_of(root)) is not None:
        named[CLAIMS] = verdicts
    _write(named, file)
    return len(paths)


def pack_to_ship(root: Path, file: Path, *, most_bytes: int) -> tuple[int, list[str]]:
    """Write the records in ``root`` into one file, without verdicts.

    The largest series of `DELIVERED` are left out until the series take at most ``most_bytes``, and
    records list none of them that is not there. Every figure and claim stays as it is. Return the
    number of records, and the series that were left out."""
    place, paths = readable(root), found(root)
    named = _named(place, paths)
    size = sum(path.stat().st_size for path in named.values() if path.suffix == _SERIES)
    spare = [
        name for name, path in named.items() if path.suffix == _SERIES and path.stem in DELIVERED
    ]
    left_out: list[str] = []
    for name in sorted(spare, key=lambda name: (-named[name].stat().st_size, name)):
        if size > most_bytes:
            size -= named.pop(name).stat().st_size
            left_out.append(name)
    packed = {*named.values()}
    shorter = {
        path.relative_to(place).as_posix(): listing
        for path in paths
        if (listing := _without_deliveries(path, packed)) is not None
    }
    _write({**named, **shorter}, file)
    return len(paths), left_out


def _without_deliveries(record: Path, packed: Set[Path]) -> bytes | None:
    """Return a record without the deliveries that are not packed; None if it lists none."""
    try:
        content = json.loads(record.read_text())
        listed = content["series"]
    except (ValueError, KeyError):
        return None  # the reader warns of it
    gone = {name for name in DELIVERED if record.with_name(name + _SERIES) not in packed}
    if not gone & {*listed}:
        return None
    content["series"] = [name for name in listed if name not in gone]
    return (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode()


def _named(place: Path, paths: Iterable[Path]) -> dict[str, Path]:
    """Return all files of these records by their names in an archive."""
    files = sorted(each for path in paths for each in path.parent.rglob("*") if each.is_file())
    return {path.relative_to(place).as_posix(): path for path in files}


def _write(named: Mapping[str, Path | bytes], file: Path) -> None:
    partial = file.with_name(file.name + ".partial")
    file.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(partial, "w") as archive:
        for name, content in named.items():
            entry = zipfile.ZipInfo(name, _EPOCH)
            data = content if isinstance(content, bytes) else content.read_bytes()
            archive.writestr(entry, data, zipfile.ZIP_DEFLATED, compresslevel=9)
    partial.rename(file)


def claims_of(root: Path) -> Path | None:
    """Return the claims.json of results: beside their archive, or with the records."""
    places = (place / CLAIMS for place in (root, readable(root)))
    return next((path for path in places if path.is_file()), None)


def _gone(path: Path) -> list[str]:
    """Return the series that a record lists and its directory lacks."""
    try:
        listed = json.loads(path.read_text()).get("series", ())
    except ValueError:
        return []  # the reader warns of it
    return [
        f"{name} of {path.parent}" for name in listed if not path.with_name(name + _SERIES).exists()
    ]
