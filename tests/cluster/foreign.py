"""Commands for a cluster that exists already, as its owner would write them.

The "foreign" cluster is one that `LocalCluster` started; this knows it from outside only, by its
processes: ``python foreign.py kill|restart RUN WORKER PID_FILE``."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from harness.cluster.processes import members, signal_all, wait_until_gone


def main(order: str, run: str, worker: str, pid_file: str) -> int:
    note = Path(pid_file).with_suffix(".json")
    if order == "kill":
        daemon = next(stat for stat in members(run).get(worker, []) if is_daemon(stat.pid))
        note.write_text(json.dumps(description(daemon.pid)))
        done = signal_all(lambda: members(run).get(worker, []), signal.SIGKILL)
        wait_until_gone([stat.identity for stat in done.processes], limit_s=10)
    elif order == "restart":
        again = json.loads(note.read_text())
        note.unlink()
        with Path(again["log"]).open("ab") as log:
            process = subprocess.Popen(
                again["command"],
                env=again["environment"],
                cwd=again["cwd"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        Path(pid_file).write_text(f"{process.pid}\n")
    return 0


def is_daemon(pid: int) -> bool:
    return b"deploy.worker.Worker" in Path(f"/proc/{pid}/cmdline").read_bytes()


def description(pid: int) -> dict[str, object]:
    """Return everything that is needed to start the same daemon again."""
    proc = Path(f"/proc/{pid}")
    pairs = (proc / "environ").read_text().split("\0")
    return {
        "command": [word for word in (proc / "cmdline").read_text().split("\0") if word],
        "environment": dict(pair.split("=", 1) for pair in pairs if "=" in pair),
        "cwd": os.readlink(proc / "cwd"),
        "log": os.readlink(proc / "fd" / "1"),
    }


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
