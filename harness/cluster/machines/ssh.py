"""Connections to machines by SSH, as ~/.ssh/config says: user, port, keys, jump hosts.

Host keys are verified: an unknown or changed one is an error. asyncssh works in a thread of its
own; the methods here wait for it."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Coroutine, Iterable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any, TypeVar

import asyncssh

from harness.errors import EnvironmentFailure

T = TypeVar("T")

CONNECT_LIMIT_S = 20.0
_ALIVE_S, _ALIVE_COUNT = 3, 3
"""Interval of questions whether the other side lives, and how many may stay without answer."""
_FAST = ("aes128-gcm@openssh.com", "aes256-gcm@openssh.com", "chacha20-poly1305@openssh.com")
"""Ciphers that authenticate, those first for which processors have instructions."""


class Loop:
    """An event loop in a thread, shared by all connections of a cluster."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="ssh", daemon=True)
        self._thread.start()

    def wait(self, work: Coroutine[Any, Any, T], within_s: float | None = None) -> T:
        """Run it there and return its result. Raises `TimeoutError`."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(within_s)
        except TimeoutError:
            future.cancel()
            raise

    def soon(self, call: Callable[..., object], *arguments: object) -> None:
        """Have it called there."""
        self._loop.call_soon_threadsafe(call, *arguments)

    def close(self) -> None:
        """End the thread; connections must be closed before."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class _Talk(asyncssh.SSHClientSession[bytes]):
    """The streams of one program on a machine."""

    def __init__(
        self,
        hear: Callable[[bytes], None],
        log: Callable[[bytes], None],
        end: Callable[[str], None],
    ) -> None:
        self._hear, self._log, self._end = hear, log, end

    def data_received(self, data: bytes, datatype: int | None) -> None:
        (self._log if datatype == asyncssh.EXTENDED_DATA_STDERR else self._hear)(data)

    def eof_received(self) -> bool:
        """Keep the channel open: a program that has closed its output has not ended yet."""
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(str(exc) if exc is not None else "its connection ended")


class Connection:
    """A connection to one machine."""

    def __init__(self, ssh: str, loop: Loop, *, config: Path | None) -> None:
        """Connect. Raises `EnvironmentFailure` with the reason and what to do."""
        self.ssh = ssh
        self._loop = loop
        user, _, rest = ssh.rpartition("@")
        host, _, port = rest.partition(":")
        given: dict[str, Any] = {"username": user} if user else {}
        if port:
            given["port"] = int(port) if port.isdecimal() else 0
        if config is not None:
            given["config"] = [config]

        async def connect() -> asyncssh.SSHClientConnection:
            return await asyncssh.connect(
                host,
                **given,
                connect_timeout=CONNECT_LIMIT_S,
                login_timeout=CONNECT_LIMIT_S,
                keepalive_interval=_ALIVE_S,
                keepalive_count_max=_ALIVE_COUNT,
                encryption_algs=list(_FAST),
                compression_algs=["none"],
            )

        try:
            self._connection = loop.wait(connect())
        except (OSError, asyncssh.Error, ValueError) as error:
            raise _unreachable(ssh, error) from error

    @property
    def own_address(self) -> str:
        """The address of this machine on the way to it."""
        return str(self._connection.get_extra_info("sockname")[0])

    def run(
        self, command: str, pieces: Iterable[bytes] = (), *, within_s: float | None = 60.0
    ) -> CompletedProcess[str]:
        """Run a shell command with ``pieces`` as its input, to its end."""

        async def work() -> CompletedProcess[str]:
            process = await self._connection.create_process(command, encoding=None)
            try:
                for piece in pieces:
                    process.stdin.write(piece)
                    await process.stdin.drain()
                process.stdin.write_eof()
            except (BrokenPipeError, ConnectionError):
                pass  # its errors say why
            done = await process.wait()
            code = -1 if done.returncode is None else done.returncode
            return CompletedProcess(command, code, _text(done.stdout), _text(done.stderr))

        try:
            return self._loop.wait(work(), within_s)
        except TimeoutError as error:
            raise self._failed(f"a command did not end within {within_s:g} s") from error
        except (OSError, asyncssh.Error) as error:
            raise self._failed(f"the connection was lost ({error})") from error

    def talk(
        self,
        command: str,
        hear: Callable[[bytes], None],
        log: Callable[[bytes], None],
        end: Callable[[str], None],
    ) -> Talking:
        """Start a program whose streams are read and written until it or the connection ends."""

        async def work() -> asyncssh.SSHClientChannel[bytes]:
            channel, _ = await self._connection.create_session(
                lambda: _Talk(hear, log, end), command, encoding=None
            )
            return channel

        try:
            return Talking(self._loop, self._loop.wait(work(), CONNECT_LIMIT_S))
        except (OSError, asyncssh.Error) as error:
            raise self._failed(f"no program can be started ({error})") from error

    def close(self) -> None:
        """End it, and what was started through it."""

        async def work() -> None:
            self._connection.close()
            await self._connection.wait_closed()

        try:
            self._loop.wait(work(), CONNECT_LIMIT_S)
        except (OSError, asyncssh.Error):
            self.abort()

    def abort(self) -> None:
        """Break it without a word, as a cut cable does after a while."""
        self._loop.soon(self._connection.abort)

    def _failed(self, what: str) -> EnvironmentFailure:
        return EnvironmentFailure(
            f"{self.ssh}: {what}", remedy=f"try `ssh {self.ssh} true`, then run the command again"
        )


