"""The parts of a cluster that another user of this machine can reach: tried as that user."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

NOBODY = 65534

_PROGRAM = """
import json, os, socket, subprocess, sys

asked = json.loads(sys.stdin.read())
found = {"uid": os.getuid(), "connected": [], "read": [], "signalled": [], "looked": [],
         "entered": [], "commands": []}
for host, port in asked["ports"]:
    try:
        socket.create_connection((host, port), timeout=2).close()
        found["connected"].append([host, port])
    except OSError:
        pass
for top in asked["directories"]:
    for folder, _, names in os.walk(top):
        for path in (os.path.join(folder, name) for name in names):
            try:
                open(path, "rb").read(1)
                found["read"].append(path)
            except OSError:
                pass
    try:
        os.listdir(top)
        found["read"].append(top)
    except OSError:
        pass
for pid in asked["pids"]:
    try:
        os.kill(pid, 0)
        found["signalled"].append(pid)
    except OSError:
        pass
    try:
        open(f"/proc/{pid}/environ", "rb").read()
        found["looked"].append(pid)
    except OSError:
        pass
    try:
        found["commands"].append(open(f"/proc/{pid}/cmdline").read())
    except OSError:
        pass
    entering = ["nsenter", "--user", "--net", "--preserve-credentials", f"--target={pid}", "true"]
    if subprocess.run(entering, capture_output=True).returncode == 0:
        found["entered"].append(pid)
print(json.dumps(found))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """The finds of a stranger; all except `commands` should be empty."""

    uid: int
    connected: list[list[Any]]
    """Ports that took a connection."""
    read: list[str]
    """Files that could be read, directories that could be listed."""
    signalled: list[int]
    looked: list[int]
    """Processes whose environment could be read."""
    entered: list[int]
    """Processes whose networks could be entered."""
    commands: list[str]
    """Command lines: everybody may read them, so no secret may stand there."""


def try_as_stranger(
    *, ports: Iterable[tuple[str, int]], directories: Iterable[Path], pids: Iterable[int]
) -> Reached:
    """Skip the test without root, or without a Python that every user can run."""
    python = shutil.which("python3", path="/usr/bin:/bin:/usr/local/bin")
    if os.getuid() != 0 or python is None:
        pytest.skip("only root can try as another user, with a Python of the system's")
    asked = {
        "ports": list(ports),
        "directories": [str(directory) for directory in directories],
        "pids": list(pids),
    }
    done = subprocess.run(
        [python, "-S", "-c", _PROGRAM],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        check=True,
        user=NOBODY,
        group=NOBODY,
        extra_groups=[],
        cwd="/",
        env={"PATH": "/usr/bin:/bin"},
    )
    return Reached(**json.loads(done.stdout))
