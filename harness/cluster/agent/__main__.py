"""``python -m harness.cluster.agent DIRECTORY RUN``: the agent of a machine, until its input ends.

Requests come on the standard input and answers go to the standard output (`wire`); the standard
error is its log. When the input ends, or nothing has come for `SILENT_S`, the connection is lost or
the harness has crashed: then all that was started is killed and the run's directory removed. What
an agent that was killed itself left is removed by the next one on the machine."""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

from harness.cluster.agent.agent import Agent, end_run
from harness.cluster.agent.wire import Answerer, Frames
from harness.cluster.processes import ProcessIdentity, identify, is_alive
from harness.cluster.run_directory import make_layout, write_python
from harness.cluster.spark import kept_environment

SILENT_S = 30.0
"""A harness that lives sends something every few seconds."""
AGENT_FILE = "agent.json"
"""In a run's directory: the run and the process of its agent."""
_THREADS = 32
_SWITCH_S = 0.0005
"""Longest time for which a thread keeps the others from running, an armed kill among them."""


def sweep(place: Path) -> None:
    """Remove the runs below ``place`` whose agents are dead."""
    for path in place.glob(f"*/{AGENT_FILE}"):
        document = json.loads(path.read_text())
        if not is_alive(ProcessIdentity(**document["agent"])):
            end_run(document["run"], path.parent)


def open_run(directory: Path, run: str) -> Agent:
    """Make a run's directory and return its agent."""
    directory.mkdir(mode=0o700, parents=True)
    make_layout(directory, "programs", "work", "bin")
    own = identify(os.getpid())
    assert own is not None
    (directory / AGENT_FILE).write_text(json.dumps({"run": run, "agent": asdict(own)}))
    programs = directory / "bin"
    write_python(programs)
    environment = {
        **kept_environment(),
        "PATH": f"{programs}:{os.environ.get('PATH', os.defpath)}",
        "TMPDIR": str(directory / "tmp"),
    }
    return Agent(run, directory, environment)


def serve(agent: Agent, source: int, sink: int, *, silent_s: float) -> str:
    """Answer requests until the input ends; return why it ended.

    The output stays open: its end says that everything is removed."""
    pool = ThreadPoolExecutor(_THREADS)

    def send(data: bytes) -> None:
        while data:
            data = data[os.write(sink, data) :]

    answerer, frames = Answerer(agent, send), Frames()
    while True:
        if not select.select([source], [], [], silent_s)[0]:
            return f"nothing came for {silent_s:g} s"
        if not (data := os.read(source, 1 << 16)):
            return "the connection ended"
        for request in frames.take(data):
            pool.submit(answerer.answer, request)


def main(directory: Path, run: str) -> None:
    for number in (signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)  # the input's end is the only sign
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    sys.setswitchinterval(_SWITCH_S)
    sweep(directory.parent)
    sink, agent = os.dup(1), open_run(directory, run)
    os.dup2(2, 1)  # what is printed by mistake must not mix with answers
    try:
        why = serve(agent, 0, sink, silent_s=SILENT_S)
        print(f"{time.ctime()}: {why}; ending run {run}", file=sys.stderr)
    finally:
        agent.close_network()
        end_run(run, directory)
    os._exit(0)  # threads may still wait for an instant or for a process


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
