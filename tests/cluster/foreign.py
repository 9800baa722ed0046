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

import psutil

from harness.cluster.processes import members, signal_all, wait_until_gone


def main(order: str, run: str, worker: str, pid_file: str) -> None:
    note = Path(pid_file).with_suffix(".json")
    if order == "kill":
        daemon = psutil.Process(int(Path(pid_file).read_text()))
        # Everything that is needed to start the same daemon again.
        description = {
            "args": daemon.cmdline(),
            "env": daemon.environ(),
            "cwd": daemon.cwd(),
            "log": os.readlink(f"/proc/{daemon.pid}/fd/1"),
        }
        note.write_text(json.dumps(description))
        done = signal_all(lambda: members(run).get(worker, []), signal.SIGKILL)
        wait_until_gone([stat.identity for stat in done.processes], limit_s=10)
    elif order == "restart":
        again = json.loads(note.read_text())
        note.unlink()
        with Path(again.pop("log")).open("ab") as log:
            process = subprocess.Popen(
                **again, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        Path(pid_file).write_text(f"{process.pid}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
