"""A sample in a process that is warm: as if it were the command's own, and gone when it is idle."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from harness.cli import warm
from tests.workloads.test_own_document import FILE

SERVER = """
import os, sys, threading
from pathlib import Path
from harness.cli.warm import serve

def main():
    if "wait" in sys.argv:
        print("waits", flush=True)
        threading.Event().wait()
    sys.path.append(os.getcwd())
    import mine
    print(*sys.argv[1:], Path.cwd().name, os.environ.get("WORD"), mine.NUMBER)
    print("an error", file=sys.stderr)
    sys.exit(3)

serve(Path(sys.argv[1]), main, idle_s=float(sys.argv[2]))
"""


@pytest.fixture
def place() -> Iterator[Path]:
    """Return a socket with a short path."""
    with tempfile.TemporaryDirectory(prefix="warm-") as directory:
        yield Path(directory) / "sample.sock"


@contextmanager
def serving(place: Path, idle_s: float) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-P", "-c", SERVER, str(place), str(idle_s)]
    environment = {**os.environ, "PYTHONPATH": str(warm.ROOT)}
    with subprocess.Popen(command, env=environment) as server:
        while not place.exists():
            assert server.poll() is None
            time.sleep(warm.POLL_S)
        try:
            yield server
        finally:
            server.kill()


def test_a_command_runs_there_as_if_here(
    place: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("WORD", "a word")
    with serving(place, idle_s=2.0) as server:
        for number in (1, 20):
            Path("mine.py").write_text(f"NUMBER = {number}\n")
            assert warm.run(["try", "it"], place) == 3
            out, err = capfd.readouterr()
            assert out == f"try it here a word {number}\n", "with the user's file as it is now"
            assert err == "an error\n"
        server.wait()
    assert not [*place.parent.iterdir()], "an idle one leaves nothing"


def test_a_command_that_is_interrupted_ends_it(place: Path) -> None:
    with serving(place, idle_s=60.0) as server:
        read, write = os.pipe()
        with socket.socket(socket.AF_UNIX) as connection, os.fdopen(read) as output:
            connection.connect(str(place))
            socket.send_fds(connection, [b"\0"], [write, write])
            os.close(write)
            order = {"arguments": ["wait"], "directory": "/", "environment": {}}
            connection.sendall(json.dumps(order).encode() + b"\n")
            assert output.readline() == "waits\n"
            connection.close()
            assert server.wait() == 1


def test_without_a_place_for_it_a_command_runs_here(tmp_path: Path) -> None:
    assert warm.run(["try"], tmp_path / ("long" * 30) / "sample.sock") is None


@pytest.mark.long
def test_the_second_sample_finds_the_jvm_of_the_first(place: Path, tmp_path: Path) -> None:
    (tmp_path / "orders.py").write_text(FILE)
    command = [sys.executable, "-P", "-m", "harness.cli", "try", "orders.py", "--sample-only"]
    environment = {
        **os.environ, "PYTHONPATH": str(warm.ROOT), "XDG_CACHE_HOME": str(place.parent),
    }  # fmt: skip

    def run() -> tuple[str, dict[int, str]]:
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
        )
        (lock,) = place.parent.glob("faultline/sample-*.lock")
        server = psutil.Process(int(lock.read_text()))
        children = {each.pid: each.name() for each in [server, *server.children()]}
        return re.sub(r"[\d.]+ m?s", "", done.stdout), children

    first, second = run(), run()
    assert first == second
    assert "java" in second[1].values()
    assert "equal, within a relative tolerance" in first[0]
    for pid in second[1]:
        psutil.Process(pid).terminate()
    psutil.wait_procs([psutil.Process(pid) for pid in second[1] if psutil.pid_exists(pid)])
