"""The proof of both ends of a connection that they know the run's secret.

Each sends an HMAC over both challenges, its role and its name, so a proof can be neither repeated
nor reflected. The steps are bytes; a connection carries them as it carries everything else.

Tests: ``tests/engines/tasks/test_handshake.py``."""

from __future__ import annotations

import hmac
import secrets
import struct

STRANGER_BYTES = 4096
"""The most that is kept of a peer that has proved nothing."""
MOST_STRANGERS = 256
"""Connections at one time whose peer has proved nothing; then the oldest is closed."""
PROOF_S = 10.0
"""Seconds for a peer's proof: its process may be busy."""
_CHALLENGE = struct.Struct("<4s32s")
_ANSWER = struct.Struct("<4s32sIQ32s")
_PROOF = struct.Struct("<4sIQ32s")
_HELLO = b"FLD1"
_DIALER, _LISTENER = b"dialer", b"listener"


class Refused(Exception):
    """The peer does not know the run's secret, or is not the node it should be."""


class Handshake:
    """One end: `greeting` is sent first, then what `take` returns for each step of the peer."""

    def __init__(self, secret: bytes, name: tuple[int, int] = (0, 0), *, dialed: bool) -> None:
        """``name``: node and boot. ``dialed``: True at the end that has opened the connection."""
        self._secret, self._name, self._dialed = secret, name, dialed
        self._own, self._theirs = secrets.token_bytes(32), b""
        self.peer: tuple[int, int] | None = None
        """The peer's name, once it is proved."""

    @property
    def greeting(self) -> bytes:
        """The first step: the listening end challenges the other."""
        return b"" if self._dialed else _CHALLENGE.pack(_HELLO, self._own)

    @property
    def _next(self) -> struct.Struct:
        if not self._dialed:
            return _ANSWER
        return _PROOF if self._theirs else _CHALLENGE

    @property
    def needs(self) -> int:
        """The size of the peer's next step."""
        return self._next.size

    def check_begin(self, data: bytes) -> None:
        """Raise `Refused` if the beginning of a step shows that it is none."""
        if len(data) >= len(_HELLO) and data[: len(_HELLO)] != _HELLO:
            raise Refused("it is none of Faultline's nodes")

    def take(self, step: bytes) -> bytes:
        """Return the answer to the peer's next step; raise `Refused` for a wrong one."""
        self.check_begin(step)
        if len(step) != self.needs:
            raise Refused("it is none of Faultline's nodes")
        _, *found = self._next.unpack(step)
        if self._dialed and not self._theirs:
            (self._theirs,) = found
            own = self._proof(_DIALER, self._theirs, self._own, self._name)
            return _ANSWER.pack(_HELLO, self._own, *self._name, own)
        *challenge, node, boot, proof = found
        self._theirs = challenge[0] if challenge else self._theirs
        role = _LISTENER if self._dialed else _DIALER
        right = self._proof(role, self._own, self._theirs, (node, boot))
        if not hmac.compare_digest(proof, right):
            raise Refused("it does not know this run's secret, or its bytes arrive damaged")
        self.peer = node, boot
        if self._dialed:
            return b""
        own = self._proof(_LISTENER, self._theirs, self._own, self._name)
        return _PROOF.pack(_HELLO, *self._name, own)

    def _proof(self, role: bytes, challenge: bytes, other: bytes, name: tuple[int, int]) -> bytes:
        """Return the proof of one end, over the peer's challenge first and its own second."""
        words = (role, challenge, other, b"%d.%d" % name)
        return hmac.digest(self._secret, b" ".join(words), "sha256")
