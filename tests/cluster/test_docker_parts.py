"""The image of the Docker backend, and its messages, without a daemon."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.cluster.docker.daemon import (
    base_image,
    build_failure,
    content_hash,
    context_files,
    python_version,
    refusal,
)
from harness.cluster.spark import REPOSITORY


def test_the_image_holds_the_code_and_its_locks_and_nothing_that_changes_by_itself() -> None:
    names = {str(path.relative_to(REPOSITORY)) for path in context_files(REPOSITORY)}
    assert {"requirements.lock", "docker/Dockerfile", "harness/errors.py"} <= names
    assert "harness/environment/jars.lock.json" in names
    assert not [name for name in names if "__pycache__" in name]
    assert not [name for name in names if name.startswith(("tests/", "results/", ".git"))]


def test_the_image_is_another_one_when_a_file_a_name_or_the_base_changes(tmp_path: Path) -> None:
    def hashed(name: str, text: str, base: str = "base") -> str:
        (tmp_path / name).write_text(text)
        return content_hash([tmp_path / name], tmp_path, base)

    first = hashed("a", "1")
    assert hashed("a", "1") == first
    assert len({first, hashed("a", "1", "other"), hashed("a", "2"), hashed("b", "2")}) == 4


def copies() -> Iterator[tuple[str, str]]:
    """Yield source and target of everything that the Dockerfile copies."""
    for line in (REPOSITORY / "docker" / "Dockerfile").read_text().splitlines():
        if line.startswith("COPY "):
            *sources, target = line.split()[1:]
            yield from ((source, target) for source in sources)


def test_the_dockerfile_copies_what_the_context_holds() -> None:
    names = [str(path.relative_to(REPOSITORY)) for path in context_files(REPOSITORY)]
    for source, _ in copies():
        assert any(n == source or n.startswith(f"{source}/") for n in names), source


def test_what_is_fetched_in_the_image_needs_no_code_but_what_was_copied_for_it(
    tmp_path: Path,
) -> None:
    for source, target in copies():
        if target.startswith("/opt/fetch"):
            into = tmp_path / Path(target).relative_to("/opt/fetch")
            if (REPOSITORY / source).is_dir():
                shutil.copytree(REPOSITORY / source, into)
            else:
                into.mkdir(parents=True, exist_ok=True)
                shutil.copy(REPOSITORY / source, into)
    there = {**os.environ, "PYTHONPATH": str(tmp_path)}
    importing = [sys.executable, "-P", "-c", "import fetch; print(fetch.__file__)"]
    done = subprocess.run(
        importing, env=there, cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()) == tmp_path / "fetch.py"


def test_the_base_image_can_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FAULTLINE_DOCKER_BASE", raising=False)
    assert base_image() == f"python:{python_version()}-slim-bookworm"
    monkeypatch.setenv("FAULTLINE_DOCKER_BASE", "mirror/python:3.11")
    assert base_image() == "mirror/python:3.11"


STEPS = [
    "Step 1/2 : FROM x",
    'Step 2/2 : RUN python3 || { echo "faultline: the base image has no Python ${PYTHON}"; }',
]
"""Output of every builder, whatever fails later."""


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        (f"faultline: the base image has no Python {python_version()}", "FAULTLINE_DOCKER_BASE"),
        ("/bin/sh: 1: python3: not found", "FAULTLINE_DOCKER_BASE"),
        ("pull access denied for python", "docker pull"),
        ("dial tcp: lookup mirror.example on 10.0.0.1:53: no such host", "docker pull"),
        ("Temporary failure in name resolution", "no way to the package index"),
        ("Failed to establish a new connection: refused", "no way to the package index"),
        ("write /x: no space left on device", "docker system df"),
        ("something else", "by hand"),
    ],
)
def test_a_build_that_fails_says_what_to_do(words: str, remedy: str) -> None:
    failure = build_failure("faultline:x", [*STEPS, words], "returned 1")
    assert words in failure.what
    assert remedy in failure.remedy


@pytest.mark.parametrize(
    ("words", "what", "remedy"),
    [
        ("('Connection aborted.', PermissionError(13, 'Permission denied'))", "may not", "group"),
        ("FileNotFoundError(2, 'No such file or directory')", "no Docker daemon", "DOCKER_HOST"),
        ("boom", "cannot be used: boom", "docker info"),
    ],
)
def test_a_daemon_that_cannot_be_used_is_told_apart(words: str, what: str, remedy: str) -> None:
    failure = refusal(OSError(words))
    assert what in failure.what
    assert remedy in failure.remedy
