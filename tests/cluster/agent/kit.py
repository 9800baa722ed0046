"""An agent as a program over pipes, and processes for it to start."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.cluster.agent.wire import Caller, FarAgent
from harness.cluster.spark import REPOSITORY

SLEEPER = ("sleep", "600")
PARENT = ("sh", "-c", "sleep 600 & sleep 600 & wait")
"""A process with two children."""


@contextmanager
def program(directory: Path, run: str) -> Iterator[tuple[FarAgent, subprocess.Popen[bytes]]]:
    """Run an agent as a program of its own, until the block ends."""
    with subprocess.Popen(
        [sys.executable, "-m", "harness.cluster.agent", str(directory), run],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        bufsize=0,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        sink, output = process.stdin.fileno(), process.stdout.fileno()

        def send(data: bytes) -> None:
            os.write(sink, data)

        caller = Caller("a test's machine", send)

        def read() -> None:
            while data := os.read(output, 1 << 16):
                caller.feed(data)
            caller.lose("its output ended")

        reader = threading.Thread(target=read)
        reader.start()
        try:
            yield FarAgent(caller), process
        finally:
            process.stdin.close()
            process.wait(20)
            reader.join()
