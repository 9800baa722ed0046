"""An SSH server that runs commands where it is: ``server.py ADDRESS DIRECTORY PATH``.

``DIRECTORY`` has its host key, the authorized keys and the home. It waits for a line of input,
which comes when its network is laid, and prints one when it listens. It ends with its input, and
with it, the first process of its namespace, everything on the machine."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import asyncssh


async def main(address: str, directory: Path, path: str) -> None:
    home = directory / "home"
    environment = {"HOME": str(home), "PATH": path, "USER": "root", "LANG": "C.UTF-8"}

    async def handle(process: asyncssh.SSHServerProcess[bytes]) -> None:
        child = await asyncio.create_subprocess_exec(
            "/bin/sh",
            "-c",
            process.command or "exit 0",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=environment,
            cwd=home,
            start_new_session=True,
        )
        await process.redirect(stdin=child.stdin, stdout=child.stdout, stderr=child.stderr)
        process.exit(await child.wait())
        await process.wait_closed()

    await asyncssh.listen(
        address,
        22,
        server_factory=asyncssh.SSHServer,
        server_host_keys=[str(directory / "host_key")],
        authorized_client_keys=str(directory / "authorized_keys"),
        process_factory=handle,
        encoding=None,
        keepalive_interval=3,
    )
    print("listening", flush=True)
    await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    sys.stdin.readline()
    asyncio.run(main(sys.argv[1], Path(sys.argv[2]), sys.argv[3]))
