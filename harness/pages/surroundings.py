"""What a set was measured on and with: machines, lock files, jars, packages, and their licences.

Machines and versions come from the records, hashes from the lock files: nothing here depends on
the machine that writes an appendix.

Tests: ``tests/pages/test_appendix.py``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from harness.cache import sha256
from harness.environment.licences import (
    JAR_LOCKS,
    PACKAGE_LOCKS,
    WHEEL_LOCKS,
    jars,
    licences,
    pins,
)
from harness.results.provenance import ROOT
from harness.results.record import Record


def machines(records: Iterable[Record]) -> list[dict[str, Any]]:
    """Return each machine and set of versions with the number of its runs, the most runs first."""
    found: dict[str, dict[str, Any]] = {}
    for record in records:
        facts = {**record.machine, **record.stated_versions}
        mine = found.setdefault(repr(sorted(facts.items())), {"facts": facts, "runs": 0})
        mine["runs"] += 1
    return sorted(found.values(), key=lambda each: (-each["runs"], repr(each["facts"])))


def locks() -> list[dict[str, Any]]:
    """Return each lock file with its SHA-256 and the number of its pins."""
    counts = {path: len(pins(path)) for path in (*PACKAGE_LOCKS, *WHEEL_LOCKS)}
    counts |= {path: path.read_text().count('"sha256"') for path in JAR_LOCKS}
    return [
        {"path": path.relative_to(ROOT).as_posix(), "pins": count, "sha256": sha256(path)}
        for path, count in counts.items()
    ]


def pinned_jars() -> list[dict[str, str]]:
    """Return each jar with its SHA-256 and licence."""
    stated = licences()["jars"]
    return [{"name": name, "sha256": digest, "licence": stated[name]} for name, digest in jars()]


def packages() -> Sequence[tuple[str, str]]:
    """Return each Python package, or program in a wheel, with its licence."""
    return sorted(licences()["packages"].items())
