"""Commands that a user types first load no package that takes long; `benchmarks` has no part here.

What is loaded is checked, not the time: that depends on the machine."""

from __future__ import annotations

import subprocess
import sys

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


@pytest.mark.parametrize(
    ("words", "allowed"),
    [
        (["--help"], ()),
        (["list", "--json"], ()),
        (["datasets"], ()),
        (["cluster", "status"], ()),
        (["interval", "--cost", "1.6s", "--mttf", "20min"], ("numpy", "scipy")),
        (["plan", "docs/examples/topology.yaml", "--budget", "50%"], ("numpy", "scipy")),
    ],
    ids=lambda each: " ".join(each),
)
def test_a_first_command_loads_little(words: list[str], allowed: tuple[str, ...]) -> None:
    listed()  # which the launcher does once
    assert loaded(*words) <= set(allowed)


def test_no_commands_help_loads_a_heavy_package() -> None:
    """They take five times as long to load as all else that a help text needs."""
    program = (
        "import sys; from click.testing import CliRunner\n"
        "from harness.cli.main import COMMANDS, cli\n"
        "for name in COMMANDS: assert CliRunner().invoke(cli, [name, '--help']).exit_code == 0\n"
        "print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert not HEAVY & set(done.stdout.split())
