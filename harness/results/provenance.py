"""Provenance of a record: machine, packages and commit.

Tests: ``tests/results/test_record.py``."""

from __future__ import annotations

import functools
import platform
import re
import subprocess
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
"""The checkout this program runs from."""

_PACKAGES = ("pyspark", "kafka-python", "confluent-kafka", "redis", "pyarrow", "pandas", "numpy")
_CLIENTS = {"redis": "redis-py"}
"""Names of packages that are called as their server is."""


@functools.cache
def describe_machine() -> dict[str, Any]:
    """Return CPU, cores, memory and system; runs from unlike machines are not pooled."""
    import psutil

    return {
        "cpu": _cpu_model(),
        "cores": len(psutil.Process().cpu_affinity() or [0]),
        "memory_gib": round(psutil.virtual_memory().total / 2**30),
        "system": f"{platform.system()} {platform.machine()}",
    }


def _cpu_model() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        text = ""
    match = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return match[1].strip() if match else platform.processor() or platform.machine()


def machine_name() -> str:
    """Return a folder name for like machines: cores, memory and a hash of the rest."""
    machine = describe_machine()
    digest = sha256(repr(sorted(machine.items())).encode()).hexdigest()[:8]
    return f"{machine['cores']}-cores-{machine['memory_gib']}-gib-{digest}"


@functools.cache
def describe_versions() -> dict[str, str]:
    """Return versions of Python and of the packages that affect a measurement."""
    found = {"python": platform.python_version(), "kernel": platform.release()}
    for package in _PACKAGES:
        name = _CLIENTS.get(package, package)
        try:
            found[name] = version(package)
        except PackageNotFoundError:
            found[name] = "missing"
    return found


@functools.cache
def describe_commit() -> str:
    """Return the checkout's commit, with "+" if files differ from it; "unknown" outside git."""
    try:
        if Path(_git("rev-parse", "--show-toplevel")) != ROOT:
            return "unknown"  # this tree lies inside another one's checkout
        commit = _git("rev-parse", "--short=12", "HEAD")
        return commit + ("+" if _git("status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.SubprocessError):
        return "unknown"


def _git(*arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True, timeout=20
    )
    return done.stdout.strip()
