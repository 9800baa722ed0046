"""A check that compiled classes are those of their sources: users have no compiler."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest


def require_compiled(sources: Path, classes: Path, jars: Sequence[Path], place: Path) -> None:
    """Compile ``sources`` into ``place`` and compare the bytes with those of ``classes``."""
    javac = shutil.which("javac")
    if javac is None:
        pytest.skip("there is no javac")
    version = subprocess.run([javac, "-version"], capture_output=True, text=True, check=True)
    if not (version.stdout + version.stderr).startswith("javac 17."):
        pytest.skip("the classes were compiled by javac 17, which alone gives the same bytes")
    path = ":".join(map(str, jars))
    files = map(str, sorted(sources.rglob("*.java")))
    command = [javac, "--release", "17", "-cp", path, "-d", str(place), *files]
    subprocess.run(command, check=True, timeout=120)
    made = {file.relative_to(place): file.read_bytes() for file in place.rglob("*.class")}
    shipped = {file.relative_to(classes): file.read_bytes() for file in classes.rglob("*.class")}
    assert made.keys() == shipped.keys()
    assert made == shipped, "compile the source again, as CONTRIBUTING.md says"
