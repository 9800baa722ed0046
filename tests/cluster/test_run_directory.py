"""Places of one run, and their removal."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.cluster.agent.agent import Agent
from harness.cluster.processes import RUN_VARIABLE
from harness.cluster.run_directory import journal_path, make_place, remove_run_directory
from harness.errors import UsageError


def test_a_place_is_private_and_may_be_asked_for_again(tmp_path: Path) -> None:
    place = make_place(tmp_path / "scratch", "run-1.twin")
    assert place.stat().st_mode & 0o777 == 0o700
    assert make_place(tmp_path / "scratch", "run-1.twin") == place


@pytest.mark.parametrize("name", ["", "..", "a/b", "/a", "-a", ".a"])
def test_a_name_that_leads_elsewhere_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="cannot name a directory"):
        make_place(tmp_path, name)


def test_only_directories_of_dead_executors_are_removed(tmp_path: Path) -> None:
    living, dead = (tmp_path / "work" / "r1w1.1" / "app-1" / number for number in "01")
    spilling, spilled = (tmp_path / "spark-local" / "spark-a" / f"executor-{n}" for n in "01")
    for place in (living, dead, spilling, spilled):
        place.mkdir(parents=True)
        (place / "file").touch()
    with subprocess.Popen(
        [sys.executable, "-S", "-c", "input(1)"],
        cwd=living,
        env={**os.environ, "SPARK_EXECUTOR_DIRS": str(spilling), RUN_VARIABLE: str(tmp_path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        process.stdout.read(1)  # the kernel shows the environment only once the program runs
        Agent(str(tmp_path), tmp_path, {}).tidy()
        process.communicate(b"\n")
    assert living.exists()
    assert spilling.exists()
    assert not dead.exists()
    assert not spilled.exists()


def test_a_removal_that_was_interrupted_is_finished_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A keeper that the next start kills must not leave an unknown directory behind."""
    directory = tmp_path / "run"
    (directory / "logs").mkdir(parents=True)
    (directory / "logs" / "kafka.log").touch()
    journal_path(directory).touch()

    def killed(path: Path, **options: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("shutil.rmtree", killed)
        with pytest.raises(KeyboardInterrupt):
            remove_run_directory(directory)
    assert journal_path(directory).exists(), "the next one still knows what it is"
    remove_run_directory(directory)
    assert not directory.exists()
