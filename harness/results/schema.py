"""Records of every schema version, read as the newest one.

``UPGRADES[n]`` turns a document of version n into one of version n + 1. A change of `Record` raises
its ``SCHEMA_VERSION`` and adds the upgrade from the version before, so that existing results stay
readable.

Tests: ``tests/results/test_library.py``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from harness.errors import UsageError
from harness.results.record import SCHEMA_VERSION, Record

Document = Mapping[str, Any]

UPGRADES: Mapping[int, Callable[[Document], Document]] = {
    # 2 has the attempt and the reason to repeat a valid run; before, there was one attempt.
    1: lambda document: {**document, "attempt": 1, "again": None},
    # 3 names the engine; before, only the point and the experiment implied it.
    2: lambda document: {**document, "engine": ""},
    # 4 has what a run needed; before, nobody measured it.
    3: lambda document: {**document, "peak_memory_bytes": None, "disk_bytes": None},
    # 5 names the setting; before, points, experiments and names of passes implied it.
    4: lambda document: {**document, "setting": {}},
}


def decode(document: Document) -> Record:
    """Return the record in a JSON document of any version up to this program's.

    Raises `UsageError` for a newer one, and `ValueError` for a document that is not a record."""
    if not isinstance(document, Mapping):
        raise ValueError(f"a {type(document).__name__} where a record should be")
    version = document.get("schema")
    if not isinstance(version, int):
        raise ValueError(f"no schema version but {version!r}")
    if version > SCHEMA_VERSION:
        raise UsageError(
            f"a record of schema {version}; this program reads up to {SCHEMA_VERSION}",
            remedy="update this checkout to the version that wrote it (git pull), or name other "
            "results",
        )
    while version < SCHEMA_VERSION:
        if version not in UPGRADES:
            raise ValueError(f"schema {version} was never written by any version of Faultline")
        document = UPGRADES[version](document)
        version += 1
    known = {each.name for each in fields(Record)}
    if unknown := sorted(set(document) - known):
        raise ValueError(f"unknown fields: {', '.join(unknown)}")
    demanded = (each.name for each in fields(Record) if "None" not in str(each.type))
    if nulls := [name for name in demanded if document.get(name, name) is None]:
        raise ValueError(f"fields without a value: {', '.join(nulls)}")
    try:
        return Record(**{**document, "schema": SCHEMA_VERSION})
    except TypeError as error:
        raise ValueError(str(error)) from error
