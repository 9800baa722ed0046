"""Tests that run inside namespaces: one test outside starts their file again inside."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.cluster.local import network
from harness.cluster.local.network import inside, why_not
from harness.cluster.spark import REPOSITORY

only_inside = pytest.mark.skipif(not inside(), reason="runs inside namespaces")
only_outside = pytest.mark.skipif(inside(), reason="runs outside")

WHOLE_FILE_S = 1800
"""Limit of the one test that runs all tests of a file inside, each of which has its own limit."""


def started_inside(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a Python inside until it ends."""
    return subprocess.run(
        [*network._ENTER, sys.executable, "-P", *arguments],
        cwd=REPOSITORY,
        env={**os.environ, network.INSIDE_VARIABLE: network.NAMESPACES},
        capture_output=True,
        text=True,
        check=False,
    )


def ran_inside(path: Path) -> str:
    """Run pytest on a file inside and return its output.

    Fails with the output if a test failed, and skips where namespaces are forbidden."""
    if why := why_not():
        pytest.skip(f"no namespaces here: {why}")
    done = started_inside(
        "-m", "pytest", "-q", "-x", "-n0", "-p", "no:cacheprovider", "--durations=0", str(path)
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    return done.stdout
