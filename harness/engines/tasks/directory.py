"""What the coordinator tells nodes about one another: where each listens, and its copies.

It decides nothing: the copies are those that each node has reported, and a node is gone when its
connection has ended. The news of one turn of the event loop go out together."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any, Protocol

from harness.engines.tasks.heard import Where
from harness.engines.tasks.routes import Address


class Member(Protocol):
    """A connected node."""

    number: int
    boot: int
    address: Address
    where: Where
    """Its copies, as it last reported them."""

    def send_body(self, body: bytes) -> bool:
        """Send an encoded frame; it may get lost."""


class Directory:
    """The members' addresses and copies in one pass."""

    def __init__(self, run: str, members: Mapping[int, Member]) -> None:
        self._run, self._members = run, members
        self._news: dict[int, Member] = {}
        self._gone: list[tuple[int, int]] = []
        self._waiting = False

    def welcome(self, member: Member) -> None:
        """Tell a node of all others, and all others of it."""
        others = [self._entry(other) for other in self._members.values() if other is not member]
        member.send_body(self._frame(others, []))
        self.changed(member)

    def changed(self, member: Member) -> None:
        """Tell all nodes of a member, soon."""
        self._news[member.number] = member
        self._tell_soon()

    def left(self, member: Member) -> None:
        """Tell all nodes that a life of a node is over, at once: orders follow."""
        self._news.pop(member.number, None)
        self._gone.append((member.number, member.boot))
        self.tell()

    def tell(self) -> None:
        """Send what has gathered."""
        self._waiting = False
        news, gone = [self._entry(member) for member in self._news.values()], self._gone
        self._news, self._gone = {}, []
        if news or gone:
            body = self._frame(news, gone)
            for member in self._members.values():
                member.send_body(body)

    def _tell_soon(self) -> None:
        if not self._waiting:
            self._waiting = True
            asyncio.get_running_loop().call_soon(self.tell)

    def _entry(self, member: Member) -> list[Any]:
        hosts = member.where.hosts if member.where.run == self._run else [0, []]
        return [member.number, member.boot, list(member.address), hosts]

    def _frame(self, nodes: list[Any], gone: list[tuple[int, int]]) -> bytes:
        routes = {"run": self._run, "nodes": nodes, "gone": gone}
        return json.dumps({"routes": routes}, separators=(",", ":")).encode()