class Talking:
    """The input of a program on a machine."""

    def __init__(self, loop: Loop, channel: asyncssh.SSHClientChannel[bytes]) -> None:
        self._loop, self._channel = loop, channel

    def write(self, data: bytes) -> None:
        """Send bytes. Raises `OSError` after the end."""
        if self._channel.is_closing():
            raise BrokenPipeError("its connection is closed")
        self._loop.soon(self._channel.write, data)

    def finish(self, within_s: float) -> bool:
        """End its input and wait for its end; return False if it does not come."""

        async def work() -> None:
            self._channel.write_eof()
            await self._channel.wait_closed()

        try:
            self._loop.wait(work(), within_s)
        except (OSError, asyncssh.Error):
            return False
        return True


def _text(data: Any) -> str:
    return bytes(data or b"").decode(errors="replace")


def _unreachable(ssh: str, error: Exception) -> EnvironmentFailure:
    host = ssh.rpartition("@")[2]
    if isinstance(error, asyncssh.HostKeyNotVerifiable):
        what = f"its host key is not known, or another one than before ({error})"
        remedy = f"compare the key, then log in once by hand (`ssh {ssh}`), which notes it"
    elif isinstance(error, asyncssh.PermissionDenied):
        what = f"it refuses every key that was offered ({error})"
        remedy = (
            f"let `ssh -o BatchMode=yes {ssh} true` work: add your key to its authorized_keys, "
            "start an agent, or name the key in ~/.ssh/config (IdentityFile)"
        )
    elif isinstance(error, socket.gaierror):
        what = f"there is no host of that name ({error})"
        remedy = "correct the name in the file of machines, or add it to ~/.ssh/config"
    elif isinstance(error, ConnectionRefusedError):
        what = f"nothing listens there ({error})"
        remedy = "start its SSH server, or give its port (host:port, or ~/.ssh/config)"
    elif isinstance(error, TimeoutError):
        what = f"it did not answer within {CONNECT_LIMIT_S:g} s"
        remedy = "see whether it is up and whether a firewall drops port 22"
    else:
        what = f"{type(error).__name__}: {error}"
        remedy = f"let `ssh -o BatchMode=yes {ssh} true` work"
    return EnvironmentFailure(f"{host} cannot be reached by SSH: {what}", remedy=remedy)
