"""The launcher, with a stub in the place of uv, pip and Python's venv."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.environment.conftest import Script

LAUNCHER = Path(__file__).parents[2] / "faultline"
TOOLS = ("sh", "cat", "cmp", "cp", "dirname", "mkdir", "mv", "readlink", "rm", "sleep")

# Stands for Faultline itself: says how it was started.
PROGRAM = """
import json, os, sys
print(json.dumps({"arguments": sys.argv[1:], "cwd": os.getcwd(), "path": sys.path}))
"""

# Makes an environment whose Python is the one that runs this test; writes down every call.
UV = """
echo "$1" >>{log}
case "$1" in
  venv)
    for last; do :; done
    mkdir -p "$last/bin"
    {ln} -s {python} "$last/bin/python"
    echo "#!$last/bin/python" >"$last/bin/tool" ;;
  pip)
    [ ! -e {root}/fail ] || {{ echo "no route to the index" >&2; exit 1; }}
    case "$*" in *requirements.lock) [ ! -e {root}/gate ] || cat {root}/gate ;; esac ;;
esac
"""

# A substitute for python3: its venv module makes a Python that records the requests to pip.
PYTHON = """
case "$*" in
  *"-m venv"*)
    for last; do :; done
    mkdir -p "$last/bin"
    cp "$0" "$last/bin/python" ;;
  *"-m pip"*) echo "$*" >>{log}; echo "user=$PIP_USER target=${{PIP_TARGET-}}" >>{log} ;;
  *) exec {python} "$@" ;;
esac
"""


def links_to_system_tools(directory: Path, *names: str) -> None:
    """Make only ``names`` of the system reachable in ``directory``."""
    for name in names:
        found = shutil.which(name, path="/usr/bin:/bin")
        assert found is not None, name
        (directory / name).symlink_to(found)


@pytest.fixture
def repository(tmp_path: Path, programs: Path) -> Path:
    """Make a repository in a path with a space, with the system's tools but no Python on PATH."""
    links_to_system_tools(programs, *TOOLS)
    root = tmp_path / "a repository"
    (root / "harness" / "cli").mkdir(parents=True)
    (root / "harness" / "cli" / "__init__.py").touch()
    (root / "harness" / "cli" / "__main__.py").write_text(PROGRAM)
    (root / "requirements.lock").write_text("click==1 --hash=sha256:0\n")
    (root / "build.lock").write_text("setuptools==1 --hash=sha256:0\n")
    shutil.copy(LAUNCHER, root / "faultline")
    return root


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "calls"


@pytest.fixture
def uv(repository: Path, script: Script, log: Path) -> Path:
    quoted = {"root": f"'{repository}'", "log": f"'{log}'", "ln": shutil.which("ln", path="/bin")}
    return script("uv", UV.format(python=os.path.realpath(sys.executable), **quoted))


