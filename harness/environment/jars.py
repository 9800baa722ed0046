"""The jars of the Kafka broker and of Spark's Kafka connector, pinned by SHA-256.

`jars.lock.json` lists every file: group, artifact, version, SHA-256 and size in bytes, in two
sets that must not be mixed (the broker's Scala and Jackson are not Spark's). The connector's set
leaves out dependencies that PySpark contains. A set is in the user's cache in a directory named
after its pins; a file gets its name there only after a check of its SHA-256.

``python -m harness.environment.jars --relock`` resolves the lock's roots again and rewrites it;
with the path of another engine's lock, that one."""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import sha256 as sha256_of
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

from harness.cache import cache_directory, locked, sha256, to_stderr
from harness.environment.ivy import pyspark_jars, run_ivy, settings
from harness.environment.java import find_java
from harness.errors import EnvironmentFailure
from harness.text import Notify

LOCK = Path(__file__).parent / "jars.lock.json"
BROKER, CONNECTOR = "broker", "connector"
_MB = 1e6
_TELLING = re.compile(r"\(java\.[\w.]+|Unknown host|timed out|SHA-256")


@dataclass(frozen=True, slots=True, kw_only=True)
class Jar:
    """One pinned file."""

    group: str
    artifact: str
    version: str
    sha256: str
    size: int
    """Bytes."""

    @property
    def name(self) -> str:
        """Its file name with the group, as two groups may have an artifact of one name."""
        return f"{self.group}.{self.artifact}-{self.version}.jar"


@dataclass(frozen=True, slots=True, kw_only=True)
class Jars:
    """The places of the checked files."""

    broker: Path
    """A directory whose ``*.jar`` files are the broker's whole class path."""
    connector: tuple[Path, ...]
    """The files for ``spark.jars``."""


def ensure_jars(report: Notify = to_stderr, *, fetch: bool = True, lock: Path = LOCK) -> Jars:
    """Return all pinned jars, each checked by SHA-256; missing ones are fetched first.

    A file with another SHA-256 is reported and fetched again. Files that have arrived are kept,
    also when fetching is interrupted. Raises `EnvironmentFailure` with the missing files when they
    cannot be fetched, or at once if ``fetch`` is false."""
    sets = ensure_sets(report, fetch=fetch, lock=lock)
    return Jars(broker=sets[BROKER][0].parent, connector=tuple(sets[CONNECTOR]))


def ensure_sets(
    report: Notify = to_stderr, *, fetch: bool = True, lock: Path
) -> dict[str, list[Path]]:
    """Return the checked files of each set of a lock, as `ensure_jars` does for the house's own.

    An engine that is fetched on demand has a lock of its own next to its code."""
    sets = locked_jars(lock)
    wanted = list(places(sets))
    if wrong := _wrong(wanted):
        if not fetch:
            raise _missing(wrong, "")
        with locked("jars", report=report):
            # Another process may have brought them while this one waited.
            if wrong := _wrong(wanted):
                _fetch(wrong, report)
    return {name: [path for path, _ in places({name: jars})] for name, jars in sets.items()}


def locked_jars(lock: Path = LOCK) -> dict[str, list[Jar]]:
    """Return the pinned files of each set."""
    document = json.loads(lock.read_text())
    return {name: [Jar(**entry) for entry in jars] for name, jars in document["sets"].items()}


def tried_pyspark() -> str:
    """Return the version of PySpark that the connector was tried with."""
    return str(json.loads(LOCK.read_text())["tried_with_pyspark"])


def places(sets: dict[str, list[Jar]]) -> Iterator[tuple[Path, Jar]]:
    """Yield the place of each file.

    The directory's name changes with its pins, so that no jar of an older set can ever be on a
    newer one's class path."""
    for name, jars in sets.items():
        pins = sha256_of("".join(jar.sha256 for jar in jars).encode()).hexdigest()
        directory = cache_directory() / "jars" / f"{name}-{pins[:12]}"
        for jar in jars:
            yield directory / jar.name, jar


