"""A process that stays for the next sample, with PySpark imported and a warm JVM.

The first ``try FILE --sample-only`` starts it. It takes the arguments, the directory, the
environment and both outputs of a command, carries it out as if it were that command, and ends by
itself when none has come for `IDLE_S`. A command that is interrupted ends it. Each state of the
code has a process of its own.

Tests: ``tests/cli/test_warm.py``."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path

from harness.cache import cache_directory

ROOT = Path(__file__).resolve().parents[2]
IDLE_S, STARTS_WITHIN_S, POLL_S = 300.0, 10.0, 0.02
LONGEST_PATH = 100
"""A socket's name has at most 108 bytes."""
_OURS = ("harness", "workloads", "datasets")
_AROUND = ("FAULTLINE_JAVA_HOME", "JAVA_HOME", "PATH", "PYTHONPATH")
_OUTPUTS = (1, 2)


def place_of(directory: Path) -> Path:
    """Return the socket of the process that runs the present code in the present environment."""
    files = [entry for name in _OURS for entry in (ROOT / name).rglob("*.py")]
    newest = max(entry.stat().st_mtime_ns for entry in [ROOT / "requirements.lock", *files])
    around = [os.environ.get(name) for name in _AROUND]
    key = sha256(repr([str(ROOT), newest, sys.executable, around]).encode()).hexdigest()[:12]
    return directory / f"sample-{key}.sock"


def run(arguments: Sequence[str], place: Path | None = None) -> int | None:
    """Return the exit code of a command that the warm process ran; None if there is none."""
    place = place or place_of(cache_directory())
    if len(str(place)) > LONGEST_PATH or (connection := _connected(place)) is None:
        return None
    order = {"arguments": arguments, "directory": os.getcwd(), "environment": dict(os.environ)}
    sys.stdout.flush()
    with connection, connection.makefile() as answers:
        socket.send_fds(connection, [b"\0"], _OUTPUTS)
        connection.sendall(json.dumps(order).encode() + b"\n")
        answer = answers.readline()
    return int(answer) if answer else None


def _connected(place: Path) -> socket.socket | None:
    """Return a connection to the process; start it if it does not run."""
    connection = socket.socket(socket.AF_UNIX)
    started = None
    until = time.monotonic() + STARTS_WITHIN_S
    while time.monotonic() < until:
        with suppress(FileNotFoundError, ConnectionRefusedError):
            connection.connect(str(place))
            return connection
        if started is None:
            started = _start(place)
        time.sleep(POLL_S)
    connection.close()
    return None


def _start(place: Path) -> subprocess.Popen[bytes]:
    with place.with_suffix(".log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "harness.cli.warm", str(place)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=ROOT,
            start_new_session=True,
        )


def serve(place: Path, main: Callable[[], object], *, idle_s: float = IDLE_S) -> None:
    """Carry out commands one by one, with ``main`` as the command line, until none comes."""
    files = [place, place.with_suffix(".lock"), place.with_suffix(".log")]
    with files[1].open("w") as lock, socket.socket(socket.AF_UNIX) as listening:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return  # another one was first
        lock.write(f"{os.getpid()}\n")
        lock.flush()
        place.unlink(missing_ok=True)
        listening.bind(str(place))
        place.chmod(0o600)
        listening.listen()
        listening.settimeout(idle_s)
        try:
            while True:
                connection, _ = listening.accept()
                with connection:
                    _carry_out(connection, main)
        except TimeoutError:
            return
        finally:
            for path in files:
                path.unlink(missing_ok=True)


def _carry_out(connection: socket.socket, main: Callable[[], object]) -> None:
    connection.settimeout(None)
    _, outputs, _, _ = socket.recv_fds(connection, 1, len(_OUTPUTS))
    with connection.makefile() as orders:
        order = json.loads(orders.readline())
    ended = threading.Event()

    def watch() -> None:
        with suppress(OSError):
            connection.recv(1)  # nothing comes but the end
        if not ended.is_set():
            os._exit(1)  # its JVM ends with it

    threading.Thread(target=watch, daemon=True).start()
    with _as_if(order["directory"], order["environment"], outputs):
        sys.argv = ["./faultline", *order["arguments"]]
        try:
            code = main()
        except SystemExit as end:
            code = end.code
        sys.stdout.flush()
        sys.stderr.flush()
    ended.set()
    with suppress(BrokenPipeError):
        connection.sendall(f"{code or 0}\n".encode())


@contextmanager
def _as_if(directory: str, environment: dict[str, str], outputs: Sequence[int]) -> Iterator[None]:
    """Be in a command's place; afterwards forget the modules that it has loaded of the user's."""
    own, paths, loaded = [os.dup(number) for number in _OUTPUTS], [*sys.path], {*sys.modules}
    for number, output in zip(_OUTPUTS, outputs, strict=True):
        os.dup2(output, number)
        os.close(output)
    os.chdir(directory)
    os.environ.clear()
    os.environ.update(environment)
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.path[:] = paths
        for name in {*sys.modules} - loaded:
            file = getattr(sys.modules[name], "__file__", None) or sys.prefix
            installed = file.startswith((sys.prefix, sys.base_prefix))
            if name.split(".")[0] not in (*_OURS, "experiments") and not installed:
                del sys.modules[name]
        for number, output in zip(_OUTPUTS, own, strict=True):
            os.dup2(output, number)
            os.close(output)


if __name__ == "__main__":
    from harness.cli.main import main
    from harness.engines.structured.session import keep

    with keep():
        serve(Path(sys.argv[1]), main)
