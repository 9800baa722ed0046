"""The parts of a cluster that another user of this machine can reach: tried as that user."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterable
from typing import Any

import pytest

NOBODY = 65534

_PROGRAM = """
import json, os, socket, subprocess, sys

asked = json.loads(sys.stdin.read())
found = {"uid": os.getuid(), "reached": [], "commands": []}

def attempt(what, do):
    try:
        do()
        found["reached"].append(what)
    except (OSError, subprocess.CalledProcessError):
        pass

for host, port in asked["ports"]:
    place = host, port
    attempt(f"port {host}:{port}", lambda: socket.create_connection(place, timeout=2).close())
for top in asked["directories"]:
    attempt(f"list {top}", lambda: os.listdir(top))
    for folder, _, names in os.walk(top):
        for path in (os.path.join(folder, name) for name in names):
            attempt(f"read {path}", lambda: open(path, "rb").read(1))
for pid in asked["pids"]:
    attempt(f"signal {pid}", lambda: os.kill(pid, 0))
    attempt(f"environment of {pid}", lambda: open(f"/proc/{pid}/environ", "rb").read())
    entering = ["nsenter", "--user", "--net", "--preserve-credentials", f"--target={pid}", "true"]
    attempt(f"enter {pid}", lambda: subprocess.run(entering, capture_output=True, check=True))
    try:
        found["commands"].append(open(f"/proc/{pid}/cmdline").read())
    except OSError:
        pass
print(json.dumps(found))
"""


def try_as_stranger(
    *, ports: Iterable[tuple[str, int]], directories: Iterable[str], pids: Iterable[int]
) -> dict[str, Any]:
    """Return the user's "uid", what it has "reached", and the "commands", which all may read.

    Skips the test without root, or without a Python that every user can run."""
    python = shutil.which("python3", path="/usr/bin:/bin:/usr/local/bin")
    if os.getuid() != 0 or python is None:
        pytest.skip("only root can try as another user, with a Python of the system's")
    asked = {"ports": list(ports), "directories": list(directories), "pids": list(pids)}
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
    found: dict[str, Any] = json.loads(done.stdout)
    return found