Placed = tuple[Path, Jar]


def _wrong(wanted: Sequence[Placed]) -> list[Placed]:
    """Return the files that are absent or differ from their pins."""
    with ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
        good = list(pool.map(_is_right, wanted))
    return [placed for placed, right in zip(wanted, good, strict=True) if not right]


def _is_right(placed: Placed) -> bool:
    path, jar = placed
    try:
        return path.stat().st_size == jar.size and sha256(path) == jar.sha256
    except FileNotFoundError:
        return False


def _fetch(wrong: Sequence[Placed], report: Notify) -> None:
    for path, _ in wrong:
        if path.exists():
            report(f"{path} is not what was pinned; fetching it again")
            path.unlink()
    total = sum(jar.size for _, jar in wrong)
    report(f"fetching {len(wrong)} jars ({total / _MB:.0f} MB) from Maven Central, once")
    root = cache_directory() / "jars"
    arriving = root / "arriving"
    arriving.mkdir(parents=True, exist_ok=True)
    _drop_notes(arriving)
    # An earlier fetch may have been killed between arrival and rename.
    if missing := _take(arriving, wrong, report):
        said = _resolve(arriving, missing, report)
        if missing := _take(arriving, missing, report):
            raise _missing(missing, said)
    shutil.rmtree(arriving)


def _drop_notes(arriving: Path) -> None:
    """Remove an earlier Ivy's notes next to the jars, which may call a file absent."""
    for entry in arriving.iterdir():
        if entry.is_dir():
            shutil.rmtree(entry)
        elif entry.suffix != ".jar":
            entry.unlink()


def _take(arriving: Path, wanted: Sequence[Placed], report: Notify) -> list[Placed]:
    """Move good files that have arrived to their places; return the missing ones."""
    missing = []
    for path, jar in wanted:
        came = arriving / jar.name
        if _is_right((came, jar)):
            path.parent.mkdir(parents=True, exist_ok=True)
            came.rename(path)
            continue
        if came.exists():
            report(f"{jar.name} arrived with another SHA-256 than the pinned one; dropped")
            came.unlink()
        missing.append((path, jar))
    return missing


def _resolve(arriving: Path, missing: Sequence[Placed], report: Notify) -> str:
    """Fetch the files into ``arriving`` with Ivy; return its output."""
    names = {jar.name: jar.size for _, jar in missing}
    told = 0

    def watch() -> int:
        nonlocal told
        here = [names[name] for name in os.listdir(arriving) if name in names]
        if len(here) != told:
            told = len(here)
            mb, all_mb = sum(here) / _MB, sum(names.values()) / _MB
            report(f"jars: {told} of {len(names)}, {mb:.1f} of {all_mb:.1f} MB")
        return told

    with tempfile.TemporaryDirectory(prefix="ivy.", dir=arriving.parent) as directory:
        scratch = Path(directory)
        (scratch / "settings.xml").write_text(settings(cache=arriving, poms=False))
        (scratch / "ivy.xml").write_text(_alone([jar for _, jar in missing]))
        arguments = ["-settings", str(scratch / "settings.xml"), "-ivy", str(scratch / "ivy.xml")]
        _, said = run_ivy(find_java(report), scratch, arguments, watch=watch)
        watch()
    return said


def _alone(jars: Sequence[Jar]) -> str:
    """Return an Ivy module that depends on exactly ``jars``: nothing is resolved, only fetched."""
    dependencies = [
        f"<dependency org={quoteattr(jar.group)} name={quoteattr(jar.artifact)} "
        f'rev={quoteattr(jar.version)} conf="c{number}->default" transitive="false"/>'
        for number, jar in enumerate(jars)
    ]
    # A configuration for each: one Ivy module cannot depend on two versions in the same one.
    return _module([f"c{number}" for number in range(len(jars))], dependencies)


