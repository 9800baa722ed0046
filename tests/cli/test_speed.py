"""Commands that a user types first load no package that takes long; `benchmarks` has no part here.

What is loaded is checked, not the time: that depends on the machine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from harness.results.provenance import ROOT
from harness.running.catalogue import listed

HEAVY = frozenset(
    {"pandas", "pyarrow", "scipy", "matplotlib", "pyspark", "docker", "confluent_kafka", "numpy"}
)
SHOW = (
    "import atexit, sys\n"
    "atexit.register(lambda: print(*{n.split('.')[0] for n in sys.modules}, file=sys.stderr))\n"
    "from harness.cli.main import main\n"
    "main()\n"
)


def loaded(*words: str) -> frozenset[str]:
    """Return the heavy packages that a command loads."""
    command = [sys.executable, "-P", "-c", SHOW, *words]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode in (0, 3), done.stderr
    return HEAVY & set(done.stderr.splitlines()[-1].split())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "allowed"),
    [
        (["--help"], ()),
        (["--version"], ()),
        (["list"], ()),
        (["list", "--json"], ()),
        (["datasets"], ()),
        (["cluster", "status"], ()),
        (["run", "--help"], ()),
        (["reproduce", "--help"], ()),
        (["report", "--help"], ()),
        (["artifact", "--help"], ()),
        (["interval", "--cost", "1.6s", "--mttf", "20min"], ("numpy", "scipy")),
        (["plan", "docs/examples/topology.yaml", "--budget", "50%"], ("numpy", "scipy")),
    ],
    ids=lambda each: " ".join(each),
)
def test_a_first_command_loads_little(words: list[str], allowed: tuple[str, ...]) -> None:
    listed()  # which the launcher does once
    assert loaded(*words) <= set(allowed)


@pytest.mark.slow
def test_doctor_loads_docker_only_where_a_daemon_listens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody")
    assert loaded("doctor") == frozenset()


@pytest.mark.slow
def test_experiments_load_no_statistics_until_they_need_them() -> None:
    """All of `scipy.stats` takes a second, and a report or a list needs every experiment."""
    code = (
        "import sys; from harness.running.discovery import all_experiments; all_experiments();"
        "print(*(n for n in sys.modules if n in ('scipy.stats', 'pyspark', 'matplotlib.pyplot')))"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == ""