def start(repository: Path, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [str(repository / "faultline"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


def calls(log: Path) -> list[str]:
    """Return the stub's calls, apart from its version."""
    lines = log.read_text().splitlines() if log.exists() else []
    return [line for line in lines if line != "--version"]


def succeeded(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


@pytest.mark.usefixtures("uv")
def test_first_start_installs_and_the_second_does_not(
    repository: Path, log: Path, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    first = start(repository, "run", "a b", "", "*", cwd=elsewhere)
    answer = succeeded(first)
    assert answer["arguments"] == ["run", "a b", "", "*"]
    assert answer["cwd"] == str(elsewhere), "relative paths stay the user's"
    assert str(repository) in answer["path"]
    assert not {"", str(elsewhere)} & set(answer["path"]), "nothing is imported from there"
    assert "making the environment" in first.stderr
    second = start(repository)
    succeeded(second)
    assert second.stderr == ""
    assert calls(log) == ["venv", "pip", "pip"]


def test_without_uv_pip_installs_and_misleading_settings_are_dropped(
    repository: Path, script: Script, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script("python3", PYTHON.format(log=f"'{log}'", python=sys.executable))
    monkeypatch.setenv("PIP_USER", "1")
    monkeypatch.setenv("PIP_TARGET", "/elsewhere")
    succeeded(start(repository, "list"))
    first, settings, asked, _ = calls(log)
    assert "--require-hashes" in first
    assert f"-r {repository}/build.lock" in first
    assert "--require-hashes" in asked
    assert "--no-build-isolation" in asked, "what builds a package has a hash too"
    assert f"-r {repository}/requirements.lock" in asked
    assert settings == "user=0 target="


@pytest.mark.usefixtures("uv")
def test_failed_install_says_so_and_the_next_start_begins_anew(repository: Path, log: Path) -> None:
    (repository / "fail").touch()
    failed = start(repository)
    assert (failed.returncode, failed.stdout) == (3, "")
    assert "no route to the index" in failed.stderr
    assert "What to do:" in failed.stderr
    assert not (repository / ".venv").exists()
    (repository / "fail").unlink()
    (repository / ".venv-new" / "half-a-package").touch()
    succeeded(start(repository))
    assert not (repository / ".venv" / "half-a-package").exists()
    assert not (repository / ".venv-new").exists()
    assert calls(log) == ["venv", "pip", "venv", "pip", "pip"]


@pytest.mark.usefixtures("uv")
@pytest.mark.parametrize("change", ["lock", "interpreter", "python"])
def test_environment_that_is_no_longer_current_is_made_anew(
    change: str, repository: Path, log: Path
) -> None:
    succeeded(start(repository))
    if change == "lock":
        (repository / "requirements.lock").write_text("click==2 --hash=sha256:1\n")
    elif change == "interpreter":
        (repository / ".venv" / "faultline.interpreter").write_text("/usr/bin/python3.9\n")
    else:
        (repository / ".venv" / "bin" / "python").unlink()
    succeeded(start(repository))
    succeeded(start(repository))
    assert calls(log) == ["venv", "pip", "pip"] * 2


@pytest.mark.usefixtures("uv")
def test_environment_of_the_user_is_moved_not_removed(repository: Path) -> None:
    (repository / ".venv").mkdir()
    (repository / ".venv" / "precious").touch()
    done = start(repository)
    succeeded(done)
    assert "moved to" in done.stderr
    assert [path.name for path in repository.glob(".venv-before-faultline.*/*")] == ["precious"]


@pytest.mark.parametrize("python", [None, "exit 1"], ids=["none", "too old"])
def test_no_usable_python(python: str | None, repository: Path, script: Script) -> None:
    if python is not None:
        script("python3", python)
    done = start(repository)
    assert done.returncode == 3
    assert "no Python 3.11 or newer" in done.stderr
    assert "python3-venv" in done.stderr


@pytest.mark.usefixtures("uv")
@pytest.mark.parametrize("flock", [True, False], ids=["flock", "directory"])
def test_two_first_starts_at_once_install_once(
    flock: bool, repository: Path, programs: Path, log: Path
) -> None:
    if flock:
        links_to_system_tools(programs, "flock")
    gate = repository / "gate"
    os.mkfifo(gate)
    command = [str(repository / "faultline"), "list"]
    pipes: dict[str, Any] = {"stdout": -1, "stderr": -1, "text": True}
    with (
        subprocess.Popen(command, **pipes) as first,
        # Opening the gate to write waits until the first start reads it, in mid-install.
        gate.open("w") as opened,
        subprocess.Popen(command, **pipes) as second,
    ):
        assert second.stderr is not None
        assert "waiting for it" in second.stderr.readline()
        opened.close()
        for process in (first, second):
            out, err = process.communicate()
            assert process.returncode == 0, err
            assert json.loads(out)["arguments"] == ["list"]
    assert calls(log) == ["venv", "pip", "pip"]
    assert not (repository / ".venv.lock.d").exists()


@pytest.mark.usefixtures("uv")
def test_lock_directory_of_a_dead_start_is_taken_over(repository: Path) -> None:
    held = repository / ".venv.lock.d"
    held.mkdir()
    dead = subprocess.Popen(["true"], executable="/bin/true")
    dead.wait()
    (held / "pid").write_text(f"{dead.pid}\n")
    succeeded(start(repository))
    assert not held.exists()


@pytest.mark.usefixtures("uv")
def test_a_failed_renewal_leaves_the_old_environment(repository: Path) -> None:
    succeeded(start(repository))
    (repository / "fail").touch()
    (repository / ".venv" / "faultline.interpreter").write_text("/usr/bin/python3.9\n")
    done = start(repository)
    succeeded(done)
    assert "going on with the old one" in done.stderr
    (repository / "requirements.lock").write_text("click==2 --hash=sha256:1\n")
    stale = start(repository)
    assert stale.returncode == 3
    assert (repository / ".venv" / "bin" / "python").exists()
