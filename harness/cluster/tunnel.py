"""``python -m harness.cluster.tunnel --help``: carry connections into or out of encryption.

The Redis that is sent to machines has no TLS. Its clients on other machines reach it through this
program, and so does its replica: one end of each connection is encrypted, the other one stays on
the machine.

Tests: ``tests/cluster/test_stores.py``."""

from __future__ import annotations

import argparse
import asyncio
import ssl
from pathlib import Path

_CHUNK_BYTES = 1 << 18
LISTENING = "the tunnel is open"
"""Text in its log once it takes connections."""


def contexts(
    certificate: Path | None, authority: Path | None
) -> tuple[ssl.SSLContext | None, ssl.SSLContext | None]:
    """Return the encryption of connections that come in, and of those that go out."""
    accepting = connecting = None
    if certificate is not None:
        accepting = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        accepting.load_cert_chain(certificate)
    if authority is not None:
        connecting = ssl.create_default_context(cafile=str(authority))
    return accepting, connecting


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(_CHUNK_BYTES):
        writer.write(data)
        await writer.drain()


async def serve(
    host: str,
    port: int,
    to: str,
    accepting: ssl.SSLContext | None,
    connecting: ssl.SSLContext | None,
) -> None:
    """Take connections for ever; ``to`` is "host:port" or the path of a socket file."""

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ends = [writer]
        try:
            if "/" in to or ":" not in to:
                there = await asyncio.open_unix_connection(to, limit=_CHUNK_BYTES)
            else:
                name, _, number = to.rpartition(":")
                there = await asyncio.open_connection(
                    name, int(number), limit=_CHUNK_BYTES, ssl=connecting
                )
            ends.append(there[1])
            ways = [_carry(reader, there[1]), _carry(there[0], writer)]
            running = [asyncio.ensure_future(way) for way in ways]
            await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            for way in running:
                way.cancel()
            await asyncio.gather(*running, return_exceptions=True)
        except OSError:  # nobody listens behind it, or no longer
            pass
        finally:
            for end in ends:
                end.transport.abort()

    server = await asyncio.start_server(accept, host, port, limit=_CHUNK_BYTES, ssl=accepting)
    print(LISTENING, flush=True)
    await server.serve_forever()


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("host", help="the address to listen on")
    arguments.add_argument("port", type=int)
    arguments.add_argument("to", help="host:port, or a socket file in the working directory")
    arguments.add_argument("--certificate", type=Path, help="encrypts what comes: PEM with its key")
    arguments.add_argument("--authority", type=Path, help="encrypts what goes out: who signs, PEM")
    given = arguments.parse_args()
    both = contexts(given.certificate, given.authority)
    asyncio.run(serve(given.host, given.port, given.to, *both))


if __name__ == "__main__":
    main()
