"""`.ci/run`: the tests alone decide, independent of a Docker daemon."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from harness.cluster.processes import read_stat
from harness.cluster.spark import REPOSITORY

pytestmark = pytest.mark.slow

LIVES = 'echo $$ >"$STUBS/daemon.pid"; touch "$STUBS/up"; exec sleep 600'
"""A daemon that answers."""


class Ci:
    """The script in a checkout of stubs; each notes that it was called."""

    def __init__(self, root: Path) -> None:
        self.root, self.stubs = root, root / "stubs"
        (root / ".ci").mkdir()
        (root / "docker").mkdir()
        self.stubs.mkdir()
        shutil.copy(REPOSITORY / ".ci" / "run", root / ".ci" / "run")
        self.stub("stubs/id", "echo 0")
        self.stub("stubs/docker", 'test -e "$STUBS/up"')
        self.stub("stubs/dockerd", LIVES)
        self.stub("docker/base", "true")
        self.stub("faultline", 'test ! -e "$STUBS/up" || echo "with containers" >>"$STUBS/calls"')

    def stub(self, path: str, text: str) -> None:
        target = self.root / path
        target.write_text(f'#!/bin/sh\necho "{path} $*" >>"$STUBS/calls"\n{text}\n')
        target.chmod(0o755)

    def run(self, minutes: int | None = 60) -> int:
        environment = {"PATH": f"{self.stubs}:/usr/bin:/bin", "STUBS": str(self.stubs)}
        if minutes is not None:
            environment["FAULTLINE_CI_MINUTES"] = str(minutes)
        done = subprocess.run(
            [str(self.root / ".ci" / "run")], env=environment, check=False, capture_output=True
        )
        return done.returncode

    def calls(self) -> str:
        return (self.stubs / "calls").read_text()

    def daemon_lives(self) -> bool:
        pid = int((self.stubs / "daemon.pid").read_text())
        return read_stat(pid) is not None


@pytest.fixture
def ci(tmp_path: Path) -> Ci:
    return Ci(tmp_path)


@pytest.mark.parametrize("minutes", [None, 39])
def test_where_time_is_short_no_daemon_is_asked_for(ci: Ci, minutes: int | None) -> None:
    assert ci.run(minutes) == 0
    assert ci.calls() == "faultline test --all --checks\n"


@pytest.mark.parametrize("code", [0, 5])
def test_the_tests_run_with_a_daemon_that_is_ended_afterwards(ci: Ci, code: int) -> None:
    ci.stub("faultline", f'test -e "$STUBS/up" && exit {code}; exit 77')
    assert ci.run() == code
    assert "docker/base" in ci.calls()
    assert not ci.daemon_lives()


@pytest.mark.parametrize("code", [0, 1])
def test_a_daemon_that_does_not_come_up_changes_nothing(ci: Ci, code: int) -> None:
    ci.stub("stubs/dockerd", "exit 1")
    ci.stub("faultline", f"exit {code}")
    assert ci.run() == code
    assert "docker/base" not in ci.calls()


def test_a_daemon_that_ends_while_the_tests_run_changes_nothing(ci: Ci) -> None:
    ci.stub("faultline", 'kill "$(cat "$STUBS/daemon.pid")"')
    assert ci.run() == 0


def test_without_a_base_image_the_daemon_is_ended_first(ci: Ci) -> None:
    """So that the tests of containers are skipped, and do not fail."""
    ci.stub("docker/base", "exit 1")
    ci.stub("faultline", 'kill -0 "$(cat "$STUBS/daemon.pid")" && exit 1; exit 0')
    assert ci.run() == 0
    assert not ci.daemon_lives()


def test_who_is_not_root_starts_none(ci: Ci) -> None:
    ci.stub("stubs/id", "echo 1000")
    assert ci.run() == 0
    assert "dockerd" not in ci.calls()


def test_a_daemon_that_is_there_already_is_used_and_left_alone(ci: Ci) -> None:
    (ci.stubs / "up").touch()
    assert ci.run() == 0
    assert "dockerd" not in ci.calls()
    assert "with containers" in ci.calls()