def _module(configurations: Iterable[str], dependencies: Iterable[str]) -> str:
    named = "".join(f"<conf name={quoteattr(name)}/>" for name in configurations)
    listed = "\n".join(dependencies)
    return (
        '<ivy-module version="2.0"><info organisation="faultline" module="jars"/>\n'
        f"<configurations>{named}</configurations>\n"
        f"<dependencies>\n{listed}\n</dependencies></ivy-module>\n"
    )


def _missing(missing: Sequence[Placed], said: str) -> EnvironmentFailure:
    names = ", ".join(jar.name for _, jar in missing[:3])
    more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
    clues = [line.strip() for line in said.splitlines() if _TELLING.search(line)]
    clue = "".join(f"\n    {line}" for line in clues[:3])
    return EnvironmentFailure(
        f"{len(missing)} of the pinned jars are not in {cache_directory() / 'jars'}: {names}{more}"
        + clue,
        remedy="see to it that Maven Central can be reached (HTTPS_PROXY and SSL_CERT_FILE are "
        "honoured), then start again: what has come is kept, only the rest is fetched",
    )


def relock(lock: Path) -> None:
    """Resolve the lock's roots with their dependencies, and write the files into the lock.

    Files that PySpark contains, in whatever version, are left out of the connector's set."""
    document = json.loads(lock.read_text())
    with tempfile.TemporaryDirectory(prefix="faultline-relock-") as directory:
        scratch = Path(directory)
        (scratch / "settings.xml").write_text(settings(cache=scratch / "ivy", poms=True))
        (scratch / "ivy.xml").write_text(_roots(document))
        out = scratch / "out" / "[conf]" / "[organisation]" / "[artifact]" / "[revision]" / "x.jar"
        arguments = ["-settings", str(scratch / "settings.xml"), "-ivy", str(scratch / "ivy.xml")]
        arguments += ["-confs", *document["sets"], "-retrieve", str(out), "-types", "jar", "bundle"]
        files = scratch / "ivy"
        code, said = run_ivy(
            find_java(), scratch, arguments, watch=lambda: len([*files.glob("*.jar")])
        )
        if code != 0:
            raise EnvironmentFailure(
                f"Ivy could not resolve the roots of {lock}:\n{said[-2000:]}",
                remedy="correct the roots or the overrides in that file",
            )
        for name in document["sets"]:
            document["sets"][name] = _found(scratch / "out" / name, without_spark=name == CONNECTOR)
    lock.write_text(json.dumps(document, indent=1) + "\n")


def _found(directory: Path, *, without_spark: bool) -> list[dict[str, Any]]:
    own = [path.name for path in pyspark_jars().glob("*.jar")] if without_spark else []
    found = []
    for path in sorted(directory.glob("*/*/*/x.jar")):
        group, artifact, version = path.parts[-4:-1]
        if any(re.match(rf"{re.escape(artifact)}-\d", name) for name in own):
            continue
        pins = {"sha256": sha256(path), "size": path.stat().st_size}
        found.append({"group": group, "artifact": artifact, "version": version, **pins})
    return found


def _roots(document: dict[str, Any]) -> str:
    dependencies = [
        f"<dependency org={quoteattr(root['group'])} name={quoteattr(root['artifact'])} "
        f"rev={quoteattr(root['version'])} conf={quoteattr(root['set'] + '->default')}/>"
        for root in document["roots"]
    ]
    dependencies += [
        f"<override org={quoteattr(each['group'])} module={quoteattr(each['artifact'])} "
        f"rev={quoteattr(each['version'])}/>"
        for each in document["overrides"]
    ]
    return _module(document["sets"], dependencies)


if __name__ == "__main__":
    import sys

    match sys.argv[1:]:
        case ["--relock", *locks]:
            relock(Path(locks[0]) if locks else LOCK)
        case _:
            sys.exit("usage: python -m harness.environment.jars --relock [FILE.lock.json]")
